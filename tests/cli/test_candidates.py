from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from cli.commands import write_lines
from click.testing import Result
from typer.testing import CliRunner

from infuser.cli.candidates import app
from infuser.errors import InputError, SourceError
from infuser.knowledge.candidates.store import CandidateStore
from infuser.knowledge.facts import ENTITIES
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import save_graph


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
    return result


def error_of(*arguments: object, kind: type[Exception] = InputError) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert isinstance(result.exception, kind), result.output
    return str(result.exception)


def looked_up(folder: Path, *arguments: object) -> dict[str, dict[str, float]]:
    found = json.loads(run("lookup", folder, *arguments, "--json").stdout)
    return {one["mention"]: {each["id"]: each["prior"] for each in one["candidates"]} for one in found}


def test_candidates_are_built_from_everything_at_once_and_summed(tmp_path: Path) -> None:
    counts = write_lines(tmp_path / "counts.tsv", "mention\tentity\tcount", "Bern\tQ70\t4")
    names = write_lines(tmp_path / "names.tsv", "id\tlabel\taliases", "Q70\tBern\tBerne|BE", "Q2\tAare\t")
    tagged = write_lines(tmp_path / "t.jsonl", '{"text": "Bern!", "spans": [{"start": 0, "end": 4, "id": "Q1"}]}')
    knowbert = write_lines(tmp_path / "priors.txt", "Bern\t4\t7,0.5,Q3")
    lemmas = write_lines(tmp_path / "wn.jsonl", '{"type": "lemma", "id": "Bern%1", "synset": "Q4", "count": 1}')
    numbers = write_lines(tmp_path / "entity2id.txt", "1", "Q5\t0")
    mapped = write_lines(tmp_path / "entity_map.txt", "Bern\tQ5")
    rows = [{"id": "Q6", "label": "Bern", "count": 3}, {"id": "Berne_town"}]
    graph = save_graph(build_graph([pa.RecordBatch.from_pylist(rows, schema=ENTITIES)]), tmp_path / "graph")
    out = tmp_path / "cands"
    inputs = ["--counts", counts, "--names", names, "--tagged", tagged, "--knowbert", knowbert, "--graph", graph]
    told = run("build", *inputs, "--knowbert-wordnet", lemmas, "--ernie", numbers, mapped, "--strict", "--out", out)
    assert "5 mentions of 8 entities" in told.stdout and f"{names}: 4 rows" in told.stdout
    weights = {"Q70": 5, "Q1": 1, "Q3": 2, "Q4": 2, "Q5": 1, "Q6": 4}
    store = looked_up(out, "Bern")["Bern"]
    assert {id: round(prior * 15, 6) for id, prior in store.items()} == weights
    assert looked_up(out, "Berne town") == {"Berne town": {"Berne_town": 1.0}}


def test_knowberts_ids_can_be_the_entities(tmp_path: Path) -> None:
    priors = write_lines(tmp_path / "priors.txt", "Bern\t4\t70,0.75,Bern,_Switzerland\t71,0.25,Bern_(band)")
    run("build", "--knowbert", priors, "--knowbert-entity", "id", "--out", tmp_path / "cands")
    assert looked_up(tmp_path / "cands", "bern") == {"bern": {"70": 0.75, "71": 0.25}}


def test_the_mentions_of_a_text_are_shown_as_table_and_as_json(tmp_path: Path) -> None:
    counts = write_lines(tmp_path / "counts.csv", "New York,Q60,3", "New York,Q1384,1", "New York Times,Q9684,1")
    run("build", "--counts", counts, "--out", tmp_path / "cands")
    text = "The New York Times"
    shown = run("lookup", tmp_path / "cands", "--text", text).stdout
    assert "4-12" in shown and "Q1384" in shown and "0.7500" in shown and "Q9684" in shown
    assert list(looked_up(tmp_path / "cands", "--text", text)) == ["New York", "New York Times"]
    assert list(looked_up(tmp_path / "cands", "--text", text, "--longest")) == ["New York Times"]
    assert looked_up(tmp_path / "cands", "--text", text, "--max-words", 2, "-n", 1) == {"New York": {"Q60": 1.0}}
    assert looked_up(tmp_path / "cands", "--text", "new york", "--no-fold-case") == {}


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    run("build", "--counts", write_lines(tmp_path / "c.tsv", "Bern\tQ70"), "--out", tmp_path / "cands")
    assert "no mention in 'Biel'" in run("lookup", tmp_path / "cands", "Biel").stdout
    assert looked_up(tmp_path / "cands", "Biel") == {}


