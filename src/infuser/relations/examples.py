"""The words of this room: a triple of spans, and a text whose triples are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from infuser.errors import InputError
from infuser.types import Span

NO_RELATION = "no_relation"
"""The name of "no relation" in data, predictions and saved models."""


@dataclass(frozen=True, slots=True)
class Triple:
    """Two spans of one text and what relates them: the head is the subject, the tail the object."""

    head: Span
    tail: Span
    relation: str = NO_RELATION
    """The relation's id, such as "P36"; NO_RELATION where the data state that there is none."""
    trigger: Span | None = None
    """The words that say the relation ("capital of"), where they are known."""
    label: str = ""
    """The relation's name, for people."""
    negated: bool = False
    """True where the text denies the relation."""

    @property
    def is_fact(self) -> bool:
        """Whether the triple states a relation: neither "no relation" nor denied."""
        return self.relation != NO_RELATION and not self.negated


@dataclass(frozen=True, slots=True)
class RelationText:
    """A text, the triples that are known in it, and every mention in it that is known."""

    text: str
    triples: tuple[Triple, ...] = ()
    spans: tuple[Span, ...] = ()
    """All known mentions, those of the triples among them. Mentions with the same id mean the same entity."""
    name: str = ""
    """Of the document, for people."""

    def mentions(self) -> tuple[Span, ...]:
        """Return all known mentions, each place once, in the order of the text; triples' own come first at a place."""
        known = [span for triple in self.triples for span in (triple.head, triple.tail)]
        places: dict[tuple[int, int], Span] = {}
        for span in (*known, *self.spans):
            places.setdefault((span.start, span.end), span)
        return tuple(places[place] for place in sorted(places))


def count_relations(texts: Iterable[RelationText]) -> Counter[str]:
    """Return how many triples state each relation."""
    return Counter(triple.relation for text in texts for triple in text.triples if triple.is_fact)


def check_stated(wanted: Collection[str] | None, texts: Iterable[RelationText]) -> None:
    """Raise unless the texts state all wanted relations, of which there is one or more (None: all)."""
    stated = count_relations(texts)
    missing = [id for id in wanted or () if id not in stated]
    if missing or (wanted is not None and not wanted):
        raise InputError(
            f"The texts do not state {', '.join(missing) or 'any relation'}. They state "
            f"{', '.join(id for id, _ in stated.most_common(10))}{' and others' if len(stated) > 10 else ''}."
        )


def relation_labels(texts: Iterable[RelationText]) -> dict[str, str]:
    """Return the name of every relation in some texts, by id.

    Where no triple names it, it is called by the words that say it most often; without such words, by its id.
    """
    labels: dict[str, str] = {}
    phrases: dict[str, Counter[str]] = {}
    for text in texts:
        for triple in text.triples:
            if triple.relation == NO_RELATION:
                continue
            labels[triple.relation] = labels.get(triple.relation) or triple.label
            words = phrases.setdefault(triple.relation, Counter())
            if triple.trigger is not None:
                words[" ".join(text.text[triple.trigger.start : triple.trigger.end].casefold().split())] += 1
    return {relation: labels[relation] or _commonest(phrases[relation]) or relation for relation in sorted(labels)}


def _commonest(words: Counter[str]) -> str:
    # of equally common ones the first in the alphabet: the data's order must not decide
    return min(words, key=lambda one: (-words[one], one), default="")


def only_relations(texts: Iterable[RelationText], wanted: Collection[str]) -> list[RelationText]:
    """Return the texts with the triples of all other relations called none; their mentions stay mentions."""
    kept = set(wanted)
    return [
        replace(
            text,
            triples=tuple(
                triple if triple.relation in kept else replace(triple, relation=NO_RELATION, label="")
                for triple in text.triples
            ),
        )
        for text in texts
    ]


def with_relations(texts: Sequence[RelationText], y: Sequence[str] | None = None) -> list[RelationText]:
    """Return the texts, checked, with one given relation per triple in the place of their own."""
    if isinstance(texts, RelationText) or not all(isinstance(text, RelationText) for text in texts):
        raise InputError("Give a list of RelationText; `relations.readers.read_relations` reads them from files.")
    if y is None:
        return list(texts)
    n_triples = sum(len(text.triples) for text in texts)
    if len(y) != n_triples:
        raise InputError(f"{len(y)} relations were given for {n_triples} triples. Give one per triple, in their order.")
    given = iter(y)
    return [
        replace(text, triples=tuple(replace(triple, relation=str(next(given)), label="") for triple in text.triples))
        for text in texts
    ]
