from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import error_of, run_command, write_lines

from infuser import Correlation
from infuser.knowledge.correlation.store import CorrelationStore

TEXTS = [
    "Glipizide is a drug.",
    "A drug store sells glipizide and other drugs.",
    "An adze is a tool.",
    "The tool store.",
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "corpus.txt", *(TEXTS * 3))


@pytest.fixture
def company(corpus: Path, tmp_path: Path) -> Path:
    out = tmp_path / "company"
    run_command("correlation", "build", corpus, "--out", out, "--min-count", "1")
    return out


def test_a_corpus_becomes_a_folder_and_says_what_is_in_it(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "company"
    said = run_command("correlation", "build", corpus, "--out", out, "--stop-words", "english").stdout
    assert f"{out}: " in said and "in 12 texts" in said
    store = CorrelationStore.open(out)
    assert store.pair("drug", "glipizide").together == 6
    assert not Path(f"{out}.unfinished").exists()
    (found,) = Correlation.load(out).annotate(["buy glipizide at the drug store"])
    assert {span.id for span in found.spans} == {"glipizide", "drug"}  # "store" is with "drug" as often as by chance


def test_a_built_folder_is_a_source_of_the_other_commands(company: Path, corpus: Path, tmp_path: Path) -> None:
    for flags in (("--correlation", company), ("--source", company), ("--source", f"{company},n_terms=1")):
        said = run_command("annotate", corpus, "--out", tmp_path / "notes", "--restart", "--no-cache", *flags).stdout
        assert "correlation" in said


def test_two_columns_are_counted_as_pairs(tmp_path: Path) -> None:
    rows = ['{"query": "buy glipizide", "ad": "drug store"}', '{"query": "adze", "ad": "tool shop"}'] * 3
    out = tmp_path / "logs"
    table = write_lines(tmp_path / "logs.jsonl", *rows)
    columns = ("--unit", "pair", "--text-column", "query", "--pair-column", "ad", "--min-count", "1")
    run_command("correlation", "build", table, "--out", out, *columns)
    said = json.loads(run_command("correlation", "show", out, "Glipizide", "--json").stdout)
    assert [one["word"] for one in said["neighbours"]] == ["drug", "store"]
    said = json.loads(run_command("correlation", "show", out, "drug", "--side", "right", "--json").stdout)
    assert [one["word"] for one in said["neighbours"]] == ["buy", "glipizide"]


def test_neighbours_are_shown(company: Path) -> None:
    said = run_command("correlation", "show", company, "adze").stdout
    assert "adze: 3 of 12 sentences" in said
    assert "NPMI" in said and "tool" in said
    assert "'unheard'" in error_of("correlation", "show", company, "unheard")


def test_counts_are_scored_anew_without_the_corpus(company: Path, corpus: Path, tmp_path: Path) -> None:
    corpus.unlink()
    other = tmp_path / "other"
    run_command("correlation", "score", company, "--score", "pmi", "--smoothing", "0.5", "--out", other)
    store = CorrelationStore.open(other)
    assert store.scoring.score == "pmi" and store.scoring.smoothing == 0.5
    assert store.pair("drug", "glipizide").together == 6


@pytest.mark.parametrize(("name", "begin"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_scores_are_drawn(company: Path, tmp_path: Path, name: str, begin: bytes) -> None:
    run_command("correlation", "plot", company, "--out", tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begin)
    assert "no picture" in error_of("correlation", "plot", company, "--out", tmp_path / "plot.docx")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--memory", "lots"), "500M or 2G"),
        (("--memory", "1M"), "too little"),
        (("--stop-words", "klingon"), "english"),
        (("--master", "local[2]"), "--engine spark"),
        (("--format", "csv"), "'text'"),
    ],
)
def test_flags_that_cannot_be_used_are_one_clear_error(
    corpus: Path, tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    assert said in error_of("correlation", "build", corpus, "--out", tmp_path / "out", *flags)
    assert not (tmp_path / "out").exists()


def test_another_folder_is_left_alone(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    write_lines(tmp_path / "mine" / "diary.txt", "x")
    assert "left alone" in error_of("correlation", "build", corpus, "--out", tmp_path / "mine")


def test_bad_rows_are_shown_and_strict_stops(tmp_path: Path) -> None:
    table = write_lines(tmp_path / "t.jsonl", '{"text": "one two"}', "no json", '{"text": "one two"}')
    result = run_command("correlation", "build", table, "--out", tmp_path / "out", "--min-count", "1")
    assert "1 row could not be read" in result.stderr and "t.jsonl, line 2" in result.stderr
    said = error_of("correlation", "build", table, "--out", tmp_path / "strict", "--strict")
    assert "line 2" in said and "--strict" in said
