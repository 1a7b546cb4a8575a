from __future__ import annotations

import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli.commands import write_csv, write_lines
from typer.testing import CliRunner, Result

from infuser.cli.graph import app
from infuser.errors import InputError, SourceError, UnknownNameError
from infuser.knowledge.graph.store import Edge, GraphStore

KNOWLEDGE = Path(__file__).parents[3] / "shared" / "data" / "kg"


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def error_of(*arguments: object, kind: type[Exception] = InputError) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert type(result.exception) is kind, result.output
    return str(result.exception)


def digest_of(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    rows: list[dict[str, Any]] = [
        {
            "id": "Q70",
            "label": "Bern",
            "aliases": "Berne|Berna",
            "description": "seat [of] government",
            "types": "city",
        },
        {"id": "Q39", "label": "Switzerland", "aliases": "", "description": "", "types": "country"},
        {"id": "Q12", "label": "Bern", "aliases": "", "description": "a village", "types": ""},
    ]
    return {
        "triples": write_lines(tmp_path / "triples.tsv", "Q70\tcapital of\tQ39", "Q72\tin\tQ39", "Q70\tin\tQ39"),
        "entities": write_csv(tmp_path / "entities.csv", rows),
    }


@pytest.fixture
def built(files: dict[str, Path], tmp_path: Path) -> Path:
    run("build", files["triples"], "--entities", files["entities"], "--out", tmp_path / "kg")
    return tmp_path / "kg"


def test_a_graph_is_built_from_files_and_counted(files: dict[str, Path], tmp_path: Path) -> None:
    said = run("build", files["triples"], "--entities", files["entities"], "--out", tmp_path / "kg").stdout
    assert "4 entities with 6 names, 3 edges of 2 relations" in said
    assert GraphStore.open(tmp_path / "kg").n_edges == 3


def test_an_entity_is_shown_by_id_and_by_name(built: Path) -> None:
    said = run("show", built, "Q70").stdout
    for part in ("Bern (Q70)", "Berne, Berna", "city", "seat [of] government"):
        assert part in said
    assert "Bern (Q70) -- capital of -> Switzerland (Q39)" in said
    said = run("show", built, "bern", "--edges", 1).stdout
    assert "2, the first 1:" in said
    assert "also called so:" in said and "Bern (Q12), 0 edges: a village" in said


def test_what_is_shown_can_be_had_as_json(built: Path) -> None:
    shown = json.loads(run("show", built, "bern", "--json").stdout)
    assert (shown["id"], shown["aliases"], shown["degree"]) == ("Q70", ["Berne", "Berna"], 2)
    assert shown["edges"][0] == {"head": "Q70", "relation": "capital of", "tail": "Q39", "weight": 1.0}
    assert [other["id"] for other in shown["also"]] == ["Q12"]
    facts = json.loads(run("info", built, "--json").stdout)
    assert (facts["entities"], facts["edges"], facts["relations"]) == (4, 3, {"in": 2, "capital of": 1})
    assert facts["digest"] == GraphStore.open(built).digest


def test_info_tells_the_figures(built: Path) -> None:
    said = run("info", built).stdout
    for part in ("4: 3 with a label", "3 of 2 relations", "6, found in any case", "capital of", "3 to 4", "25.0%"):
        assert part in said


def test_an_unknown_entity_is_answered_with_a_guess(built: Path) -> None:
    assert "Did you mean 'Switzerland' (Q39)?" in error_of("show", built, "Swizzerland", kind=UnknownNameError)


def test_malformed_rows_are_counted_and_the_first_are_shown_and_strict_stops(tmp_path: Path) -> None:
    bad = write_lines(tmp_path / "bad.tsv", "a\tr\tb", "only one", "c\tr\td", "\tr\tx")
    result = run("build", bad, "--out", tmp_path / "kg")
    assert "2 rows could not be read" in result.stderr
    assert "bad.tsv, line 2" in result.stderr and "bad.tsv, line 4" in result.stderr
    before = digest_of(tmp_path / "kg")
    assert "line 2" in error_of("build", bad, "--strict", "--out", tmp_path / "kg")
    assert digest_of(tmp_path / "kg") == before


def test_a_damaged_graph_is_named_and_may_be_built_again(built: Path, files: dict[str, Path]) -> None:
    (built / "about.json").write_text("{")
    assert "about.json is damaged" in error_of("info", built, kind=SourceError)
    assert "1 row" not in run("build", files["triples"], "--out", built).output
    assert GraphStore.open(built).n_edges == 3


def test_one_of_each_is_told_in_the_singular(tmp_path: Path) -> None:
    loop = write_lines(tmp_path / "loop.tsv", "a\tr\ta", "only one")
    result = run("build", loop, "--out", tmp_path / "kg")
    assert "1 entity with 1 name, 1 edge of 1 relation," in result.stdout
    assert "1 row could not be read and was skipped" in result.stderr
    said = run("info", tmp_path / "kg").stdout
    assert "1 of 1 relation" in said and "the largest with 1 entity" in said and "1 relations" not in said


def test_labels_with_a_gloss_behind_them_can_be_read(tmp_path: Path) -> None:
    triples = write_lines(tmp_path / "t.tsv", "08769179\t_part_of\t08766988")
    texts = write_lines(tmp_path / "entity2text.txt", "08769179\tsaxony, an area in Germany, once a kingdom")
    run("build", triples, "--entities", texts, "--label-before", ", ", "--out", tmp_path / "kg")
    store = GraphStore.open(tmp_path / "kg")
    entity = store.entity(0)
    assert (entity.label, entity.description) == ("saxony", "an area in Germany, once a kingdom")
    assert len(store.names.find(["He came from Saxony."])[0]) == 1


def test_hardly_more_entities_than_relations_are_told(tmp_path: Path) -> None:
    triples = write_lines(tmp_path / "t.tsv", *(f"IsA\tthing {n}\tkind {n}" for n in range(150)))
    said = run("build", triples, "--out", tmp_path / "kg").stderr
    assert "150 relations for 151 entities" in said and "--order rht" in said
    assert "--order" not in run("build", triples, "--order", "rht", "--out", tmp_path / "kg").stderr


def test_columns_formats_and_spelling_rules_are_settings(tmp_path: Path) -> None:
    reverse = write_lines(tmp_path / "rht.tsv", "capital of\tBern\tZürich")
    run(
        "build",
        reverse,
        "--order",
        "rht",
        "--no-fold-case",
        "--fold-accents",
        "--landmarks",
        1,
        "--out",
        tmp_path / "g",
    )
    store = GraphStore.open(tmp_path / "g")
    assert store.edges_of(0) == [Edge("Bern", "capital of", "Zürich", 1.0)]
    assert [len(found) for found in store.names.find(["Zurich", "zürich"])] == [1, 0]
    dump = write_lines(tmp_path / "facts.data", "<http://e/a> <http://e/knows> <http://e/b> .")
    assert "Cannot tell the format" in error_of("build", dump, "--out", tmp_path / "h")
    row = ["/a/[x]", "/r/IsA", "/c/en/dog", "/c/en/animal", '{"weight": 2.0}']
    assertions = write_lines(tmp_path / "dump.csv", "\t".join(row))
    run("build", assertions, "--format", "conceptnet", "--out", tmp_path / "c")
    assert GraphStore.open(tmp_path / "c").n_edges == 1


def test_what_cannot_be_done_is_said_before_the_work(files: dict[str, Path], tmp_path: Path) -> None:
    assert "Name at least one file" in error_of("build", "--out", tmp_path / "kg")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    assert "left alone" in error_of("build", files["triples"], "--out", tmp_path / "mine")
    assert "left alone" in error_of("build", files["triples"], "--out", files["triples"])
    assert "No file at" in error_of("build", tmp_path / "none.tsv", "--out", tmp_path / "kg")
    empty = write_lines(tmp_path / "empty.tsv")
    said = error_of("build", empty, "--out", tmp_path / "kg")
    assert "not one entity in" in said and "empty.tsv" in said and "infuser graph build --help" in said
    known = error_of("build", "--asset", "wordnett", "--out", tmp_path / "kg", kind=UnknownNameError)
    assert "Did you mean 'wordnet'?" in known
    assert not (tmp_path / "kg").exists()
    assert "no graph folder" in error_of("info", tmp_path / "kg", kind=SourceError)


def test_help_teaches_with_examples() -> None:
    assert "infuser graph build triples.tsv" in run("build", "--help").stdout
    assert 'infuser graph show kg "New York"' in run("show", "--help").stdout


@pytest.mark.slow
def test_a_build_that_is_killed_leaves_nothing_and_the_next_gives_the_same_bytes(tmp_path: Path) -> None:
    chance = random.Random(0)
    lines = [f"e{chance.randrange(3000)}\tr{chance.randrange(9)}\te{chance.randrange(3000)}" for _ in range(30_000)]
    triples = write_lines(tmp_path / "triples.tsv", *lines)
    command = [sys.executable, "-c", "from infuser.cli.graph import app; app()", "build", str(triples), "--out"]
    begin = time.monotonic()
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    seconds = time.monotonic() - begin
    expected = digest_of(tmp_path / "whole")
    out = tmp_path / "places" / "kg"
    n_killed = 0
    for _ in range(40):  # some children are done before they can be killed
        child = subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(seconds * chance.uniform(0.3, 1.0))
        child.send_signal(signal.SIGKILL)
        n_killed += child.wait() == -signal.SIGKILL
        if out.exists():
            assert digest_of(out) == expected  # it came in time, or one before it did
        if n_killed == 10:
            break
    subprocess.run([*command, str(out)], check=True, capture_output=True)
    assert n_killed == 10
    assert digest_of(out) == expected
    assert [file.name for file in out.parent.iterdir()] == ["kg"]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("folder", "files", "entities", "options"),
    [
        ("FB15k-237", ["train.tsv", "dev.tsv", "test.tsv"], "entity2text.txt", []),
        ("WN18RR", ["train.tsv", "dev.tsv", "test.tsv"], "entity2text.txt", []),
        ("umls", ["train.tsv"], "entity2text.txt", []),
        ("nations", ["train.txt"], None, []),
        ("CoDEx/triples/codex-m", ["train.txt", "valid.txt", "test.txt"], None, []),
        ("ConceptNet100k", ["train.txt"], None, ["--order", "rht"]),
    ],
)
def test_graphs_that_people_use_load_unchanged(
    folder: str, files: list[str], entities: str | None, options: list[str], tmp_path: Path
) -> None:
    place = KNOWLEDGE / folder
    if not place.is_dir():
        pytest.skip(f"needs {place}")
    named = ["--entities", place / entities] if entities else []
    run("build", *(place / file for file in files), "--strict", *options, *named, "--out", tmp_path / "kg")
    rows = [line.split("\t") for file in files for line in (place / file).read_text(encoding="utf-8").splitlines()]
    store = GraphStore.open(tmp_path / "kg")
    assert store.n_edges == len(rows) > 1000
    head, relation, tail = rows[0] if not options else (rows[0][1], rows[0][0], rows[0][2])
    number = store.number_of(head)
    assert number is not None
    assert (head, relation, tail) in [edge[:3] for edge in store.edges_of(number)]
    assert bool(store.entity(number).label) == bool(entities)


def test_a_file_of_two_columns_is_no_graph_without_edges(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("Bern\tSwitzerland\nParis\tFrance\n")
    message = error_of("build", pairs, "--out", tmp_path / "kg")
    assert "There is no triple in" in message and "head, relation and tail" in message
    assert not (tmp_path / "kg").exists()
    run("build", "--entities", pairs, "--out", tmp_path / "kg")
