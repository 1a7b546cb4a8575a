"""Documents of DocRED: facts on the nearest mentions, whole or sentence by sentence."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.relations.examples import RelationText
from infuser.relations.readers import read_relations
from infuser.tables.skipped import Skipped

DATA = Path(__file__).parents[1] / "data" / "relations"
REDOCRED = Path(__file__).parents[3] / "shared" / "data" / "relations" / "re-docred"


def places(text: RelationText) -> list[tuple[str, int, str, int, str]]:
    return [
        (text.text[head.start : head.end], head.start, text.text[tail.start : tail.end], tail.start, one.relation)
        for one in text.triples
        for head, tail in [(one.head, one.tail)]
    ]


def test_a_fact_stands_on_the_nearest_mentions_those_of_one_sentence_first():
    aare, nothing = read_relations(DATA / "docred/dev.json", skipped=Skipped(strict=True))
    assert aare.text.startswith("The Aare is a river in Switzerland . It flows through Bern , and the Aare")
    assert places(aare) == [
        ("Aare", 4, "Switzerland", 23, "P17"),
        ("Aare", 69, "the Rhine", 80, "P403"),
        ("the Rhine", 80, "Switzerland", 92, "P17"),  # no sentence has both
    ]
    assert [(span.start, span.label, span.id) for span in aare.spans] == [
        (4, "LOC", "0"),
        (23, "LOC", "1"),
        (54, "LOC", "2"),
        (69, "LOC", "0"),
        (80, "LOC", "3"),
        (92, "LOC", "1"),
    ]
    assert [one.label for one in aare.triples] == ["country", "mouth of the watercourse", "country"]
    assert (nothing.text, nothing.triples, nothing.name) == ("Anna sleeps .", (), "Nothing")


def test_sentences_keep_the_facts_they_hold_and_count_the_others():
    left_out: Counter[str] = Counter()
    texts = read_relations(DATA / "docred/dev.json", split_sentences=True, left_out=left_out)
    assert [text.text.split()[0] for text in texts] == ["The", "It", "Switzerland", "Anna"]
    assert [places(text) for text in texts] == [
        [("Aare", 4, "Switzerland", 23, "P17")],
        [("Aare", 32, "the Rhine", 43, "P403")],
        [],
        [],
    ]
    assert [[span.id for span in text.spans] for text in texts] == [["0", "1"], ["2", "0", "3"], ["1"], ["0"]]
    assert left_out == {"P17": 1}
    with pytest.raises(InputError, match="Only documents of DocRED are cut"):
        read_relations(DATA / "trex.csv", split_sentences=True)


def test_one_sentence_comes_before_nearness(tmp_path: Path):
    far = ["x"] * 20
    document = {
        "sents": [["A", *far, "B"], ["A", "y"]],
        "vertexSet": [
            [{"sent_id": 0, "pos": [0, 1]}, {"sent_id": 1, "pos": [0, 1]}, {"sent_id": 1, "pos": [0, 1]}],
            [{"sent_id": 0, "pos": [21, 22]}],
        ],
        "labels": [{"h": 0, "t": 1, "r": "P1"}, {"h": 0, "t": 1, "r": "P1"}],
    }
    [text] = read_relations(write(tmp_path, [document]), skipped=Skipped(strict=True))
    assert places(text) == [("A", 0, "B", 42, "P1")]
    assert len(text.spans) == 3  # what is said twice is one mention


def write(folder: Path, content: object) -> Path:
    path = folder / "documents.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changed", "why", "n_facts"),
    [
        ({"labels": [{"h": 0, "t": 2, "r": "P1"}]}, "head and tail are not both among the 2 entities", 0),
        ({"labels": [{"h": 0, "t": True, "r": "P1"}]}, "head and tail are not both among the 2 entities", 0),
        ({"labels": [{"h": 1, "t": 1, "r": "P1"}]}, "head and tail are one entity", 0),
        ({"labels": [{"h": 0, "t": 1, "r": 4}, {"h": 0, "t": 1, "r": "P1"}]}, "the relation is no text", 1),
        ({"labels": 7}, "labels is no list", None),
        ({"sents": "A B"}, "no sents that is a list of lists", None),
        ({"sents": [["A", 3]]}, "a token is no text", None),
        ({"sents": [[]]}, "no text", None),
        ({"vertexSet": [[{"sent_id": 0, "pos": [0, 1]}], [{"sent_id": 0, "pos": [1, 3]}]]}, "its sentence of 2", 0),
        ({"vertexSet": [[{"sent_id": 0, "pos": [0, 1]}], [{"sent_id": 1, "pos": [0, 1]}]]}, "none of the 1 sent", 0),
    ],
)
def test_what_is_wrong_in_a_document_is_told_by_its_number(
    changed: dict[str, Any], why: str, n_facts: int | None, tmp_path: Path
):
    good: dict[str, Any] = {
        "sents": [["A", "B"]],
        "vertexSet": [[{"sent_id": 0, "pos": [0, 1]}], [{"sent_id": 0, "pos": [1, 2]}]],
        "labels": [{"h": 0, "t": 1, "r": "P1"}],
    }
    skipped = Skipped()
    path = write(tmp_path, [good, good | changed])
    first, *rest = read_relations(path, skipped=skipped)
    assert len(first.triples) == 1
    assert [len(text.triples) for text in rest] == ([] if n_facts is None else [n_facts])
    assert f"{path}, document 2: " in skipped.first[0]
    assert why in skipped.first[0]


def test_broken_json_is_an_error_with_its_line(tmp_path: Path):
    path = tmp_path / "broken.json"
    path.write_text('[{"vertexSet": [],\n "sents": [', encoding="utf-8")
    with pytest.raises(InputError, match=r"is not JSON: .*line 2"):
        read_relations(path)
    path.write_text('{"vertexSet": []}', encoding="utf-8")
    with pytest.raises(InputError, match="no list of documents"):
        read_relations(path, "docred")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_sentences_and_document_agree_on_every_mention(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory):
    sents = data.draw(st.lists(st.lists(st.sampled_from(["Ann", "b", "."]), max_size=4), min_size=1, max_size=4))
    if not any(sents):
        return
    spots = [(number, first) for number, sent in enumerate(sents) for first in range(len(sent))]
    mention = st.sampled_from(spots).map(lambda spot: {"sent_id": spot[0], "pos": [spot[1], spot[1] + 1]})
    entities = data.draw(st.lists(st.lists(mention, min_size=1, max_size=3), min_size=2, max_size=3))
    facts = [{"h": 0, "t": 1, "r": "P1"}, {"h": 1, "t": 0, "r": "P2"}]
    document = {"sents": sents, "vertexSet": entities, "labels": facts}
    path = write(tmp_path_factory.mktemp("docred"), [document])
    left_out: Counter[str] = Counter()
    [whole] = read_relations(path, "docred", skipped=Skipped(strict=True))
    cut = read_relations(path, "docred", split_sentences=True, left_out=left_out)
    assert " ".join(text.text for text in cut) == whole.text
    moved, start = [], 0
    for text in cut:
        moved += [(start + span.start, start + span.end, span.id) for span in text.spans]
        start += len(text.text) + 1
    assert sorted(moved) == sorted((span.start, span.end, span.id) for span in whole.spans)
    assert len({one.relation for text in cut for one in text.triples}) + left_out.total() == len(facts)


@pytest.mark.shared
def test_re_docred_is_read_whole():
    if not REDOCRED.is_dir():
        pytest.skip(f"no data at {REDOCRED}")
    counts = {}
    for name in ("dev", "test"):
        path, left_out = REDOCRED / f"{name}_revised.json", Counter[str]()
        texts = read_relations(path, skipped=Skipped(strict=True))
        cut = read_relations(path, split_sentences=True, left_out=left_out)
        n_facts = sum(len(text.triples) for text in texts)
        counts[name] = len(texts), n_facts, len(cut), n_facts - left_out.total()
    assert counts == {"dev": (500, 17284, 4110, 7982), "test": (500, 17448, 3966, 8156)}
