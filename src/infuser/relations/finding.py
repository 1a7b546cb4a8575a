"""Which spans of raw text are asked about: what sources found, and the words that say relations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tqdm.auto import tqdm

from infuser.relations.candidates import CandidateRule, make_candidates, without_determiners
from infuser.relations.examples import RelationText, Triple
from infuser.relations.trigger_words import TriggerWords
from infuser.types import Source, Span

_AT_ONCE = 256
"""Texts that sources are asked about together."""


def find_spans(texts: Sequence[str], sources: Sequence[Source]) -> list[tuple[Span, ...]]:
    """Return all spans that the sources find in each text, each place once; "a commune" also as "commune"."""
    found = [source.annotate(texts) for source in sources]
    return [
        without_determiners(text, [span for of_source in found for span in of_source[place].spans])
        for place, text in enumerate(texts)
    ]


def find_candidates(
    texts: Sequence[RelationText],
    sources: Sequence[Source],
    words: TriggerWords | None,
    rule: CandidateRule,
    *,
    progress: bool = False,
) -> list[list[Triple]]:
    """Return for each text the triples that an extraction asks about; without sources, between its known mentions.

    `words` are the triggers to look for; None for pairs without a trigger.
    """
    candidates: list[list[Triple]] = []
    with tqdm(total=len(texts), desc="finding candidates", unit="text", disable=not progress) as bar:
        for some in _batches(texts):
            strings = [text.text for text in some]
            spans = find_spans(strings, sources) if sources else [text.mentions() for text in some]
            triggers = [None] * len(some) if words is None else words.find_each(strings)
            for string, of_text, said in zip(strings, spans, triggers, strict=True):
                candidates.append(make_candidates(string, of_text, said, rule))
            bar.update(len(some))
    return candidates


def _batches(texts: Sequence[RelationText]) -> Iterator[Sequence[RelationText]]:
    for first in range(0, len(texts), _AT_ONCE):
        yield texts[first : first + _AT_ONCE]
