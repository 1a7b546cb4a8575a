"""Text: the same knowledge written behind the text, the plain rival of every method inside the encoder.

    buy glipizide [SEP] glipizide: drug; treats diabetes

For every mention, in the order of the text: what it is (its type), then the terms that its source offers, with their
relations. No new weights; the price is a longer input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.hosts import BatchKnowledge, add_reader, remove_reader
from infuser.registry import METHODS
from infuser.types import OTHER, Annotations, Source, Span, Term, Vocabulary

_SAY_NOTHING = ("", "entity", "word", "phrase", OTHER)
"""Labels that say no more than that there is a mention."""
_UNSPOKEN = ("", "type", "description")
"""Relations of terms that are not written."""


class WrittenReader:
    """Adds nothing to a call: the knowledge is part of the input tokens."""

    always_on = (
        "The method 'text' cannot be switched off in a call: what it wrote is part of the tokens. Make the batch "
        "without it: infused.collator(writer=None)."
    )

    def __call__(self, base: PreTrainedModel, batch: BatchKnowledge) -> None:
        """Return no part of a call."""


@METHODS.register("text")
@dataclass(frozen=True, slots=True)
class Text:
    """Settings of the method; every field has a default that works."""

    share: float = 0.25
    """How much of the longest input knowledge may take; what exceeds it is left out, later mentions first."""

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise InputError(f"Text(share={self.share!r}) must lie between 0 and 1.")

    def attach(self, host: PreTrainedModel, *, sources: Sequence[Source], vocabulary: Vocabulary) -> None:
        """Register a reader that rejects `knowledge_off='text'`; the collator does the writing."""
        add_reader(host, "text", WrittenReader())

    def detach(self, host: PreTrainedModel) -> None:
        """Take the reader out again."""
        remove_reader(host, "text")

    def write(self, annotations: Sequence[Annotations]) -> list[str]:
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
