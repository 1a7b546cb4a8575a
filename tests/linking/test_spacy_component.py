"""The spaCy component: linked mentions where spaCy's users look for them, alone, in batches and after saving."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cli.small_linkers import save_linker

from infuser.errors import CheckpointError, InputError
from infuser.linking.inference import find_mentions
from infuser.linking.mentions import Mention

spacy = pytest.importorskip("spacy")

TEXT = "The bank of the lake town, said the Red Book."
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module", autouse=True)
def component() -> Any:
    """The module; where infuser is installed, spaCy imports it by its entry point."""
    return importlib.import_module("infuser.linking.spacy_component")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_linker(tmp_path_factory.mktemp("linker"))


def pipeline(model: Path, **config: Any) -> Any:
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns(
        [
            {"label": "GEO", "pattern": "lake town", "id": "rule-1"},
            {"label": "WORK", "pattern": "the Red Book"},
            {"label": "ORG", "pattern": "said"},
        ]
    )
    nlp.add_pipe("infuser_linker", config={"model": str(model), **config})
    return nlp


def linked(doc: Any) -> list[tuple[str, str]]:
    return [(span.text, span.kb_id_) for span in doc.spans["infuser"]]


def test_linked_mentions_are_spans_with_their_entity(model: Path) -> None:
    nlp = pipeline(model)
    doc = nlp(TEXT)
    infused = nlp.get_pipe("infuser_linker").infused
    [mentions] = find_mentions(infused, TEXT)
    assert linked(doc) == [(mention.text, mention.id) for mention in mentions if mention.id]
    assert {"bank", "Red Book"} <= {text for text, _ in linked(doc)}
    assert {span.label_ for span in doc.spans["infuser"]} == {"base"}
    assert doc._.infuser_mentions == mentions and isinstance(doc._.infuser_mentions[0], Mention)


def test_entities_of_the_same_words_get_the_id_and_keep_all_else(model: Path) -> None:
    doc = pipeline(model, threshold=-1e6)(TEXT)
    ids = dict(linked(doc))
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [
        ("lake town", "GEO", ids.get("lake town", "")),
        ("said", "ORG", ""),
        ("the Red Book", "WORK", ""),  # the mention is shorter
    ]
    assert doc.ents[0].ent_id_ == "rule-1"
    nothing = pipeline(model, threshold=1e6)(TEXT)
    assert linked(nothing) == [] and not any(ent.kb_id_ for ent in nothing.ents)
    assert len(nothing._.infuser_mentions) == len(doc._.infuser_mentions)


def test_an_entity_that_is_linked_carries_its_id(model: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PLACE", "pattern": "bank", "id": "own"}])
    nlp.add_pipe("infuser_linker", config={"model": str(model)})
    doc = nlp("the bank")
    [(_, id)] = linked(doc)
    assert [(ent.label_, ent.kb_id_, ent.ent_id_) for ent in doc.ents] == [("PLACE", id, "own")]
    assert id in ("river bank", "money bank")


def test_many_documents_are_read_in_batches_and_stay_in_order(model: Path) -> None:
    nlp = pipeline(model)
    texts = [TEXT, "", "nothing here", "a bank"] * 3
    docs = list(nlp.pipe(iter(texts), batch_size=5))
    assert [doc.text for doc in docs] == texts
    assert [linked(doc) for doc in docs] == [linked(nlp(text)) for text in texts]
    assert linked(docs[0]) and not linked(docs[1])


def test_a_pipeline_and_its_documents_can_be_saved(model: Path, tmp_path: Path) -> None:
    nlp = pipeline(model, threshold=-1.0)
    doc = nlp(TEXT)
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert again(TEXT)._.infuser_mentions == doc._.infuser_mentions
    assert again.get_pipe("infuser_linker").threshold == -1.0
    read = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert linked(read) == linked(doc) and read._.infuser_mentions == doc._.infuser_mentions


def test_a_mention_that_ends_inside_a_token_takes_all_of_it(model: Path) -> None:
    nlp = spacy.blank("en")
    nlp.tokenizer = spacy.tokenizer.Tokenizer(nlp.vocab)  # words are what stands between spaces
    nlp.add_pipe("infuser_linker", config={"model": str(model)})
    doc = nlp("the bank, then")
    assert [span.text for span in doc.spans["infuser"]] == ["bank,"]
    assert [mention.text for mention in doc._.infuser_mentions] == ["bank"]


def test_one_of_several_knowledge_bases_can_be_chosen(tmp_path: Path) -> None:
    model = save_linker(tmp_path, names=("one", "two"))
    both, second = pipeline(model)("the bank"), pipeline(model, base="two")("the bank")
    assert [span.label_ for span in both.spans["infuser"]] == ["one", "two"]
    assert [span.label_ for span in second.spans["infuser"]] == ["two"]
    with pytest.raises(InputError, match="no knowledge base 'three' in this model; it has one, two"):
        pipeline(model, base="three")


def test_a_component_without_a_model_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Say which linker is meant"):
        spacy.blank("en").add_pipe("infuser_linker")
    with pytest.raises(CheckpointError, match="not a saved infused model"):
        pipeline(tmp_path)


def test_spacy_finds_all_components_by_entry_points() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    places = project["entry-points"]["spacy_factories"]
    assert set(places) == {"infuser_linker", "infuser_ner", "infuser_textcat"}
    for name, place in places.items():
        module, _, function = place.partition(":")
        component = importlib.import_module(module)
        assert name == component.NAME and callable(getattr(component, function))
        assert spacy.Language.has_factory(name)
