"""`infuser annotate`: every format of input, malformed rows, going on, and what training takes from its cache."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.commands import COLUMNS, error_of, run_command, write_lines
from spark_cluster import MASTER, needs_spark, spark_local  # noqa: F401  a fixture

from infuser.knowledge.artifact import kind_of
from infuser.knowledge.graph.build import build_graph, facts_of
from infuser.knowledge.graph.store import save_graph
from infuser.sources import Entities
from infuser.sources.annotating import Annotated, read_frequencies

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
    path.write_bytes(gzip.compress(content.encode(), mtime=0) if ending.endswith(".gz") else content.encode())
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
    assert "6 rows could not be read" in told
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
        ("t.csv", b'text,n\nBern,1\n"Aare,2\nmore,3\n', ["line 3", "opens a quote", "not closed"]),
        ("t.csv", b"\x7fELF\xff\x00\n\xfe\xff\n", ["line 1", "not UTF-8"]),
        ("t.csv", b"text,n\rBern,1\rAare,2\r", ["line 1", "carriage return"]),
        ("t.csv", b"words,n\nBern,1\n", ["no column 'text'", "--text-column"]),
        ("t.csv", b"", ["empty"]),
        ("t.txt", b"\n\n", ["no texts"]),
        ("t.jsonl", b"{\n{\n", ["no texts", "2 rows", "line 1"]),
        ("t.jsonl", b"{\n", ["1 row cannot be read"]),
        ("t.json", b'[{"text": "Bern"}, {"te', ["not JSON"]),
        ("t.json", b'{"text": "Bern"}', ["no list"]),
        ("t.parquet", b"PAR1 no more", ["t.parquet", "Parquet", "not a parquet file. Write"]),
        ("t.csv.gz", b"no gzip", ["t.csv.gz", "gzip"]),
        ("t.txt.gz", gzip.compress(b"Bern\n" * 9999, mtime=0)[:-20], ["t.txt.gz", "damaged"]),
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


def test_lines_of_a_csv_that_are_no_utf8_cost_their_rows_and_no_other(names: str, tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    rows = [b"text,pair", b"Bern,\xff", b'"the', b"\xc3( \xe4", b'Aare",x', b"Aare,y", b'"\xff', b'",z', b"New York,z"]
    data.write_bytes(b"\n".join(rows))
    result = run_command("annotate", data, "--source", names, "--out", tmp_path / "out", "--no-cache")
    assert "3 rows could not be read" in result.stderr
    assert all(f"line {number}: is not UTF-8" in result.stderr for number in (2, 4, 7)), result.stderr
    assert [one["text"] for one in Annotated(tmp_path / "out")] == ["Aare", "New York"]
    assert "line 2" in error_of("annotate", data, "--source", names, "--out", tmp_path / "out", "--strict")


def test_one_of_a_thing_is_told_in_the_singular(names: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.csv", "text,pair", "Bern,x", "a,b,c")
    result = run_command("annotate", data, "--source", names, "--out", tmp_path / "out", "--no-cache")
    assert "1 row could not be read and was skipped" in result.stderr
    assert "1 text in " in result.output and "Bern (1 text)" in result.output
    assert "1 of 1 text" in result.stderr


def test_spans_without_ids_are_not_called_nothing(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.txt", "Bern lies on the Aare", "it lies on")
    arguments = ("--out", tmp_path / "out", "--no-cache")
    told = run_command("annotate", data, "--source", "phrases,phrases=['lies on']", *arguments).output
    assert "2 spans, none with an entity id, so there are no entity frequencies" in told
    assert "spelled" not in told
    told = run_command("annotate", data, "--source", "phrases,phrases=['far away']", *arguments, "--restart").output
    assert "Nothing was found" in told and "spelled" in told


def test_a_mistyped_source_does_not_block_the_folder(names: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.txt", "Bern")
    arguments = ("annotate", data, "--out", tmp_path / "out", "--no-cache")
    assert "nowhere" in error_of(*arguments, "--source", f"spacy-phrases={tmp_path / 'nowhere'}")
    run_command(*arguments, "--source", names)
    assert Annotated(tmp_path / "out").source_names == ["entities"]


def test_restart_is_advised_only_where_it_helps(names: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.txt", "Bern")
    save_graph(build_graph(facts_of([("Bern", "on", "Aare")])), tmp_path / "graph")
    arguments = ("annotate", data, "--source", names, "--no-cache", "--out")
    told = error_of(*arguments, tmp_path / "graph")
    assert "graph folder" in told and "--restart" not in told and "another --out" in told
    assert "graph folder" in error_of(*arguments, tmp_path / "graph", "--restart")
    assert kind_of(tmp_path / "graph") == "graph"
    run_command(*arguments, tmp_path / "out")
    write_lines(tmp_path / "out" / "about.json", '{"kind": ')
    assert "about.json is damaged" in (told := error_of(*arguments, tmp_path / "out")) and "--restart" in told
    run_command(*arguments, tmp_path / "out", "--restart")
    assert len(Annotated(tmp_path / "out")) == 1


def test_workers_started_by_the_command_write_the_same_bytes(names: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.txt", *(f"Bern lies on the Aare, says {n}" for n in range(4500)))
    arguments = ["annotate", data, "--source", names, "--no-cache", "--out"]
    run_command(*arguments, tmp_path / "alone")
    command = [sys.executable, "-m", "infuser", *map(str, arguments), str(tmp_path / "team"), "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert child.returncode == 0, child.stderr
    assert "4,500 texts" in child.stdout and "4,500 of 4,500 texts" in child.stderr
    alone, team = ({path.name: path.read_bytes() for path in (tmp_path / of).iterdir()} for of in ("alone", "team"))
    assert team == alone and len(alone) == 5  # three shards


@pytest.mark.slow
@needs_spark
@pytest.mark.usefixtures("spark_local")
def test_spark_started_by_the_command_writes_the_same_bytes(names: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.txt", *(f"Bern lies on the Aare, says {n}" for n in range(4500)))
    arguments = ["annotate", data, "--source", names, "--no-cache", "--out"]
    run_command(*arguments, tmp_path / "alone")
    result = run_command(*arguments, tmp_path / "spark", "--engine", "spark", "--master", MASTER)
    assert "4,500 texts" in result.output and "4,500 of 4,500 texts" in result.stderr
    alone, spark = ({path.name: path.read_bytes() for path in (tmp_path / of).iterdir()} for of in ("alone", "spark"))
    assert spark == alone and len(alone) == 5  # three shards


def test_the_settings_of_one_engine_are_refused_with_the_other(names: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.txt", "Bern")
    arguments = ("annotate", data, "--source", names, "--no-cache", "--out", tmp_path / "out")
    assert "--master 'local[4]'" in error_of(*arguments, "--engine", "spark", "--workers", 2)
    assert "--engine spark" in error_of(*arguments, "--master", MASTER)


def test_other_data_is_refused_and_restart_helps(names: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "t.txt", "Bern")
    arguments = ("annotate", data, "--source", names, "--out", tmp_path / "out", "--no-cache")
    run_command(*arguments)
    run_command(*arguments)  # the same again is no harm
    write_lines(data, "Aare")
    assert "input.sha256 was" in error_of(*arguments)
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
    assert asked == [] and "24 links in 18 of 24 training texts" in told
    run_command(*arguments, "--source", source, "--no-cache", "--out", tmp_path / "anew")
    assert len(asked) == 48  # each text once, for all epochs
    first, second = (tmp_path / run / "model" / "knowledge.safetensors" for run in ("run", "anew"))
    assert first.read_bytes() == second.read_bytes()
