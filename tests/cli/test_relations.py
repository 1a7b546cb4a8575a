"""`infuser relations`: what is learned and kept, what is written about texts, how it is measured, what is refused."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli.commands import error_of, read_json_lines, run_command, save_checkpoint, write_lines

import infuser
from infuser import Entities, Kam
from infuser.analysis.probe.result import ProbeReport
from infuser.cli import relations
from infuser.relations import extraction
from infuser.relations.examples import RelationText, Triple
from infuser.relations.model import AttentionRelations
from infuser.relations.readers import read_relations, write_relations
from infuser.relations.scores import MATCHES, score_relations
from infuser.seals import seal
from infuser.types import Span

NAMES = ("river", "lake", "bridge", "garden", "town", "house")
SAID = {"on": "lies on", "to": "runs from"}
EVERYTHING = ("--gate", 0, "--best", 0)


def place_of(words: str, text: str) -> Span:
    return Span(text.index(words), text.index(words) + len(words))


def triple_of(text: str, head: str, relation: str, tail: str) -> Triple:
    parts = (place_of(words, text) for words in (head, tail, SAID[relation]))
    first, second, trigger = parts
    return Triple(first, second, relation, trigger, f"{relation} it")


def known_texts(first: int, last: int) -> list[RelationText]:
    """Return texts with one triple and a third name that has no part in it."""
    texts = []
    names = list(itertools.permutations(NAMES, 3))
    random.Random(0).shuffle(names)
    for head, tail, other in names[first:last]:
        for relation, pattern in (("on", "{2} and the {0} lies on the {1}"), ("to", "a {0} runs from {1} in the {2}")):
            text = pattern.format(head, tail, other)
            spans = tuple(place_of(name, text) for name in (head, tail, other))
            texts.append(RelationText(text, (triple_of(text, head, relation, tail),), spans))
    return texts


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.jsonl, dev.jsonl, test.jsonl and names.tsv."""
    folder = tmp_path_factory.mktemp("data")
    for name, first, last in (("train", 0, 60), ("dev", 60, 80), ("test", 80, 100)):
        write_relations(folder / f"{name}.jsonl", known_texts(first, last))
    write_lines(folder / "names.tsv", *NAMES)
    return folder


