from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from tiny_infusions import KNOWN_TEXT

from infuser.errors import InputError
from infuser.viewer.limits import Limits
from infuser.viewer.server import running, serve
from infuser.viewer.views import InfusedView
from infuser.web.connections import notice_silence
from infuser.web.listening import config_of, hosts_for, in_thread, listen


def test_a_running_server_answers_at_its_address_and_is_gone_afterwards(view: InfusedView) -> None:
    with running(view) as address:
        assert urlsplit(address).hostname == "127.0.0.1"
        with httpx.Client(base_url=address) as client:
            assert client.get("/").status_code == 200
            answer = client.post("/api/see", json={"text": KNOWN_TEXT}, headers={"origin": address})
            assert answer.status_code == 200 and "<svg" in answer.json()["parts"]["attention"]
            assert "server" not in answer.headers
            forged = {"host": "evil.example", "x-forwarded-host": "127.0.0.1", "x-forwarded-for": "1.2.3.4"}
            assert client.get("/", headers=forged).status_code == 421
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)


def test_a_client_cannot_give_itself_another_address_to_ask_more(view: InfusedView) -> None:
    limits = Limits(burst=2, requests_per_second=0.01)
    with running(view, limits=limits) as address, httpx.Client(base_url=address) as client:
        answers = [client.get("/api/model", headers={"x-forwarded-for": f"10.0.0.{at}"}) for at in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]


def test_a_question_whose_asker_has_gone_is_not_answered_and_the_others_are(gated: Any) -> None:
    statuses = []

    def ask(address: str, text: str) -> None:
        statuses.append(httpx.post(f"{address}/api/see", json={"text": text}, timeout=20).status_code)

    with running(gated) as address:
        first = threading.Thread(target=ask, args=(address, "wait"))
        first.start()
        assert gated.entered.wait(20)
        leave_at_once(address, "gone")
        httpx.get(f"{address}/api/model")  # by now the server has seen that the asker left
        last = threading.Thread(target=ask, args=(address, "the last"))
        last.start()
        gated.gate.set()
        first.join(20)
        last.join(20)
    assert statuses == [200, 200] and gated.asked == ["wait", "the last"]


def leave_at_once(address: str, text: str) -> None:
    """Ask a question, see that it has arrived, and hang up."""
    body = json.dumps({"text": text}).encode()
    head = f"POST /api/see HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        httpx.get(f"{address}/api/model")


@pytest.mark.parametrize("garbage", [b"\x00\xff\r\n\r\n", b"GET /" + b"a" * 100_000, b"GET / HTTP/1.1\r\n\r\n"])
def test_bytes_that_are_no_request_leave_the_server_running(view: InfusedView, garbage: bytes) -> None:
    with running(view) as address:
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname, parts.port), timeout=5) as connection:
            connection.sendall(garbage)
            assert connection.recv(100).startswith(b"HTTP/1.1 4")
        assert httpx.get(address).status_code == 200


def test_serving_ends_quietly_with_ctrl_c(view: InfusedView) -> None:
    seen = []

    def look_and_leave(address: str) -> None:
        seen.append(httpx.get(f"{address}/api/model").json()["title"])  # answered: the server listens to Ctrl-C now
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    serve(view, when_up=lambda address: threading.Thread(target=look_and_leave, args=(address,)).start())
    assert seen == ["A tiny model"] and signal.getsignal(signal.SIGINT) is before


def test_a_port_that_is_taken_is_told_with_what_to_do(view: InfusedView) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"Cannot listen at 127.0.0.1, port {port}: .* Choose another port"):
            serve(view, port=port)


@pytest.mark.parametrize(("host", "port"), [("no.such.name.invalid", 0), ("127.0.0.1", 70_000), ("203.0.113.1", 0)])
def test_an_address_that_is_not_ours_is_told(view: InfusedView, host: str, port: int) -> None:
    with pytest.raises(InputError, match=f"Cannot listen at {host}, port {port}"):
        serve(view, host=host, port=port)


def test_the_names_answered_to_follow_the_address_bound_to() -> None:
    assert hosts_for("127.0.0.1") == ("127.0.0.1", "localhost", "[::1]")
    assert hosts_for("box.lan") == ("127.0.0.1", "localhost", "[::1]", "box.lan")
    assert hosts_for("fe80::1")[-1] == "[fe80::1]"
    assert hosts_for("box.lan", ["10.0.0.7"])[-2:] == ("box.lan", "10.0.0.7")
    assert hosts_for("0.0.0.0", ["box.lan"]) == ("127.0.0.1", "localhost", "[::1]", "box.lan")
    for everywhere in ("0.0.0.0", "::"):
        with pytest.raises(InputError, match=r"by every machine that reaches this one.* --allow-host"):
            hosts_for(everywhere)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_usual_port_is_taken_where_it_is_free(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        first = socket.create_server((host, 0), family=family)
    except OSError as error:
        pytest.skip(f"this machine has no {host}: {error}")
    with first as taken:
        usual = taken.getsockname()[1]
        with listen(host, None, usual) as other:
            assert other.getsockname()[1] not in (0, usual)
    with listen(host, None, usual) as free:
        assert free.getsockname()[1] == usual


def test_a_server_for_others_answers_to_the_names_that_were_allowed(view: InfusedView) -> None:
    with running(view, host="0.0.0.0", allow=["box.lan"]) as address, httpx.Client(base_url=address) as client:
        statuses = [
            client.get("/", headers={"host": name}).status_code for name in ("box.lan", "127.0.0.1", "evil.lan")
        ]
    assert statuses == [200, 200, 421]


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: 127", b"\r\n"])
def test_a_connection_that_never_finishes_its_header_is_closed(said: bytes, view: InfusedView) -> None:
    with running(view, limits=Limits(header_seconds=0.2)) as address:
        with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=10) as slow:
            slow.sendall(said)
            assert ended(slow)
        with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=10) as again:
            request = f"GET /api/model HTTP/1.1\r\nHost: {urlsplit(address).netloc}\r\n\r\n".encode()
            again.sendall(request)
            assert b"200 OK" in again.recv(65536)
            again.sendall(request[:20])  # a second one on the same connection
            assert ended(again)
        assert httpx.get(address).status_code == 200


def ended(connection: socket.socket) -> bool:
    """Read until the server closes the connection."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_a_header_without_end_is_refused(view: InfusedView) -> None:
    with running(view) as address:
        with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=10) as long:
            long.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000)
            assert b"400" in long.recv(100)
        assert httpx.get(address).status_code == 200


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such limit")
def test_a_client_that_never_reads_its_answer_is_left() -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(20_000_000)})

    server = uvicorn.Server(config_of(answer, header_seconds=5, stop_seconds=1))
    listener = listen("127.0.0.1", 0, 0)
    notice_silence(listener, unread_seconds=0.3)
    with in_thread(server, listener, "unread"), socket.create_connection(listener.getsockname()) as silent:
        silent.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: len(server.server_state.connections) == 1)
        wait_until(lambda: not server.server_state.connections)


def wait_until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)
