"""`infuser annotate`: every format of input, malformed rows, going on, and what training takes from its cache."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.commands import COLUMNS, error_of, run_command, write_lines

from infuser.annotating import Annotated, read_frequencies
from infuser.sources import Entities

ROWS = [
    {"text": "Bern lies on the Aare", "pair": "New York"},
    {"text": "nothing, really", "pair": "the Aare"},
    {"text": 'a "quoted" Bern 🙂', "pair": "Bern"},
]


@pytest.fixture
def names(tmp_path: Path) -> str:
    path = write_lines(tmp_path / "names.tsv", "Bern\tcity", "Aare\triver", "New York\tcity")
    return f"entities={path}"


def write_table(folder: Path, ending: str) -> Path:
    path = folder / f"texts.{ending}"
    kind = ending.removesuffix(".gz")
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        return path
    separator = {"csv": ",", "tsv": "\t", "txt": "\t"}.get(kind)
    if kind == "json":
        content = json.dumps(ROWS)
    elif separator is None:
        content = "".join(json.dumps(row) + "\n" for row in ROWS)
    else:
        quoted = [[cell.replace('"', '""') for cell in row.values()] for row in ROWS]
        cells = quoted if kind == "csv" else [list(row.values()) for row in ROWS]
        lines = [separator.join(f'"{cell}"' if kind == "csv" else cell for cell in row) for row in cells]
        content = "".join(f"{line}\n" for line in ([] if kind == "txt" else [f"text{separator}pair"]) + lines)
    path.write_bytes(gzip.compress(content.encode()) if ending.endswith(".gz") else content.encode())
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json", "parquet", "txt", "csv.gz", "txt.gz", "json.gz"])
def test_every_kind_of_table_gives_the_same_annotations(ending: str, names: str, tmp_path: Path) -> None:
    data = write_table(tmp_path, ending)
    result = run_command("annotate", data, "--source", names, "--out", tmp_path / "out", "--no-cache")
    annotated = Annotated(tmp_path / "out")
    assert [{"text": one["text"], "pair": one["pair"]} for one in annotated] == ROWS
    assert [[span.id for span in one["annotations"][0].spans] for one in annotated] == [
        *(["Bern", "Aare", "New York"], ["Aare"], ["Bern", "Bern"])
    ]
    assert "3 texts" in result.output and "Bern (2 texts)" in result.output
    assert "3 of 3 texts" in result.stderr and "texts/s" in result.stderr  # a line instead of a bar
    assert dict(read_frequencies(tmp_path / "out")) == {"Aare": 2, "Bern": 2, "New York": 1}


def test_malformed_rows_are_counted_shown_and_skipped_or_stop_the_run(names: str, tmp_path: Path) -> None:
    data = tmp_path / "texts.jsonl"
    broken = [b'{"text": "Bern"}', b"{oops", b'{"text": 7}', b"[1]", b'{"words": "Bern"}', b'{"text": "\xff"}', b""]
    data.write_bytes(b"\n".join([*broken, b'{"text": "half \\ud83d"}', b'{"text": "Aare"}']))
    arguments = ("annotate", data, "--source", names, "--out", tmp_path / "out", "--no-cache")
    told = run_command(*arguments).stderr
    assert "6 rows cannot be read" in told
    assert all(f"line {number}" in told for number in (2, 3, 4, 5, 6)) and "line 8" not in told  # the first five
    assert "not JSON" in told and "'7' (int)" in told and "not UTF-8" in told
    annotated = Annotated(tmp_path / "out")
    assert [one["text"] for one in annotated] == ["Bern", "Aare"]
    assert annotated.about["about"]["skipped"]["rows"] == 6
    stopped = error_of(*arguments, "--strict")
    assert "line 2" in stopped and "--strict" in stopped


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", b'text,n\nBern,1\n"Aare,2\nmore,3\n', ["line 4", "quote that is not closed"]),
        ("t.csv", b"words,n\nBern,1\n", ["no column 'text'", "--text-column"]),
        ("t.csv", b"", ["empty"]),
        ("t.txt", b"\n\n", ["no texts"]),
        ("t.jsonl", b"{\n{\n", ["no texts", "2 rows", "line 1"]),
        ("t.json", b'[{"text": "Bern"}, {"te', ["not JSON"]),
        ("t.json", b'{"text": "Bern"}', ["no list"]),
        ("t.parquet", b"PAR1 no more", ["t.parquet", "Parquet"]),
        ("t.csv.gz", b"no gzip", ["t.csv.gz", "gzip"]),
        ("t.txt.gz", gzip.compress(b"Bern\n" * 9999)[:-20], ["t.txt.gz", "damaged"]),
        ("t.docx", b"", ["what kind of table", ".parquet"]),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_error(
    name: str, content: bytes, words: list[str], names: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    told = error_of("annotate", tmp_path / name, "--source", names, "--out", tmp_path / "out", "--no-cache")
    assert all(word in told for word in words), told


def test_rows_with_too_many_cells_are_skipped(names: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.csv", "text,pair", "Bern,Aare", "a,b,c", '"x" y,z', "Aare,Bern")
    told = run_command("annotate", data, "--source", names, "--out", tmp_path / "out", "--no-cache").stderr
    assert "2 rows" in told and "line 3: has 3 cells" in told and "line 4: is not CSV" in told
    assert [one["text"] for one in Annotated(tmp_path / "out")] == ["Bern", "Aare"]


def test_other_data_is_refused_and_restart_helps(names: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.txt", "Bern")
    arguments = ("annotate", data, "--source", names, "--out", tmp_path / "out", "--no-cache")
    run_command(*arguments)
    run_command(*arguments)  # the same again is no harm
    write_lines(data, "Aare")
    assert "other input" in error_of(*arguments)
    assert "--restart" in error_of(*arguments, "--phrases", write_lines(tmp_path / "p.txt", "lies on"))
    run_command(*arguments, "--restart")
    assert Annotated(tmp_path / "out")[0]["text"] == "Aare"


def test_knowledge_must_be_named_and_the_input_be_a_file(names: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.txt", "Bern")
    assert "No knowledge" in error_of("annotate", data, "--out", tmp_path / "out")
    assert "standard input" in error_of("annotate", "-", "--source", names, "--out", tmp_path / "out")
    both = ("--cache", tmp_path / "c", "--no-cache")
    assert "exclude" in error_of("annotate", data, "--source", names, "--out", tmp_path / "out", *both)


def test_training_takes_what_annotating_has_found(
    checkpoint: Path, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"entities={write_lines(tmp_path / 'names.txt', 'glipizide', 'adze', 'pharmacy')}"
    given = ("--source", source, "--cache", tmp_path / "cache")
    for which in ("train", "dev"):
        columns = ("--text-column", "query", "--pair-column", "ad")
        run_command("annotate", task / f"{which}.csv", *columns, *given, "--out", tmp_path / which)
    asked: list[str] = []
    ask = Entities.annotate
    monkeypatch.setattr(Entities, "annotate", lambda self, texts: asked.extend(texts) or ask(self, texts))
    arguments = ("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", *COLUMNS, "--epochs", 2)
    told = run_command(*arguments, *given, "--out", tmp_path / "run").output
    assert asked == [] and "entities: 24 links in 18 of 24 training texts" in told
    run_command(*arguments, "--source", source, "--no-cache", "--out", tmp_path / "anew")
    assert len(asked) == 48  # each text once, for all epochs
    first, second = (tmp_path / run / "model" / "knowledge.safetensors" for run in ("run", "anew"))
    assert first.read_bytes() == second.read_bytes()
