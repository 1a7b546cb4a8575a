"""`infuser diagnose`: trained once on a miniature, asked in several ways; and what it refuses before it begins."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.commands import COLUMNS, MEDICINES, TOOLS, error_of, examples_of, run_command, write_csv
from typer.testing import Result

from infuser.analysis.diagnose.result import Diagnosis, Flip
from infuser.experiments.data import Data
from infuser.files import digest_of
from infuser.tables.examples import Columns

SMALL = ("--sizes", 0.5, "--corrupt", 0.5)


@pytest.fixture(scope="module")
def runs(checkpoint: Path, task: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Two infused runs of different seeds, and test examples, one of which has an entity that training texts have."""
    folder = tmp_path_factory.mktemp("diagnosed")
    for seed in (0, 1):
        run_command(
            *("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", *COLUMNS, "--seed", seed),
            *("--graph", task / "triples.tsv", "--aliases", task / "names.tsv", "--out", folder / f"run-{seed}"),
            *("--epochs", 8, "--batch-size", 8, "--learning-rate", 0.003, "--new-learning-rate", 0.01),
            *("--metric", "accuracy"),  # AUC is perfect before the answers are
        )
    rows = examples_of(MEDICINES[2:], TOOLS[2:])
    rows.append({"query": "buy glipizide", "ad": "the pharmacy near me", "verdict": "good"})
    return folder / "run-0", folder / "run-1", write_csv(folder / "test.csv", rows)


@pytest.fixture(scope="module")
def diagnosed(runs: tuple[Path, Path, Path]) -> tuple[Result, Diagnosis]:
    """What the command says about both runs together, and the numbers it leaves."""
    result = run_command("diagnose", *runs[:2], "--data", runs[2], *SMALL)
    text = (runs[0] / "diagnose" / "diagnosis.json").read_text(encoding="utf-8")
    return result, Diagnosis.from_json(text)


