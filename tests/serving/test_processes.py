"""`infuser serve` with two worker processes: they answer, switch together, are replaced when they die, and stop."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from cli.commands import error_of
from serving.conftest import NEW, OF_NEW, TRIPLES, build
from serving.test_exchange import entities_of, flip_a_byte

import infuser
from infuser import Entities, Graph
from infuser.errors import InfuserError
from infuser.serving.server import serve
from infuser.sources import Phrases

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]


WITHOUT = """
import sys

MISSING = ("accelerate", "matplotlib", "safetensors", "scipy", "sklearn", "torch", "transformers")

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""
"""An exported model is served with what the guide says a small machine needs."""


@dataclass
class Server:
    process: subprocess.Popen[str]
    address: str
    said: list[str]
    graph: Path

    def workers(self) -> list[int]:
        """Return the worker processes; a helper of multiprocessing is none."""
        children = psutil.Process(self.process.pid).children()
        return [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=120, **options)

    def anew(self, check: Any) -> list[Any]:
        """Return what `check` gives on 16 new connections, which both workers take."""
        found = []
        for _ in range(16):
            with self.client() as client:
                found.append(check(client))
        return found


@pytest.fixture(scope="module")
def server(
    exported: Path, model_without_graph: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("processes")
    shutil.copytree(model_without_graph[1], folder / "kg")
    (folder / "phrases.txt").write_text("near me\n", encoding="utf-8")
    sources = [f"graph={folder / 'kg'}", f"phrases={folder / 'phrases.txt'}"]
    options = ["--workers", 2, *(word for one in sources for word in ("--source", one))]
    (folder / "sitecustomize.py").write_text(WITHOUT, encoding="utf-8")  # which every Python runs that starts
    with started(exported, *options, first_on_path=folder) as (process, said):
        yield Server(process, said[0].split()[2], said, folder / "kg")


@contextmanager
def started(
    model: Path, *options: object, first_on_path: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Start `infuser serve` and yield its process and what it says when it is up."""
    command = [sys.executable, "-m", "infuser", "serve", str(model), "--port", "0", *map(str, options)]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    if first_on_path is not None:
        quiet["PYTHONPATH"] = os.pathsep.join(filter(None, (str(first_on_path), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=quiet) as process:
        try:
            assert process.stdout is not None
            said: list[str] = []
            while not said or not said[-1].startswith("Try:"):
                line = process.stdout.readline()
                assert line, process.stderr.read() if process.stderr else ""
                said.append(line)
            yield process, said
        finally:
            process.kill()


def wait_for_workers(server: Server, dead: set[int]) -> None:
    """Wait until both workers have been replaced where they were killed."""
    until = time.monotonic() + 120
    while len(workers := server.workers()) < 2 or dead & set(workers):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_it_says_what_it_serves_and_how_it_is_asked(server: Server) -> None:
    said = "".join(server.said)
    assert "labels no, perhaps, yes" in said and f"graph: {server.graph} (" in said and "workers  2" in said
    assert "curl http://127.0.0.1:" in said and "/predict -H 'Content-Type: application/json' -d '{" in said


def test_both_workers_answer_and_count_together(server: Server) -> None:
    assert len(server.workers()) == 2
    server.anew(lambda client: client.post("/predict", json={"text": OF_NEW}))
    counts = server.anew(lambda client: client.get("/metrics").text)
    assert all('\ninfuser_requests_total{path="/predict",status="200"} 16\n' in text for text in counts)


def test_an_exchange_reaches_all_workers_or_none(server: Server) -> None:
    build(server.graph, *TRIPLES, NEW)
    flip_a_byte(server.graph)
    with server.client() as client:
        refused = client.post("/knowledge/reload", json={})
    assert refused.status_code == 422 and f"{server.graph}/" in refused.json()["error"]["message"]
    assert set(server.anew(lambda client: client.get("/health").json()["knowledge"])) == {1}
    build(server.graph, *TRIPLES, NEW)
    with server.client() as client:
        assert client.post("/knowledge/reload", json={}).json()["knowledge"]["version"] == 2
    assert server.anew(entities_of) == [["book", "shop"]] * 16


def test_a_worker_that_dies_is_replaced_by_one_with_the_same_knowledge(server: Server) -> None:
    version = httpx.get(f"{server.address}/health").json()["knowledge"]
    known = server.anew(entities_of)[0]
    shutil.rmtree(server.graph)  # what it was built from may be gone
    first, second = server.workers()
    os.kill(first, signal.SIGKILL)
    assert server.anew(lambda client: client.get("/health").json()["knowledge"]) == [version] * 16
    os.kill(second, signal.SIGKILL)
    with server.client() as client:  # nobody serves now: it waits until somebody does
        assert client.get("/health").json()["knowledge"] == version
    wait_for_workers(server, {first, second})
    assert server.anew(entities_of) == [known] * 16


def test_exchanges_while_workers_die_end_with_all_in_step(server: Server) -> None:
    stop, statuses = threading.Event(), list[int]()

    def ask() -> None:
        while not stop.is_set():
            try:
                with server.client() as client:
                    statuses.append(client.post("/predict", json={"text": OF_NEW}).status_code)
            except httpx.TransportError:  # its worker was killed in the middle
                statuses.append(0)

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    build(server.graph, *TRIPLES)
    with server.client() as client:
        before = client.get("/health").json()["knowledge"]
        results = []
        for turn in range(3):
            if turn == 1:
                os.kill(server.workers()[0], signal.SIGKILL)
            try:
                results.append(client.post("/knowledge/reload", json={}).status_code)
            except httpx.TransportError:  # the worker that was killed is the one that was asked
                results.append(0)
    stop.set()
    for thread in asking:
        thread.join(30)
    wait_for_workers(server, set())
    with server.client() as client:
        final = client.post("/knowledge/reload", json={}).json()["knowledge"]["version"]
    assert results[0] == 200 and before + 1 < final <= before + 4
    assert server.anew(lambda client: client.get("/health").json()["knowledge"]) == [final] * 16
    assert set(statuses) <= {200, 0} and statuses.count(0) <= 4 and statuses.count(200) > 5


def test_requests_that_make_no_sense_leave_nothing_in_the_log(server: Server) -> None:
    with server.client() as client:
        assert client.get("/health", headers={"connection": "upgrade", "upgrade": "websocket"}).status_code == 200
    with socket.create_connection(("127.0.0.1", urlsplit(server.address).port or 0), timeout=10) as connection:
        connection.sendall(b"\x00\xff\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    # what the server logs is looked at when it has stopped, below


def test_stopping_answers_what_is_under_way_refuses_what_is_new_and_leaves_nothing_behind(server: Server) -> None:
    answers: list[httpx.Response] = []

    def ask() -> None:
        with server.client() as client:
            answers.append(client.post("/predict", json={"texts": ["the old town " * 40] * 256}))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 20
    while "infuser_requests_under_way 5" not in httpx.get(f"{server.address}/metrics").text:  # with this one
        assert time.monotonic() < until and not answers
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{server.address}/health", timeout=20)
    for thread in threads:
        thread.join(60)
    assert [answer.status_code for answer in answers] == [200] * 4
    _, err = server.process.communicate(timeout=60)
    assert server.process.returncode == 0
    assert re.fullmatch(r"(Worker \d was killed by signal 9; another one is started\.\n){3}", err)
    assert not list(server.graph.parent.glob(".kg.*"))


def test_what_cannot_be_served_is_said_before_any_worker_starts(model_without_graph: tuple[Path, Path]) -> None:
    model = model_without_graph[0]
    assert "Give a token" in error_of("serve", model, "--host", "box.lan")
    assert "--allow-host" in error_of("serve", model, "--host", "0.0.0.0", "--token", "a" * 20)
    assert "can be guessed" in error_of("serve", model, "--token", "short")
    assert "No file at" in error_of("serve", model, "--source", "graph=/no/such/folder")


def test_a_model_that_cannot_be_loaded_ends_the_server_with_its_reason(exported: Path, tmp_path: Path) -> None:
    shutil.copytree(exported, tmp_path / "damaged")
    (tmp_path / "damaged" / "model.onnx").write_bytes(b"no graph")
    error = error_of("serve", tmp_path / "damaged", "--port", 0, code=1)
    assert "model.onnx is damaged" in error and "Export the model again" in error


class Deadly(Entities):
    """A source that ends the process which unpacks it."""

    def __reduce__(self) -> Any:
        return os._exit, (3,)


def test_workers_that_die_before_they_are_ready_end_the_server(exported: Path) -> None:
    with pytest.raises(InfuserError, match="ended with exit code 3 before it was ready"):
        serve(str(exported), [Deadly(["river"]), Entities(["town"])], port=0)


def test_a_saved_model_is_served_by_torch_after_its_graph_was_built_again_and_stops_with_ctrl_c(
    model_without_graph: tuple[Path, Path], tmp_path: Path
) -> None:
    graph = build(tmp_path / "kg", *TRIPLES)
    infuser.load(model_without_graph[0], sources=[Graph(graph), Phrases(["near me"])]).save(tmp_path / "model")
    build(graph, *TRIPLES, NEW)
    with started(tmp_path / "model", "--rebuilt") as (process, said):
        with httpx.Client(base_url=said[0].split()[2], timeout=60) as client:
            answer = client.post("/predict", json={"text": OF_NEW}).json()
            assert entities_of(client) == ["book", "shop"]
        assert answer["predictions"][0]["label"] in ("no", "perhaps", "yes")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0 and err == ""
