"""A saved model answers whatever its export answers: several labels at once, answers to questions, entities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from miniatures import tiny_host, tiny_tokenizer
from serving.conftest import TRIPLES, build
from serving.test_app import flat
from tiny_infusions import shake

import infuser.runtime
from infuser import Graph, Infused, Types
from infuser.errors import InputError
from infuser.serving.exported import ServedExport
from infuser.serving.infused import InfusedModel
from infuser.serving.model import ServedModel
from infuser.serving.server import running
from infuser.signals.tags import Tags

TEXTS = ["buy tablets online", "the river near the old town"]
PASSAGES = ["the pharmacy sells tablets", "a town lies on the river"]


def infuse_small(folder: Path, head: str, **changes: Any) -> Infused:
    host = tiny_host("bert", head, num_hidden_layers=1, **changes).float()
    graph = Graph(build(folder / "kg", *TRIPLES))
    infused = infuser.infuse(host, Types(), sources=[graph], tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    return infused


def asked(model: ServedModel, **question: Any) -> Any:
    """Return the predictions that a server gives before and, the same, after it has opened its knowledge again."""
    with running(model) as address, httpx.Client(base_url=address, timeout=20) as client:
        first, _, second = (
            client.post(path, json=body)
            for path, body in (("/predict", question), ("/knowledge/reload", {}), ("/predict", question))
        )
    assert (first.status_code, second.status_code, second.json().get("knowledge")) == (200, 200, 2), second.text
    assert first.json()["predictions"] == second.json()["predictions"]
    return first.json()["predictions"]


def test_several_labels_at_once_are_those_that_are_likelier_than_not(tmp_path: Path) -> None:
    infused = infuse_small(tmp_path, "sequence-classification", num_labels=3, problem_type="multi_label_classification")
    answers = asked(InfusedModel(infused), texts=TEXTS)
    logits = infused.model(**infused.batch(TEXTS)).logits.sigmoid().tolist()
    for answer, shares in zip(answers, logits, strict=True):
        assert list(answer["probabilities"].values()) == pytest.approx(shares, abs=1e-5)
        assert answer["labels"] == [name for name, share in answer["probabilities"].items() if share >= 0.5]


def test_a_question_is_answered_from_its_passage_and_one_without_is_told_so(tmp_path: Path) -> None:
    model = InfusedModel(infuse_small(tmp_path, "question-answering"))
    for answer, passage in zip(asked(model, texts=TEXTS, pairs=PASSAGES), PASSAGES, strict=True):
        assert answer["answer"] == passage[answer["start"] : answer["end"]] != ""
    [empty] = asked(model, text=TEXTS[0], pair="")
    assert empty == {"answer": "", "start": 0, "end": 0, "score": None}
    with running(model) as address:
        refused = httpx.post(f"{address}/predict", json={"text": TEXTS[0]}, timeout=20)
    assert refused.status_code == 422 and "give texts (questions) and pairs" in refused.json()["error"]["message"]
    assert model.about()["labels"] == []


def test_a_tagger_opens_its_knowledge_again(tmp_path: Path) -> None:
    infused = infuse_small(tmp_path, "token-classification", num_labels=3)
    tags = Tags(("thing",), ((0.1, 0.2, 0.0), (0.3, 0.0, 0.4), (0.0, 0.1, 0.2), (0.2, 0.1, 0.0)))
    infused.model.config.id2label = dict(enumerate(tags.names))
    tags.keep(infused.model.config)
    assert all("entities" in answer for answer in asked(InfusedModel(infused), texts=TEXTS))


@pytest.mark.slow
def test_a_model_that_chooses_is_refused_and_its_export_chooses_between_lists_alone(tmp_path: Path) -> None:
    infused = infuse_small(tmp_path, "multiple-choice")
    infused.export(tmp_path / "out")
    exported = infuser.runtime.load(tmp_path / "out", threads=1)
    for serve, model in ((InfusedModel, infused), (ServedExport, exported)):
        with pytest.raises(InputError, match=r"multiple choice.*infuser\.runtime\.load\(DIR\)"):
            serve(model)
    [chosen] = exported.predict([TEXTS[0]], [PASSAGES])
    assert sum(chosen["probabilities"]) == pytest.approx(1)
    with pytest.raises(InputError, match="each text or its pair is a list"):
        exported.predict(TEXTS, PASSAGES)


@pytest.mark.slow
@pytest.mark.parametrize("head", ["sequence-classification", "question-answering"])
def test_the_export_gives_the_same_answers(tmp_path: Path, head: str) -> None:
    several = {"num_labels": 3, "problem_type": "multi_label_classification"}
    infused = infuse_small(tmp_path, head, **(several if head == "sequence-classification" else {}))
    infused.export(tmp_path / "out")
    exported = ServedExport(infuser.runtime.load(tmp_path / "out", threads=1))
    saved, told = (asked(model, texts=TEXTS, pairs=PASSAGES) for model in (InfusedModel(infused), exported))
    assert flat(told) == pytest.approx(flat(saved), abs=1e-4)
