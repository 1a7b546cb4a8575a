"""The one rule by which examples are held out: stratified by label, whole groups, drawn by a data seed.

The data seed is not the seed of training, so that all seeds of an experiment read the same data and stay paired.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Sequence

from infuser.errors import InputError

DATA_SEED = 0
"""Decides which examples are held out or chosen, unless a task has a seed of its own."""


def hold_out(
    n: int,
    *,
    share: float,
    seed: int = DATA_SEED,
    strata: Sequence[Hashable] | None = None,
    groups: Sequence[Hashable] | None = None,
) -> set[int]:
    """Return which of `n` examples are held out: a share of them or, from 1 on, that many.

    Whole groups are held out or none of their examples. Every stratum (a label, for groups their most common one)
    gives its share, at least one where a share is asked for, and never all: a stratum of one group stays in training.
    """
    wanted = share if share >= 1 else share * n
    if wanted <= 0:
        return set()
    units: dict[Hashable, list[int]] = {}
    for place in range(n):
        units.setdefault(place if groups is None else groups[place], []).append(place)
    if len(units) < 2:
        raise InputError(
            f"All {n} examples are in one group, so none can be held out for evaluation. Give more groups, or a file "
            "of its own: --dev FILE, in settings dev = FILE."
        )
    members: dict[Hashable, list[Hashable]] = {}
    for unit, places in units.items():
        members.setdefault(None if strata is None else _most_common([strata[place] for place in places]), []).append(
            unit
        )
    sizes = {name: len(members[name]) for name in sorted(members, key=str)}  # always in the same order
    chance = random.Random(seed)
    held: set[int] = set()
    for stratum, n_held in (_counts(sizes, wanted / n) if share >= 1 else _shares(sizes, share)).items():
        for unit in chance.sample(members[stratum], n_held):
            held.update(units[unit])
    return held


def subset(n: int, wanted: int | None, *, seed: int = DATA_SEED, strata: Sequence[Hashable] | None = None) -> list[int]:
    """Return which of `n` examples make up a subset, in order: strata in proportion; fewer are a part of more."""
    if wanted is None or wanted >= n:
        return list(range(n))
    order = list(range(n))
    random.Random(seed).shuffle(order)
    totals = Counter(strata or [None] * n)
    seen: Counter[Hashable] = Counter()
    rank: dict[int, float] = {}
    for place in order:
        stratum = strata[place] if strata else None
        rank[place] = seen[stratum] / totals[stratum]  # the share of its stratum that comes before it
        seen[stratum] += 1
    return sorted(sorted(order, key=rank.__getitem__)[:wanted])


def _shares(sizes: dict[Hashable, int], share: float) -> dict[Hashable, int]:
    """Return how many of each stratum are held out: its share, rounded, at least one and never all."""
    return {name: min(max(1, round(share * size)), size - 1) for name, size in sizes.items()}


def _counts(sizes: dict[Hashable, int], fraction: float) -> dict[Hashable, int]:
    """Return how many of each stratum are held out so that they sum to a number: by largest remainders, never all."""
    given = {name: int(fraction * size) for name, size in sizes.items()}
    left = round(fraction * sum(sizes.values())) - sum(given.values())
    for name in sorted(sizes, key=lambda name: given[name] - fraction * sizes[name])[: max(left, 0)]:
        given[name] += 1
    return {name: min(n, sizes[name] - 1) for name, n in given.items()}


def _most_common(values: Sequence[Hashable]) -> Hashable:
    counts = Counter(values)
    return max(sorted(counts, key=str), key=counts.__getitem__)
