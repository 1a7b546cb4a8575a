"""Entities, noun chunks and dependency sub-trees of spaCy pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fetching import fetch_or_skip
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import SourceError
from infuser.sources.spacy_pipelines import SpacyEntities, SpacyPhrases, find_subtrees
from infuser.sources.storage import load_source, save_source
from infuser.types import Annotations, Link, Span, join_pair

spacy = pytest.importorskip("spacy")


def found(source: SpacyEntities | SpacyPhrases, text: str) -> list[tuple[str, str]]:
    [answer] = source.annotate([text])
    return [(span.label, text[span.start : span.end]) for span in answer.spans]


def rules(*names: tuple[str, str, str]) -> Any:
    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": label, "pattern": name, "id": id} for name, label, id in names])
    return pipeline


@spacy.Language.component("test_parse")
def _parse(doc: Any) -> Any:
    """Parse "the bridge of the old town , crossed" by hand."""
    heads = [1, 7, 1, 5, 5, 2, 7, 7][: len(doc)]
    deps = ["det", "nsubj", "prep", "det", "amod", "pobj", "punct", "ROOT"][: len(doc)]
    words, spaces = [token.text for token in doc], [bool(token.whitespace_) for token in doc]
    return type(doc)(doc.vocab, words=words, spaces=spaces, heads=heads, deps=deps)


def hand_parser() -> Any:
    pipeline = spacy.blank("en")
    pipeline.add_pipe("test_parse")
    return pipeline


def test_entities_carry_label_and_id() -> None:
    source = SpacyEntities(rules(("Bern", "GPE", "Q70"), ("Aare", "LOC", "Q14314")))
    text = "Bern lies on the Aare."
    assert source.annotate([text]) == [
        Annotations(text, (Span(0, 4, "GPE", "Q70"), Span(17, 21, "LOC", "Q14314")), (Link(0, 0), Link(1, 1)))
    ]
    assert found(SpacyEntities(source.pipeline, labels=["LOC"]), text) == [("LOC", "Aare")]


def test_an_entity_does_not_reach_across_the_break_of_a_pair() -> None:
    source = SpacyEntities(rules(("New York", "GPE", "")))
    assert found(source, "in New York") == [("GPE", "New York")]
    assert found(source, join_pair("in New", "York")) == []


def test_a_pipeline_in_a_folder_is_saved_by_its_folder(tmp_path: Path) -> None:
    rules(("Bern", "GPE", "Q70")).to_disk(tmp_path / "pipeline")
    source = SpacyEntities(tmp_path / "pipeline", labels=["GPE"], batch_size=2)
    again = load_source(save_source(source, tmp_path / "saved"), tmp_path / "saved")
    assert again == source
    assert found(again, "Bern") == [("GPE", "Bern")]  # type: ignore[arg-type]


def test_a_pipeline_given_as_an_object_is_asked_for_again(tmp_path: Path) -> None:
    record = save_source(SpacyEntities(rules(("Bern", "GPE", ""))), tmp_path)
    with pytest.raises(SourceError, match=r"given as an object, a English\. Write it with pipeline\.to_disk"):
        load_source(record, tmp_path)


def test_components_can_be_left_out() -> None:
    pipeline = rules(("Bern", "GPE", ""))
    assert found(SpacyEntities(pipeline, exclude=["entity_ruler"]), "Bern") == []
    assert found(SpacyEntities(pipeline), "Bern") == [("GPE", "Bern")]


def test_a_pipeline_forgets_the_words_it_met() -> None:
    source = SpacyEntities(rules(("Bern", "GPE", "")))
    source.annotate(["Bern"])
    before = len(source.pipeline.vocab.strings)
    source.annotate([f"word{number} Bern" for number in range(50)])
    assert len(source.pipeline.vocab.strings) == before


def test_a_pipeline_is_usable_inside_a_memory_zone_of_its_owner() -> None:
    pipeline = rules(("Bern", "GPE", ""))
    with pipeline.memory_zone():
        assert found(SpacyEntities(pipeline), "in Bern") == [("GPE", "Bern")]


def test_a_pipeline_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="spaCy cannot load the pipeline 'no_such_pipeline'"):
        SpacyEntities("no_such_pipeline").annotate(["a text"])
    with pytest.raises(SourceError, match=r"cannot load .*config\.cfg"):
        SpacyEntities(tmp_path).annotate(["a text"])


def test_settings_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(SourceError, match="labels is 'GPE'"):
        SpacyEntities("tiny", labels="GPE")
    with pytest.raises(SourceError, match="batch_size is 0"):
        SpacyEntities("tiny", batch_size=0)
    with pytest.raises(SourceError, match="unit is 'words'"):
        SpacyPhrases("tiny", unit="words")  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="levels is"):
        SpacyPhrases("tiny", levels=[0])


def test_noun_chunks_are_spacys_own() -> None:
    source = SpacyPhrases("tiny")
    text = "old bridge, green river"
    assert source.annotate([text]) == [
        Annotations(text, (Span(0, 10, "noun phrase"), Span(12, 23, "noun phrase")), (Link(0, 0), Link(1, 1)))
    ]
    [doc] = source._pipeline.pipe([text])
    assert [chunk.text for chunk in doc.noun_chunks] == ["old bridge", "green river"]


def test_subtrees_worked_by_hand() -> None:
    text = "the bridge of the old town, crossed"
    for level, expected in {
        1: [("pobj", "the old town")],
        2: [("prep", "of the old town")],
        3: [("nsubj", "the bridge of the old town")],
        4: [("ROOT", "the bridge of the old town, crossed")],
        5: [],
    }.items():
        assert found(SpacyPhrases(hand_parser(), unit="subtrees", levels=[level]), text) == expected
    both = SpacyPhrases(hand_parser(), unit="subtrees", levels=(1, 3))
    assert found(both, text) == [("nsubj", "the bridge of the old town"), ("pobj", "the old town")]


def test_words_that_do_not_stand_in_a_row_are_no_phrase() -> None:
    assert find_subtrees([2, 1, 2, 1], [True] * 4, {1}) == []
    assert find_subtrees([2, 2, 2, 3], [True, False, True, True], {1}) == [(2, 0, 2)]  # punctuation does not part them
    assert find_subtrees([1, 1], [True, False], {0, 1}) == []  # one word only


def heads_of_a_tree(numbers: list[int]) -> list[int]:
    """Make a forest of any numbers: the head of each token comes before it in a shuffled order."""
    order = sorted(range(len(numbers)), key=lambda place: (numbers[place] * 7919) % 101)
    heads = [0] * len(numbers)
    for place, token in enumerate(order):
        heads[token] = order[numbers[token] % (place + 1)] if numbers[token] % 5 else token
    return heads


@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans()), max_size=12))
def test_subtrees_are_those_of_the_plain_definition(tokens: list[tuple[int, bool]]) -> None:
    heads, words = heads_of_a_tree([number for number, _ in tokens]), [word for _, word in tokens]
    children = [[i for i, head in enumerate(heads) if head == place != i] for place in range(len(heads))]

    def below(root: int) -> set[int]:
        return ({root} if words[root] else set()).union(*(below(child) for child in children[root]))

    def height(root: int) -> int:
        return max((height(child) + 1 for child in children[root] if below(child)), default=0)

    for level in range(1, 5):
        expected = []
        for root in range(len(heads)):
            inside = sorted(below(root))
            row = [place for place in range(inside[0], inside[-1] + 1) if words[place]] if inside else []
            if height(root) == level and len(inside) >= 2 and inside == row:
                expected.append((root, inside[0], inside[-1]))
        assert find_subtrees(heads, words, {level}) == expected


def test_a_very_deep_tree_is_no_problem() -> None:
    n = 50_000
    assert find_subtrees([min(place + 1, n - 1) for place in range(n)], [True] * n, {n - 1}) == [(n - 1, 0, n - 1)]


def test_a_pipeline_without_a_parser_is_refused() -> None:
    with pytest.raises(SourceError, match="a English object does not parse: its components are entity_ruler"):
        SpacyPhrases(rules(("Bern", "GPE", ""))).annotate(["Bern lies"])


@pytest.fixture(scope="module")
def english() -> str:
    return str(fetch_or_skip("spacy-en"))


@pytest.mark.slow
def test_the_real_english_pipeline_finds_entities_and_phrases(english: str) -> None:
    text = "Alan Turing worked at the old University of Cambridge in England."
    assert (Path(english) / "config.cfg").is_file()
    entities = found(SpacyEntities(), text)
    assert ("PERSON", "Alan Turing") in entities and ("GPE", "England") in entities
    assert entities == found(SpacyEntities(english), text)  # what "spacy-en" leaves out is not needed
    assert ("noun phrase", "the old University") in found(SpacyPhrases(), text)
    mayor = "The mayor of Bern crossed the old bridge."
    assert found(SpacyPhrases(unit="subtrees", levels=(1,)), mayor) == [("prep", "of Bern"), ("dobj", "the old bridge")]
    assert found(SpacyPhrases(unit="subtrees", levels=(2,)), mayor) == [("nsubj", "The mayor of Bern")]
    assert found(SpacyPhrases(unit="subtrees"), text) == found(SpacyPhrases(english, unit="subtrees"), text)
    texts = [text, "Bern lies on the Aare.", text.upper()]
    assert SpacyEntities(batch_size=1).annotate(texts) == SpacyEntities().annotate(texts)


def test_the_types_are_the_labels_of_components_that_find_them() -> None:
    assert set(SpacyEntities.tiny().span_types) == {"GPE", "ORG", "LOC"}
    assert SpacyEntities("tiny", exclude=["entity_ruler"]).span_types == ()
    assert SpacyPhrases.tiny().span_types == ("noun phrase",)
    assert "ROOT" in SpacyPhrases("tiny", unit="subtrees").span_types
