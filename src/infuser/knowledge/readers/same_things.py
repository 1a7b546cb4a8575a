"""Finds entries of several vocabularies for the same entity: by cross-references, and by equal labels of one type.

Cross-references are not all identities: several narrow diseases of one vocabulary may point to a broad one of another.
So two entries are joined, in this order,

    1. if one refers to the other and they share a name,
    2. if one refers to the other and neither refers to, or is referred to by, a second entry of the other's vocabulary,
    3. if their labels are equal and they have a type in common,

and never if the joined thing had two entries of one vocabulary. Labels and names are compared without case, hyphens,
commas and the plural's s.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from infuser.knowledge.facts import EntityRow

_SIGNS = re.compile(r"[\s\-_,/]+")  # brackets, plus and primes tell chemicals apart
_ALIKE = {"phenotype": "disease"}
"""Types that count as one where labels are equal: vocabularies draw the border between them differently."""


def find_same(entries: Sequence[EntityRow], references: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return for each id the id of the thing that it is: that of the first entry of the thing.

    The vocabulary of an entry is what stands before the colon of its id. References to unknown ids are ignored.
    """
    rank: dict[str, int] = {}
    names: dict[str, set[str]] = defaultdict(set)
    for place, entry in enumerate(entries):
        rank.setdefault(entry.id, place)
        names[entry.id] |= _forms(entry.label, *(entry.aliases or ()))
    known = dict.fromkeys(
        (one, other) if rank[one] < rank[other] else (other, one)
        for one, other in references
        if one in rank and other in rank and _vocabulary(one) != _vocabulary(other)
    )
    things = _Things()
    for one, other in known:
        if names[one] & names[other]:
            things.join(one, other)
    for one, other in _single(known):
        things.join(one, other)
    for one, other in _equal_labels(entries):
        things.join(one, other)
    return {id: min(things.members(id), key=rank.__getitem__) for id in rank}


class _Things:
    """Entries joined to things, each of which has at most one entry of a vocabulary."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, str]] = {}  # id to the ids of its thing, by vocabulary

    def members(self, id: str) -> Iterable[str]:
        return self._of.get(id, {"": id}).values()

    def join(self, one: str, other: str) -> None:
        first = self._of.setdefault(one, {_vocabulary(one): one})
        second = self._of.setdefault(other, {_vocabulary(other): other})
        if first is second or first.keys() & second.keys():
            return
        first.update(second)
        for id in second.values():
            self._of[id] = first


def _single(references: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the references that are the only ones between an entry and a vocabulary, on both sides."""
    ends: dict[tuple[str, str], list[str]] = defaultdict(list)
    pairs = list(references)
    for one, other in pairs:
        ends[one, _vocabulary(other)].append(other)
        ends[other, _vocabulary(one)].append(one)
    for one, other in pairs:
        if len(ends[one, _vocabulary(other)]) == 1 == len(ends[other, _vocabulary(one)]):
            yield one, other


def _equal_labels(entries: Iterable[EntityRow]) -> Iterator[tuple[str, str]]:
    """Yield pairs of entries with equal labels and a type in common."""
    met: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in entries:
        for form in _forms(entry.label):
            for type in entry.types or ():
                key = (form, _ALIKE.get(type, type))
                for earlier in met[key]:
                    yield earlier, entry.id
                met[key].append(entry.id)


def _forms(*names: str | None) -> set[str]:
    words = (_SIGNS.sub(" ", name).strip().lower() for name in names if name)
    return {form.removesuffix("s") if len(form) > 4 else form for form in words if form}


def _vocabulary(id: str) -> str:
    return id.partition(":")[0]
