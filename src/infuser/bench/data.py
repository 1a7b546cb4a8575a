"""The examples of a task as a cell reads them: chosen once for all seeds, with what the sources found in them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import infuser.tasks.catalogue  # noqa: F401  # enters the tasks into the registry
from infuser.annotating.fingerprints import describe
from infuser.annotating.remembering import forget_nothing, remember
from infuser.bench.settings import Arm, Bench, TaskEntry
from infuser.digests import digest_of
from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.signals.examples import Row, read_rows
from infuser.sources.placebo import shuffle
from infuser.tasks.base import Example, Task
from infuser.tasks.official import is_datasets_name
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


def make_task(bench: Bench, entry: TaskEntry) -> Task:
    """Return the task that an entry names, with its paths made absolute."""
    cls = TASKS[entry.kind]
    known = [field.name for field in fields(cls)]
    for name in entry.settings:
        if name not in known:
            raise InputError(f"[task.{entry.name}]: {entry.kind} has no setting {name!r}. Known: {', '.join(known)}.")
    if "data" not in entry.settings:
        raise InputError(f"[task.{entry.name}] has no data. Give a folder, or datasets:NAME.")
    settings = {name: _placed(value, Path(bench.folder)) for name, value in entry.settings.items()}
    task: Task = cls(**settings)
    return task


def _placed(value: Any, folder: Path) -> Any:
    """Return a path made absolute if it names something that lies beside the settings file."""
    if not isinstance(value, str) or is_datasets_name(value) or not value:
        return value
    return str(folder / value) if "/" in value or (folder / value).exists() else value


def read_data(task: Task, entry: TaskEntry) -> Data:
    """Read the parts of a task; what is held out of the training part, and which few are used, is chosen once."""
    score = some(task.read(entry.score_on), entry.n_score)  # type: ignore[arg-type]
    if not task.learns:
        return Data([], [], score)
    every = task.read("train")
    order = list(range(len(every)))
    random.Random(_CHOICE_SEED).shuffle(order)
    n_held = round(entry.hold_out if entry.hold_out >= 1 else entry.hold_out * len(every))
    if n_held >= len(every):
        raise InputError(f"[task.{entry.name}] holds out {n_held} of {len(every)} training examples. Hold out fewer.")
    kept = sorted(order[n_held:][: entry.n_train])
    return Data([every[at] for at in kept], [every[at] for at in sorted(order[:n_held])], score)


def some(examples: list[Example], n: int | None) -> list[Example]:
    """Return so many of the examples, always the same ones; None returns all."""
    if n is None or n >= len(examples):
        return examples
    return [examples[at] for at in sorted(random.Random(_CHOICE_SEED).sample(range(len(examples)), n))]


def make_sources(bench: Bench, arm: Arm) -> list[Source]:
    """Return the sources that a method reads."""
    from infuser.reading.named_sources import from_entry
    from infuser.sources import Candidates, KnowledgeBase

    made: list[Source] = []
    for name in arm.sources:
        entry, where, folder = bench.sources[name], f"[source.{name}]", Path(bench.folder)
        if entry.get("kind") == "knowledge-base":
            if not {"candidates", "vectors"} <= entry.keys():
                raise InputError(f"{where} needs candidates = DIR and vectors = DIR, which infuser builds.")
            base = {key: value for key, value in entry.items() if key not in ("kind", "candidates", "vectors")}
            candidates = Candidates(str(folder / entry["candidates"]))
            made.append(KnowledgeBase(candidates, folder / entry["vectors"], **{"missing": "skip", **base}))
        else:
            made.append(from_entry(entry, where, folder))
    return made


def marks_of(sources: Sequence[Source]) -> list[str]:
    """Return what tells each source from one that knows something else."""
    return [
        digest_of({key: part for key, part in describe(source).items() if key not in ("code", "versions")})
        for source in sources
    ]


def with_knowledge(data: Data, sources: Sequence[Source], *, placebo: bool, cache: Path | None) -> Data:
    """Return the data with what the sources found; the placebo gives each example what was found in another."""
    asked = remember(sources, cache)
    parts = []
    for seed, part in enumerate((data.train, data.held_out, data.score)):
        known = _annotated(part, asked) if part else []
        parts.append(_shuffled(known, seed) if placebo and known else known)
    forget_nothing(asked)
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
    rows_of: list[list[Row]] = [read_rows([example])[0] for example in examples]
    for choice in range(max(map(len, rows_of))):
        able = [place for place, rows in enumerate(rows_of) if choice < len(rows)]
        rows = [rows_of[place][choice] for place in able]
        breaks = [None if row.pair is None else len(row.text) for row in rows]
        for place, found in zip(
            able, shuffle([row.annotations or () for row in rows], breaks=breaks, seed=seed), strict=True
        ):
            moved[place].append(found)
    return [_joined(example, found) for example, found in zip(examples, moved, strict=True)]
