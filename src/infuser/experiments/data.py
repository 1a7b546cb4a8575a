"""The examples of an experiment: train, dev and test, split once for all seeds, and annotated once for all cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from infuser.errors import InputError
from infuser.experiments.arm import Arm, select_sources
from infuser.experiments.own_data import Parts, TableTask, find_parts, task_of_examples, task_of_parts
from infuser.experiments.placebo import shuffle
from infuser.files import digest_of
from infuser.signals.examples import InputRow, read_rows
from infuser.sources.annotating.cache import annotate_cached
from infuser.sources.fitting import fit_sources
from infuser.tables.examples import Columns
from infuser.tasks.base import Example, Split, Task
from infuser.tasks.splitting import DATA_SEED, hold_out, subset
from infuser.types import Annotations, FitsExamples, Source


@dataclass(frozen=True)
class Data:
    """The three parts of an experiment. Training reads `train`, epochs are chosen on `dev`, `test` is scored."""

    task: Task
    """How examples are answered and scored."""
    train: list[Example]
    dev: list[Example]
    """Empty where the last epoch is kept."""
    test: list[Example]
    scored: str = "test"
    """Which split `test` is; "dev" if there is no other, so that the examples that chose the epochs are scored."""
    files: Parts = field(default_factory=dict, compare=False)
    """The files or splits that it was read from, if it was."""

    @classmethod
    def from_task(
        cls,
        task: Task,
        *,
        score_on: Split = "dev",
        hold_out: float = 0.1,
        n_train: int | None = None,
        n_test: int | None = None,
    ) -> Self:
        """Read a task; a share of train (from 1 on: a number) chooses epochs, unless the task has a dev part for it."""
        test = _some(task, task.read(score_on), n_test)
        if not task.learns:
            return cls(task, [], [], test, score_on)
        train, dev = task.read("train"), task.dev_beside(score_on)
        if dev is None:
            train, dev = _divided(task, train, hold_out)
        return cls(task, _some(task, train, n_train), dev, test, score_on)

    @classmethod
    def from_table(
        cls,
        train: str | Path,
        *,
        dev: str | Path | None = None,
        test: str | Path | None = None,
        columns: Columns | None = None,
        metric: str | None = None,
        n_train: int | None = None,
        seed: int = DATA_SEED,
        task: TableTask = "table",
    ) -> Self:
        """Read tables with the columns text, label and perhaps pair; or with `task="ner"`, texts with entities.

        Without `dev`, a stratified tenth of the training rows is held out by the data seed. Without `test`, dev is
        scored. `n_train` keeps so many training rows, labels in proportion. `train` may be `datasets:NAME` or
        `datasets:NAME,CONFIG`: then dev and test name splits of it, and dev is its validation split if it has one.
        """
        files = find_parts(train, dev, test)
        of_files = task_of_parts(task, files, columns, metric, seed)
        rows, held = of_files.read("train"), of_files.read("dev")
        if n_train is not None:
            n_labels = len(set(of_files.strata(rows) or ()))
            if not max(n_labels, 1) <= n_train <= len(rows):
                raise InputError(
                    f"{n_train} training examples were asked for, but there are {len(rows)} of {n_labels} labels. Give "
                    f"a number from {max(n_labels, 1)} to {len(rows)}."
                )
        scored = held if test is None else of_files.read("test")
        return cls(
            of_files,
            _some(of_files, rows, n_train, seed),
            held,
            scored,
            "dev" if test is None else "test",
            files,
        )

    @classmethod
    def from_examples(
        cls,
        train: Sequence[Example],
        dev: Sequence[Example] | None = None,
        test: Sequence[Example] | None = None,
        *,
        labels: Sequence[str] | None = None,
        metric: str | None = None,
    ) -> Self:
        """Take examples as they are: mappings with text, label (0, 1, ...) and perhaps pair; `labels` names classes.

        Examples with text and `entities`, (start, end, type) in characters, are those of named entity recognition.
        """
        task = task_of_examples(train, labels, metric)
        rows, held = _divided(task, list(train), 0.1) if dev is None else (list(train), list(dev))
        return cls(task, rows, held, held if test is None else list(test), "dev" if test is None else "test")

    @property
    def metric(self) -> str:
        """The metric that chooses epochs and settings."""
        return self.task.metrics[0]

    @property
    def labels(self) -> list[str]:
        """Names of the classes; empty for tasks that have none."""
        names: Mapping[int, str] = self.task.head_options().get("id2label", {})
        return [names[place] for place in sorted(names)]

    def describe(self) -> dict[str, Any]:
        """Return sizes and digests of the parts."""
        parts = {"train": self.train, "held_out": self.dev, "score": self.test}
        about = {name: {"n": len(part), "digest": digest_of(part, default=repr)} for name, part in parts.items()}
        reading = {"reading": self.task.reading} if self.task.reading else {}
        return {**about, "score": {"split": self.scored, **about["score"]}, **reading}

    def golds(self, part: Sequence[Example] | None = None) -> list[Any] | None:
        """Return the right answers to the test part, or to another one; None if one is hidden."""
        try:
            return self.task.golds(self.test if part is None else part, self.train)
        except KeyError:
            return None


def _divided(task: Task, examples: list[Example], share: float) -> tuple[list[Example], list[Example]]:
    if share >= len(examples):
        raise InputError(f"{share:g} of {len(examples)} training examples would be held out. Hold out fewer.")
    strata, groups = task.strata(examples), task.held_out_groups(examples)
    held = hold_out(len(examples), share=share, strata=strata, groups=groups)
    return [one for place, one in enumerate(examples) if place not in held], [examples[place] for place in sorted(held)]


def _some(task: Task, examples: list[Example], n: int | None, seed: int = DATA_SEED) -> list[Example]:
    return [examples[place] for place in subset(len(examples), n, seed=seed, strata=task.strata(examples))]


def fewer(data: Data, n_train: int | None) -> Data:
    """Return the data with so many training examples, labels in proportion; fewer are a part of more."""
    return data if n_train is None else replace(data, train=_some(data.task, data.train, n_train))


PART_SEEDS = {"train": 0, "dev": 1, "test": 2}
"""Seeds by which the placebo shuffles the knowledge of each part."""


N_FOLDS = 5
"""Into how many parts training examples are divided when sources are fitted to them."""


@dataclass
class Annotator:
    """Annotates data for arms: each source reads each text once, whatever arms and seeds ask for it.

    Annotations are cached on disk in `cache` and, for the data at hand, in memory.
    """

    cache: Path | None = None
    report: Callable[[str, list[Source], Sequence[tuple[Annotations, ...]]], None] | None = None
    """Called with the name of a part, the sources, and the annotations of its texts."""
    progress: bool | None = False
    """Show a progress bar; None shows it on terminals."""
    _data: Data | None = None
    _known: dict[Any, tuple[Arm, Data, Arm]] = field(default_factory=dict)
    """By the sources' ids: the arm with its sources, the data, and the arm as given, which keeps these ids taken."""

    def annotate(self, data: Data, arm: Arm) -> tuple[Arm, Data]:
        """Return the arm with the sources it trains with (they may select), and the data with their annotations."""
        if arm.method is None:
            return arm, data
        if data is not self._data:
            self._data, self._known = data, {}
        key = (
            *map(id, arm.sources),
            arm.fit,
            arm.shuffled,
            arm.select if isinstance(arm.select, str) else id(arm.select),
        )
        if key not in self._known:
            fits = arm.fit and any(isinstance(one, FitsExamples) for one in arm.sources) and _has_entities(data.train)
            unfitted, sources = arm.sources, arm.sources
            if fits:
                sources = tuple(fit_sources(sources, data.train))
            if arm.select is not None:
                bare = annotate_part(data.train, sources, self.cache, progress=self.progress)
                found = [of_row for example in bare for of_row in rows_of(example)]
                unfitted, sources = (select_sources(arm, some, found) for some in (unfitted, sources))
            train = self._cross_fitted(data.train, unfitted) if fits else None
            known = self._annotated(data, sources, arm.shuffled, train)
            self._known[key] = replace(arm, sources=sources, select=None), known, arm
        annotated, with_knowledge, _ = self._known[key]
        return replace(annotated, name=arm.name, method=arm.method, spectral=arm.spectral), with_knowledge

    def _cross_fitted(self, train: Sequence[Example], sources: Sequence[Source]) -> list[Example]:
        """Return the training examples with what sources find that were fitted to the other folds of them.

        On the texts that it was fitted to, a source is right more often than on others: a model that learned from
        these would trust it too much.
        """
        folds: list[list[Example]] = []
        for fold in range(N_FOLDS):
            others = [example for place, example in enumerate(train) if place % N_FOLDS != fold]
            fitted = fit_sources(sources, others)
            folds.append(annotate_part(train[fold::N_FOLDS], fitted, self.cache, progress=self.progress))
        return [folds[place % N_FOLDS][place // N_FOLDS] for place in range(len(train))]

    def _annotated(
        self, data: Data, sources: Sequence[Source], shuffled: bool, train: list[Example] | None = None
    ) -> Data:
        """Return the data with what the sources find; `train` is the training part if it has its annotations."""
        parts: dict[str, Any] = {}
        for name, seed in PART_SEEDS.items():
            part: list[Example] = getattr(data, name)
            if name == "test" and part is data.dev:
                parts[name] = parts["dev"]
                continue
            known = train if name == "train" else None
            if known is None:
                known = annotate_part(part, sources, self.cache, progress=self.progress)
            if self.report is not None and known:
                self.report(name, list(sources), [found for example in known for found in rows_of(example)])
            parts[name] = shuffle_part(known, seed=seed) if shuffled else known
        return replace(data, **parts)


def _has_entities(examples: Sequence[Example]) -> bool:
    """Return whether examples have labelled entities, enough of them for every fold."""
    return len(examples) >= N_FOLDS and "entities" in examples[0]


def annotate_part(
    examples: Sequence[Example], sources: Sequence[Source], cache: Path | None, *, progress: bool | None = False
) -> list[Example]:
    """Return examples with what the sources found in them; an example with several choices has one tuple for each."""
    rows = [read_rows([example])[0] for example in examples]
    texts = [row.joined for of_example in rows for row in of_example]
    found = iter(annotate_cached(sources, texts, cache, progress=progress))
    return [
        _with_annotations(example, [next(found) for _ in of_example])
        for example, of_example in zip(examples, rows, strict=True)
    ]


NOTHING_TO_WRITE = "No text arm: the sources provide neither types nor terms."
"""Said where `can_write` finds nothing."""
_N_READ = 300
"""In how many training examples `can_write` looks."""


def can_write(train: Sequence[Example], sources: Sequence[Source] = (), cache: Path | None = None) -> bool:
    """Return whether sources find anything in training examples that `Text` can write; some hundred are looked at.

    Examples with annotations are taken as they are; others are annotated by the sources.
    """
    from infuser.methods import Text

    some = train[:: -(-len(train) // _N_READ)] if train else []
    if not all("annotations" in example for example in some):
        some = annotate_part(some, sources, cache)
    return any(Text().write(found) for example in some for found in rows_of(example))


def shuffle_part(examples: Sequence[Example], *, seed: int) -> list[Example]:
    """Return annotated examples, each with the knowledge of another; a choice gets that of the same choice."""
    moved: list[list[tuple[Annotations, ...]]] = [[] for _ in examples]
    rows: list[list[InputRow]] = [read_rows([example])[0] for example in examples]
    for choice in range(max(map(len, rows), default=0)):
        places = [place for place, of_example in enumerate(rows) if choice < len(of_example)]
        chosen = [rows[place][choice] for place in places]
        breaks = [None if row.pair is None else len(row.text) for row in chosen]
        found = [rows_of(examples[place])[choice] for place in places]
        for place, one in zip(places, shuffle(found, breaks=breaks, seed=seed), strict=True):
            moved[place].append(one)
    return [_with_annotations(example, found) for example, found in zip(examples, moved, strict=True)]


def rows_of(example: Example) -> list[tuple[Annotations, ...]]:
    """Return the annotations of each row of an example: one, or one per choice."""
    found = example["annotations"]
    return list(found) if isinstance(found, list) else [found]


def _with_annotations(example: Example, found: list[tuple[Annotations, ...]]) -> Example:
    several = any(isinstance(example.get(side), list | tuple) for side in ("text", "pair"))
    return {**example, "annotations": found if several else found[0]}
