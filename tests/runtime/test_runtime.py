"""An exported classifier at work: answers, other sources, damage; and never a trace of torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from cli.commands import error_of, read_json_lines, run_command, write_lines
from miniatures import PAIRS, TEXTS, tiny_host, tiny_tokenizer
from tiny_infusions import shake

from infuser import Candidates, Entities, Graph, Infused, Types, infuse
from infuser.errors import CheckpointError, InputError, SourceError
from infuser.knowledge.builders import build_graph_from_files
from infuser.runtime import load
from infuser.runtime.card import CARD, GRAPH
from infuser.seals import seal
from infuser.sources import TokenClassifier

pytestmark = pytest.mark.slow

WITHOUT_TORCH = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from infuser.runtime import load
print(json.dumps(load(sys.argv[1], threads=1).predict(["the old bridge", "red"], ["of the river", None])))
assert "torch" not in sys.modules and "transformers" not in sys.modules
"""


def test_it_answers_without_torch_and_transformers(folder: Path, infused: Infused) -> None:
    child = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, folder], capture_output=True, text=True, check=True)
    with torch.inference_mode():
        batch = infused.batch(["the old bridge", "red"], ["of the river", None])
        expected = infused.model(**batch).logits.softmax(dim=-1).tolist()
    answers = json.loads(child.stdout)
    found = [list(answer["probabilities"].values()) for answer in answers]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert answers[0]["label"] == max(answers[0]["probabilities"], key=answers[0]["probabilities"].get)


COMMAND_WITHOUT_TORCH = WITHOUT_TORCH.partition("from infuser.runtime")[0] + "from infuser.cli import app\napp()\n"


def test_a_command_that_needs_torch_says_so_where_it_is_not_installed(folder: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", COMMAND_WITHOUT_TORCH, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("predict", str(folder), "--text", "the old bridge").returncode == 0
    refused = run("explain", "any", "--text", "the old bridge")
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert "This command needs transformers, which is not installed here" in " ".join(refused.stderr.split())
    assert "Traceback" in run("--debug", "explain", "any", "--text", "the old bridge").stderr


def test_answers_do_not_depend_on_the_batch(folder: Path) -> None:
    model = load(folder, threads=1)
    texts = [*TEXTS, "a", "the old bridge " * 30] * 3
    together = model.predict(texts, batch_size=4)
    for text, answer in zip(texts[:6], together[:6], strict=True):
        [alone] = model.predict([text])
        assert alone["label"] == answer["label"]
        np.testing.assert_allclose(
            list(alone["probabilities"].values()), list(answer["probabilities"].values()), atol=1e-5
        )
    assert model.predict(texts[0])[0]["label"] == together[0]["label"]


def test_inputs_and_logits_can_be_read(folder: Path) -> None:
    model = load(folder)
    batch = model.batch(TEXTS, PAIRS)
    assert batch.keys() == model.card.inputs.keys() and batch["knowledge_drawn"].any()
    assert model.logits(TEXTS, PAIRS).shape == (4, 3) and len(model.labels) == 3


def test_other_sources_take_the_place_of_the_saved_ones(folder: Path) -> None:
    model = load(folder)
    newer = model.with_sources([Entities({"metformin": "drug"})])
    texts = ["metformin tablets"]
    assert newer.predict(texts) != model.predict(texts)
    assert load(folder, sources=[Entities({"metformin": "drug"})]).predict(texts) == newer.predict(texts)
    assert [type(source) for source in model.sources] == [Entities] and model.sources != newer.sources
    with pytest.raises(SourceError, match="cannot take their place"):
        model.with_sources([Candidates({"metformin": {"Q1": 1}})])
    with pytest.raises(CheckpointError, match="exported with 1 sources, but 2 were given"):
        load(folder, sources=[Entities(["a"]), Entities(["b"])])


def test_a_source_that_needs_torch_is_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    load(folder, sources=[TokenClassifier.tiny()])
    assert "'token-classifier' reads with torch" in caplog.text


@pytest.mark.parametrize("name", [CARD, GRAPH, "tokenizer.json"])
def test_damage_is_noticed(folder: Path, tmp_path: Path, name: str) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        load(copied)
    (copied / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        load(copied)


def test_only_an_own_or_empty_folder_is_written(infused: Infused, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    write_lines(tmp_path / "mine" / "notes.txt", "precious")
    with pytest.raises(CheckpointError, match="holds other files"):
        infused.export(tmp_path / "mine")
    with pytest.raises(CheckpointError, match="is a file"):
        infused.export(tmp_path / "mine" / "notes.txt")


def test_a_broken_graph_leaves_no_folder(infused: Infused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(ValueError, match=r"cannot make a graph .* \(no such operator\)\. Predict with the saved"):
        infused.export(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_texts_are_checked(folder: Path) -> None:
    with pytest.raises(InputError, match="The batch is empty"):
        load(folder).logits([])
    assert load(folder).predict([]) == []
    with pytest.raises(InputError, match="2 texts but 1 pairs"):
        load(folder).predict(["a", "b"], ["c"])


def test_the_command_predicts_with_an_exported_folder(folder: Path, tmp_path: Path) -> None:
    texts = write_lines(tmp_path / "texts.txt", *TEXTS)
    result = run_command("predict", folder, texts, "--out", tmp_path / "out.jsonl")
    assert "4 texts labelled" in result.stderr
    answers = load(folder).predict(TEXTS)
    assert read_json_lines(tmp_path / "out.jsonl") == [
        {"text": text, **answer} for text, answer in zip(TEXTS, answers, strict=True)
    ]
    assert "probability" in run_command("predict", folder, "--text", TEXTS[0]).output
    assert "--no-knowledge" in error_of("predict", folder, "--text", "a", "--no-knowledge")


@pytest.mark.slow
def test_the_command_exports_a_run_as_it_exports_its_model(infused: Infused, tmp_path: Path) -> None:
    infused.save(tmp_path / "run" / "model")
    for place in ("run", "run/model"):
        run_command("export", tmp_path / place, "--out", tmp_path / "out" / place)
    of_run, of_model = (load(tmp_path / "out" / place).predict(TEXTS) for place in ("run", "run/model"))
    assert of_run == of_model


def test_a_portable_export_works_where_its_graph_is_gone(tmp_path: Path) -> None:
    built, triples = tmp_path / "graph", tmp_path / "triples.tsv"
    triples.write_text("bridge\tis_a\tbuilding\nriver\tis_a\twater\n")
    build_graph_from_files(built, [triples])
    host = tiny_host("bert", "sequence-classification", num_hidden_layers=1)
    infused = infuse(host, Types(), sources=[Graph(built)], tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    infused.export(tmp_path / "here", portable=True)
    expected = load(tmp_path / "here").predict(["the old bridge"])
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(built)
    shutil.rmtree(tmp_path / "here")
    assert load(tmp_path / "there").predict(["the old bridge"]) == expected


def test_a_model_that_reads_a_knowledge_base_refuses_sources_without_it(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    card = json.loads((copy / CARD).read_text())
    card["inputs"]["knowledge_drugs_vectors"] = ["float32", "texts", "drugs_vectors", 8]
    (copy / CARD).write_text(json.dumps(card))
    seal(copy)
    with pytest.raises(SourceError, match="reads the knowledge base 'drugs', which is not among"):
        load(copy)
