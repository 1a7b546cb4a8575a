"""A source of your own: acronyms that are explained in place, "natural language processing (NLP)".

python examples/own_source.py [CHECKPOINT]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Self

import miniature

import infuser
from infuser import Annotations, Kam, Link, Span
from infuser.registry import SOURCES

_BRACKETED = re.compile(r"\(([A-Z]{2,8})\)")


@SOURCES.register("acronyms")
class Acronyms:
    """Ties an acronym in brackets to the words before it that spell it out."""

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [self._annotate(text) for text in texts]

    def _annotate(self, text: str) -> Annotations:
        spans: list[Span] = []
        links: list[Link] = []
        for match in _BRACKETED.finditer(text):
            short = match.group(1)
            words = list(re.finditer(r"\w+", text[: match.start()]))[-len(short) :]
            if "".join(word.group()[0] for word in words).upper() != short:
                continue
            spans.append(Span(words[0].start(), words[-1].end(), label="long form"))
            spans.append(Span(*match.span(1), label="acronym"))
            links.append(Link(len(spans) - 2, len(spans) - 1, relation="abbreviated as"))
        return Annotations(text, tuple(spans), tuple(links))

    def to_json(self) -> dict[str, str]:
        return {}  # it has no settings; a dataclass would not need this method

    @classmethod
    def from_json(cls, data: object) -> Self:
        return cls()

    @classmethod
    def tiny(cls) -> Self:
        return cls()


checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
text = "Natural language processing (NLP) of medicine (UNO)"

[found] = Acronyms().annotate([text])
for link in found.links:
    one, other = found.spans[link.source], found.spans[link.target]
    print(f"{text[one.start : one.end]!r} {link.relation} {text[other.start : other.end]!r}")

infused = infuser.infuse(checkpoint, Kam(), sources=[Acronyms()])
batch = infused.batch([text])
print("boxes:", batch["knowledge_boxes"].tolist())  # channel, rows from and to, columns from and to

out = miniature.scratch() / "acronyms"
infused.save(out)
print("loaded with:", [type(source).__name__ for source in infuser.load(out).sources])
