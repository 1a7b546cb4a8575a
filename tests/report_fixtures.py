"""A small explanation that every test of this room can bend to its needs, and a reader of pages."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from infuser.analysis.explanation import Explanation

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
def values_of() -> Callable[[Mapping[str, str]], np.ndarray]:
    """Return a reader of the values that the <svg> of a heat map carries, in a row; given its attributes."""
    return lambda grid: np.frombuffer(base64.b64decode(grid["data-values"]), f"<i{grid['data-bytes']}") / 10_000


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
        """Nothing is fetched, nothing but our own style and script is used, and the body is well-formed XML."""
        tags = [tag for tag, _ in self.elements]
        assert tags.count("script") == 1 and not {"link", "iframe", "object", "embed", "base", "img"} & set(tags)
        for _, attributes in self.elements:
            assert not [name for name in attributes if name.startswith("on")]
            for name in {"src", "href", "xlink:href", "action", "srcset", "data"} & attributes.keys():
                assert attributes[name].startswith("data:image/png;base64,")
            assert "style" not in attributes, "the policy allows no style but that of the page"
        style, script = (re.findall(f"<{tag}>(.*?)</{tag}>", self.source, re.DOTALL)[0] for tag in ("style", "script"))
        assert "url(" not in style and "@import" not in style
        policy = next(at["content"] for tag, at in self.elements if at.get("http-equiv") == "Content-Security-Policy")
        assert policy == (
            f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}; "
            "base-uri 'none'; form-action 'none'"
        )
        # a live page reads the same parts as XML
        body = self.source.partition("<body>")[2].partition("<script>")[0]
        read = ElementTree.fromstring(f'<body xmlns="http://www.w3.org/1999/xhtml">{body}</body>')
        pictures = [one for one in read.iter() if one.tag.endswith("}svg")]
        assert all(one.tag == "{http://www.w3.org/2000/svg}svg" for one in pictures)


def _digest(inline: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"
