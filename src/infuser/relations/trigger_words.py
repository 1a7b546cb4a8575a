"""The words that say relations ("capital of", "born in"), learned from known triples and found in any text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from infuser.errors import InputError
from infuser.knowledge.names.gazetteer import Gazetteer, NameMatch
from infuser.relations.examples import NO_RELATION, RelationText
from infuser.types import Span
from infuser.words import fold


@dataclass(frozen=True)
class TriggerWords:
    """Phrases that say relations, and where they stand in a text."""

    phrases: Mapping[str, int]
    """Each phrase, folded, and in how many places it was met."""

    def __post_init__(self) -> None:
        cleaned: Counter[str] = Counter()
        for phrase, count in self.phrases.items():
            if not isinstance(phrase, str) or not phrase.strip():
                raise InputError(f"A trigger phrase is {phrase!r}. Give words, such as 'capital of'; leave blanks out.")
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise InputError(f"The count of trigger phrase {phrase!r} is {count!r}. Give a whole number from 0 on.")
            cleaned[_folded(phrase)] += count
        object.__setattr__(self, "phrases", dict(cleaned))

    @classmethod
    def learned(cls, texts: Iterable[RelationText], *, fewest: int = 2, most: int = 5000) -> Self:
        """Count the triggers of known triples and keep those met in `fewest` places or more, at most `most` of them.

        A place counts once, however many triples it is the trigger of. Negated triples count too: their words say
        the relation all the same. Triples that are none do not.
        """
        counts = Counter(phrase for text in texts for phrase in _triggers(text))
        often = sorted((phrase for phrase in counts if counts[phrase] >= fewest), key=lambda one: (-counts[one], one))
        return cls({phrase: counts[phrase] for phrase in often[:most]})

    def find(self, text: str) -> list[Span]:
        """Return where the phrases stand in a text: whole words, any case, in the order of the text.

        Of phrases within a longer one only the longest is returned; phrases that merely overlap are all returned.
        Takes time linear in the text.
        """
        return self.find_each([text])[0]

    def find_each(self, texts: Sequence[str]) -> list[list[Span]]:
        """Return for each text what `find` returns; many texts at once take a fraction of the time."""
        found = self._gazetteer.find(texts, overlaps=True)
        return [[Span(one.start, one.end, label="trigger") for one in _maximal(mentions)] for mentions in found]

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict, for JSON."""
        return {"phrases": dict(self.phrases)}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Take back what `to_json` returned."""
        phrases = written.get("phrases")
        if not isinstance(phrases, Mapping):
            raise InputError(f"Trigger words are written as {{'phrases': {{phrase: count}}}}, not {written!r:.80}.")
        return cls(phrases)

    @cached_property
    def _gazetteer(self) -> Gazetteer:
        return Gazetteer.build(self.phrases)


def _triggers(text: RelationText) -> Iterator[str]:
    """Yield the triggers of a text, folded, each place once."""
    spans = (triple.trigger for triple in text.triples if triple.relation != NO_RELATION)
    for start, end in {(span.start, span.end) for span in spans if span is not None}:
        phrase = _folded(text.text[start:end])
        if phrase:
            yield phrase


def _folded(phrase: str) -> str:
    return " ".join(fold(word) for word in phrase.split())


def _maximal(mentions: Iterable[NameMatch]) -> Iterator[NameMatch]:
    """Yield the mentions that no other one covers; they come by start, and of one start the longest last."""
    longest: dict[int, NameMatch] = {mention.start: mention for mention in mentions}
    reach = -1
    for mention in longest.values():
        if mention.end > reach:
            reach = mention.end
            yield mention
