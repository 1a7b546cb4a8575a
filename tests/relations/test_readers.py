"""Texts with relations from files: our own JSON lines there and back, every format recognised, bad rows told."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.readers import Format, read_relations, write_relations
from infuser.tables.skipped import Skipped
from infuser.types import Span

DATA = Path(__file__).parents[1] / "data" / "relations"
SAMPLES: dict[str, Format] = {
    "own.jsonl": "jsonl",
    "trex.csv": "trex",
    "docred/dev.json": "docred",
    "fewrel/train.json": "fewrel",
    "semeval.txt": "semeval",
}


def words_of(text: RelationText) -> list[tuple[str, str, str]]:
    """Return head, tail and relation of each triple, in words."""
    return [
        (text.text[one.head.start : one.head.end], text.text[one.tail.start : one.tail.end], one.relation)
        for one in text.triples
    ]


def write(folder: Path, content: str, name: str = "relations.jsonl") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SAMPLES)
def test_every_format_is_recognised_plain_and_packed(name: str, tmp_path: Path):
    strict = Skipped(strict=True)
    said = read_relations(DATA / name, SAMPLES[name], skipped=strict)
    assert read_relations(DATA / name, skipped=strict) == said
    for file in (DATA / name).parent.glob("*.json"):  # the names of relations stay beside the packed file
        (tmp_path / file.name).write_bytes(file.read_bytes())
    packed = tmp_path / f"{Path(name).name}.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + (DATA / name).read_bytes()))
    assert read_relations(packed, skipped=strict) == said


@pytest.mark.parametrize("name", SAMPLES)
def test_every_format_can_be_kept_as_ours(name: str, tmp_path: Path):
    texts = read_relations(DATA / name)
    assert read_relations(write_relations(tmp_path / "own.jsonl", texts), skipped=Skipped(strict=True)) == texts


def test_own_format_says_places_ids_negation_and_none():
    capital, negated, none = read_relations(DATA / "own.jsonl", skipped=Skipped(strict=True))
    bern, country = Span(0, 4, "city", "Q70"), Span(23, 34, id="Q39")
    assert capital.triples == (Triple(country, bern, "P36", Span(12, 22), "capital"),)
    assert (capital.spans, capital.name) == ((bern, country), "Bern")
    assert negated.triples == (Triple(Span(28, 39, id="Q39"), Span(0, 5), "P36", negated=True),)
    assert negated.spans == (Span(0, 5), Span(28, 39, id="Q39"))  # the triples' own mentions are known ones
    assert none.triples == (Triple(Span(0, 4), Span(9, 14), NO_RELATION),)


@pytest.mark.parametrize("relation", [None, "", "NA", "no_relation", "No_Relation"])
def test_what_says_no_relation_is_read_as_none(relation: str | None, tmp_path: Path):
    row = {"text": "Anna saw Basel.", "triples": [{"head": [0, 4], "tail": [9, 14], "relation": relation}]}
    [text] = read_relations(write(tmp_path, json.dumps(row)))
    assert text.triples[0].relation == NO_RELATION


@pytest.mark.parametrize(
    ("triple", "why"),
    [
        ({"head": [0, 4], "tail": [9, 99]}, "the tail is not inside the text of 15 characters"),
        ({"head": [4, 4], "tail": [9, 14]}, "the head is not inside the text of 15 characters"),
        ({"head": [True, 4], "tail": [9, 14]}, "the head is not inside the text"),
        ({"head": {"start": 0}, "tail": [9, 14]}, "the head is not inside the text"),
        ({"head": {"start": 0, "end": 4, "id": 7}, "tail": [9, 14]}, "id or label of the head is no text"),
        ({"head": [0, 4], "tail": [9, 14], "trigger": [5, 5]}, "the trigger is not inside the text"),
        ({"head": [0, 4], "tail": [9, 14], "relation": 36}, "the relation is no text"),
        ({"head": [0, 4], "tail": [9, 14], "label": ["x"]}, "the label of a relation is no text"),
        ({"head": [0, 4], "tail": [9, 14], "negated": "no"}, "negated is neither true nor false"),
        ([0, 4], "a triple is no JSON object"),
    ],
)
def test_bad_triple_is_told_with_its_line_and_the_rest_is_read(triple: Any, why: str, tmp_path: Path):
    good = {"head": [0, 4], "tail": [9, 14], "relation": "saw"}
    rows = [{"text": "x"}, {"text": "Anna saw Basel.", "triples": [triple, good]}]
    path = write(tmp_path, "\n".join(map(json.dumps, rows)))
    skipped = Skipped()
    texts = read_relations(path, skipped=skipped)
    assert [words_of(text) for text in texts] == [[], [("Anna", "Basel", "saw")]]
    assert skipped.n == 1
    assert f"{path}, line 2: {why}" in skipped.first[0]
    with pytest.raises(InputError, match="line 2"):
        read_relations(path, skipped=Skipped(strict=True))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('{"text": " "}', "no text"),
        ('{"text": "\\ud800 x"}', "no text"),
        ('{"text": "Anna", "triples": {}}', "triples or spans is no list"),
        ('{"text": "Anna", ', "not JSON"),
        ('["text"]', "is not an object"),
    ],
)
def test_row_that_cannot_be_read_is_told_and_reading_goes_on(row: str, why: str, tmp_path: Path):
    skipped = Skipped()
    [text] = read_relations(write(tmp_path, f'{{"text": "Bern"}}\n{row}\n'), skipped=skipped)
    assert text.text == "Bern"
    assert skipped.n == 1
    assert "line 2" in skipped.first[0]
    assert why in skipped.first[0]


def test_file_without_anything_readable_is_an_error_that_shows_why(tmp_path: Path):
    earlier = Skipped(n=1, first=["of another file"])
    with pytest.raises(InputError, match=r"no texts with relations of the format 'jsonl'.*line 1: no text"):
        read_relations(write(tmp_path, '{"text": ""}'), skipped=earlier)
    with pytest.raises(InputError, match="No file at"):
        read_relations(tmp_path / "missing.jsonl")


@pytest.mark.parametrize("content", ["", "Once upon a time\n", '{"sentence": "x"}\n', "[1, 2]", "a,b,text\n"])
def test_unknown_content_is_named_with_what_was_seen_and_how_to_say_it(content: str, tmp_path: Path):
    with pytest.raises(InputError, match="Cannot tell how relations are written") as error:
        read_relations(write(tmp_path, content, "file.txt"))
    assert f"begins {content.strip()!r}" in str(error.value)
    assert "format='jsonl'" in str(error.value)


def test_unknown_format_names_the_known_ones():
    with pytest.raises(InputError, match="Known: auto, jsonl, trex, docred, fewrel, semeval"):
        read_relations(DATA / "own.jsonl", "tacred")  # type: ignore[arg-type]


def test_given_labels_name_relations_in_place_of_the_file():
    texts = read_relations(DATA / "fewrel/train.json", labels={"P177": "goes over"})
    assert [text.triples[0].label for text in texts] == ["goes over", "goes over", "capital"]


def test_fewrel_examples_stand_on_their_tokens_and_the_nearest_mentions():
    bridge, mill, capital = read_relations(DATA / "fewrel/train.json", skipped=Skipped(strict=True))
    assert bridge.text == "The Nydegg Bridge in Bern crosses the Aare ."
    assert bridge.triples == (Triple(Span(4, 17, id="Q1"), Span(38, 42, id="Q2"), "P177", label="crosses"),)
    assert words_of(mill) == [("mill bridge", "Aare", "P177")]
    assert mill.triples[0].tail.start == 42
    assert [span.id for span in mill.spans] == ["Q2", "Q3", "Q2"]
    assert words_of(capital) == [("Switzerland", "Bern", "P36")]


def test_fewrel_example_that_cannot_be_read_is_told_by_relation_and_number(tmp_path: Path):
    good = {"tokens": ["a", "b"], "h": ["a", "Q1", [[0]]], "t": ["b", "Q2", [[1]]]}
    bad: list[Any] = [
        good | {"t": ["b", "Q2", [[2]]]},
        good | {"t": ["b", "Q2", []]},
        good | {"tokens": ["a", 1]},
        good | {"h": "a"},
        {"tokens": "a b"},
    ]
    skipped = Skipped()
    path = write(tmp_path, json.dumps({"P1": [good, *bad], "P2": 3}), "few.json")
    assert [words_of(text) for text in read_relations(path, skipped=skipped)] == [[("a", "b", "P1")]]
    assert skipped.n == 6
    assert f"{path}, P1, example 2: a mention is not inside the text of 2 tokens" in skipped.first[0]


def test_semeval_direction_decides_which_nominal_is_the_head():
    storm, flood, moon = read_relations(DATA / "semeval.txt", skipped=Skipped(strict=True))
    assert storm.text == "The storm broke the window."
    assert words_of(storm) == [("storm", "window", "Cause-Effect")]
    assert flood.text == 'The flood came from heavy rain, "they" said.'
    assert words_of(flood) == [("rain", "flood", "Cause-Effect")]
    assert words_of(moon) == [("cat", "moon", NO_RELATION)]
    assert [span.id for span in flood.spans] == ["e1", "e2"]


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ('2\t"<e1>a</e1> b"\nOther\n', "no <e2>words</e2>"),
        ('2\t"<e1>a</e1> <e2>b"\nOther\n', "no <e2>words</e2>"),
        ('2\t"<e1>a</e1> <e2> </e2>"\nOther\n', "no <e2>words</e2>"),
        ('2\t"<e1>a</e1> <e2>b</e2> <e2>c"\nOther\n', "<e2> stands twice"),
        ('2\t"<e1>a</e1> <e2>b</e2>"\nCause-Effect(e1,e1)\n', "neither Name(e1,e2) nor"),
        ('2\t"<e1>a</e1> <e2>b</e2>"\n', "no relation under the sentence"),
    ],
)
def test_malformed_semeval_block_is_told_with_its_line(block: str, why: str, tmp_path: Path):
    good = '{}\t"<e1>x</e1> and <e2> y </e2>"\nMember-Collection(e1,e2)\nComment:\n\n'
    skipped = Skipped()
    texts = read_relations(write(tmp_path, good.format(1) + block + good.format(3), "s.txt"), skipped=skipped)
    assert [(text.name, *words_of(text)) for text in texts] == [
        ("1", ("x", "y", "Member-Collection")),
        ("3", ("x", "y", "Member-Collection")),
    ]
    assert skipped.n == 1
    assert "line 5: " in skipped.first[0]
    assert why in skipped.first[0]


@st.composite
def relation_texts(draw: st.DrawFn) -> RelationText:
    names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    text = draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip))
    ends = st.integers(0, len(text))
    places = st.tuples(ends, ends).map(sorted).filter(lambda place: place[0] < place[1])
    span = st.builds(lambda place, label, id: Span(place[0], place[1], label, id), places, names, names)
    relation = st.sampled_from([NO_RELATION, "P36", "Ü b"])
    triple = st.builds(Triple, span, span, relation, st.none() | span, names, st.booleans())
    triples = tuple(draw(st.lists(triple, max_size=3)))
    spans = {*draw(st.lists(span, max_size=3)), *(end for one in triples for end in (one.head, one.tail))}
    ordered = sorted(spans, key=lambda span: (span.start, span.end, span.id, span.label))
    return RelationText(text, triples, tuple(ordered), draw(names))


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(relation_texts(), min_size=1, max_size=3))
def test_what_is_written_is_read_back_the_same(texts: list[RelationText], tmp_path_factory: pytest.TempPathFactory):
    path = write_relations(tmp_path_factory.mktemp("own") / "texts.jsonl", texts)
    assert read_relations(path, "jsonl", skipped=Skipped(strict=True)) == texts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (RelationText("Bern", spans=(Span(0, 9),)), "not inside its 4 characters"),
        (RelationText("Bern", (Triple(Span(0, 4), Span(2, 2)),)), "not inside its 4 characters"),
        (RelationText(" "), "it is empty"),
        (RelationText("Bern", name="\ud800"), "half of a character"),
    ],
)
def test_text_that_could_not_be_read_again_is_not_written(text: RelationText, why: str, tmp_path: Path):
    with pytest.raises(InputError, match=f"Text 2 cannot be written: .*{why}"):
        write_relations(tmp_path / "own.jsonl", [RelationText("Bern"), text])
    assert list(tmp_path.iterdir()) == []


def test_packed_name_is_refused_for_writing(tmp_path: Path):
    with pytest.raises(InputError, match=r"Name it \.jsonl"):
        write_relations(tmp_path / "own.jsonl.gz", [RelationText("Bern")])


@settings(max_examples=150, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(SAMPLES)), junk=st.binary(max_size=6))
def test_damaged_file_is_an_error_or_gives_places_inside_its_texts(
    data: st.DataObject, name: str, junk: bytes, tmp_path_factory: pytest.TempPathFactory
):
    whole = (DATA / name).read_bytes()
    first = data.draw(st.integers(0, len(whole)))
    last = min(len(whole), first + data.draw(st.integers(0, 12)))
    path = tmp_path_factory.mktemp("damaged") / "file"
    path.write_bytes(whole[:first] + junk + whole[last:])
    try:
        texts = read_relations(path, SAMPLES[name])
    except InputError:
        return
    for text in texts:
        triggers = [one.trigger for one in text.triples if one.trigger]
        assert all(0 <= span.start < span.end <= len(text.text) for span in (*text.mentions(), *triggers))


def test_readers_load_neither_torch_nor_sklearn():
    code = "import sys, infuser.relations.readers; sys.exit(bool({'torch', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
