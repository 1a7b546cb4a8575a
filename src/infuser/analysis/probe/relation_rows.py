"""The triples that a probe asks about: those that state a relation, and as many that are none.

What is chosen depends on the texts and the seed, not on the encoder, so that two encoders answer the same questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.relations.classifier import NO, YES
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.features import Features
from infuser.relations.negatives import sample_negatives
from infuser.relations.readers import Format, read_relations
from infuser.tables.skipped import Skipped
from infuser.tasks.splitting import hold_out
from infuser.words import counted

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TripleRows:
    """Some texts and, for each of their triples in order, what it is."""

    texts: list[RelationText]
    """With the triples that are asked about and no others."""
    truth: NDArray[np.object_]
    """(rows,): the relation, or NO_RELATION."""
    rank: Ints
    """(rows,): a random order; where only some rows are used, those with the lowest rank are."""

    @property
    def facts(self) -> NDArray[np.bool_]:
        """Which rows state a relation, (rows,)."""
        facts: NDArray[np.bool_] = self.truth != NO_RELATION
        return facts

    def first(self, n: int) -> Ints:
        """Return the places of at most `n` facts and at most `n` rows that are none, in the order of the rows."""
        return np.sort(np.concatenate([self.lowest(of, n) for of in (self.facts, ~self.facts)]))

    def lowest(self, among: NDArray[np.bool_], n: int) -> Ints:
        """Return the places of the `n` rows with the lowest rank among some, in the order of their ranks."""
        places = np.flatnonzero(among)
        lowest: Ints = places[np.argsort(self.rank[places])][:n]
        return lowest

    def kept(self, places: Ints) -> TripleRows:
        """Return only these rows, which are in order."""
        wanted = np.zeros(len(self.truth), bool)
        wanted[places] = True
        texts, done = [], 0
        for text in self.texts:
            of_text = wanted[done : done + len(text.triples)]
            done += len(text.triples)
            if of_text.any():
                stays = tuple(triple for triple, keep in zip(text.triples, of_text, strict=True) if keep)
                texts.append(replace(text, triples=stays))
        return TripleRows(texts, self.truth[places], self.rank[places])

    def asked(self) -> list[tuple[str, Triple]]:
        """Return each row's text and triple."""
        return [(text.text, triple) for text in self.texts for triple in text.triples]


def choose_rows(
    texts: Sequence[RelationText],
    *,
    relations: Collection[str] | None = None,
    per_relation: int | None = None,
    seed: int = 0,
) -> TripleRows:
    """Return the facts of some texts (of some relations, or at most so many of each) and as many triples that are none.

    None are those that the data calls so, negated ones, and for the rest pairs that nobody called a relation.
    """
    drawn = sample_negatives(texts, seed=seed)  # before relations are left out: a pair that has one is not none
    asked: list[RelationText] = []
    truth: list[str] = []
    of_text: list[int] = []
    stated: list[bool] = []
    for number, (text, none) in enumerate(zip(texts, drawn, strict=True)):
        facts = [one for one in text.triples if one.is_fact and (relations is None or one.relation in relations)]
        negated = [one for one in text.triples if one.negated and one.relation != NO_RELATION]
        nothing = [*negated, *none.triples]
        asked.append(replace(text, triples=(*facts, *nothing)))
        truth += [*(fact.relation for fact in facts), *[NO_RELATION] * len(nothing)]
        of_text += [number] * len(asked[-1].triples)
        stated += [one in text.triples for one in asked[-1].triples]
    rows = TripleRows(asked, np.array(truth, dtype=object), np.random.default_rng(seed).permutation(len(truth)))
    kept = _of_each_relation(rows, per_relation)
    # pairs that nobody called a relation come from texts that are read anyway, so that the texts give nothing away
    beside = np.isin(of_text, np.array(of_text, dtype=np.int64)[kept])
    others = rows.lowest(~rows.facts & (beside | np.array(stated, dtype=bool)), len(kept))
    return rows.kept(np.sort(np.concatenate([kept, others])))


