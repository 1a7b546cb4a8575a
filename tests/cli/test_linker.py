"""`infuser linker`: it learns from links and without any, goes on after a stop, and is measured strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.commands import error_of, run_command, save_checkpoint, write_lines
from cli.small_linkers import linked_rows, save_linker, write_json_lines, write_knowledge

import infuser
from infuser import EntityVectors
from infuser.hosts.loading import load_model
from infuser.linking.inference import find_mentions

FAST = ("--epochs", 14, "--batch-size", 8, "--learning-rate", 0.01)
CORPUS = ["the red book near the lake town", "the bank and the lake", "", "a red book at the bank", "the old lake"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Candidates, vectors, linked texts and a corpus."""
    folder = tmp_path_factory.mktemp("linking")
    write_knowledge(folder)
    write_json_lines(folder / "links.jsonl", linked_rows())
    write_lines(folder / "corpus.txt", *CORPUS)
    return folder


@pytest.fixture(scope="module")
def knowledge(folder: Path) -> tuple[Any, ...]:
    return "--candidates", folder / "cands", "--vectors", folder / "vecs"


@pytest.fixture(scope="module")
def run(checkpoint: Path, folder: Path, knowledge: tuple[Any, ...]) -> tuple[Path, str, str]:
    """The folder of a run with links, what it said, and what it said on the way."""
    links = ("--links", folder / "links.jsonl", "--dev", folder / "links.jsonl")
    result = run_command("linker", "train", checkpoint, *knowledge, *links, "--out", folder / "run", *FAST)
    return folder / "run", result.stdout, result.stderr


def table_of(told: str) -> dict[str, list[float]]:
    """Return the first line of each row of the printed table."""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in told.splitlines() if line.startswith("│")]
    return {row[0]: [float(cell) for cell in row[1:]] for row in rows if row[0]}


def test_a_run_teaches_a_linker_to_read_and_tells_how_it_compares(run: tuple[Path, str, str]) -> None:
    out, told, on_the_way = run
    assert "base: 100.0% of the entities" in told and "links: 24 examples" in told
    assert "loss" in on_the_way and "linking" in on_the_way  # with the parts of the loss
    table = table_of(told)
    assert list(table) == ["prior only", "most frequent", "linker"]
    assert all(row[3] == 1.0 for row in table.values())  # the ceiling is the candidates'
    assert table["linker"][2] > 0.9 > 0.7 > table["prior only"][2]
    assert f"infuser linker evaluate {out / 'model'}" in told
    record = json.loads((out / "train.json").read_text())
    assert record["finished"] and record["result"]["links"]["steps"] == 42
    assert record["result"]["dev"]["linker"]["counts"]["gold"] == 27
    infused = infuser.load(out / "model")
    linked = find_mentions(infused, ["bank of the river", "cheap at the bank"])
    assert [mentions[0].id for mentions in linked] == ["river bank", "money bank"]


def test_the_encoder_itself_stays_as_it_was(run: tuple[Path, str, str], checkpoint: Path) -> None:
    before, after = load_model(str(checkpoint), "encoder"), infuser.load(run[0] / "model").detach()
    weights = after.state_dict()
    assert all(bool((weights[name] == weight).all()) for name, weight in before.state_dict().items())


def test_the_same_command_again_trains_nothing_and_another_is_refused(
    run: tuple[Path, str, str], checkpoint: Path, folder: Path, knowledge: tuple[Any, ...]
) -> None:
    weights = (run[0] / "model" / "knowledge.safetensors").read_bytes()
    command = ("linker", "train", checkpoint, *knowledge, "--links", folder / "links.jsonl", "--out", run[0])
    again = run_command(*command, *FAST)
    assert "step" not in again.stderr.replace("steps", "")
    assert (run[0] / "model" / "knowledge.safetensors").read_bytes() == weights
    told = error_of(*command, "--epochs", 2)
    assert "epochs was 14, is 2" in told and "--restart" in told


