"""compare(): does knowledge help? Plain, infused and placebo, trained alike on the same seeds and data."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from infuser.errors import InputError
from infuser.experiments.arm import Arm, Host
from infuser.experiments.cell import Cell, Result, Setup
from infuser.experiments.coverage import coverage_sentences
from infuser.experiments.data import NOTHING_TO_WRITE, Data, can_write
from infuser.experiments.rules import rule_sentences
from infuser.experiments.run import run
from infuser.experiments.run_folder import Results
from infuser.hosts.checkpoints import is_infused
from infuser.infused import load
from infuser.methods import Text
from infuser.model_card import write_model_card
from infuser.opening import open_plain
from infuser.reports.report import write_report
from infuser.reports.table import markdown_table
from infuser.stats import comparison as statistics
from infuser.stats.metrics import Metric
from infuser.training import TrainSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Comparison:
    """What `compare` found out: the cells, their statistics, and the models that were kept."""

    data: Data
    arms: tuple[Arm, ...]
    """The first one is the baseline."""
    results: dict[str, list[Result]]
    """Of each arm the results of its seeds."""
    folder: Path
    groups: Sequence[Any] | None = None
    """Groups of test examples that are not independent; intervals over examples draw whole groups."""
    notes: tuple[str, ...] = ()
    """What was left out, in sentences."""

    @cached_property
    def statistics(self) -> statistics.ArmStatistics:
        """Means, paired differences to the baseline and to the placebo, intervals over seeds and test examples."""
        names = [arm.name for arm in self.arms]
        scores = [
            statistics.ArmScores(
                name,
                [self._as_judged(result["predictions"]) for result in self.results[name]],
                self.results[name][0]["extra_weights"],
                [result["seconds"]["total"] for result in self.results[name]],
            )
            for name in names
        ]
        return statistics.compare_arms(
            scores,
            self._as_judged(self.data.golds()),
            metric=self._metric,
            groups=self.groups,
            also=[(arm.name, other.name) for arm in self.arms for other in self.arms if _is_rival_of(other, arm)],
        )

    @property
    def verdict(self) -> str:
        """One sentence on whether the first infused arm helps, hurts, or shows no evidence of either."""
        return self.statistics.verdict

    @property
    def best(self) -> str:
        """The name of the arm to use: the best one that helps, else the baseline."""
        baseline = self.arms[0].name
        against = [one for one in self.statistics.differences if one.against == baseline]
        helps = {one.arm for one in against if one.verdict == "helps" and not self._arm(one.arm).shuffled}
        able = [one for one in self.statistics.arms if one.name in helps]
        sign = 1 if self._metric.higher_is_better else -1
        return max(able, key=lambda one: sign * one.mean).name if able else baseline

    @property
    def _metric(self) -> Metric:
        return self.data.task.get_metric(self.data.metric)

    def _as_judged(self, values: Any) -> Any:
        """Return predictions or golds as the metric takes them: arrays, or lists where a task has its own form."""
        return np.asarray(values) if self._metric.takes_arrays else values

    def model(self, name: str | None = None) -> Path:
        """Return the folder of a trained model, of the first seed; by default that of the best arm."""
        name = name or self.best
        path = Results(self.folder).model_folder(self._arm(name).name, self.results[name][0]["digest"])
        if not path.exists():
            raise InputError(f"No model of {name!r} was kept. Give compare(out=FOLDER) to keep models.")
        return path

    def load(self, name: str | None = None) -> Any:
        """Return a trained model, by default that of the best arm: `Infused`, or of the plain arm the model itself."""
        folder = self.model(name)
        return load(folder) if is_infused(folder) else open_plain(str(folder))[0]

    def table(self) -> str:
        """Return a Markdown table of the arms; below it verdicts, what rules reach without an encoder, and notes."""
        return "\n".join([markdown_table(self.statistics), *(f"{one}\n" for one in (*self.rules, *self.notes))])

    @property
    def rules(self) -> list[str]:
        """Scores of rules without an encoder, and on rows with and without knowledge, where tasks define them."""
        plain = next((arm.name for arm in self.arms if arm.method is None), None)
        task, metric = self.data.task, self.data.metric
        return [*rule_sentences(task, metric, self.results, plain), *coverage_sentences(task, metric, self.results)]

    def to_html(self, path: str | Path, *, title: str = "Does knowledge help?", **details: Any) -> Path:
        """Write a page with verdicts, scores, what rules reach and curves; `details` go to `write_report`."""
        curves = {f"{arm.name}, dev {self.data.metric}": self._curve(arm.name) for arm in self.arms}
        details.setdefault("curves", {name: curve for name, curve in curves.items() if curve})
        details.setdefault("notes", [*self.rules, *self.notes])
        details.setdefault("settings", {"seeds": len(self.results[self.arms[0].name]), "scored": self.data.scored})
        return write_report(path, title=title, comparison=self.statistics, **details)

    def _curve(self, arm: str) -> list[tuple[float, float]]:
        history = self.results[arm][0]["history"]
        return [
            (one["step"], one["metrics"][self.data.metric]) for one in history if self.data.metric in one["metrics"]
        ]

    def _arm(self, name: str) -> Arm:
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise InputError(f"There is no arm {name!r}. Arms: {', '.join(arm.name for arm in self.arms)}.")


def compare(
    checkpoint: str | Path,
    arms: Arm | Sequence[Arm],
    data: Data | str | Path,
    *,
    seeds: int | Sequence[int] = 3,
    settings: TrainSettings | None = None,
    text: bool = True,
    placebo: bool = True,
    out: str | Path | None = None,
    workers: int = 1,
    cache: Path | None = None,
    groups: Sequence[Any] | None = None,
    progress: Callable[..., None] = lambda cell, report: None,
) -> Comparison:
    """Train every arm with every seed on the same data, beside the plain encoder, knowledge as text, and a placebo.

    The plain arm comes first and is added if it is missing; so is an arm that reads the knowledge of the first infused
    one as text, unless `text=False` or its sources provide nothing to write, and the placebo of that arm, unless
    `placebo=False`. `data` may be a table with the columns text and label. With `out`, finished cells are kept, a
    stopped comparison resumes, and the model of each arm's first seed is saved. `progress` is called with each cell and
    the `StepReport` of its training, at its end with None.
    """
    given = [arms] if isinstance(arms, Arm) else list(arms)
    data = data if isinstance(data, Data) else Data.from_table(data)
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if data.golds() is None:
        raise InputError("The test examples have no labels to compare the answers with. Give labelled ones.")
    if not numbers:
        raise InputError("A comparison needs at least one seed; two or more give an interval.")
    infused = sorted((arm for arm in given if arm.method is not None), key=_rank)
    notes: tuple[str, ...] = ()
    text = text and not any(isinstance(arm.method, Text) and not arm.shuffled for arm in infused)
    if text and infused and not can_write(data.train, infused[0].sources, cache):
        text, notes = False, (NOTHING_TO_WRITE,)
        _log.info(NOTHING_TO_WRITE)
    listed = _complete(given, text=text, placebo=placebo)
    setups = {arm.name: Setup(Host(str(checkpoint)), arm, data, settings or TrainSettings()) for arm in listed}
    described = {name: setup.describe() for name, setup in setups.items()}
    cells = [
        Cell(
            Path(checkpoint).name,
            arm.name,
            "data",
            seed,
            made_with={**described[arm.name], "seed": seed},
            open=partial(_open, setups[arm.name], seed),
            keep_model=out is not None and seed == numbers[0] and not arm.shuffled,
        )
        for seed in numbers  # seed by seed, so that a stopped comparison has whole pairs
        for arm in listed
    ]
    with ExitStack() as stack:
        folder = Path(out if out is not None else stack.enter_context(tempfile.TemporaryDirectory()))
        store = Results(folder)
        for cell in cells:
            if store.is_finished(cell):
                progress(cell, None)
        run(cells, folder, workers=workers, cache=cache, progress=progress)
        results: dict[str, list[Result]] = {arm.name: [] for arm in listed}
        for cell in cells:
            result = store.read(cell)
            assert result is not None
            results[cell.method].append(result)
        comparison = Comparison(data, tuple(listed), results, folder, groups, notes)
        for cell in cells:
            if cell.keep_model and is_infused(store.model(cell)):
                write_model_card(store.model(cell), comparison=comparison.table())
    return comparison


def _open(setup: Setup, seed: int, results: Sequence[Result], made: dict[str, Any]) -> Setup:
    return replace(setup, settings=replace(setup.settings, seed=seed))


def _complete(arms: list[Arm], *, text: bool, placebo: bool) -> list[Arm]:
    """Return the arms with the plain one first and, if wanted, knowledge as text and a placebo."""
    plain = [arm for arm in arms if arm.method is None] or [Arm()]
    infused = sorted((arm for arm in arms if arm.method is not None), key=_rank)
    if not infused or infused[0].shuffled:
        raise InputError("No arm has knowledge. Give at least one, as in Arm(Kam(), sources=[...]).")
    if text:
        infused.append(infused[0].as_text())
    if placebo and not any(arm.shuffled for arm in infused):
        infused.append(infused[0].placebo())
    listed = [*plain, *infused]
    names = [arm.name for arm in listed]
    if len(set(names)) != len(names):
        raise InputError(f"Arms need names of their own; got {', '.join(names)}. Give name=... to Arm.")
    return listed


def _rank(arm: Arm) -> tuple[bool, bool]:
    """Return where an infused arm stands: what is compared first, then its rivals, knowledge as text and placebos."""
    return arm.shuffled, isinstance(arm.method, Text)


def _is_rival_of(other: Arm, arm: Arm) -> bool:
    """Return whether an arm is the placebo of another, or the same knowledge as text."""
    if arm.shuffled or other.sources != arm.sources:
        return False
    same = other.method == arm.method
    return same if other.shuffled else isinstance(other.method, Text) and not same