def _of_each_relation(rows: TripleRows, per_relation: int | None) -> Ints:
    """Return the places of the facts with the lowest ranks, at most so many of each relation."""
    facts = rows.lowest(rows.facts, len(rows.truth))
    if per_relation is None:
        return facts
    seen: Counter[str] = Counter()
    kept = []
    for place in facts.tolist():
        seen[rows.truth[place]] += 1
        if seen[rows.truth[place]] <= per_relation:
            kept.append(place)
    return np.array(kept, dtype=np.int64)


def split_texts(
    texts: Sequence[RelationText], *, share: float = 1 / 3, seed: int = 0
) -> tuple[list[RelationText], list[RelationText]]:
    """Return texts to learn from and texts to test with; a text that occurs twice is on one side only."""
    n_different = len({text.text for text in texts})
    if n_different < 2:
        raise InputError(f"{n_different} different texts cannot be split into training and test. Give more texts.")
    held = hold_out(len(texts), share=share, seed=seed, groups=[text.text for text in texts])
    return [one for at, one in enumerate(texts) if at not in held], [texts[at] for at in sorted(held)]


def read_texts(
    data: Path,
    test: Path | None = None,
    format: Format = "auto",
    *,
    labels: Mapping[str, str] | None = None,
    seed: int = 0,
) -> tuple[list[RelationText], list[RelationText], list[str]]:
    """Return training texts, test texts (None: a third of the others, by the seed) and what could not be read."""
    skipped = Skipped()
    texts = [read_relations(path, format, skipped=skipped, labels=labels) for path in (data, test) if path is not None]
    train, tested = texts if test is not None else split_texts(texts[0], seed=seed)
    if not skipped.n:
        return train, tested, []
    rows = counted(skipped.n, "row or triple", "rows or triples")
    return train, tested, [f"{rows} could not be read: {skipped.first[0]}"]


@dataclass(frozen=True)
class RowFeatures:
    """TripleRows, and what an encoder's reading of them gave."""

    rows: TripleRows
    features: Features
    """Of these rows, perhaps among others,"""
    places: Ints
    """at these places."""

    @classmethod
    def whole(cls, rows: TripleRows, features: Features) -> RowFeatures:
        """Return rows with features of exactly these."""
        return cls(rows, features, np.arange(len(rows.truth)))

    def part(self, places: Ints) -> RowFeatures:
        """Return only these rows, with the same features."""
        return RowFeatures(self.rows.kept(places), self.features, self.places[places])

    @property
    def readable(self) -> NDArray[np.bool_]:
        """Which rows the encoder could read, (rows,)."""
        readable: NDArray[np.bool_] = self.features.readable[self.places]
        return readable

    @property
    def n_layers(self) -> int:
        """How many layers the features have."""
        return int(self.features.values.shape[1])

    def facts(self, known: Collection[str] | None = None) -> Ints:
        """Return the places of the readable facts, of known relations if some are given."""
        among = self.rows.facts & self.readable
        if known is not None:
            among &= np.isin(self.rows.truth, np.array(list(known), dtype=object))
        return np.flatnonzero(among)

    def balanced(self) -> tuple[Ints, list[str]]:
        """Return the places of as many readable facts as others, and YES or NO for each: a coin is right in half."""
        facts, others = self.rows.facts & self.readable, ~self.rows.facts & self.readable
        n = min(int(facts.sum()), int(others.sum()))
        if n == 0:
            raise InputError(
                f"The gate needs triples that are relations and triples that are none; {int(facts.sum()):,} and "
                f"{int(others.sum()):,} can be read. Give texts with further words or mentions, or look without "
                "triggers if the triples have none."
            )
        return np.concatenate([self.rows.lowest(facts, n), self.rows.lowest(others, n)]), [YES] * n + [NO] * n

    def matrix(self, places: Ints, layer: int | None = None) -> NDArray[np.float32]:
        """Return the features of some rows, (rows, features), of all layers or of one."""
        values = self.features.values
        rows = values[self.places[places]] if layer is None else values[self.places[places], layer]
        flat: NDArray[np.float32] = rows.reshape(len(places), -1)
        return flat
