"""Options that the commands of `infuser bench` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from infuser.cli.knowledge_options import CacheOptions
from infuser.cli.options import argument, option

if TYPE_CHECKING:
    from infuser.experiments.settings import Bench

SettingsFile = Annotated[Path, argument("A settings file (.toml); see docs/guides/bench.md.", metavar="SETTINGS")]
Out = Annotated[Path, option("Folder of the run: results, settings, tables.", "--out")]
Methods = Annotated[
    list[str] | None, option("Only this method and the baseline. Repeatable.", "--method", metavar="NAME")
]


@dataclass(frozen=True, slots=True)
class PartOptions:
    """Which part of a bench is meant."""

    task: Annotated[list[str] | None, option("Only this task. Repeatable.", metavar="NAME")] = None
    host: Annotated[list[str] | None, option("Only this host. Repeatable.", metavar="NAME")] = None

    def of(self, bench: Bench, methods: list[str] | None = None) -> Bench:
        """Return this part of a bench."""
        from infuser.experiments.settings import only

        return only(bench, hosts=self.host or (), methods=methods or (), tasks=self.task or ())


@dataclass(frozen=True, slots=True)
class RunOptions(CacheOptions):
    """How a bench is computed."""

    workers: Annotated[int, option("Processes on this machine, one cell each; they share the threads.", min=1)] = 1
    together: Annotated[
        bool,
        option(
            "Under accelerate or torchrun: all processes train each cell together, instead of one cell each.",
            "--together",
        ),
    ] = False
    seeds: Annotated[int | None, option("So many seeds: 0, 1, ...", min=1, default="those of the file")] = None

    def seeded(self, bench: Bench) -> Bench:
        """Return a bench with so many seeds."""
        return bench if self.seeds is None else replace(bench, seeds=tuple(range(self.seeds)))
