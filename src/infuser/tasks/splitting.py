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
    gives its share, at least one and never all; a stratum of one group stays in training.
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
    fraction = wanted / n
    chance = random.Random(seed)
    held: set[int] = set()
    for stratum, n_held in _shares({name: len(of) for name, of in members.items()}, fraction).items():
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


def _shares(sizes: dict[Hashable, int], fraction: float) -> dict[Hashable, int]:
    """Share out what is held out among strata: largest remainders, at least one of two or more, never all."""
    quotas = {name: fraction * sizes[name] for name in sorted(sizes, key=str)}  # always in the same order
    given = {name: int(quota) for name, quota in quotas.items()}
    left = round(fraction * sum(sizes.values())) - sum(given.values())
    for name in sorted(quotas, key=lambda name: given[name] - quotas[name])[: max(left, 0)]:
        given[name] += 1
    return {
        name: min(max(given[name], 1), size - 1) for name, size in sorted(sizes.items(), key=lambda one: str(one[0]))
    }


def _most_common(values: Sequence[Hashable]) -> Hashable:
    counts = Counter(values)
    return max(sorted(counts, key=str), key=counts.__getitem__)
