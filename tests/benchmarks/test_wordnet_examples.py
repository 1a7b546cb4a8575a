"""Examples of use in WordNet's glosses become linked texts; the files here are small and written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from wordnet_texts import definition_of, inflected, read_irregular, wordnet_examples, wordnet_mentions

from infuser.knowledge.candidates.store import build_candidates
from infuser.knowledge.readers.wordnet import read_wordnet
from infuser.linking.examples import LinkedText
from infuser.types import Span

FILES = {
    "data.noun": """\
00000100 05 n 02 dog 0 Canis_familiaris 0 000 | an animal; "the dogs barked all night"; "a pet"; "Dogs! Dogs!"
00000200 13 n 02 dog 1 hot_dog 0 000 | a sausage (also called "dog"); "he ate a hot dog"; "dog for lunch"
00000300 06 n 01 ox 0 000 | an animal of the farm; "two oxen; and a cart"
00000400 06 n 01 match 0 000 | a stick; "strike a match"
00000500 06 n 01 match 1 000 | a game; "strike a match"
00000600 06 n 01 oven 0 000 | a quote is missing; "an oven" of stone"
""",
    "data.verb": '00000100 30 v 02 drag_on 0 go 1 000 01 + 02 00 | last; "The speech dragged on"; "it went well"  \n',
    "data.adj": '00000100 00 s 01 galore(ip) 0 000 | in plenty; "whiskey galore" - Mackenzie; "plenty"\n',
    "data.adv": '00000100 02 r 01 well 0 000 | "he did well"\n',
    "noun.exc": "oxen ox\n",
    "verb.exc": "dragged drag\nwent go\n",
    "index.sense": "dog%1:05:00:: 00000100 1 42\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def test_an_example_is_linked_where_it_shows_a_lemma_as_written_or_inflected(folder):
    shown = [
        (one.text[one.spans[0].start : one.spans[0].end], one.text, one.spans[0].id) for one in wordnet_examples(folder)
    ]
    assert shown == [
        ("dogs", "the dogs barked all night", "n00000100"),
        ("Dogs", "Dogs! Dogs!", "n00000100"),
        ("hot dog", "he ate a hot dog", "n00000200"),
        ("dog", "dog for lunch", "n00000200"),
        ("oxen", "two oxen; and a cart", "n00000300"),
        ("dragged on", "The speech dragged on", "v00000100"),
        ("went", "it went well", "v00000100"),
        ("galore", "whiskey galore", "a00000100"),
        ("well", "he did well", "r00000100"),
    ]


def test_only_the_mention_is_labelled(folder):
    assert wordnet_examples(folder)[0] == LinkedText(
        "the dogs barked all night", (Span(4, 8, id="n00000100"),), (4, 8), "n00000100"
    )


def test_entities_are_those_of_the_reader_and_of_the_candidates(folder):
    known = {id for batch in read_wordnet(folder) if "label" in batch.schema.names for id in batch["id"].to_pylist()}
    store = build_candidates(wordnet_mentions(folder))
    offered = {store.ids[number] for number in range(len(store.ids))}
    assert {one.spans[0].id for one in wordnet_examples(folder)} <= known == offered


def test_mentions_are_all_forms_weighed_by_how_often_the_lemma_has_the_meaning(folder):
    rows = {
        (mention, entity): count
        for batch in wordnet_mentions(folder)
        for mention, entity, count in zip(*(batch[name].to_pylist() for name in batch.schema.names), strict=True)
    }
    assert rows["dogs", "n00000100"] == rows["dog", "n00000100"] == 43
    assert rows["hot dogs", "n00000200"] == rows["oxen", "n00000300"] == rows["went", "v00000100"] == 1


def test_forms_follow_wordnets_rules_and_its_lists(folder):
    nouns, verbs = read_irregular(folder, "n"), read_irregular(folder, "v")
    assert {"box", "boxes"} <= set(inflected("box", "n", nouns))
    assert {"fire woman", "fire women"} <= set(inflected("fire woman", "n", nouns))
    assert {"note down", "notes down", "noted down", "noting down"} <= set(inflected("note down", "v", verbs))
    assert inflected("drag on", "v", verbs)[:2] == ["drag on", "dragged on"]
    assert inflected("well", "r", read_irregular(folder, "r")) == ["well"]


@pytest.mark.parametrize(
    ("gloss", "definition"),
    [
        ('last; "The speech dragged on"; "it went well"', "last"),
        ('in plenty; "whiskey galore" - Mackenzie; "plenty"', "in plenty"),
        ('a sausage (also called "dog"); very warm; "he ate it"', 'a sausage (also called "dog"); very warm'),
        ("no example; here", "no example; here"),
    ],
)
def test_a_definition_is_a_gloss_without_its_examples(gloss, definition):
    assert definition_of(gloss) == definition
