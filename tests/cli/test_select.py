"""`infuser select`: what it prints, what it writes, and what training makes of it."""

from __future__ import annotations

from pathlib import Path

from cli.commands import COLUMNS, MEDICINES, TOOLS, error_of, run_command, save_checkpoint, write_lines

import infuser
from infuser import Graph
from infuser.analysis.select import explain_selection
from infuser.knowledge.entity_scores import EntityScore, ScoredRelation, read_scores, write_scores
from infuser.sources import Known, Sampling, Selective
from infuser.sources.selective import read_selection

SOURCES = ("--graph", "triples.tsv", "--aliases", "names.tsv")
TABLE = ("--text-column", "query", "--pair-column", "ad")


def sources_in(task: Path) -> tuple[object, ...]:
    return "--graph", task / "triples.tsv", "--aliases", task / "names.tsv"


def test_what_is_kept_is_explained_and_written_and_training_draws_by_it(
    checkpoint: Path, task: Path, tmp_path: Path
) -> None:
    selection = tmp_path / "selection.json"
    told = run_command(
        *("select", task / "train.csv", *TABLE, *sources_in(task), "--explain", "--rare", 7, "--draws", 20),
        *("--out", selection),
    ).output
    assert "Keep-rates by frequency" in told and "Dropped most often" in told and "in 10 to 99 texts" in told
    strategy = read_selection(selection)
    assert isinstance(strategy, Sampling) and strategy.rare == 7 and strategy.frequencies["glipizide"] == 6  # type: ignore[index]
    common = ("train", checkpoint, task / "train.csv", *COLUMNS, *sources_in(task), "--epochs", 1, "--batch-size", 8)
    run_command(*common, "--select", selection, "--out", tmp_path / "file")
    (source,) = infuser.load(tmp_path / "file" / "model").sources
    assert isinstance(source, Selective) and source.strategy == strategy
    run_command(*common, "--select", "sampling", "--out", tmp_path / "word")
    (source,) = infuser.load(tmp_path / "word" / "model").sources
    assert isinstance(source, Selective) and isinstance(source.strategy, Sampling) and source.strategy.rare == 100


def test_what_the_encoder_knows_is_measured_and_left_out(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    medicines, tools = (*MEDICINES, "aspirin", "insulin"), (*TOOLS, "hammer", "chisel")
    words = write_lines(
        tmp_path / "words.tsv", *(f"{word}\tmedicine" for word in medicines), *(f"{word}\ttool" for word in tools)
    )
    texts = write_lines(tmp_path / "texts.txt", *(f"buy {word} near me" for word in (*medicines, *tools)))
    known = ("select", texts, "--entities", words, "--out", tmp_path / "known.json")
    told = run_command(*known, "--measure", "probe", "--checkpoint", checkpoint, "--threshold", 0, "--explain").output
    assert "The probe separates 2 types" in told and "the encoder predicts it" in told
    scores = read_scores(tmp_path / "known.scores.json")
    assert scores.keys() == {*medicines, *tools}
    strategy = read_selection(tmp_path / "known.json")
    assert isinstance(strategy, Known) and strategy.scores == scores and strategy.threshold == 0
    head = save_checkpoint(tmp_path / "masked", "masked-lm")
    run_command(*known, "--measure", "masked", "--checkpoint", head)
    assert read_scores(tmp_path / "known.scores.json") != scores
    run_command(*known, "--known", tmp_path / "known.scores.json")
    message = run_command(*known, "--measure", "masked", "--checkpoint", checkpoint, code=2).stderr
    assert "no head for masked words" in message and "--measure probe" in message


def test_links_of_relations_that_the_encoder_knows_are_left_out_and_told(task: Path, tmp_path: Path) -> None:
    scores = write_scores(
        tmp_path / "scores.json", [], {}, [ScoredRelation("is a", 0.9, 50), ScoredRelation("sells", 1.0, 3)]
    )
    select = ("select", task / "train.csv", *TABLE, *sources_in(task), "--known", scores)
    told = " ".join(run_command(*select, "--explain", "--out", tmp_path / "selection.json").output.split())
    strategy = read_selection(tmp_path / "selection.json")
    assert isinstance(strategy, Known) and strategy.relations == {"is a": 0.9, "sells": 1.0}
    graph = Graph(
        [(word, "is a", kind) for kind, words in (("medicine", MEDICINES), ("tool", TOOLS)) for word in words]
    )
    found = graph.annotate([f"buy {word} as {kind}" for word in MEDICINES for kind in ("medicine", "tool")])
    report = explain_selection(Selective(graph, strategy), found)
    assert [(one.relation, one.n_links) for one in report.relations] == [("is a", 4)] and report.kept == 1
    assert report.to_json()["relations"][0]["why"] == "the encoder tells it from others: 0.9 >= 0.5"
    # two medicines and two tools in three sentences each are tied to their shop
    assert "12 links of 1 relation that the encoder knows are left out" in told
    assert "100.0% of the mentions it found are injected" in told and "(and 1 of 2 relations) occur in" in told
    assert "Relations whose links are left out" in told and "0.9 >= 0.5" in told and "Nothing is dropped" not in told
    assert "links" not in run_command(*select, "--threshold", 0.95).output


def test_scores_that_concern_nothing_or_show_nothing_are_warned_of(task: Path, tmp_path: Path) -> None:
    select = ("select", task / "train.csv", *TABLE, *sources_in(task), "--known", tmp_path / "scores.json")

    def told(entity: str, relation: str, **about: str) -> str:
        rows = [EntityScore(entity, 0.9, 1, "m"), EntityScore("Zug", 0.9, 1, "m")]
        write_scores(tmp_path / "scores.json", rows, about, [ScoredRelation(relation, 0.9, 1)])
        return " ".join(run_command(*select).output.split())

    useless = told("Bern", "P36", verdict="no evidence")
    assert "0 of 2 scored entities (and 0 of 1 relations) occur in what the sources found" in useless
    assert "no scored entity occurs, so none is left out. The scores say, for one, 'Bern'" in useless
    assert "no scored relation occurs" in useless and "'P36' and the sources say, for one, 'is a'" in useless
    assert "the probe's verdict was 'no evidence'" in useless
    useful = told("adze", "is a", verdict="knows")
    assert "1 of 2 scored entities (and 1 of 1 relations) occur" in useful and "Warning" not in useful


def test_mistakes_are_told_in_one_line(task: Path, tmp_path: Path) -> None:
    select = ("select", task / "train.csv", *TABLE)
    assert "No knowledge was named" in error_of(*select)
    assert "--measure masked|probe and --checkpoint" in error_of(*select, *sources_in(task), "--measure", "probe")
    both = ("--known", task / "x.json", "--measure", "probe", "--checkpoint", "minilm")
    assert "Give one of them" in error_of(*select, *sources_in(task), *both)
    assert "share is 1.5" in error_of(*select, *sources_in(task), "--share", 1.5)
    other = write_lines(tmp_path / "other.json", "{}")
    common = ("train", "nowhere", task / "train.csv", *COLUMNS, *sources_in(task), "--out", tmp_path / "run")
    assert "is no selection. Write one: infuser select" in error_of(*common, "--select", other)