def test_rows_that_cannot_be_read_are_counted_and_strict_stops(tmp_path: Path) -> None:
    counts = write_lines(tmp_path / "counts.tsv", "Bern\tQ70\t1", "Bern\tQ71\tmany", "Bern")
    told = run("build", "--counts", counts, "--out", tmp_path / "cands")
    assert "2 rows could not be read" in told.stderr and "counts.tsv, line 2" in told.stderr
    before = CandidateStore.open(tmp_path / "cands").digest
    assert "line 2" in error_of("build", "--counts", counts, "--strict", "--out", tmp_path / "cands")
    assert CandidateStore.open(tmp_path / "cands").digest == before


def test_a_command_without_what_it_needs_says_what_to_give(tmp_path: Path) -> None:
    assert "--counts" in error_of("build", "--out", tmp_path / "cands")
    empty = write_lines(tmp_path / "empty.tsv")
    said = error_of("build", "--counts", empty, "--out", tmp_path / "cands")
    assert "not one mention in" in said and "empty.tsv" in said and "infuser candidates build --help" in said
    assert not (tmp_path / "cands").exists()
    assert "No file" in error_of("build", "--counts", tmp_path / "no.tsv", "--out", tmp_path / "cands")
    run("build", "--counts", write_lines(tmp_path / "c.tsv", "Bern\tQ70"), "--out", tmp_path / "cands")
    assert "--text" in error_of("lookup", tmp_path / "cands")
    assert "no candidates folder" in error_of("lookup", tmp_path / "missing", "Bern", kind=SourceError)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    counts = write_lines(tmp_path / "c.tsv", "Bern\tQ70")
    told = CliRunner().invoke(app, ["build", "--counts", str(counts), "--out", str(tmp_path)])
    assert "left alone" in str(told.exception) and "1 row" not in told.output  # said before the work
    assert counts.exists()


def test_a_damaged_folder_may_be_built_again(tmp_path: Path) -> None:
    counts = write_lines(tmp_path / "c.tsv", "Bern\tQ70")
    assert f"{counts}: 1 row\n" in run("build", "--counts", counts, "--out", tmp_path / "cands").stdout
    (tmp_path / "cands" / "about.json").write_text("{}")
    assert "about.json is damaged" in error_of("lookup", tmp_path / "cands", "Bern", kind=SourceError)
    run("build", "--counts", counts, "--out", tmp_path / "cands")
    assert looked_up(tmp_path / "cands", "Bern") == {"Bern": {"Q70": 1.0}}


def test_candidates_with_spaces_for_tabs_and_a_wrong_file_are_told(tmp_path: Path) -> None:
    spaced = write_lines(tmp_path / "p.txt", "Bern\t9\t1,0.9,Bern_city 2,0.1,Bern_canton", "Bern\t9\t1,1,Bern_city")
    told = run("build", "--knowbert", spaced, "--out", tmp_path / "cands")
    assert "p.txt, line 1: two candidates without a tab" in told.stderr
    assert looked_up(tmp_path / "cands", "Bern") == {"Bern": {"Bern_city": 1.0}}
    other = write_lines(tmp_path / "other.jsonl", '{"mention": "Bern", "entity": "Q70"}')
    wrong = CliRunner().invoke(app, ["build", "--knowbert-wordnet", str(other), "--out", str(tmp_path / "w")])
    assert "1 row could not be read" in wrong.stderr and "other.jsonl" in str(wrong.exception)


def test_help_teaches_with_examples() -> None:
    assert "infuser candidates build --counts" in run("build", "--help").stdout
    assert "--knowbert" in run("build", "--help").stdout
