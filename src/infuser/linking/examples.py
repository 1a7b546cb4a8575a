"""Texts whose links are known, and what a linker can learn from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infuser.signals.candidates import bases_among
from infuser.types import Annotations, Source, Span

NOTHING = ""
"""Stands for a gold entity where a span means none of its candidates."""


@dataclass(frozen=True, slots=True)
class LinkedText:
    """A text and the entities that its mentions mean."""

    text: str
    spans: tuple[Span, ...] = ()
    """The gold mentions; `Span.id` is the entity."""
    labelled: tuple[int, int] | None = None
    """The characters in which every mention is given; None for the whole text."""
    name: str = ""
    """Of the document, for people."""

    @property
    def region(self) -> tuple[int, int]:
        """The characters in which every mention is given."""
        return self.labelled or (0, len(self.text))


def link_examples(texts: Sequence[LinkedText], bases: Mapping[str, Source]) -> list[dict[str, Any]]:
    """Return examples for the collator: texts, what each knowledge base found in them, and what is right there.

    `gold` of an example has for each knowledge base, by name, one entry per span that the base found: the entity that
    it means, NOTHING where it means none of its candidates, None where nobody knows.
    """
    found = {name: base.annotate([one.text for one in texts]) for name, base in bases.items()}
    meant = {span.id for one in texts for span in one.spans}
    speaks = {  # what a base does not know, these texts do not speak of: nobody knows what its spans mean
        name: not meant or any(candidate.id in meant for of in of_base for span in of.candidates for candidate in span)
        for name, of_base in found.items()
    }
    return [
        {
            "text": one.text,
            "annotations": tuple(of_base[i] for of_base in found.values()),
            "gold": {
                name: gold_of(one, of_base[i]) if speaks[name] else (None,) * len(of_base[i].spans)
                for name, of_base in found.items()
            },
        }
        for i, one in enumerate(texts)
    ]


def gold_of(linked: LinkedText, found: Annotations) -> tuple[str | None, ...]:
    """Return for each span that was found what it means, as `link_examples` explains."""
    # where a span has two right entities the first is the better one
    meant = {(span.start, span.end): span.id for span in reversed(linked.spans)}
    first, last = linked.region
    return tuple(
        meant.get((span.start, span.end), NOTHING) if first <= span.start and span.end <= last else None
        for span in found.spans
    )


def bases_of(sources: Iterable[Source]) -> dict[str, Source]:
    """Return the knowledge bases among sources by name."""
    sources = list(sources)
    return {base.name: sources[place] for place, base in bases_among(sources).items()}