@pytest.fixture(scope="module")
def fitting(checkpoint: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A fitted model, and what was told while it was fitted."""
    out = tmp_path_factory.mktemp("fitted") / "rel"
    names = ("--entities", data / "names.tsv")
    files = (data / "train.jsonl", "--dev", data / "dev.jsonl")
    return out, run_command("relations", "fit", *files, "--encoder", checkpoint, "--out", out, *names).stdout


@pytest.fixture(scope="module")
def fitted(fitting: tuple[Path, str]) -> Path:
    return fitting[0]


def opened(folder: Path, **thresholds: float) -> AttentionRelations:
    model = AttentionRelations.load(folder)
    model.set_thresholds(thresholds.get("gate"), thresholds.get("best"))
    return model


def test_fit_tells_what_was_learned_and_keeps_it_with_its_sources(
    fitting: tuple[Path, str], checkpoint: Path, data: Path
) -> None:
    folder, told = fitting
    assert "2 relations learned from 120 triples in 120 texts, with 2 phrases that say them" in told
    assert "0 triples could not be read; the gate has converged, the relation classifier has converged" in told
    assert "Spans are found by: entities" in told and f"infuser relations extract {folder} TEXTS.txt --out" in told
    model = AttentionRelations.load(folder)
    assert model.labels_ == {"on": "on it", "to": "to it"}
    assert model.opened().base == str(checkpoint)
    [record] = json.loads((folder / "sources.json").read_text(encoding="utf-8"))
    assert record["name"] == "entities" and set(NAMES) <= set(record["settings"]["names"])
    # the thresholds are those of the library, and the F1 that was told is that of an extraction with them
    dev = read_relations(data / "dev.jsonl")
    spans = [Entities(list(NAMES))]
    again = AttentionRelations(str(checkpoint)).fit(read_relations(data / "train.jsonl"), dev=dev, spans=spans)
    assert model.thresholds_ == again.thresholds_
    found = [[one.triple for one in of_text] for of_text in extraction.extract(again, dev, spans)]
    assert f"best for 40 dev texts: strict F1 {score_relations(dev, found).total.f1:.3f} there" in told


def test_the_same_data_and_seed_give_the_same_files(fitted: Path, checkpoint: Path, data: Path, tmp_path: Path) -> None:
    files = (data / "train.jsonl", "--dev", data / "dev.jsonl", "--entities", data / "names.tsv")
    run_command("relations", "fit", *files, "--encoder", checkpoint, "--out", tmp_path / "rel")
    assert {path.name for path in tmp_path.iterdir()} == {"rel"}  # nothing unfinished is left
    written = {path.name: path.read_bytes() for path in (tmp_path / "rel").iterdir()}
    assert written == {path.name: path.read_bytes() for path in fitted.iterdir()}


def test_relations_labels_and_features_can_be_chosen(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    labels, out = write_lines(tmp_path / "labels.tsv", "on\tstands on"), tmp_path / "rel"
    chosen = ("--relations", "on", "--labels", labels, "--pairs", "--features", "embeddings", "--negatives", 2)
    command = ("relations", "fit", data / "train.jsonl", "--encoder", checkpoint, "--out", out, *chosen)
    told = run_command(*command).stdout
    assert "1 relation learned from 60 triples in 120 texts, as pairs; and from 180 that are none" in told
    assert "no source yet" in told and "--dev FILE" in told
    model = AttentionRelations.load(out)
    assert (model.labels_, model.trigger_, model.kind) == ({"on": "stands on"}, False, "embeddings")
    run_command(*command)  # a fitted model may be replaced
    told = error_of("relations", "extract", out, "--text", "a river")
    assert "without sources" in told and "--source spacy-entities" in told
    assert "--gold-spans" in error_of("relations", "evaluate", out, data / "test.jsonl")
    strict = ("--match", "strict")
    measured = run_command(
        "relations", "evaluate", out, data / "test.jsonl", "--gold-spans", "--learned", *strict
    ).stdout
    assert "20 triples of 1 relation that the model has not learned are left out" in measured
    assert "strict: 20 gold facts in 40 texts" in measured


def test_an_infused_encoder_reads_with_its_knowledge(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    infuser.infuse(str(checkpoint), Kam(), sources=[Entities(list(NAMES))]).save(tmp_path / "infused")
    spans = ("--entities", data / "names.tsv")
    command = ("relations", "fit", data / "dev.jsonl", "--encoder", tmp_path / "infused", "--out", tmp_path / "rel")
    run_command(*command, *spans)
    run_command("relations", "extract", tmp_path / "rel", "--text", "a river runs from lake")
    told = error_of("relations", "extract", tmp_path / "rel", "--encoder", checkpoint, "--text", "a river", code=1)
    assert "fitted on another encoder" in told
    shutil.move(tmp_path / "infused", tmp_path / "moved")
    told = error_of("relations", "extract", tmp_path / "rel", "--text", "a river", code=1)
    assert "infused" in told and "--encoder" in told
    run_command("relations", "extract", tmp_path / "rel", "--encoder", tmp_path / "moved", "--text", "a river")


def test_a_file_becomes_json_lines_in_its_order(fitted: Path, data: Path, tmp_path: Path) -> None:
    texts = [*(text.text for text in read_relations(data / "test.jsonl")[:5]), "", "nothing here"]
    written, out = write_lines(tmp_path / "texts.txt", *texts), tmp_path / "triples.jsonl"
    told = run_command("relations", "extract", fitted, written, "--out", out, "--heads", 2).stderr
    expected = list(extraction.extract(opened(fitted), texts, [Entities(list(NAMES))], n_heads=2))
    assert read_json_lines(out) == [
        {"text": text, "triples": [one.to_json(text) for one in found]}
        for text, found in zip(texts, expected, strict=True)
    ]
    n_triples = sum(map(len, expected))
    assert n_triples and all(len(one.heads) == 2 for found in expected for one in found)
    assert f"7 texts, {n_triples} triples in {sum(map(bool, expected))} of them in {out}; " in told
    assert {*tmp_path.iterdir()} == {written, out}  # nothing unfinished is left
    again = read_relations(out)  # what was found can be learned from
    assert [len(text.triples) for text in again] == [len(expected[place]) for place, text in enumerate(texts) if text]


def test_a_run_that_is_stopped_leaves_no_file(
    fitted: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = extraction.extract

    def stopped(*given: Any, **how: Any) -> Any:
        yield next(reading(*given, **how))
        raise KeyboardInterrupt

    monkeypatch.setattr(extraction, "extract", stopped)
    texts = write_lines(tmp_path / "texts.txt", "a river", "a lake")
    run_command("relations", "extract", fitted, texts, "--out", tmp_path / "triples.jsonl", code=130)
    assert {*tmp_path.iterdir()} == {texts}


def test_flat_lines_say_which_text_they_come_from(fitted: Path, tmp_path: Path) -> None:
    one = write_lines(tmp_path / "one.txt", "nothing", "the river lies on the lake")
    other = write_lines(tmp_path / "other.txt", "the garden lies on the town")
    told = run_command("relations", "extract", fitted, one, other, "--flat", "--no-text", *EVERYTHING).stdout
    lines = [json.loads(line) for line in told.splitlines()]
    assert {(line["file"], line["number"]) for line in lines} == {(str(one), 2), (str(other), 3)}
    assert all("text" not in line and line["heads"] for line in lines)
    found = next(extraction.extract(opened(fitted, gate=0, best=0), ["the river lies on the lake"], [Entities(NAMES)]))
    assert [line["head"] for line in lines if line["number"] == 2] == [
        one.to_json("the river lies on the lake")["head"] for one in found
    ]


def test_what_a_text_denies_is_marked_dropped_or_kept_alone(fitted: Path) -> None:
    texts = "the river never lies on the lake\nthe garden lies on the town\n"
    command = ("relations", "extract", fitted, "-", "--flat", *EVERYTHING, "--negated")
    marked, dropped, only = (
        [json.loads(line) for line in run_command(*command, way, stdin=texts).stdout.splitlines()]
        for way in ("mark", "drop", "only")
    )
    assert {line["number"] for line in marked if line["negated"]} == {1}
    assert dropped == [line for line in marked if not line["negated"]] and dropped
    assert only == [line for line in marked if line["negated"]] and only


def test_one_text_is_shown_as_a_table_and_other_sources_can_be_named(fitted: Path, tmp_path: Path) -> None:
    text = ("--text", "the river lies on the lake", *EVERYTHING)
    told = run_command("relations", "extract", fitted, *text).stdout
    assert "river" in told and "lies on" in told and "layer" in told
    names = write_lines(tmp_path / "names.tsv", "garden", "lake")
    assert "No triple was found" in run_command("relations", "extract", fitted, *text, "--entities", names).stdout


def test_scores_are_those_of_the_extraction(fitted: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.json"
    told = run_command("relations", "evaluate", fitted, data / "test.jsonl", "--json", out).stdout
    numbers = json.loads(out.read_text(encoding="utf-8"))
    gold, model = read_relations(data / "test.jsonl"), opened(fitted)
    spans = [Entities(list(NAMES))]
    found = [[one.triple for one in of_text] for of_text in extraction.extract(model, gold, spans)]
    for match in MATCHES:
        scores = score_relations(gold, found, match=match)
        assert numbers["scores"][match] == json.loads(json.dumps(scores.to_json()))
        assert f"{scores.total.f1:.3f}" in told
    strict = score_relations(gold, found).total
    assert f"strict: 40 gold facts in 40 texts, {strict.right_gold} found; {strict.found} extracted" in told
    # all pairs of the three names of each text are candidates, in both orders
    assert numbers["every_candidate_pair"]["counts"]["found"] == 40 * 6
    assert numbers["every_candidate_pair"]["measures"]["recall"] == 1.0
    assert numbers["ceilings"] == dict.fromkeys(MATCHES, 1.0)
    assert f"reaches F1 {numbers['every_candidate_pair']['measures']['f1']:.3f} there" in told.replace("\n", " ")
    assert numbers["spans"] == ["entities"] and numbers["thresholds"]["gate"] == model.thresholds_.gate


def test_the_ceiling_is_what_the_sources_offer(fitted: Path, data: Path, tmp_path: Path) -> None:
    few = write_lines(tmp_path / "few.tsv", *NAMES[:4])
    out = tmp_path / "scores.json"
    run_command(
        *("relations", "evaluate", fitted, data / "test.jsonl", "--json", out, "--entities", few, *EVERYTHING),
        *("--match", "strict"),
    )
    numbers = json.loads(out.read_text(encoding="utf-8"))
    gold = read_relations(data / "test.jsonl")
    known = [
        {text.text[span.start : span.end] for span in (text.triples[0].head, text.triples[0].tail)} <= set(NAMES[:4])
        for text in gold
    ]
    assert 0 < sum(known) < len(gold)
    assert numbers["ceilings"] == {"strict": pytest.approx(sum(known) / len(gold))}
    assert list(numbers["scores"]) == ["strict"] and numbers["scores"]["strict"]["measures"]["recall"] <= sum(known)


def test_relations_that_were_not_learned_are_told(fitted: Path, data: Path, tmp_path: Path) -> None:
    known = known_texts(80, 82)
    strange = [RelationText(one.text, (Triple(one.triples[0].head, one.triples[0].tail, "P1"),)) for one in known]
    mixed = write_relations(tmp_path / "mixed.jsonl", [*known, *strange])
    told = run_command("relations", "evaluate", fitted, mixed, "--gold-spans", "--match", "strict").stdout
    assert "4 triples of 1 relation that the model has not learned count as missed; --learned" in told
    none = write_relations(tmp_path / "none.jsonl", strange)
    assert "learned none of the relations" in error_of("relations", "evaluate", fitted, none, "--gold-spans")


def test_the_report_shows_weights_scores_and_neighbours(fitted: Path, data: Path, tmp_path: Path) -> None:
    told = run_command("relations", "report", fitted, "--data", data / "test.jsonl", "--out", tmp_path).stdout
    assert "probe.html" in told and (tmp_path / "probe.html").stat().st_size > 5000
    report = ProbeReport.from_json((tmp_path / "probe.json").read_text(encoding="utf-8"))
    [reading] = report.readings
    assert (len(reading.importance_gate), len(reading.importance_relations[0][0])) == (2, 6)  # layers, directions
    assert [(one.relation, one.label, one.n) for one in reading.relations] == [("on", "on it", 20), ("to", "to it", 20)]
    assert len(reading.linkage) == 1 and reading.linked == ("on", "to")
    model, gold = opened(fitted), read_relations(data / "test.jsonl")
    decided, _ = model.decide(gold)
    answers = model.classes_[1 + decided.best].tolist()
    right = [answer == text.triples[0].relation for answer, text in zip(answers, gold, strict=True)]
    assert reading.scores.accuracy == pytest.approx(sum(right) / len(right))


def test_what_cannot_be_used_is_named(fitted: Path, data: Path, checkpoint: Path, tmp_path: Path) -> None:
    test = data / "test.jsonl"
    for command in (("extract", tmp_path, "--text", "a"), ("evaluate", tmp_path, test)):
        told = error_of("relations", *command, code=1)
        assert str(tmp_path) in told and "infuser relations fit" in told
    other = save_checkpoint(tmp_path / "other", seed=1)
    told = error_of("relations", "evaluate", fitted, test, "--encoder", other, code=1)
    assert "fitted on another encoder" in told
    bare = write_lines(tmp_path / "bare.jsonl", json.dumps({"text": "a river"}))
    fit = ("relations", "fit", bare, "--encoder", checkpoint, "--out")
    assert "states a relation" in error_of(*fit, tmp_path / "rel")
    assert "holds other files" in error_of(*fit, tmp_path)
    assert "is a file" in error_of(*fit, bare)
    fit = ("relations", "fit", test, "--encoder", checkpoint, "--out", tmp_path / "rel")
    assert "do not state P9" in error_of(*fit, "--relations", "on,P9")
    assert "above 0" in error_of(*fit, "--strength", 0)
    assert not (tmp_path / "rel").exists()
    assert "--match near" in error_of("relations", "evaluate", fitted, test, "--match", "near")
    both = ("--gold-spans", "--entities", data / "names.tsv")
    assert "cannot be combined" in error_of("relations", "evaluate", fitted, test, *both)
    texts = write_lines(tmp_path / "texts.txt", "a river")
    assert "is a file that is read" in error_of("relations", "extract", fitted, texts, "--out", texts)
    assert "either files" in error_of("relations", "extract", fitted)


def test_a_damaged_record_of_sources_is_named(fitted: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(fitted, tmp_path / "rel"))
    write_lines(folder / "sources.json", "[")
    assert "sources.json is damaged: it is not" in error_of("relations", "extract", folder, "--text", "a", code=1)
    seal(folder)
    assert "sources.json is damaged (" in error_of("relations", "extract", folder, "--text", "a", code=1)
    write_lines(folder / "sources.json", json.dumps([{"name": "Mine", "needs": "it is not registered"}]))
    seal(folder)
    assert "'Mine' could not be saved" in error_of("relations", "extract", folder, "--text", "a")


def test_help_teaches_with_examples() -> None:
    commands = {
        one.callback.__name__: one.callback.__doc__ for one in relations.app.registered_commands if one.callback
    }
    assert set(commands) == {"fit", "extract", "evaluate", "report"}
    assert all(f"infuser relations {name} " in (told or "") for name, told in commands.items())
