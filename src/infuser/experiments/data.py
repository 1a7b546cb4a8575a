"""The examples of a task as a cell reads them: chosen once for all seeds, with what the sources found in them."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.experiments.placebo import shuffle
from infuser.experiments.settings import TaskEntry
from infuser.files import digest_of
from infuser.signals.examples import InputRow, read_rows
from infuser.sources.annotating.cache import flush_caches, with_cache
from infuser.sources.annotating.fingerprints import describe
from infuser.tasks.base import Example, Task
from infuser.types import Annotations, Source

_AT_ONCE = 256
_CHOICE_SEED = 0
"""Decides which examples are held out and which few are used: the same for every seed, so that pairs are pairs."""


@dataclass(frozen=True)
class Data:
    """The three parts that a cell reads."""

    train: list[Example]
    held_out: list[Example]
    """Chooses epochs and settings."""
    score: list[Example]

    def told(self, split: str) -> dict[str, Any]:
        """Return sizes and digests for the result of a cell."""
        named = {"train": self.train, "held_out": self.held_out, "score": self.score}
        told = {name: {"n": len(part), "digest": digest_of(part, default=repr)} for name, part in named.items()}
        return {**told, "score": {"split": split, **told["score"]}}


def read_data(task: Task, entry: TaskEntry) -> Data:
    """Read the parts of a task; what is held out of the training part, and which few are used, is chosen once."""
    score = some(task.read(entry.score_on), entry.n_score)  # type: ignore[arg-type]
    if not task.learns:
        return Data([], [], score)
    every = task.read("train")
    n_held = round(entry.hold_out if entry.hold_out >= 1 else entry.hold_out * len(every))
    if n_held >= len(every):
        raise InputError(f"[task.{entry.name}] holds out {n_held} of {len(every)} training examples. Hold out fewer.")
    order = _drawn(len(every), task.held_out_groups(every))
    kept = sorted(order[n_held:][: entry.n_train])
    return Data([every[at] for at in kept], [every[at] for at in sorted(order[:n_held])], score)


def _drawn(n: int, groups: Sequence[Hashable] | None) -> list[int]:
    """Return the places of examples in an order by chance; those of a group stay together."""
    members: dict[Hashable, list[int]] = {}
    for place in range(n):
        members.setdefault(place if groups is None else groups[place], []).append(place)
    order = list(members)
    random.Random(_CHOICE_SEED).shuffle(order)
    return [place for group in order for place in members[group]]


def some(examples: list[Example], n: int | None) -> list[Example]:
    """Return so many of the examples, always the same ones; None returns all."""
    if n is None or n >= len(examples):
        return examples
    return [examples[at] for at in sorted(random.Random(_CHOICE_SEED).sample(range(len(examples)), n))]


def marks_of(sources: Sequence[Source]) -> list[str]:
    """Return what tells each source from one that knows something else."""
    return [
        digest_of({key: part for key, part in describe(source).items() if key not in ("code", "versions")})
        for source in sources
    ]


def with_knowledge(data: Data, sources: Sequence[Source], *, placebo: bool, cache: Path | None) -> Data:
    """Return the data with what the sources found; the placebo gives each example what was found in another."""
    asked = with_cache(sources, cache)
    parts = []
    for seed, part in enumerate((data.train, data.held_out, data.score)):
        known = _annotated(part, asked) if part else []
        parts.append(_shuffled(known, seed) if placebo and known else known)
    flush_caches(asked)
    return Data(*parts)


def _annotated(examples: list[Example], sources: Sequence[Source]) -> list[Example]:
    rows_of = [read_rows([example])[0] for example in examples]  # several rows for several choices
    texts = [row.joined for rows in rows_of for row in rows]
    found: list[tuple[Annotations, ...]] = []
    for first in range(0, len(texts), _AT_ONCE):
        found += zip(*(source.annotate(texts[first : first + _AT_ONCE]) for source in sources), strict=True)
    left = iter(found)
    return [_joined(example, [next(left) for _ in rows]) for example, rows in zip(examples, rows_of, strict=True)]


def _joined(example: Example, found: list[tuple[Annotations, ...]]) -> Example:
    several = any(isinstance(example.get(side), list | tuple) for side in ("text", "pair"))
    return {**example, "annotations": found if several else found[0]}


def _shuffled(examples: list[Example], seed: int) -> list[Example]:
    """Return annotated examples, each with the knowledge of another; a choice gets that of the same choice."""
    moved: list[list[tuple[Annotations, ...]]] = [[] for _ in examples]
    rows_of: list[list[InputRow]] = [read_rows([example])[0] for example in examples]
    for choice in range(max(map(len, rows_of))):
        able = [place for place, rows in enumerate(rows_of) if choice < len(rows)]
        rows = [rows_of[place][choice] for place in able]
        breaks = [None if row.pair is None else len(row.text) for row in rows]
        for place, found in zip(
            able, shuffle([row.annotations or () for row in rows], breaks=breaks, seed=seed), strict=True
        ):
            moved[place].append(found)
    return [_joined(example, found) for example, found in zip(examples, moved, strict=True)]
