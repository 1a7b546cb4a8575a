"""Annotations become text: what is known about each mention, one line per mention.

glipizide: drug; treats diabetes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from infuser.types import OTHER, Annotations, Span, Term

_SAY_NOTHING = ("", "entity", "word", "phrase", OTHER)
"""Labels that say no more than that there is a mention."""
_UNSPOKEN = ("", "type", "description")
"""Relations of terms that are not written."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes for a batch maker as the method `Text` does."""

    share: float
    """How much of the longest input knowledge may take."""

    def write(self, annotations: Sequence[Annotations]) -> list[str]:
        """Return what is known about each mention of a text."""
        return write_lines(annotations)


def write_lines(annotations: Sequence[Annotations]) -> list[str]:
    """Return what is known about each mention of a text, one line per mention that something is known about."""
    mentions = sorted(
        (span.start, -span.end, source, place)
        for source, found in enumerate(annotations)
        for place, span in enumerate(found.spans)
    )
    said: dict[str, tuple[str, dict[str, None]]] = {}
    for _, _, source, place in mentions:
        found = annotations[source]
        span = found.spans[place]
        name = found.text[span.start : span.end]
        # spelled as the text spells it first, so that a cased host reads the same pieces in both places
        _, facts = said.setdefault(name.lower(), (name, {}))
        facts.update(dict.fromkeys(_facts(span, found.terms, place)))
    return [f"{name}: {'; '.join(facts)}" for name, facts in said.values() if facts]


def _facts(span: Span, terms: Sequence[Term], place: int) -> Iterator[str]:
    if span.label not in _SAY_NOTHING:
        yield _words(span.label)
    for term in terms:
        if any(tied == place for tied, _ in term.ties):
            yield term.text if term.relation in _UNSPOKEN else f"{_words(term.relation)} {term.text}"


def _words(name: str) -> str:
    return name.replace("_", " ").strip()
