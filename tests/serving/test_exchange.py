"""Knowledge is exchanged while the server runs: whole or not at all, and no request is lost."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from cli.commands import error_of
from miniatures import tiny_host, tiny_tokenizer
from serving.conftest import NEW, OF_NEW, TEXT, TRIPLES, Gated, build

import infuser
from infuser import Entities, Graph, Kam
from infuser.errors import SourceError
from infuser.serving.infused import InfusedModel
from infuser.serving.knowledge import Knowledge, release
from infuser.serving.model import saved_sources
from infuser.serving.server import running, serve
from infuser.sources import Selective


def entities_of(client: httpx.Client, text: str = OF_NEW) -> list[str]:
    [found] = client.post("/annotate", json={"text": text}).json()["annotations"]
    return [span["id"] for span in found["found"]["graph"]["spans"]]


def test_an_entity_is_added_without_training_and_without_restart(client: httpx.Client, graph: Path) -> None:
    before = client.post("/predict", json={"text": OF_NEW}).json()
    assert entities_of(client) == []
    build(graph, *TRIPLES, NEW)
    assert entities_of(client) == []  # what was built is not used before somebody says so
    answer = client.post("/knowledge/reload", json={}).json()
    assert answer["knowledge"]["version"] == 2
    assert entities_of(client) == ["book", "shop"]
    after = client.post("/predict", json={"text": OF_NEW}).json()
    assert (before["knowledge"], after["knowledge"]) == (1, 2) and before["predictions"] != after["predictions"]


def test_another_folder_takes_the_place_of_the_first(client: httpx.Client, tmp_path: Path) -> None:
    larger = build(tmp_path / "larger", *TRIPLES, NEW)
    answer = client.post("/knowledge/reload", json={"graph": str(larger)})
    assert answer.json()["knowledge"]["sources"][0]["folders"][0]["path"] == str(larger)
    assert entities_of(client) == ["book", "shop"]


def flip_a_byte(folder: Path) -> None:
    largest = max(folder.glob("*.npy"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[-1] ^= 1
    largest.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (shutil.rmtree, "There is no folder at"),
        (flip_a_byte, "is damaged: its content is not what was written"),
        (lambda folder: (folder / "about.json").unlink(), "no about.json"),
        (lambda folder: (folder / "about.json").write_text("{}"), "is damaged"),
        (lambda folder: max(folder.glob("*.marisa")).unlink(), "is missing"),
    ],
)
def test_a_folder_that_cannot_be_used_leaves_the_old_knowledge_in_place(
    client: httpx.Client, graph: Path, damage: Callable[[Path], Any], said: str
) -> None:
    build(graph, *TRIPLES, NEW)
    damage(graph)
    answer = client.post("/knowledge/reload", json={})
    message = answer.json()["error"]["message"]
    assert answer.status_code == 422 and said in message and str(graph) in message and ".part" not in message
    assert message.endswith("The knowledge in use stays as it was.")
    assert client.get("/health").json()["knowledge"] == 1 and entities_of(client, TEXT) == ["tablets"]


def test_names_and_kinds_that_do_not_fit_are_refused(client: httpx.Client, tmp_path: Path) -> None:
    from infuser.knowledge.candidates.store import build_candidates, mentions_of

    build_candidates(mentions_of({"bank": {"river bank": 1.0}})).save(tmp_path / "candidates")
    for body, said in (
        ({"grpah": "kg"}, "no source 'grpah'. Did you mean 'graph'?"),
        ({"graph": str(tmp_path / "candidates")}, "holds candidates, it is no graph folder"),
        ({"graph": {"vectors": "kg"}}, "'graph' reads one folder"),
        ({"graph": "/etc"}, "is no graph folder"),
        ({"phrases": str(tmp_path / "candidates")}, "'phrases' is a Phrases, which reads no folder"),
    ):
        answer = client.post("/knowledge/reload", json=body)
        assert answer.status_code == 422 and said in answer.json()["error"]["message"], answer.text
    assert client.get("/health").json()["knowledge"] == 1


def test_a_folder_that_infuser_did_not_build_is_never_copied(
    client: httpx.Client, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (graph / "about.json").unlink()
    touched: list[Any] = []
    monkeypatch.setattr("os.link", lambda *given, **_: touched.append(given))
    monkeypatch.setattr("shutil.copyfile", lambda *given, **_: touched.append(given))
    answer = client.post("/knowledge/reload", json={})
    assert answer.status_code == 422 and "is no graph folder" in answer.json()["error"]["message"]
    assert not touched


def test_only_the_files_of_a_folder_are_copied(graph: Path) -> None:
    (graph / "huge.bin").write_bytes(b"not of the graph")
    knowledge = Knowledge.of([Graph(graph)])
    [copy] = graph.parent.glob(".kg.*.part")
    assert {path.name for path in copy.iterdir()} == {path.name for path in graph.iterdir()} - {"huge.bin"}
    release(knowledge.pinned)


def test_a_manifest_that_names_a_file_elsewhere_is_damaged(graph: Path) -> None:
    outside = graph.parent / "outside.npy"
    about = json.loads((graph / "about.json").read_text())
    entry = next(iter(about["files"].values()))
    shutil.copy(graph / entry["file"], outside)
    entry["file"] = "../outside.npy"
    del about["digest"]
    written = json.dumps(about, sort_keys=True, ensure_ascii=False).encode()
    (graph / "about.json").write_text(json.dumps({**about, "digest": hashlib.sha256(written).hexdigest()}))
    with pytest.raises(SourceError, match=r"outside\.npy is damaged"):
        Knowledge.of([Graph(graph)])
    assert not list(graph.parent.glob(".kg.*"))


def test_a_source_that_cannot_be_opened_leaves_no_copy_of_those_before_it(graph: Path, tmp_path: Path) -> None:
    second = build(tmp_path / "second", *TRIPLES)
    sources = [Graph(graph), Selective(Graph(second))]
    flip_a_byte(second)
    (second / "about.json").unlink()
    with pytest.raises(SourceError, match=r"no about\.json"):
        Knowledge.of(sources)
    assert not list(tmp_path.glob(".*.part"))


def test_a_server_that_does_not_start_leaves_no_copies(
    model: InfusedModel, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("infuser.serving.server.make_file", full)
    with pytest.raises(OSError, match="no space left"):
        serve("any", [Graph(graph)], port=0)
    assert not list(graph.parent.glob(".kg.*"))
    monkeypatch.setattr("infuser.serving.server.Service", full)
    with pytest.raises(OSError, match="no space left"), running(model):
        pass
    assert not list(graph.parent.glob(".kg.*"))


def test_requests_under_way_end_with_the_knowledge_they_began_with(gated: Gated, graph: Path) -> None:
    answers: list[httpx.Response] = []
    with running(gated) as address, httpx.Client(base_url=address, timeout=20) as client:
        asking = threading.Thread(
            target=lambda: answers.append(
                httpx.post(f"{address}/predict", json={"texts": ["wait", OF_NEW]}, timeout=20)
            )
        )
        asking.start()
        assert gated.entered.wait(20)
        build(graph, *TRIPLES, NEW)
        reloading = threading.Thread(target=lambda: answers.append(client.post("/knowledge/reload", json={})))
        reloading.start()
        reloading.join(0.3)
        assert not answers  # the model is busy: what is new has not been tried yet
        gated.gate.set()
        for thread in (asking, reloading):
            thread.join(20)
        after = client.post("/predict", json={"text": OF_NEW}).json()
    began = next(answer for answer in answers if "predictions" in answer.json()).json()
    assert began["knowledge"] == 1 and after["knowledge"] == 2
    assert began["predictions"][1] != after["predictions"][0]


def test_a_model_opens_its_folders_as_they_are_now_only_if_it_is_asked_to(graph: Path, tmp_path: Path) -> None:
    host = tiny_host("bert", "sequence-classification", num_hidden_layers=1)
    sources = [Selective(Graph(graph, n_terms=3)), Entities(["river"])]
    infuser.infuse(host, Kam(), sources=sources, tokenizer=tiny_tokenizer("bert")).save(tmp_path / "model")
    build(graph, *TRIPLES, NEW)
    error = error_of("serve", tmp_path / "model")
    assert "holds something else now than when it was saved" in error and "--rebuilt" in error
    [first, second] = saved_sources(str(tmp_path / "model"), rebuilt=True)
    assert isinstance(first, Selective) and isinstance(first.source, Graph) and first.source.n_terms == 3
    assert [span.id for span in first.annotate([OF_NEW])[0].spans] == ["book", "shop"]
    assert [span.start for span in second.annotate(["a river"])[0].spans] == [2]
    assert "--rebuilt opens the sources" in error_of("serve", tmp_path / "model", "--rebuilt", "--graph", graph)
    with pytest.raises(SourceError, match="something else now"):  # what was asked before holds for that model alone
        saved_sources(str(tmp_path / "model"))


@pytest.mark.slow
def test_exchanges_under_load_lose_no_request(model: InfusedModel, graph: Path) -> None:
    statuses: list[int] = []
    versions: list[list[int]] = []
    stop = threading.Event()

    def ask(address: str) -> None:
        seen: list[int] = []
        with httpx.Client(base_url=address, timeout=20) as client:
            while not stop.is_set():
                answer = client.post("/predict", json={"text": OF_NEW})
                statuses.append(answer.status_code)
                seen.append(answer.json()["knowledge"])
        versions.append(seen)

    with running(model) as address, httpx.Client(base_url=address, timeout=20) as client:
        threads = [threading.Thread(target=ask, args=(address,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for turn in range(6):
            build(graph, *TRIPLES, *[NEW] * (turn % 2))
            assert client.post("/knowledge/reload", json={}).json()["knowledge"]["version"] == turn + 2
        stop.set()
        for thread in threads:
            thread.join(20)
        assert entities_of(client) == ["book", "shop"]
        sizes = [line for line in client.get("/metrics").text.splitlines() if line.startswith("infuser_batch_size_")]
    assert set(statuses) == {200} and len(statuses) > 20
    assert all(seen == sorted(seen) for seen in versions) and max(max(seen) for seen in versions) >= 6
    n_batches, n_texts = (float(line.split()[1]) for line in sorted(sizes)[-2:])
    assert n_texts > 1.5 * n_batches  # single requests were read together


def test_a_pinned_folder_stays_as_it_was_and_leaves_nothing_behind(graph: Path) -> None:
    knowledge = Knowledge.of([Selective(Graph(graph)), Entities(["river"])])
    build(graph, *TRIPLES, NEW)
    [source, _] = knowledge.sources
    assert [span.id for span in source.annotate([TEXT + " book"])[0].spans] == ["tablets"]
    new = knowledge.exchanged({})
    assert list(new.changes_from(knowledge)) == [0] and new.pinned[1] is knowledge.pinned[1]
    assert [span.id for span in new.sources[0].annotate([TEXT + " book"])[0].spans] == ["tablets", "book"]
    assert len(list(graph.parent.glob(".kg.*.part"))) == 2
    release([*knowledge.pinned, *new.pinned])
    assert not list(graph.parent.glob(".kg.*"))


def test_where_files_cannot_be_linked_they_are_copied(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", refuse)
    knowledge = Knowledge.of([Graph(graph)])
    shutil.rmtree(graph)
    assert [span.id for span in knowledge.sources[0].annotate([TEXT])[0].spans] == ["tablets"]
    [pinned] = knowledge.pinned
    copy = Path(str(pinned.opened.triples))  # type: ignore[attr-defined]
    release([pinned])
    assert not copy.exists()
