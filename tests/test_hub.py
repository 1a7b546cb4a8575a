"""A saved model moves: its card, its knowledge inside, to the hub and back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_hub import ENDPOINT, REPO, TOKEN, FakeHub, hub  # noqa: F401
from huggingface_hub import ModelCard
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import shake
from torch import Tensor
from transformers import AutoModel, AutoModelForSequenceClassification

import infuser
from infuser.errors import CheckpointError, InputError, SourceError
from infuser.knowledge.candidates.store import build_candidates, mentions_of
from infuser.knowledge.graph.build import build_graph, facts_of
from infuser.knowledge.graph.store import save_graph
from infuser.methods import Kar
from infuser.seals import check_seal

TEXTS = ["buy glipizide in the pharmacy", "Bern lies on the Aare"]
TRIPLES = [("glipizide", "sold by", "pharmacy"), ("Bern", "lies on", "Aare")]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """Return the folder of a graph that was built on this machine."""
    folder = tmp_path / "built" / "graph"
    save_graph(build_graph(facts_of(TRIPLES, {})), folder)
    return folder


def infused_with(*sources: infuser.Source, head: str = "sequence-classification", **options: Any) -> infuser.Infused:
    host = tiny_host("bert", head)
    infused = infuser.infuse(host, options.pop("method", None), sources=sources, tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    return replace(infused, **options)


def told(infused: infuser.Infused) -> Tensor:
    with torch.no_grad():
        return infused.model(**infused.batch(TEXTS)).logits


def card_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "infuser.json").read_text())
    return found


# Knowledge inside


def test_a_portable_model_works_where_its_folders_are_gone(graph: Path, tmp_path: Path) -> None:
    infused = infused_with(infuser.Graph(graph), infuser.Entities.tiny())
    expected = told(infused)
    infused.save(tmp_path / "here", portable=True)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(graph)
    shutil.rmtree(tmp_path / "here")
    again = infuser.load(tmp_path / "there")
    assert torch.equal(told(again), expected)
    assert str(tmp_path) not in (tmp_path / "there" / "infuser.json").read_text()


def test_folders_are_linked_and_each_is_there_once(graph: Path, tmp_path: Path) -> None:
    infused_with(infuser.Graph(graph), infuser.Graph(graph, hops=2)).save(tmp_path / "out", portable=True)
    [folder] = (tmp_path / "out" / "sources" / "folders").iterdir()
    for path in folder.iterdir():
        assert os.path.samefile(path, graph / path.name)


def test_without_the_option_folders_are_named_by_their_path(graph: Path, tmp_path: Path) -> None:
    infused_with(infuser.Graph(graph)).save(tmp_path / "out")
    [record] = card_of(tmp_path / "out")["sources"]
    assert record["settings"]["triples"] == str(graph) and not (tmp_path / "out" / "sources").exists()
    shutil.rmtree(graph)
    with pytest.raises(SourceError, match="no graph folder"):
        infuser.load(tmp_path / "out")


def test_knowledge_that_came_with_a_model_stays_with_it_when_it_is_saved_again(graph: Path, tmp_path: Path) -> None:
    infused = infused_with(infuser.Graph(graph))
    expected = told(infused)
    infused.save(tmp_path / "out", portable=True)
    shutil.rmtree(graph)
    for _ in range(2):
        infuser.load(tmp_path / "out").save(tmp_path / "out")
    infuser.load(tmp_path / "out").save(tmp_path / "other")
    shutil.rmtree(tmp_path / "out")
    assert torch.equal(told(infuser.load(tmp_path / "other")), expected)


def test_a_knowledge_base_and_what_a_selection_wraps_come_along(graph: Path, tmp_path: Path) -> None:
    from infuser.sources import Sampling, Selective

    mentions = {"glipizide": {"glipizide": 3, "pharmacy": 1}, "Bern": {"Bern": 1}}
    build_candidates(mentions_of(mentions)).save(tmp_path / "built" / "candidates")
    vectors = infuser.EntityVectors.of(["glipizide", "pharmacy", "Bern"], torch.randn(3, 8).numpy())
    vectors.save(tmp_path / "built" / "vectors")
    base = infuser.KnowledgeBase(
        infuser.Candidates(tmp_path / "built" / "candidates"), tmp_path / "built" / "vectors", graph=graph
    )
    infused = infused_with(Selective(base, Sampling(graph=graph)), method=Kar())
    expected = told(infused)
    infused.save(tmp_path / "out", portable=True)
    assert len(list((tmp_path / "out" / "sources" / "folders").iterdir())) == 3
    shutil.rmtree(tmp_path / "built")
    shutil.move(tmp_path / "out", tmp_path / "moved")
    assert torch.equal(told(infuser.load(tmp_path / "moved")), expected)


def test_damage_in_knowledge_that_came_along_is_noticed(graph: Path, tmp_path: Path) -> None:
    infused_with(infuser.Graph(graph)).save(tmp_path / "out", portable=True)
    [folder] = (tmp_path / "out" / "sources" / "folders").iterdir()
    shutil.copytree(folder, tmp_path / "copy")  # links would damage the original
    largest = max((tmp_path / "copy").glob("*.npy"), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1])
    shutil.rmtree(folder)
    shutil.move(tmp_path / "copy", folder)
    with pytest.raises(SourceError, match=f"{largest.name} is damaged"):
        infuser.load(tmp_path / "out")


def test_a_record_cannot_name_a_place_outside_the_model(graph: Path, tmp_path: Path) -> None:
    from infuser.seals import seal

    infused_with(infuser.Graph(graph)).save(tmp_path / "out", portable=True)
    card = card_of(tmp_path / "out")
    card["sources"][0]["settings"]["triples"] = "../../../built/graph"
    (tmp_path / "out" / "infuser.json").write_text(json.dumps(card))
    seal(tmp_path / "out", apart=[tmp_path / "out" / "sources" / "folders"])
    with pytest.raises(SourceError, match="lies inside a saved model"):
        infuser.load(tmp_path / "out")


# The card


def test_the_card_says_what_the_model_is_and_its_front_matter_is_valid(graph: Path, tmp_path: Path) -> None:
    infused = infused_with(infuser.Graph(graph), infuser.Entities.tiny())
    infused.model.config.id2label = {0: "bad", 1: "fair", 2: "good"}
    infused.save(tmp_path / "out", licenses={"model": "apache-2.0", "graph": "cc0-1.0"})
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert card.data.to_dict() == {
        "library_name": "infuser",
        "license": "apache-2.0",
        "pipeline_tag": "text-classification",
        "tags": ["infuser", "knowledge", "kam"],
    }
    digest = infuser.Graph(graph).graph_store.digest
    for said in (
        "# BertForSequenceClassification that reads knowledge (kam: graph, entities)",
        "bert, 2 layers, 16 hidden",
        'infused = infuser.from_pretrained("path/to/this/folder")',
        f"| graph | `{digest[:16]}` | ",
        "| cc0-1.0 | no, it is named by its path |",
        "- 0: bad\n- 1: fair\n- 2: good",
        "Not measured",
        "- model: apache-2.0\n- host: unknown",
        f"transformers {__import__('transformers').__version__}",
        '"alpha": 0.2',
    ):
        assert said in card.content, said
    assert str(tmp_path) not in card.content
    again = infuser.load(tmp_path / "out")
    assert again.licenses == {"model": "apache-2.0", "graph": "cc0-1.0"}
    again.save(tmp_path / "again", licenses={"host": "mit"})
    assert "- model: apache-2.0\n- host: mit" in (tmp_path / "again" / "README.md").read_text()


def test_the_code_of_the_card_runs(tmp_path: Path) -> None:
    infused_with(infuser.Entities.tiny()).save(tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    code = text.partition("```python\n")[2].partition("```")[0].replace("path/to/this/folder", str(tmp_path / "out"))
    done: dict[str, Any] = {}
    exec(code, done)
    assert done["outputs"].logits.shape == (1, 3)
    plain = text.partition("the plain host: `")[2].partition("(")[0]
    assert plain == "AutoModelForSequenceClassification.from_pretrained"


def test_a_licence_for_something_else_is_an_error(tmp_path: Path) -> None:
    infused = infused_with(infuser.Entities.tiny())
    with pytest.raises(InputError, match=r"licence for 'entites'.* Did you mean 'entities'\? It has model, host, ent"):
        infused.save(tmp_path / "out", licenses={"entites": "mit"})
    with pytest.raises(InputError, match="give its identifier"):
        infused.save(tmp_path / "out", licenses={"model": " "})
    assert not (tmp_path / "out").exists()


def test_the_card_may_be_edited_and_other_files_may_not(tmp_path: Path) -> None:
    infused_with(infuser.Entities.tiny()).save(tmp_path / "out")
    (tmp_path / "out" / "README.md").write_text("my own words")
    check_seal(tmp_path / "out", "")
    infuser.load(tmp_path / "out")
    (tmp_path / "out" / "tokenizer_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json is damaged"):
        infuser.load(tmp_path / "out")


def test_save_pretrained_is_save_and_the_folder_is_the_plain_host_too(tmp_path: Path) -> None:
    infused = infused_with(infuser.Entities.tiny())
    infused.save_pretrained(tmp_path / "out")
    assert torch.equal(told(infuser.from_pretrained(tmp_path / "out")), told(infused))
    model, info = AutoModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert type(model).__name__ == "BertModel" and not info["missing_keys"]
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    batch = infused.tokenizer(TEXTS, return_tensors="pt", padding=True)
    with infused.disabled(), torch.no_grad():
        torch.testing.assert_close(plain(**batch).logits, told(infused), atol=1e-12, rtol=0)


# The hub


def test_a_model_goes_to_the_hub_and_comes_back_on_another_machine(
    graph: Path,
    tmp_path: Path,
    hub: FakeHub,  # noqa: F811
) -> None:
    infused = infused_with(infuser.Graph(graph), infuser.Entities.tiny())
    expected = told(infused)
    address = infused.push_to_hub(REPO, token=TOKEN, endpoint=ENDPOINT, private=True, licenses={"model": "mit"})
    assert address == f"{ENDPOINT}/{REPO}" and hub.private[REPO]
    files = hub.repos[REPO]
    assert {"README.md", "infuser.json", "digests.json", "model.safetensors", "knowledge.safetensors"} <= set(files)
    assert any(name.startswith("sources/folders/") for name in files)
    assert not any(str(tmp_path).encode() in data for data in files.values())
    assert f'infuser.from_pretrained("{REPO}")'.encode() in files["README.md"]
    shutil.rmtree(graph)
    files |= {"modeling_evil.py": b"raise SystemExit", "pytorch_model.bin": b"pickle", "notes/large.mp4": b"0" * 100}
    hub.asked.clear()
    again = infuser.from_pretrained(REPO, cache_dir=tmp_path / "cache", endpoint=ENDPOINT)
    assert torch.equal(told(again), expected)
    fetched = {Path(one).name for one in hub.asked if one.startswith("GET") and "/resolve/" in one}
    assert "model.safetensors" in fetched and fetched.isdisjoint({"modeling_evil.py", "pytorch_model.bin", "large.mp4"})
    hub.asked.clear()
    offline = infuser.from_pretrained(REPO, cache_dir=tmp_path / "cache", endpoint=ENDPOINT, local_files_only=True)
    assert torch.equal(told(offline), expected) and not hub.asked


def test_an_edited_card_of_the_hub_does_no_harm_and_damage_is_noticed(
    tmp_path: Path,
    hub: FakeHub,  # noqa: F811
) -> None:
    infused_with(infuser.Entities.tiny()).push_to_hub(REPO, token=TOKEN, endpoint=ENDPOINT)
    hub.repos[REPO]["README.md"] = b"edited on the site"
    infuser.from_pretrained(REPO, cache_dir=tmp_path / "one", endpoint=ENDPOINT)
    damaged = bytearray(hub.repos[REPO]["knowledge.safetensors"])
    damaged[-1] ^= 1
    hub.repos[REPO]["knowledge.safetensors"] = bytes(damaged)
    with pytest.raises(CheckpointError, match=r"knowledge\.safetensors is damaged"):
        infuser.from_pretrained(REPO, cache_dir=tmp_path / "two", endpoint=ENDPOINT)


def test_knowledge_of_an_earlier_upload_goes_away_with_the_next(
    graph: Path,
    tmp_path: Path,
    hub: FakeHub,  # noqa: F811
) -> None:
    infused_with(infuser.Graph(graph)).push_to_hub(REPO, token=TOKEN, endpoint=ENDPOINT)
    save_graph(build_graph(facts_of([*TRIPLES, ("a", "b", "c")], {})), graph)
    infused_with(infuser.Graph(graph)).push_to_hub(REPO, token=TOKEN, endpoint=ENDPOINT, revision="second")
    folders = {name.split("/")[2] for name in hub.repos[REPO] if name.startswith("sources/folders/")}
    assert folders == {infuser.Graph(graph).graph_store.digest[:16]} and hub.branches == ["second"]


def test_what_goes_wrong_with_the_hub_is_one_clear_error(tmp_path: Path, hub: FakeHub) -> None:  # noqa: F811
    infused = infused_with(infuser.Entities.tiny())
    to = {"token": TOKEN, "endpoint": ENDPOINT}
    with pytest.raises(InputError, match="cannot be the id of a repository"):
        infused.push_to_hub("two words/../", **to)
    with pytest.raises(InputError, match=r"The hub rejects the model .*license"):
        infused.push_to_hub(REPO, licenses={"model": "mine"}, **to)
    hub.refuse = "/api/models/*/commit/*"
    with pytest.raises(CheckpointError, match="cannot be uploaded to 'somebody/knows'"):
        infused.push_to_hub(REPO, **to)
    with pytest.raises(CheckpointError, match="No infused model 'nobody/nothing' can be fetched"):
        infuser.from_pretrained("nobody/nothing", cache_dir=tmp_path, endpoint=ENDPOINT)
    with pytest.raises(CheckpointError, match="neither a directory nor the id"):
        infuser.from_pretrained(tmp_path / "not" / "there")
    hub.unreachable = True
    with pytest.raises(CheckpointError, match=r"cannot be uploaded .* no route to host"):
        infused.push_to_hub(REPO, **to)
    with pytest.raises(CheckpointError, match="can be fetched from the hub"):
        infuser.from_pretrained(REPO, cache_dir=tmp_path, endpoint=ENDPOINT)
    hub.unreachable = False
    hub.repos[REPO] = {"digests.json": b'{"files": {}}', "config.json": b"{}"}
    with pytest.raises(CheckpointError, match=r"holds no infused model"):
        infuser.from_pretrained(REPO, cache_dir=tmp_path, endpoint=ENDPOINT)
    hub.repos[REPO] = {"digests.json": b"[]"}
    with pytest.raises(CheckpointError, match=r"digests\.json of 'somebody/knows' is damaged"):
        infuser.from_pretrained(REPO, cache_dir=tmp_path / "more", endpoint=ENDPOINT)


@pytest.mark.slow
def test_a_portable_model_is_loaded_by_a_new_process_in_another_folder(graph: Path, tmp_path: Path) -> None:
    infused = infused_with(infuser.Graph(graph))
    infused.save(tmp_path / "out", portable=True)
    shutil.rmtree(graph)
    code = f"import infuser; print(infuser.load({str(tmp_path / 'out')!r}).sources[0].annotate({TEXTS!r})[0].links)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert "sold by" in child.stdout
