from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli.commands import error_of, run_command, write_lines

from infuser.knowledge.graph.build import build_graph, facts_of
from infuser.knowledge.graph.store import save_graph
from infuser.knowledge.vectors.store import EntityVectors

SAID = ("id,label,description", "Q70,Bern,the city on the Aare", "Q1,Aare,a river", "Q2,Thun,town near the lake")


@pytest.fixture
def described(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "said.csv", *SAID)


def run(*arguments: object) -> str:
    return str(run_command("vectors", *arguments).stdout)


def told(folder: Path) -> dict[str, object]:
    facts: dict[str, object] = json.loads(run("show", folder, "--json"))
    return facts


def test_a_file_of_vectors_becomes_a_folder_that_can_be_looked_into(tmp_path: Path) -> None:
    file, out = write_lines(tmp_path / "v.txt", "a 1.0 0.0", "b 2.0 0.2", "c 0.0 1.0"), tmp_path / "out"
    assert f"{out}: 3 entities with 2 numbers each" in run("build", "--file", file, "--out", out)
    assert {"way": "file", "file": "v.txt", "n_entities": 3, "first": ["a", "b", "c"]}.items() <= told(out).items()
    shown = run("show", out)
    assert "v.txt" in shown and "a, b, c" in shown and "scaled" in shown
    assert "b" in run("show", out, "a").splitlines()[3]
    [near] = json.loads(run("show", out, "a", "-n", 1, "--json"))
    assert near == {"id": "b", "cosine": pytest.approx(1 / np.hypot(1, 0.1))}
    assert "no vector for 'd'" in error_of("vectors", "show", out, "d")
    run("build", "--file", file, "--no-scale", "--out", out)
    assert EntityVectors.open(out).take([1]).tolist() == [[2.0, pytest.approx(0.2)]]


def test_ernies_two_files_are_read(tmp_path: Path) -> None:
    file, ids = write_lines(tmp_path / "entity2vec.vec", "1.0\t2.0", "3.0\t4.0"), tmp_path / "entity2id.txt"
    write_lines(ids, "2", "Q2\t1", "Q1\t0")
    run("build", "--file", file, "--ids", ids, "--no-scale", "--out", tmp_path / "out")
    assert EntityVectors.open(tmp_path / "out").rows(["Q2"]).tolist() == [1]


def test_descriptions_are_encoded_and_new_ones_are_added_in_the_same_way(
    tmp_path: Path, checkpoint: Path, described: Path
) -> None:
    out = tmp_path / "v"
    run("build", "--describe", described, "--encoder", checkpoint, "--dim", 2, "--max-tokens", 32, "--out", out)
    facts = {"way": "descriptions", "encoder": str(checkpoint), "dim": 2, "max_tokens": 32, "with_label": True}
    assert facts.items() <= told(out).items()
    new = write_lines(tmp_path / "new.csv", SAID[0], "new,Bern,the city on the Aare", "bare,Biel,")
    assert "1 of 2 entities have no description" in error_of("vectors", "add", out, "--entities", new, "--out", out)
    assert "2 new entities" in run("add", out, "--entities", new, "--label-when-missing", "--out", out)
    vectors = EntityVectors.open(out)
    assert vectors.rows(["bare"]).tolist() == [4]
    assert np.allclose(*vectors.take(vectors.rows(["Q70", "new"])), atol=1e-4)
    run("add", out, "--entities", write_lines(new, SAID[0], "x,,"), "--label-when-missing", "--out", tmp_path / "w")
    assert len(EntityVectors.open(tmp_path / "w")) == 6 and len(EntityVectors.open(out)) == 5


def test_a_graph_without_descriptions_is_one_clear_error(tmp_path: Path, checkpoint: Path) -> None:
    graph = save_graph(build_graph(facts_of([("a", "in", "b")])), tmp_path / "graph")
    asked = ("vectors", "build", "--describe", graph, "--encoder", checkpoint, "--out", tmp_path / "v")
    said = error_of(*asked)
    assert "None of the 2 entities has a description" in said and "--label-when-missing" in said
    assert "None of the 2" in error_of(*asked, "--skip-missing") and not (tmp_path / "v").exists()
    run_command(*asked, "--label-when-missing")
    assert "not both" in error_of(*asked, "--skip-missing", "--label-when-missing")


@pytest.mark.slow  # loads PyKEEN
def test_vectors_are_trained_on_the_triples_of_a_file_or_a_graph(tmp_path: Path) -> None:
    rows = [(f"e{one}", "next to", f"e{(one + 1) % 9}") for one in range(9)]
    file = write_lines(tmp_path / "t.tsv", *("\t".join(row) for row in rows), "only two\tcells")
    graph = save_graph(build_graph(facts_of(rows)), tmp_path / "graph")
    how = ("--dim", 4, "--epochs", 2, "--batch-size", 4, "--model", "distmult", "--seed", 3)
    result = run_command("vectors", "build", "--train", file, *how, "--out", tmp_path / "one")
    assert f"{file}: 9 triples of 9 entities" in result.stdout and "1 row could not be read" in result.stderr
    run("build", "--train", graph, *how, "--out", tmp_path / "two")
    one, two = (EntityVectors.open(tmp_path / name) for name in ("one", "two"))
    assert {"way": "triples", "model": "distmult", "epochs": 2, "seed": 3, "n_triples": 9}.items() <= one.about.items()
    assert np.array_equal(one.take(one.rows(["e0"])), two.take(two.rows(["e0"])))
    new = write_lines(tmp_path / "new.csv", *SAID)
    said = error_of("vectors", "add", tmp_path / "one", "--entities", new, "--out", tmp_path / "three")
    assert "not made from descriptions" in said and "vector file" in said


def test_a_command_without_what_it_needs_says_what_to_give(tmp_path: Path, described: Path) -> None:
    out = ("--out", tmp_path / "v")
    assert "one of: --file FILE, --train GRAPH, --describe GRAPH" in error_of("vectors", "build", *out)
    assert "one of: --file" in error_of("vectors", "build", "--file", described, "--train", described, *out)
    assert "--ids and --tensor" in error_of("vectors", "build", "--train", described, "--ids", described, *out)
    bad = write_lines(tmp_path / "bad.txt", "a 1.0", "b nan")
    assert "bad.txt, line 2: the vector of 'b' holds nan" in error_of("vectors", "build", "--file", bad, *out)
    assert "left alone" in error_of("vectors", "build", "--file", bad, "--out", tmp_path)
    assert "no vectors folder" in error_of("vectors", "show", tmp_path / "nothing")
    assert "no vectors folder" in error_of("vectors", "add", tmp_path / "no", "--entities", described, *out)
    assert "infuser vectors build --train kg" in run("build", "--help")
