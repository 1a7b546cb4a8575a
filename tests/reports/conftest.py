"""A small explanation that every test of this room can bend to its needs, and a reader of pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuser.reports import Explanation

WORDS = ["[CLS]", "buy", "gli", "##piz", "##ide", "[SEP]", "pharmacy", "near", "me", "[SEP]"]


@pytest.fixture
def explain() -> Callable[..., Explanation]:
    """Return a builder: `explain(n_words=..., n_terms=..., any field=...)`."""

    def build(n_words: int = len(WORDS), n_terms: int = 0, **fields: Any) -> Explanation:
        random = np.random.default_rng(0)
        words = (WORDS + [f"word{at}" for at in range(n_words)])[:n_words]
        drawn = np.zeros((n_words, n_words + n_terms))
        if n_words >= len(WORDS):
            drawn[2:5, 6] = drawn[6, 2:5] = 0.8
            drawn[6, n_words:] = 0.5
        plain = random.dirichlet(np.full(n_words, 0.3), size=n_words)
        infused = plain * (1 + 5 * drawn[:, :n_words])
        infused /= infused.sum(axis=1, keepdims=True)
        values: dict[str, Any] = {
            "words": words,
            "terms": [f"term{at}" for at in range(n_terms)],
            "maps": {"graph": drawn},
            "plain": plain,
            "infused": infused,
            "text": "buy glipizide",
            "pair": "pharmacy near me",
            "layer": 3,
        }
        return Explanation(**(values | fields))

    return build


@pytest.fixture
def evil() -> str:
    """Return a text that would run a script and fetch a picture if it were not escaped."""
    return """<script>alert("x")</script><img src=http://evil.example/x onerror='alert(1)'>&\""""


@pytest.fixture
def read_page() -> Callable[[Path], Page]:
    """Return a reader of web pages."""
    return Page


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, and the text."""

    VOID = frozenset({"meta", "br", "img"})

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.source = path.read_text("utf-8")
        self.feed(self.source)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"script", "style"}:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def grids(self) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag == "svg" and "data-values" in attributes]

    def check_self_contained(self) -> None:
        """Nothing is fetched, nothing but our own script runs."""
        tags = [tag for tag, _ in self.elements]
        assert tags.count("script") == 1 and not {"link", "iframe", "object", "embed", "base", "img"} & set(tags)
        for _, attributes in self.elements:
            assert not [name for name in attributes if name.startswith("on")]
            for name in {"src", "href", "xlink:href", "action", "srcset", "data"} & attributes.keys():
                assert attributes[name].startswith("data:image/png;base64,")
        style = re.findall(r"<style>(.*?)</style>", self.source, re.DOTALL)[0]
        assert "url(" not in style and "@import" not in style
