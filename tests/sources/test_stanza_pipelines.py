"""Entities and constituency phrases of Stanza pipelines; the documents and trees are Stanza's, made in code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infuser.errors import SourceError
from infuser.sources.stanza_pipelines import StanzaEntities, StanzaPhrases
from infuser.sources.storage import load_source, save_source
from infuser.types import Annotations, Link, Span, join_pair

pytest.importorskip("stanza")

from stanza.models.common.doc import Document
from stanza.models.constituency.parse_tree import Tree
from stanza.models.constituency.tree_reader import read_trees

BERN = "Fred Meyer lives in Bern."
BERN_TREE = "(ROOT (S (NP (NNP Fred) (NNP Meyer)) (VP (VBZ lives) (PP (IN in) (NP (NNP Bern)))) (. .)))"
CAT = "the cat (black) sleeps"
CAT_TREE = "(ROOT (S (NP (NP (DT the) (NN cat)) (PRN (-LRB- -LRB-) (JJ black) (-RRB- -RRB-))) (VP (VBZ sleeps))))"


def document(text: str, *sentences: list[tuple[str, str]], trees: tuple[str, ...] = ()) -> Document:
    """Make a Stanza document of (word, entity tag) pairs, the words in the order of the text."""
    place, rows = 0, []
    for sentence in sentences:
        row = []
        for number, (word, tag) in enumerate(sentence, start=1):
            place = text.index(word, place)
            row.append({"id": number, "text": word, "ner": tag, "start_char": place, "end_char": place + len(word)})
            place += len(word)
        rows.append(row)
    made = Document(rows, text=text)
    for sentence_, tree in zip(made.sentences, trees, strict=False):
        [sentence_.constituency] = read_trees(tree)
    return made


def plain(text: str) -> list[tuple[str, str]]:
    return [(word, "O") for word in text.split()]


class Pipeline:
    """Stands in for `stanza.Pipeline`, whose models cannot be had here: it knows documents by their texts."""

    def __init__(self, *documents: Document) -> None:
        self.documents = {known.text: known for known in documents}
        self.batches: list[int] = []

    def __call__(self, text: str) -> Document:
        return self.documents[text]

    def bulk_process(self, texts: list[str]) -> list[Document]:
        self.batches.append(len(texts))
        return [self.documents[text] for text in texts]


def bern() -> Document:
    tags = ["B-PERSON", "E-PERSON", "O", "O", "S-GPE", "O"]
    words = ["Fred", "Meyer", "lives", "in", "Bern", "."]
    return document(BERN, list(zip(words, tags, strict=True)), trees=(BERN_TREE,))


def cat() -> Document:
    return document(CAT, plain("the cat ( black ) sleeps"), trees=(CAT_TREE,))


def found(source: StanzaEntities | StanzaPhrases, text: str) -> list[tuple[str, str]]:
    [answer] = source.annotate([text])
    return [(span.label, text[span.start : span.end]) for span in answer.spans]


def test_entities_are_stanzas_own() -> None:
    source = StanzaEntities(Pipeline(bern()))
    assert source.annotate([BERN]) == [
        Annotations(BERN, (Span(0, 10, "PERSON"), Span(20, 24, "GPE")), (Link(0, 0), Link(1, 1)))
    ]
    assert found(StanzaEntities(Pipeline(bern()), labels=["GPE"]), BERN) == [("GPE", "Bern")]


def test_each_side_of_a_pair_is_a_document_of_its_own() -> None:
    source = StanzaEntities(Pipeline(bern(), document("in Bern", [("in", "O"), ("Bern", "S-GPE")])))
    pair = join_pair(BERN, " in Bern")
    assert found(source, pair) == [("PERSON", "Fred Meyer"), ("GPE", "Bern"), ("GPE", "Bern")]
    assert source.annotate([pair])[0].spans[-1].end == len(pair)


def test_phrases_of_a_tree_worked_by_hand() -> None:
    pipeline = Pipeline(bern(), cat())
    assert found(StanzaPhrases(pipeline), BERN) == [("NP", "Fred Meyer")]
    assert found(StanzaPhrases(pipeline, levels=(3, 4)), BERN) == [("VP", "lives in Bern"), ("PP", "in Bern")]
    assert found(StanzaPhrases(pipeline, levels=(5, 6)), BERN) == [("S", BERN)]  # ROOT has the same words
    assert found(StanzaPhrases(pipeline, levels=(2, 3, 4), labels=["PP"]), BERN) == [("PP", "in Bern")]


def test_brackets_in_a_tree_stand_where_the_sentence_says() -> None:
    source = StanzaPhrases(Pipeline(cat()), levels=(2, 3))
    assert found(source, CAT) == [("NP", "the cat"), ("NP", "the cat (black)")]


def test_several_sentences_have_a_tree_each() -> None:
    text = "a dog ran a cat sat"
    tree = "(S (NP (DT a) (NN {})) (VP (VBD {})))"
    made = document(
        text, plain("a dog ran"), plain("a cat sat"), trees=(tree.format("dog", "ran"), tree.format("cat", "sat"))
    )
    assert found(StanzaPhrases(Pipeline(made)), text) == [("NP", "a dog"), ("NP", "a cat")]


def test_parts_of_a_contraction_stand_where_all_of_it_does() -> None:
    text = "près du lac"
    rows: list[dict[str, Any]] = [
        {"id": 1, "text": "près", "start_char": 0, "end_char": 4},
        {"id": (2, 3), "text": "du", "start_char": 5, "end_char": 7},
        {"id": 2, "text": "de"},
        {"id": 3, "text": "le"},
        {"id": 4, "text": "lac", "start_char": 8, "end_char": 11},
    ]
    made = Document([rows], text=text)
    [made.sentences[0].constituency] = read_trees("(PP (ADV près) (PP (P de) (NP (D le) (N lac))))")
    assert found(StanzaPhrases(Pipeline(made), lang="fr", levels=(2,)), text) == [("NP", "du lac")]


def test_texts_are_given_in_batches_and_to_a_plain_function_one_by_one() -> None:
    texts = [f"word{number}" for number in range(5)]
    pipeline = Pipeline(*(document(text, [(text, "S-X")]) for text in texts))
    answers = StanzaEntities(pipeline, batch_size=2).annotate(texts)
    assert pipeline.batches == [2, 2, 1]
    assert StanzaEntities(pipeline.__call__).annotate(texts) == answers
    assert [len(answer.spans) for answer in answers] == [1] * 5


def test_a_pipeline_without_trees_is_refused() -> None:
    with pytest.raises(SourceError, match="add 'constituency' to its processors"):
        StanzaPhrases(Pipeline(document("a dog", plain("a dog")))).annotate(["a dog"])


def test_a_tree_of_another_sentence_is_refused() -> None:
    made = document("a dog ran", plain("a dog ran"))
    made.sentences[0].constituency = Tree("S", [Tree("X", [Tree("dog")])])
    with pytest.raises(SourceError, match="has 1 words, its sentence 3"):
        StanzaPhrases(Pipeline(made)).annotate(["a dog ran"])


def test_a_folder_without_models_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"Stanza cannot load 'tokenize,ner' for the language 'en' from .*download\("):
        StanzaEntities(tmp_path / "absent").annotate(["a text"])
    (tmp_path / "resources.json").write_text("{}")
    with pytest.raises(SourceError, match="Language xx is currently unsupported"):
        StanzaPhrases(tmp_path, lang="xx").annotate(["a text"])


def test_a_folder_is_saved_and_a_pipeline_asked_for_again(tmp_path: Path) -> None:
    source = StanzaPhrases(tmp_path / "models", levels=[2, 3], labels=["NP"])
    assert load_source(save_source(source, tmp_path), tmp_path) == source
    record = save_source(StanzaPhrases(Pipeline(cat())), tmp_path)
    with pytest.raises(SourceError, match=r"given as an object, a Pipeline\. Give the folder of its models"):
        load_source(record, tmp_path)


def test_what_is_no_pipeline_is_refused() -> None:
    with pytest.raises(SourceError, match="give a folder of Stanza models"):
        StanzaEntities(7)
