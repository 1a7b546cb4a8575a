"""What the OpenAPI document says about answers is what the server answers, of every kind of model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from miniatures import tiny_host, tiny_tokenizer
from serving.conftest import PAIR, TEXT, TRIPLES, build
from serving.json_schema import errors_of
from tiny_infusions import shake

import infuser.runtime
from infuser import Graph, Types
from infuser.serving.exported import ServedExport
from infuser.serving.infused import InfusedModel
from infuser.serving.model import ServedModel
from infuser.serving.schemas import SCHEMAS
from infuser.serving.server import running
from infuser.signals.tags import Tags

BOTH = {"texts": [TEXT, TEXT], "pairs": [PAIR, ""]}


def checked(model: ServedModel, body: dict[str, Any] = BOTH) -> dict[str, Any]:
    """Ask a server everything that its document lists, compare the answers with it, and return them by path."""
    answers: dict[str, Any] = {}
    with running(model) as address, httpx.Client(base_url=address, timeout=60) as client:
        document = client.get("/openapi.json").json()
        for path, [(verb, about)] in ((path, verbs.items()) for path, verbs in document["paths"].items()):
            sent = {} if verb == "get" else {"json": {} if path == "/knowledge/reload" else body}
            answer = client.request(verb, path, **sent)
            content = about["responses"][str(answer.status_code)]["content"]
            if "application/json" in content:
                answers[path] = answer.json()
                assert errors_of(answers[path], content["application/json"]["schema"], document, path) == []
            assert answer.status_code == 200, answer.text
        for refused in (
            client.post("/predict", json=5),
            client.get("/nowhere"),
            client.post("/annotate", content=b"{"),
        ):
            assert refused.status_code >= 400
            assert errors_of(refused.json(), SCHEMAS["Error"], document) == []
    return answers


def small(folder: Path, head: str, **changes: Any) -> InfusedModel:
    host = tiny_host("bert", head, num_hidden_layers=1, **changes).float()
    if head == "token-classification":
        tags = Tags(("thing",), ((0.1, 0.2, 0.0), (0.3, 0.0, 0.4), (0.0, 0.1, 0.2), (0.2, 0.1, 0.0)))
        host.config.id2label = dict(enumerate(tags.names))
        tags.keep(host.config)
    graph = Graph(build(folder / "kg", *TRIPLES), n_terms=2)
    infused = infuser.infuse(host, Types(), sources=[graph], tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    return InfusedModel(infused)


def test_a_classifier_answers_as_its_document_says(model: InfusedModel) -> None:
    answers = checked(model)
    assert {"label", "probabilities"} == answers["/predict"]["predictions"][0].keys()
    assert answers["/annotate"]["annotations"][0]["found"]["graph"]["links"]
    assert answers["/explain"]["explanations"][0]["without_source"].keys() == {"graph", "phrases"}
    assert answers["/knowledge/reload"]["knowledge"]["sources"][0]["folders"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "changes", "field"),
    [
        ("sequence-classification", {"num_labels": 1}, "score"),
        ("sequence-classification", {"num_labels": 3, "problem_type": "multi_label_classification"}, "labels"),
        ("question-answering", {}, "answer"),
        ("token-classification", {"num_labels": 3}, "entities"),
    ],
)
def test_so_does_every_other_head(head: str, changes: dict[str, Any], field: str, tmp_path: Path) -> None:
    answers = checked(small(tmp_path, head, **changes))
    assert all(field in one for one in answers["/predict"]["predictions"])
    assert answers["/annotate"]["annotations"][0]["found"]["graph"]["terms"]
    if head == "token-classification":
        entities = answers["/predict"]["predictions"][0]["entities"]
        shown = answers["/explain"]["explanations"][0]["with_knowledge"]
        assert entities and [{**one, "probability": None} for one in shown] == [
            {**one, "probability": None} for one in entities
        ]


def test_so_does_a_linker(linker: InfusedModel) -> None:
    answers = checked(linker, {"texts": ["the old bank near the lake", "nothing"]})
    assert answers["/link"]["links"][0]["mentions"][0]["candidates"]
    assert answers["/explain"]["explanations"][0]["mentions"][0]["candidates"]
    [found] = answers["/annotate"]["annotations"][0]["found"].values()
    assert any(found["candidates"])


@pytest.mark.slow
def test_so_does_an_export(exported: Path) -> None:
    answers = checked(ServedExport(infuser.runtime.load(exported, threads=1)))
    assert answers["/explain"]["explanations"][0]["without_source"].keys() == {"graph", "phrases"}


def test_a_field_that_is_missing_too_much_or_of_another_type_is_noticed() -> None:
    document = {"components": {"schemas": SCHEMAS}}
    entity = {"start": 0, "end": 4, "label": "place", "text": "Bern", "probability": 0.5}
    for schema, value in (("Entity", entity), ("Prediction", {"entities": [entity]}), ("Prediction", {"score": 2})):
        assert errors_of(value, SCHEMAS[schema], document) == []
    wrong = [
        {name: value for name, value in entity.items() if name != "end"},
        {**entity, "more": 1},
        {**entity, "start": "0"},
        {**entity, "start": True},
        [entity],
    ]
    for value in wrong:
        assert errors_of(value, SCHEMAS["Entity"], document), value
        assert errors_of({"entities": [value]}, SCHEMAS["Prediction"], document), value
