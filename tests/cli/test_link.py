"""`infuser link`: what it writes about files and shows about one text, and which mistakes it catches."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.commands import error_of, read_json_lines, run_command, write_lines
from cli.small_linkers import save_linker
from miniatures import tiny_host, tiny_tokenizer

import infuser
from infuser.knowledge.facts import ENTITIES
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import save_graph
from infuser.linking.inference import find_mentions

TEXTS = ["the bank of the lake town", "cheap tablets", "the red book\tand  the bank"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_linker(tmp_path_factory.mktemp("linker"))


def test_a_file_becomes_json_lines_in_its_order(model: Path, tmp_path: Path) -> None:
    data, out = write_lines(tmp_path / "texts.txt", *TEXTS), tmp_path / "links.jsonl"
    told = run_command("link", model, data, "--out", out, "--all").stderr
    records = read_json_lines(out)
    assert [record["text"] for record in records] == TEXTS
    linked = find_mentions(infuser.load(model), TEXTS)
    for record, mentions in zip(records, linked, strict=True):
        assert [(m["start"], m["end"], m["text"], m["id"]) for m in record["mentions"]] == [
            (m.start, m.end, m.text, m.id) for m in mentions
        ]
        for written, mention in zip(record["mentions"], mentions, strict=True):
            assert written["score"] == pytest.approx(mention.score, abs=1e-4)
            assert [one["id"] for one in written["candidates"]] == [one.id for one in mention.candidates]
            assert set(written["candidates"][0]) == {"id", "prior", "score"}
    n_links = sum(mention.id is not None for mentions in linked for mention in mentions)
    assert f"3 texts, 5 mentions, {n_links} links in {out}; " in told and "words/s" in told
    assert {*tmp_path.iterdir()} == {data, out}  # nothing unfinished is left


def test_what_is_written_can_be_chosen(model: Path, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "texts.txt", TEXTS[0])
    [everything] = map(json.loads, run_command("link", model, data, "--all").stdout.splitlines())
    [linked] = map(json.loads, run_command("link", model, data, "--candidates", 1, "--no-text").stdout.splitlines())
    assert "text" not in linked and all(len(one["candidates"]) == 1 for one in linked["mentions"])
    assert [one["id"] for one in linked["mentions"]] == [one["id"] for one in everything["mentions"] if one["id"]]
    assert any(one["id"] is None for one in everything["mentions"])  # lake, or lake town
    bare = run_command("link", model, data, "--candidates", 0, "--threshold", 1000, "--all").stdout
    assert all("candidates" not in one and one["id"] is None for one in json.loads(bare)["mentions"])
    assert json.loads(run_command("link", model, data, "--threshold", 1000).stdout)["mentions"] == []


@pytest.mark.parametrize("name", ["new.csv", "new.tsv", "new.jsonl", "new.parquet"])
def test_every_kind_of_table_reads_the_same(name: str, model: Path, tmp_path: Path) -> None:
    path, texts = tmp_path / name, ["the bank", "", "a red book"]
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"said": texts, "number": [1, 2, 3]}), path)
    elif path.suffix == ".jsonl":
        write_lines(path, *(json.dumps({"said": text}) for text in texts))
    else:
        sign = "," if path.suffix == ".csv" else "\t"
        write_lines(path, f"said{sign}number", *(f"{text}{sign}{i}" for i, text in enumerate(texts)))
    result = run_command("link", model, path, "--text-column", "said")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["text"] for record in records] == texts
    assert [[one["text"] for one in record["mentions"]] for record in records] == [["bank"], [], ["red book"]]


def test_several_files_are_told_apart_and_lines_are_kept(model: Path, tmp_path: Path) -> None:
    one = write_lines(tmp_path / "one.txt", "the bank", "", "the lake")
    other = write_lines(tmp_path / "other.txt", "a\tbank\tof\tthe\tlake")
    records = [json.loads(line) for line in run_command("link", model, one, other).stdout.splitlines()]
    assert [record["file"] for record in records] == [str(one)] * 3 + [str(other)]
    assert [record["text"] for record in records] == ["the bank", "", "the lake", "a\tbank\tof\tthe\tlake"]
    assert [one["start"] for one in records[3]["mentions"]] == [2, 14]


def test_standard_input_is_read_as_it_comes(model: Path) -> None:
    told = run_command("link", model, "-", stdin="the bank\tof a lake\nnothing\n")
    records = [json.loads(line) for line in told.stdout.splitlines()]
    assert [record["text"] for record in records] == ["the bank\tof a lake", "nothing"]
    assert [one["text"] for one in records[0]["mentions"]] == ["bank", "lake"]


def test_one_text_is_shown_as_a_table_with_runners_up(model: Path, tmp_path: Path) -> None:
    told = run_command("link", model, "--text", TEXTS[0]).output
    assert "4-8" in told and "runner-up" in told and "river bank" in told and "money bank" in told
    assert "Nothing was linked" in run_command("link", model, "--text", "cheap").output
    assert "lake town" in run_command("link", model.parent, "--text", TEXTS[0], "--all").output  # the folder of a run


def test_the_folder_of_a_run_stands_for_its_model(tmp_path: Path) -> None:
    model = save_linker(tmp_path)
    of_run, of_model = (run_command("link", place, "--text", TEXTS[0]).output for place in (model.parent, model))
    assert of_run == of_model != ""


def test_entities_are_called_by_their_labels(model: Path, tmp_path: Path) -> None:
    table = write_lines(tmp_path / "names.tsv", "id\tlabel", "river bank\tshore", "money bank\tcredit institute")
    rows = [{"id": "red book", "label": "a notebook"}]
    graph = save_graph(build_graph([pa.RecordBatch.from_pylist(rows, schema=ENTITIES)]), tmp_path / "graph")
    data = write_lines(tmp_path / "texts.txt", "the bank", "the red book")
    labels = {}
    for source in (table, graph):
        lines = run_command("link", model, data, "--labels", source).stdout.splitlines()
        labels[source] = [[one.get("label") for one in json.loads(line)["mentions"]] for line in lines]
    assert labels[table][0][0] in ("shore", "credit institute") and labels[table][1] == [None]
    assert labels[graph] == [[None], ["a notebook"]]
    assert "a notebook" in run_command("link", model, "--text", "the red book", "--labels", graph).output


def test_with_two_knowledge_bases_it_is_said_whose_an_entity_is(tmp_path: Path) -> None:
    model = save_linker(tmp_path, names=("one", "two"))
    data = write_lines(tmp_path / "texts.txt", "the bank")
    record = json.loads(run_command("link", model, data).stdout)
    assert [one["base"] for one in record["mentions"]] == ["one", "two"]
    assert "two" in run_command("link", model, "--text", "the bank").output


def test_wrong_calls_are_refused_with_what_to_do(model: Path, checkpoint: Path, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "texts.txt", "the bank")
    assert "either files" in error_of("link", model)
    assert "either files" in error_of("link", model, data, "--text", "the bank")
    assert "is a file that is read" in error_of("link", model, data, "--out", data)
    assert "No file at" in error_of("link", model, tmp_path / "none.txt")
    assert "infuser linker train" in error_of("link", checkpoint, data, code=1)
    assert "infuser linker train" in error_of("link", tmp_path / "nowhere", data, code=1)
    table = write_lines(tmp_path / "table.csv", "texts,id", "the bank,1")
    told = error_of("link", model, table)
    assert "no column 'text'" in told and "Did you mean 'texts'?" in told and "--text-column" in told


def test_a_model_with_another_method_is_refused(tmp_path: Path) -> None:
    host, names = tiny_host("bert").float(), infuser.Entities({"bank": "place"})
    infuser.infuse(host, infuser.Kam(), sources=[names], tokenizer=tiny_tokenizer("bert")).save(tmp_path / "model")
    told = error_of("link", tmp_path / "model", "--text", "the bank")
    assert "no linker: it was infused with kam" in told and "infuser linker train" in told


def test_a_broken_line_is_known_before_the_work_and_leaves_no_file(model: Path, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "texts.jsonl", '{"text": "the bank"}', '{"text": 7}')
    told = error_of("link", model, data, "--out", tmp_path / "links.jsonl")
    assert "texts.jsonl, line 2" in told and not (tmp_path / "links.jsonl").exists()