@pytest.fixture
def copied(trained: Path, task: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a maker of copies of a finished run, with other values in its record and data files of its own."""

    def make(name: str, **changes: Any) -> Path:
        run = tmp_path / name
        shutil.copytree(trained, run, ignore=shutil.ignore_patterns("diagnose"))
        record = json.loads((run / "train.json").read_text())
        del record["sha256"]  # as the first records, which had no digest
        record["made_with"] |= changes
        shutil.copy(task / "train.csv", tmp_path / "train.csv")
        record["files"]["data"]["path"] = str(tmp_path / "train.csv")
        (run / "train.json").write_text(json.dumps(record))
        return run

    return make


@pytest.mark.slow
def test_runs_of_two_seeds_get_a_verdict_against_baseline_and_placebo(diagnosed: tuple[Result, Diagnosis]) -> None:
    result, found = diagnosed
    assert found.comparison is not None
    assert [arm.name for arm in found.comparison.arms] == ["plain", "kam", "placebo"]
    pairs = [(one.arm, one.against) for one in found.comparison.differences]
    assert pairs == [("kam", "plain"), ("placebo", "plain"), ("kam", "placebo")]
    assert all(len(arm.per_seed) == 2 for arm in found.comparison.arms)
    assert found.comparison.arms[1].mean > found.comparison.arms[0].mean + 0.2  # the graph knows what training did not
    told = " ".join(result.output.split())
    assert "No text arm: the sources provide neither types nor terms." in told
    assert found.sentence in told and "over 2 seeds" in found.sentence and "rarest entity" in told


@pytest.mark.slow
def test_the_numbers_tell_where_knowledge_acts(diagnosed: tuple[Result, Diagnosis]) -> None:
    found = diagnosed[1]
    assert {bucket.name: bucket.n_examples for bucket in found.buckets} == {"in no text": 24, "in 1 to 9 texts": 1}
    shares, scores = zip(*found.corruption["kam"], strict=True)
    assert shares == (0, 0.5) and scores[1] < scores[0]
    assert len({score for _, score in found.corruption["plain"]}) == 1  # a level line
    assert scores[0] == pytest.approx(found.comparison.arms[1].mean)  # type: ignore[union-attr]
    assert list(found.angles) == ["layer 0", "layer 1"]
    assert all(0 <= cosine <= 1 + 1e-9 for points in found.angles.values() for _, cosine in points)
    assert list(found.spectra) == ["kam, 12 examples", "kam, 24 examples", "plain, 24 examples"]
    (channel,) = found.channels
    assert channel.name == "graph" and channel.difference.mean > 0.2
    mended = found.clearest(mended=True)
    assert mended and all(flip.n_seeds == 2 and flip.after > flip.before for flip in mended)
    assert found.explanations[0].text == mended[0].text and "graph" in found.explanations[0].maps
    assert len(found.explanations) == min(2, len(mended)) + min(2, len(found.clearest(mended=False)))
    assert "dev examples" not in " ".join(found.notes)


@pytest.mark.slow
def test_the_page_shows_it_and_lies_in_the_first_run(
    runs: tuple[Path, Path, Path], diagnosed: tuple[Result, Diagnosis]
) -> None:
    page = (runs[0] / "diagnose" / "diagnosis.html").read_text(encoding="utf-8")
    assert diagnosed[1].sentence in page and page.count('class="chart"') == 6
    assert str(runs[0] / "diagnose" / "diagnosis.html") in diagnosed[0].output.replace("\n", "")


@pytest.mark.slow
def test_one_run_with_what_was_trained_before_says_that_more_seeds_are_needed(
    runs: tuple[Path, Path, Path], diagnosed: tuple[Result, Diagnosis], tmp_path: Path
) -> None:
    result = run_command("diagnose", runs[0], *SMALL, "--out", tmp_path)
    assert result.stderr.count("trained before") == 3 and "step" not in result.stderr  # plain, placebo, half the data
    found = Diagnosis.from_json((tmp_path / "diagnosis.json").read_text(encoding="utf-8"))
    assert found.verdict == "no evidence" and "run at least two seeds" in found.sentence
    assert any("chosen on them" in note for note in found.notes)  # without --data


@pytest.fixture
def speaking(checkpoint: Path, task: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a trainer of runs whose source has terms, which can be written behind a text."""

    def train(name: str, *options: object) -> Path:
        run_command(
            *("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", *COLUMNS, "--out", tmp_path / name),
            *("--graph", task / "triples.tsv", "--aliases", task / "names.tsv", "--terms", 2, "--batch-size", 8),
            *("--learning-rate", 0.003, *options),
        )
        return tmp_path / name

    return train


@pytest.mark.slow
def test_the_same_knowledge_as_text_is_an_arm_where_sources_have_something_to_write(
    speaking: Callable[..., Path], tmp_path: Path
) -> None:
    run = speaking("run", "--epochs", 1)

    def diagnosis(*arguments: object) -> tuple[str, Diagnosis]:
        shown = run_command("diagnose", run, *arguments, *SMALL, "--out", tmp_path).output
        return " ".join(shown.split()), Diagnosis.from_json((tmp_path / "diagnosis.json").read_text(encoding="utf-8"))

    _, found = diagnosis("--no-text")
    assert found.comparison is not None and not (run / "diagnose" / "text-0").exists()
    assert [arm.name for arm in found.comparison.arms] == ["plain", "kam", "placebo"]
    assert not any("text run" in note for note in found.notes)
    shown, found = diagnosis("--no-training")
    assert found.comparison is not None and [arm.name for arm in found.comparison.arms] == ["plain", "kam", "placebo"]
    assert "Not every infused run has its text run" in shown
    shown, found = diagnosis()
    assert found.comparison is not None
    assert [arm.name for arm in found.comparison.arms] == ["plain", "kam", "text", "placebo"]
    assert found.comparison.arms[2].extra_weights == 0
    pairs = [(one.arm, one.against) for one in found.comparison.differences]
    assert pairs[-2:] == [("kam", "text"), ("kam", "placebo")]
    assert list(found.buckets[0].values) == ["plain", "kam", "text", "placebo"]
    assert len({score for _, score in found.corruption["placebo"]}) == 1 and len(found.corruption["text"]) == 2
    assert "kam differs from text" in (tmp_path / "diagnosis.html").read_text(encoding="utf-8") and " text " in shown
    made = json.loads((run / "diagnose" / "text-0" / "train.json").read_text())["made_with"]
    assert made["method"]["kind"] == "text" and "graph" in made["knowledge"][0]
    _, named = diagnosis(run / "diagnose" / "text-0", "--no-training")  # named, it is found as well
    assert named.comparison == found.comparison


@pytest.mark.slow
def test_runs_that_read_their_knowledge_as_text_have_no_such_arm_beside_them(
    speaking: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip = Flip("buy glipizide", "the pharmacy near me", "good", True, 1, 0.2, 0.6)  # so that there is one to explain
    monkeypatch.setattr("infuser.analysis.diagnose.diagnose.flips", lambda *_: [flip])
    run_command("diagnose", speaking("run", "--method", "text", "--epochs", 1), *SMALL, "--out", tmp_path)
    found = Diagnosis.from_json((tmp_path / "diagnosis.json").read_text(encoding="utf-8"))
    assert found.comparison is not None and [arm.name for arm in found.comparison.arms] == ["plain", "text", "placebo"]
    assert not any("text run" in note or "No text arm" in note for note in found.notes)
    assert found.explanations[0].written == "glipizide: is a pharmacy"


def test_without_training_and_without_the_other_arms_there_is_no_verdict(
    copied: Callable[..., Path], tmp_path: Path
) -> None:
    alone = copied("alone")
    told = run_command("diagnose", alone, "--no-training", *SMALL, "--out", tmp_path / "page").output
    found = Diagnosis.from_json((tmp_path / "page" / "diagnosis.json").read_text(encoding="utf-8"))
    assert found.comparison is None and found.verdict is None and found.flips == [] and found.metric == "AUC"
    assert "No verdict" in told and "its plain and its placebo run, so nothing is compared" in " ".join(told.split())
    assert list(found.buckets[0].values) == ["kam"] and list(found.corruption) == ["kam"]
    assert list(found.spectra) == ["kam, 24 examples"] and found.channels[0].difference.mean > 0.2
    assert not (alone / "diagnose").exists()
    page = (tmp_path / "page" / "diagnosis.html").read_text(encoding="utf-8")
    assert "No verdict" in page and "Results" not in page and "minus" not in page


def test_runs_that_differ_in_more_than_the_seed_are_refused(copied: Callable[..., Path]) -> None:
    told = error_of("diagnose", copied("one"), copied("two", seed=1, learning_rate=0.1, knowledge=["graph (0)"]))
    assert "learning_rate is 0.003 and 0.1" in told and "knowledge is" in told and "seed is" not in told
    told = error_of("diagnose", copied("three"), copied("four"))
    assert "both kam runs of seed 0" in told
    told = error_of("diagnose", copied("five"), copied("six", arm="plain", knowledge=[], spectral=0.1))
    assert "spectral is None and 0.1" in told and "knowledge" not in told
    assert "at least one that has knowledge" in error_of("diagnose", copied("seven", arm="plain"))


def test_a_data_file_that_changed_or_is_gone_is_named(copied: Callable[..., Path], tmp_path: Path) -> None:
    run, data = copied("run"), tmp_path / "train.csv"
    data.write_text(data.read_text() + "buy adze,the shop near me,good\n")
    assert f"{data} has changed since {run}" in error_of("diagnose", run)
    data.unlink()
    assert f"{data} is gone" in error_of("diagnose", run)


def test_a_folder_that_cannot_be_diagnosed_says_why(copied: Callable[..., Path], tmp_path: Path) -> None:
    run = copied("run")
    assert f"Give the folder above it, {run}" in error_of("diagnose", run / "model")
    assert "--corrupt takes shares between 0 and 1, not 2" in error_of("diagnose", run, "--corrupt", 2)
    record = json.loads((run / "train.json").read_text())
    (run / "train.json").write_text(json.dumps(record | {"finished": False}))
    assert "is not finished" in error_of("diagnose", run)
    del record["made_with"]["arm"], record["files"]  # as older versions wrote it
    (run / "train.json").write_text(json.dumps(record))
    told = error_of("diagnose", run)
    assert "(arm)" in told and "with --restart" in told


def test_runs_that_held_out_their_own_dev_examples_need_test_data(copied: Callable[..., Path]) -> None:
    folders = [copied("one"), copied("two", seed=1)]
    for run in folders:
        record = json.loads((run / "train.json").read_text())
        record["files"]["dev"] = None
        del record["made_with"]["data_seed"]  # as an earlier version wrote it: each seed held out another tenth
        data, seed = record["files"]["data"]["path"], record["made_with"]["seed"]
        held_out = Data.from_table(data, columns=Columns(**record["made_with"]["columns"]), seed=seed).dev
        record["made_with"]["dev"] = digest_of(held_out)
        (run / "train.json").write_text(json.dumps(record))
    assert "--data FILE" in error_of("diagnose", *folders)


def test_help_teaches_with_two_examples() -> None:
    told = run_command("diagnose", "--help").output
    assert told.count("infuser diagnose runs/mine") == 2 and "--no-training" in told
