"""A tiny model to look at, and views that wait or die when a test wants them to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from miniatures import tiny_host, tiny_tokenizer
from relation_texts import shaped_texts
from starlette.types import ASGIApp
from tiny_infusions import KNOWN_TEXT, infuse_tiny, shake
from viewer.driving import N_HEADS, N_LAYERS, OTHER, PAIR, TEXT

import infuser
from infuser import Graph, Kam
from infuser.analysis.explanation import Explanation
from infuser.relations.encoders import Encoder
from infuser.relations.model import AttentionRelations
from infuser.sources import Entities, Phrases
from infuser.viewer.app import make_app
from infuser.viewer.request import ViewRequest
from infuser.viewer.server import running
from infuser.viewer.views import InfusedView, RelationsView, SampleText, View

ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="session")
def view() -> InfusedView:
    """Return a classifier of pairs with two sources, whose knowledge changes its answers."""
    infused = infuse_tiny("bert", "sequence-classification")
    return InfusedView(infused, "A tiny model", examples=[SampleText(KNOWN_TEXT, "the river")])


@pytest.fixture(scope="session")
def relations() -> RelationsView:
    """Return relations that any encoder can read, and a source that finds their ends."""
    encoder = Encoder(tiny_host("bert"), tiny_tokenizer("bert"))
    model = AttentionRelations(encoder, trigger=False, gate=0.0, best=0.0)
    texts = shaped_texts(80, 0, triggers=False)
    model.fit(texts)
    names = sorted({text.text[span.start : span.end] for text in texts for span in (text.triples[0].head,)})
    return RelationsView(model, [Entities(names[:40]), Entities(["river"])], "Relations")


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with three sources on disk, its new weights moved to where knowledge changes answers."""
    torch.manual_seed(0)
    host = tiny_host("bert", "sequence-classification", num_hidden_layers=N_LAYERS, num_attention_heads=N_HEADS)
    host.config.id2label = {0: "no", 1: "perhaps", 2: "yes"}
    infused = infuser.infuse(
        host,
        Kam(),
        sources=[
            Graph([("pharmacy", "sells", "tablets"), ("river", "near", "town")]),
            Phrases(["near me", "old town"]),
            Entities({"pharmacy": "shop", "river": "water"}),
        ],
        tokenizer=tiny_tokenizer("bert"),
    )
    shake(infused.model)
    folder = tmp_path_factory.mktemp("saved") / "model"
    infused.save(folder)
    return folder


@pytest.fixture(scope="session")
def shown(saved: Path) -> InfusedView:
    """Return the same, loaded, to be looked at in a browser."""
    examples = [SampleText(TEXT, PAIR), SampleText(OTHER)]
    return InfusedView(infuser.load(saved), "A tiny model", note="Only for tests.", examples=examples)


@pytest.fixture(scope="module")
def address(shown: InfusedView) -> Iterator[str]:
    with running(shown) as address:
        yield address


@dataclass
class Gated:
    """A view that lets a question about "wait" wait until the gate is open, and remembers all it was asked."""

    inside: View
    gate: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    def about(self) -> dict[str, Any]:
        return self.inside.about()

    def see(self, request: ViewRequest) -> Explanation:
        self.asked.append(request.text)
        self.threads.add(threading.current_thread().name)
        if "wait" in request.text:
            self.entered.set()
            assert self.gate.wait(20), "nobody opened the gate"
        return self.inside.see(request)


@dataclass
class Fragile:
    """A view that dies of what a test wishes when it is asked about "die"."""

    inside: View
    die: Callable[[], Any]

    def about(self) -> dict[str, Any]:
        return self.inside.about()

    def see(self, request: ViewRequest) -> Explanation:
        if request.text == "die":
            self.die()
        return self.inside.see(request)


@pytest.fixture
def gated(view: InfusedView) -> Iterator[Gated]:
    gated = Gated(view)
    yield gated
    gated.gate.set()


@pytest.fixture
def fragile(view: InfusedView) -> Callable[[Callable[[], Any]], Fragile]:
    return lambda die: Fragile(view, die)


@dataclass(frozen=True)
class Client:
    """Asks an app one question after the other, each in an event loop of its own."""

    app: ASGIApp

    def request(self, method: str, address: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with in_loop(self.app) as client:
                return await client.request(method, address, **options)

        return asyncio.run(ask())

    def get(self, address: str, **options: Any) -> httpx.Response:
        return self.request("GET", address, **options)

    def post(self, address: str, **options: Any) -> httpx.Response:
        return self.request("POST", address, **options)


def in_loop(app: ASGIApp) -> httpx.AsyncClient:
    """Return a client for questions that are asked beside each other in the running event loop."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS, timeout=20)


@pytest.fixture
def make_client() -> Callable[..., Client]:
    """Return what makes a client of a view's own app."""
    return lambda view, **options: Client(make_app(view, **options))


@pytest.fixture
def client(view: InfusedView, make_client: Callable[..., Client]) -> Client:
    return make_client(view)


@pytest.fixture
def talk() -> Callable[..., Any]:
    """Return what lets `ask(client)` talk to a view's app in one event loop, and gives what `ask` returned."""

    def talk(view: View, ask: Callable[[httpx.AsyncClient], Any], **options: Any) -> Any:
        async def run() -> Any:
            async with in_loop(make_app(view, **options)) as client:
                return await ask(client)

        return asyncio.run(run())

    return talk
