"""Entities of an infused tagger in spaCy documents: alone, in batches, beside other entities, after saving."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from cli.small_linkers import save_linker
from tasks.small_ner import tiny_tagger

from infuser import Infused, Types, load
from infuser.errors import CheckpointError, InputError
from infuser.tasks.ner import find_entities, find_in_documents

spacy = pytest.importorskip("spacy")

TEXTS = ["buy glipizide in bern, near basel.", "", "the old warfarin", "a train runs from lugano to sion and the lake"]


@pytest.fixture(scope="module", autouse=True)
def component() -> Any:
    """The module; where infuser is installed, spaCy imports it by its entry point."""
    return importlib.import_module("infuser.tasks.ner_component")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tagger") / "model"
    tiny_tagger(Types(), TEXTS).save(folder)
    return folder


@pytest.fixture(scope="module")
def infused(model: Path) -> Infused:
    return load(model)


def pipeline(model: Path | str, *rules: tuple[str, str], **config: Any) -> Any:
    nlp = spacy.blank("en")
    if rules:
        patterns = [{"label": label, "pattern": pattern, "id": "rule"} for pattern, label in rules]
        nlp.add_pipe("entity_ruler").add_patterns(patterns)
    nlp.add_pipe("infuser_ner", config={"model": str(model), **config})
    return nlp


def placed(doc: Any) -> list[list[Any]]:
    return [[ent.start_char, ent.end_char, ent.label_, ent._.infuser_probability] for ent in doc.ents]


def expected(infused: Infused, texts: list[str]) -> list[list[Any]]:
    found = find_entities(infused.model, infused.collator(), [{"text": text} for text in texts], progress=False)
    return [[[*place, pytest.approx(probability, abs=1e-5)] for *place, probability in of_text] for of_text in found]


def test_entities_are_those_of_find_entities_with_their_probabilities(model: Path, infused: Infused) -> None:
    nlp = pipeline(model)
    docs = [nlp(text) for text in TEXTS]
    assert [placed(doc) for doc in docs] == expected(infused, TEXTS)
    assert {ent.label_ for doc in docs for ent in doc.ents} == {"City", "Drug"}
    first, entity = docs[0].ents[0], docs[0]._.infuser_entities[0]
    assert (entity["text"], entity["label"]) == (first.text, first.label_)
    assert entity["probability"] == first._.infuser_probability
    assert docs[0][:]._.infuser_probability is None


def test_many_documents_are_read_in_batches_and_stay_in_order(model: Path, infused: Infused) -> None:
    texts = TEXTS * 3
    docs = list(pipeline(model).pipe(iter(texts), batch_size=5))
    assert [doc.text for doc in docs] == texts
    assert [placed(doc) for doc in docs] == expected(infused, texts)


def test_a_pipeline_and_its_documents_can_be_saved(model: Path, tmp_path: Path) -> None:
    nlp = pipeline(model, overwrite_ents=False)
    doc = nlp(TEXTS[0])
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert placed(again(TEXTS[0])) == placed(doc) != []
    assert again.get_pipe("infuser_ner").overwrite_ents is False
    read = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert placed(read) == placed(doc) and read._.infuser_entities == doc._.infuser_entities


def test_entities_of_others_stay_where_they_share_no_token(model: Path) -> None:
    alone = pipeline(model)(TEXTS[3])
    taken = {token.i for ent in alone.ents for token in ent}
    free = next(token for token in alone if token.i not in taken)
    rules = ((free.text, "FREE"), (alone.ents[0].text, "RULE"))
    over = pipeline(model, *rules)(TEXTS[3])
    assert {(ent.text, ent.ent_id_) for ent in over.ents if ent.label_ == "FREE"} == {(free.text, "rule")}
    assert [ent for ent in placed(over) if ent[2] != "FREE"] == placed(alone)
    beside = pipeline(model, *rules, overwrite_ents=False)(TEXTS[3])
    first, *others = [ent for ent in placed(beside) if ent[2] != "FREE"]
    assert first == [*placed(alone)[0][:2], "RULE", None] and others == placed(alone)[1:]


def test_an_entity_that_ends_inside_a_token_takes_all_of_it(model: Path) -> None:
    nlp = pipeline(model)
    nlp.tokenizer = spacy.tokenizer.Tokenizer(nlp.vocab, token_match=lambda text: True)  # one token up to a space
    doc = nlp(TEXTS[0])
    found = doc._.infuser_entities
    assert all(ent.text in TEXTS[0].split(" ") or " " in ent.text for ent in doc.ents)
    assert len(found) > len(doc.ents) > 0  # "bern" and "," were two entities
    assert all(ent._.infuser_probability is not None for ent in doc.ents)


def test_long_documents_are_read_in_windows(model: Path, infused: Infused) -> None:
    sentences = [f"{text.capitalize().rstrip('.')}." for text in TEXTS if text]
    text = " ".join(sentences * 4)
    ents = placed(pipeline(model)(text))
    assert ents[-1][1] > len(text) - 60 and ents == sorted(ents)
    assert all(text[start:end].strip() == text[start:end] for start, end, *_ in ents)
    long, short = find_in_documents(
        infused.model, infused.collator(), [{"text": text}, {"text": TEXTS[0]}], batch_size=2
    )
    assert [one[:3] for one in long] == [one[:3] for one in ents]
    assert [short] == expected(infused, TEXTS[:1])
    [one_word] = find_in_documents(infused.model, infused.collator(), [{"text": "b" * 300}])
    assert len(one_word) <= 1  # it cannot be divided


def test_a_component_without_a_tagger_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Say which ner is meant"):
        spacy.blank("en").add_pipe("infuser_ner")
    with pytest.raises(CheckpointError, match="not a saved infused model"):
        pipeline(tmp_path)
    with pytest.raises(InputError, match="infuser train --task ner"):
        pipeline(save_linker(tmp_path))
