"""A tiny classifier that reads a built graph, saved, opened and served."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from cli.small_linkers import save_linker
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import shake

import infuser
from infuser import Graph, Kam
from infuser.knowledge.builders import build_graph_from_files
from infuser.serving.infused import InfusedModel
from infuser.serving.model import Question, ServedModel
from infuser.serving.server import running
from infuser.sources import Phrases
from infuser.types import Source

TRIPLES = ("pharmacy\tsells\ttablets", "river\tnear\ttown")
NEW = "shop\tsells\tbook"
TEXT, PAIR, OF_NEW = "buy tablets online", "the pharmacy near me", "a new book in the shop"


def build(folder: Path, *triples: str) -> Path:
    """Build a graph."""
    file = folder.with_suffix(".tsv")
    file.write_text("".join(f"{triple}\n" for triple in triples), encoding="utf-8")
    build_graph_from_files(folder, [file])
    return folder


@pytest.fixture(scope="session")
def model_without_graph(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a saved model and the graph that it names; tests take copies of the graph."""
    folder = tmp_path_factory.mktemp("served")
    graph = build(folder / "kg", *TRIPLES)
    torch.manual_seed(0)
    host = tiny_host("bert", "sequence-classification").float()
    host.config.id2label = {0: "no", 1: "perhaps", 2: "yes"}
    infused = infuser.infuse(
        host, Kam(), sources=[Graph(graph), Phrases(["near me"])], tokenizer=tiny_tokenizer("bert")
    )
    shake(infused.model)
    infused.save(folder / "model")
    return folder / "model", graph


@pytest.fixture
def graph(model_without_graph: tuple[Path, Path], tmp_path: Path) -> Path:
    """Return a graph that the test may build again."""
    shutil.copytree(model_without_graph[1], tmp_path / "kg")
    return tmp_path / "kg"


@pytest.fixture
def model(model_without_graph: tuple[Path, Path], graph: Path) -> InfusedModel:
    """Return the classifier with the test's own graph."""
    return InfusedModel(infuser.load(model_without_graph[0], sources=[Graph(graph), Phrases(["near me"])]))


@pytest.fixture(scope="session")
def exported(model_without_graph: tuple[Path, Path]) -> Path:
    """Return the same model as a graph for onnxruntime."""
    folder = model_without_graph[0].parent / "exported"
    infuser.load(model_without_graph[0]).export(folder)
    return folder


@pytest.fixture(scope="session")
def linker(tmp_path_factory: pytest.TempPathFactory) -> InfusedModel:
    return InfusedModel(infuser.load(save_linker(tmp_path_factory.mktemp("linker"))))


@pytest.fixture
def client(model: InfusedModel) -> Iterator[httpx.Client]:
    """Return a client of a server with the usual limits."""
    with running(model) as address, httpx.Client(base_url=address, timeout=20) as client:
        yield client


@dataclass
class Gated:
    """A model that lets a batch with "wait" in it wait until the gate is open, and remembers all batches."""

    inside: ServedModel
    gate: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    batches: list[list[str]] = field(default_factory=list)

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.inside.sources

    @property
    def tasks(self) -> Collection[str]:
        return self.inside.tasks

    def about(self) -> dict[str, Any]:
        return self.inside.about()

    def predict(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        self.batches.append([question.text for question in questions])
        if any("wait" in question.text for question in questions):
            self.entered.set()
            assert self.gate.wait(20), "nobody opened the gate"
        if any("die" in question.text for question in questions):
            raise RuntimeError("a secret of the model")
        return self.inside.predict(questions)

    def annotate(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        return self.inside.annotate(questions)

    def explain(self, questions: Sequence[Question], off: Collection[str] = ()) -> list[dict[str, Any]]:
        return self.inside.explain(questions, off)

    def link(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        return self.inside.link(questions)

    def with_sources(self, sources: Sequence[Source]) -> Gated:
        return Gated(self.inside.with_sources(sources), self.gate, self.entered, self.batches)


@pytest.fixture
def gated(model: InfusedModel) -> Iterator[Gated]:
    gated = Gated(model)
    yield gated
    gated.gate.set()