def test_a_stopped_run_goes_on_where_it_was(
    run: tuple[Path, str, str], checkpoint: Path, folder: Path, knowledge: tuple[Any, ...], tmp_path: Path
) -> None:
    from infuser.linking.objective import LinkerAlone

    forward, calls = LinkerAlone.forward, iter(range(100))

    def stopped_at_the_twentieth(*given: Any, **named: Any) -> Any:
        if next(calls) == 20:
            raise KeyboardInterrupt
        return forward(*given, **named)

    command = ("linker", "train", checkpoint, *knowledge, "--links", folder / "links.jsonl", "--out", tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinkerAlone, "forward", stopped_at_the_twentieth)
        told = run_command(*command, *FAST, code=130).stderr
    assert "resumes from the last checkpoint" in told and not (tmp_path / "run" / "model").exists()
    told = run_command(*command, *FAST).stderr
    assert "step 2 of 42" not in told and "step 42 of 42" in told
    whole, stopped = (path / "model" / "knowledge.safetensors" for path in (run[0], tmp_path / "run"))
    assert whole.read_bytes() == stopped.read_bytes()


def test_a_corpus_alone_is_enough_and_comes_before_links(
    checkpoint: Path, folder: Path, knowledge: tuple[Any, ...], tmp_path: Path
) -> None:
    few = ("--epochs", 3, "--batch-size", 4, "--loss", "softmax")
    command = ("linker", "train", checkpoint, *knowledge, "--corpus", folder / "corpus.txt")
    told = run_command(*command, "--out", tmp_path / "one", *few).output
    assert "self-supervised: 12 examples" in told  # four texts with names that mean one thing, three times
    told = run_command(
        *command, "--links", folder / "links.jsonl", "--out", tmp_path / "two", *few, "--layer", 1
    ).output
    assert told.index("self-supervised: 3 steps") < told.index("links: 24 examples")
    one, two = (infuser.load(tmp_path / name / "model") for name in ("one", "two"))
    assert (one.model.base_model.knowledge["base"].layer, two.model.base_model.knowledge["base"].layer) == (0, 1)


def test_a_linker_is_trained_on_together_with_masked_words_and_next_sentences(
    checkpoint: Path, folder: Path, knowledge: tuple[Any, ...], tmp_path: Path
) -> None:
    links, few = ("--links", folder / "links.jsonl"), ("--epochs", 1, "--batch-size", 4)
    joint, train = ("--corpus", folder / "corpus.txt", *few), ("linker", "train", checkpoint, *knowledge, *links, *few)
    run_command(*train, "--task", "pretraining", "--out", tmp_path / "a")
    result = run_command("linker", "pretrain", tmp_path / "a" / "model", *joint, "--out", tmp_path / "b")
    assert "2 pairs with masked words, 2 of them" in result.output  # two documents with two sentences each
    assert all(part in result.stderr for part in ("linking", "masked words", "next sentence"))
    run_command(*train, "--task", "masked-lm", "--out", tmp_path / "c")
    result = run_command("linker", "pretrain", tmp_path / "c" / "model", *joint, "--out", tmp_path / "d")
    assert "4 texts with masked words, 4 of them" in result.output and "next sentence" not in result.stderr
    before, after = (infuser.load(tmp_path / name / "model").model.state_dict() for name in ("c", "d"))
    moved = {name for name, weight in before.items() if not bool((after[name] == weight).all())}
    assert any("knowledge" in name for name in moved) and any("knowledge" not in name for name in moved)


def test_a_model_without_a_head_for_masked_words_is_refused(run: tuple[Path, str, str], folder: Path) -> None:
    told = error_of(
        "linker", "pretrain", run[0] / "model", "--corpus", folder / "corpus.txt", "--out", folder / "joint"
    )
    assert "no head for masked words" in told and "--task" in told


def test_evaluation_tells_the_same_as_a_table_and_as_json(run: tuple[Path, str, str], folder: Path) -> None:
    told = run_command("linker", "evaluate", run[0] / "model", folder / "links.jsonl").stdout
    assert "27 gold mentions in 24 documents: 27 found as a span" in told
    said = json.loads(run_command("linker", "evaluate", run[0] / "model", folder / "links.jsonl", "--json").stdout)
    for name, row in table_of(told).items():
        assert row == [round(value, 3) for value in said[name]["measures"].values()]
    low, high = said["prior only"]["intervals"]["f1"]
    assert low < said["prior only"]["measures"]["f1"] < high
    nothing = run_command("linker", "evaluate", run[0], folder / "links.jsonl", "--threshold", 1000).stdout
    assert table_of(nothing)["linker"][:3] == [0.0, 0.0, 0.0]


def test_of_several_knowledge_bases_one_is_measured(folder: Path, tmp_path: Path) -> None:
    model = save_linker(tmp_path, names=("one", "two"))
    assert "--base one|two" in error_of("linker", "evaluate", model, folder / "links.jsonl")
    assert "it has one, two" in error_of("linker", "evaluate", model, folder / "links.jsonl", "--base", "three")
    told = run_command("linker", "evaluate", model, folder / "links.jsonl", "--base", "two").stdout
    assert table_of(told)["linker"][3] == 1.0


