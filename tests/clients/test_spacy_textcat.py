"""An infused classifier in spaCy documents: alone, in batches, beside other labels, after saving."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import shake

import infuser
from infuser.errors import CheckpointError, InputError

spacy = pytest.importorskip("spacy")

TEXTS = ["buy glipizide in the pharmacy", "", "the old town", "a train runs from the bridge to the lake"]
LABELS = ["bad", "fair", "good"]


@pytest.fixture(scope="module", autouse=True)
def component() -> Any:
    """The module; where infuser is installed, spaCy imports it by its entry point."""
    return importlib.import_module("infuser.clients.spacy_textcat")


def save_classifier(folder: Path, head: str = "sequence-classification", **options: Any) -> Path:
    infused = infuser.infuse(
        tiny_host("bert", head, id2label=dict(enumerate(LABELS)), **options),
        sources=[infuser.Entities(["pharmacy", "old town"])],
        tokenizer=tiny_tokenizer("bert"),
    )
    shake(infused.model)
    infused.save(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classifier(tmp_path_factory.mktemp("classifier") / "model")


def pipeline(model: Path | str, **config: Any) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("infuser_textcat", config={"model": str(model), **config})
    return nlp


def expected(model: Path, texts: list[str]) -> list[dict[str, Any]]:
    infused = infuser.load(model)
    with torch.no_grad():
        shares = [infused.model(**infused.batch([text])).logits[0].softmax(-1).tolist() for text in texts]
    return [{label: pytest.approx(share, abs=1e-6) for label, share in zip(LABELS, one, strict=True)} for one in shares]


def test_documents_have_the_probability_of_each_label(model: Path) -> None:
    nlp = pipeline(model)
    docs = [nlp(text) for text in TEXTS]
    assert [doc.cats for doc in docs] == expected(model, TEXTS)
    with nlp.get_pipe("infuser_textcat").infused.disabled():
        assert nlp(TEXTS[0]).cats != expected(model, TEXTS[:1])[0]


def test_many_documents_are_read_in_batches_and_stay_in_order(model: Path) -> None:
    nlp, sizes = pipeline(model), list[int]()
    nlp.get_pipe("infuser_textcat").infused.model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    docs = list(nlp.pipe(iter(TEXTS * 3), batch_size=5))
    assert [doc.text for doc in docs] == TEXTS * 3 and sizes == [5, 5, 2]
    assert [doc.cats for doc in docs] == expected(model, TEXTS * 3)


def test_a_pipeline_and_its_documents_can_be_saved(model: Path, tmp_path: Path) -> None:
    nlp = pipeline(model)
    doc = nlp(TEXTS[0])
    nlp.to_disk(tmp_path / "pipeline")
    assert spacy.load(tmp_path / "pipeline")(TEXTS[0]).cats == doc.cats
    again = pipeline(model).from_disk(tmp_path / "pipeline")
    assert again(TEXTS[0]).cats == doc.cats
    assert spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes()).cats == doc.cats


def test_labels_of_others_stay(model: Path) -> None:
    nlp = pipeline(model)
    doc = nlp.make_doc(TEXTS[0])
    doc.cats = {"spam": 0.25}
    assert nlp(doc).cats == {"spam": 0.25, **expected(model, TEXTS[:1])[0]}


def test_several_labels_at_once_and_numbers_are_read_as_the_model_means_them(tmp_path: Path) -> None:
    several = save_classifier(tmp_path / "several", problem_type="multi_label_classification")
    cats = pipeline(several)(TEXTS[0]).cats
    infused = infuser.load(several)
    with torch.no_grad():
        shares = infused.model(**infused.batch(TEXTS[:1])).logits[0].sigmoid().tolist()
    assert cats == {label: pytest.approx(share, abs=1e-6) for label, share in zip(LABELS, shares, strict=True)}
    infused = infuser.infuse(
        tiny_host("bert", "sequence-classification", num_labels=1),
        sources=[infuser.Entities(["pharmacy"])],
        tokenizer=tiny_tokenizer("bert"),
    )
    infused.save(tmp_path / "number")
    with torch.no_grad():
        score = float(infused.model(**infused.batch(TEXTS[:1])).logits)
    assert pipeline(tmp_path / "number")(TEXTS[0]).cats == {"score": pytest.approx(score, abs=1e-6)}


def test_a_component_without_a_classifier_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Say which classifier is meant"):
        spacy.blank("en").add_pipe("infuser_textcat")
    with pytest.raises(CheckpointError, match="not a saved infused model"):
        pipeline(tmp_path)
    with pytest.raises(InputError, match="gives no labels to texts"):
        pipeline(save_classifier(tmp_path / "encoder", "encoder"))
