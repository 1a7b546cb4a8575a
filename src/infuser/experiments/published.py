"""The numbers that papers report, as the table [published] of a settings file gives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infuser.errors import InputError

_ABOUT = ("from", "note", "scale")
_OF_A_MODEL = ("n_weights", "flops")
"""What a published table has of a model besides its scores."""
_AVERAGE = "average"
"""Names of averages start with this."""


@dataclass(frozen=True)
class Published:
    """The numbers of a paper: {host: {method: {task: number, or {metric: number}}}}, besides average and n_weights."""

    baseline: str
    tasks: Mapping[str, Sequence[str]]
    """The metrics of each task that the bench runs; a bare number is of the first."""
    numbers: Mapping[str, Mapping[str, Mapping[str, Any]]]
    scale: float = 1.0
    source: str = ""
    note: str = ""

    @classmethod
    def read(cls, table: Mapping[str, Any], baseline: str, tasks: Mapping[str, Sequence[str]]) -> Published:
        """Read the table [published]; raise with the place of what is wrong with it."""
        check_published(table, tasks)
        numbers = {host: rows for host, rows in table.items() if host not in _ABOUT}
        return cls(baseline, tasks, numbers, table.get("scale", 1.0), table.get("from", ""), table.get("note", ""))

    def of(self, host: str, method: str, task: str, metric: str) -> tuple[float | None, float | None]:
        """Return the number of a task's metric on our scale, and its difference to the published baseline."""
        return self._with_difference(host, method, lambda row: self._number(row.get(task), task, metric))

    def average(self, host: str, method: str, name: str) -> tuple[float | None, float | None]:
        """Return the published average; none if the bench runs a part of its tasks only."""
        if self._not_run(self._row(host, method)):
            return None, None
        return self._with_difference(host, method, lambda row: row.get(name))

    def n_weights(self, host: str, method: str) -> int | None:
        """Return how many weights the paper's model has."""
        number = self._row(host, method).get("n_weights")
        return None if number is None else int(number)

    def only_published(self, host: str, run: Collection[str]) -> list[str]:
        """Return the methods of a host that the paper has and the bench does not run, if any of its tasks are here."""
        rows = self.numbers.get(host, {})
        return [name for name, row in rows.items() if name not in run and not row.keys().isdisjoint(self.tasks)]

    def tasks_not_run(self) -> list[str]:
        """Return the tasks that the paper has and the bench does not run; their names may be misspelt."""
        rows = [row for of_host in self.numbers.values() for row in of_host.values()]
        return list(dict.fromkeys(task for row in rows for task in self._not_run(row)))

    def _not_run(self, row: Mapping[str, Any]) -> list[str]:
        known = {*self.tasks, *_OF_A_MODEL}
        return [name for name in row if name not in known and not name.startswith(_AVERAGE)]

    def _row(self, host: str, method: str) -> Mapping[str, Any]:
        return self.numbers.get(host, {}).get(method, {})

    def _number(self, given: Any, task: str, metric: str) -> float | None:
        if isinstance(given, Mapping):
            number: float | None = given.get(metric)
            return number
        return given if metric == self.tasks[task][0] else None

    def _with_difference(
        self, host: str, method: str, find: Callable[[Mapping[str, Any]], float | None]
    ) -> tuple[float | None, float | None]:
        own, base = (find(self._row(host, name)) for name in (method, self.baseline))
        if own is None:
            return None, None
        apart = None if base is None or method == self.baseline else (own - base) / self.scale
        return own / self.scale, apart


def check_published(table: Mapping[str, Any], tasks: Mapping[str, Sequence[str]]) -> None:
    """Raise with the place of what is wrong in a table [published]; `tasks` are the metrics of each task that is run.

    A paper may have more tasks than are run, so the names of tasks are not checked.
    """
    for name in ("from", "note"):
        if not isinstance(table.get(name, ""), str):
            raise InputError(f"[published]: {name} is {table[name]!r}; give a text.")
    scale = table.get("scale", 1.0)
    if not _is_number(scale) or scale <= 0:
        raise InputError(f"[published]: scale is {scale!r}; give a number above 0, such as 100 for per cent.")
    for host, rows in table.items():
        if host in _ABOUT:
            continue
        if not isinstance(rows, Mapping):
            raise InputError(
                f"[published] has no setting {host!r}. It has {', '.join(_ABOUT)}, and a table [published.HOST.METHOD] "
                "with the numbers of each model."
            )
        for method, row in rows.items():
            if not isinstance(row, Mapping):
                raise InputError(
                    f"[published.{host}]: {method} is {row!r}, not the table of a method. Write the numbers of a model "
                    "under [published.HOST.METHOD]."
                )
            for name, given in row.items():
                place = f"[published.{host}.{method}]: {name}"
                if isinstance(given, Mapping) and name not in _OF_A_MODEL and not name.startswith(_AVERAGE):
                    _check_metrics(place, given, tasks.get(name))
                elif not _is_number(given):
                    raise InputError(f"{place} is {given!r}; give a number.")


def _check_metrics(place: str, given: Mapping[str, Any], known: Sequence[str] | None) -> None:
    for metric, number in given.items():
        if known is not None and metric not in known:
            raise InputError(f"{place} has no metric {metric!r}. Known: {', '.join(known)}.")
        if not _is_number(number):
            raise InputError(f"{place}, {metric} is {number!r}; give a number.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