def test_links_to_entities_of_another_kind_are_refused_with_both_kinds(
    run: tuple[Path, str, str], checkpoint: Path, knowledge: tuple[Any, ...], tmp_path: Path
) -> None:
    rows = [{"text": "the bank", "spans": [{"start": 4, "end": 8, "id": "Q22687"}]}]
    links = write_json_lines(tmp_path / "other.jsonl", rows)
    commands = [
        ("linker", "train", checkpoint, *knowledge, "--links", links, "--out", tmp_path / "run"),
        ("linker", "evaluate", run[0], links),
    ]
    for command in commands:
        told = error_of(*command)
        assert "None of the 1 entity" in told and "'Q22687'" in told and "'lake'" in told
    nobody = write_json_lines(tmp_path / "nil.jsonl", [{"text": "the bank", "spans": []}])
    assert "says which entity" in error_of(*commands[0][:-3], nobody, *commands[0][-2:])


def test_texts_in_which_nothing_can_be_found_are_refused(
    checkpoint: Path, knowledge: tuple[Any, ...], tmp_path: Path
) -> None:
    train = ("linker", "train", checkpoint, *knowledge, "--out", tmp_path / "run")
    rows = [{"text": "the shore", "spans": [{"start": 4, "end": 9, "id": "river bank"}]}]
    told = error_of(*train, "--links", write_json_lines(tmp_path / "a.jsonl", rows))
    assert "finds no mention in any of 1 text" in told and "infuser candidates lookup" in told
    rows = [{"text": "the lake", "spans": [{"start": 4, "end": 8, "id": "river bank"}]}]
    told = error_of(*train, "--links", write_json_lines(tmp_path / "b.jsonl", rows))
    assert "the right entity for none" in told and "'lake', which means 'river bank'" in told
    told = error_of(*train, "--corpus", write_lines(tmp_path / "c.txt", "nothing is known", "about these"))
    assert "Nothing to learn from 2 texts" in told
    assert "There is not one text" in error_of(*train, "--corpus", write_lines(tmp_path / "empty.txt", ""))
    assert "no column 'text'" in error_of(*train, "--corpus", write_lines(tmp_path / "d.csv", "said", "the bank"))
    assert "Give what to learn from" in error_of(*train)
    assert not (tmp_path / "run").exists()


def test_candidates_without_vectors_are_an_error_unless_they_may_be_skipped(
    checkpoint: Path, folder: Path, tmp_path: Path
) -> None:
    few = EntityVectors.of(["river bank", "money bank"], np.eye(2, 8)).save(tmp_path / "few")
    other = EntityVectors.of(["Q1"], np.ones((1, 8))).save(tmp_path / "other")
    train = ("linker", "train", checkpoint, "--candidates", folder / "cands", "--links", folder / "links.jsonl")
    out = ("--out", tmp_path / "run", "--epochs", 1)
    assert "3 of 5 entities" in error_of(*train, "--vectors", few, *out)
    assert "'Q1'" in error_of(*train, "--vectors", other, *out, "--missing", "skip")
    told = run_command(*train, "--vectors", few, *out, "--missing", "skip").output
    assert "base: 40.0% of the entities" in told
    assert [one.text for one in find_mentions(infuser.load(tmp_path / "run" / "model"), "the bank of the lake")[0]] == [
        "bank"
    ]


def test_an_infused_checkpoint_gets_a_new_linker(
    run: tuple[Path, str, str], folder: Path, knowledge: tuple[Any, ...], tmp_path: Path
) -> None:
    command = ("linker", "train", run[0] / "model", *knowledge, "--links", folder / "links.jsonl", "--epochs", 1)
    assert "infused already" in run_command(*command, "--out", tmp_path / "run", "--name", "second").stderr
    assert infuser.load(tmp_path / "run" / "model").sources[0].name == "second"  # type: ignore[attr-defined]


def test_a_layer_that_the_encoder_does_not_have_is_refused(folder: Path, knowledge: tuple[Any, ...]) -> None:
    plain = save_checkpoint(folder / "plain")
    command = ("linker", "train", plain, *knowledge, "--links", folder / "links.jsonl", "--out", folder / "x")
    assert "this host has 2 blocks" in error_of(*command, "--layer", 7)
