"""Options that the commands of `infuser bench` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infuser.cli.options import CacheOptions

if TYPE_CHECKING:
    from infuser.experiments.settings import Bench

SettingsFile = Annotated[
    Path, typer.Argument(metavar="SETTINGS", help="A settings file (.toml); see docs/guides/bench.md.")
]
Out = Annotated[Path, typer.Option("--out", help="Folder of the run: results, settings, tables.")]
Methods = Annotated[
    list[str] | None, typer.Option("--method", metavar="NAME", help="Only this method and the baseline. Repeatable.")
]


@dataclass(frozen=True, slots=True)
class PartOptions:
    """Which part of a bench is meant."""

    task: Annotated[list[str] | None, typer.Option("--task", metavar="NAME", help="Only this task. Repeatable.")] = None
    host: Annotated[list[str] | None, typer.Option("--host", metavar="NAME", help="Only this host. Repeatable.")] = None

    def of(self, bench: Bench, methods: list[str] | None = None) -> Bench:
        """Return this part of a bench."""
        from infuser.experiments.settings import only

        return only(bench, hosts=self.host or (), methods=methods or (), tasks=self.task or ())


@dataclass(frozen=True, slots=True)
class RunOptions(CacheOptions):
    """How a bench is computed."""

    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes on this machine, one cell each; they share the threads.")
    ] = 1
    together: Annotated[
        bool,
        typer.Option(
            "--together",
            help="Under accelerate or torchrun: all processes train each cell together, instead of one cell each.",
        ),
    ] = False
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="So many seeds: 0, 1, ...", show_default="those of the file")
    ] = None

    def seeded(self, bench: Bench) -> Bench:
        """Return a bench with so many seeds."""
        return bench if self.seeds is None else replace(bench, seeds=tuple(range(self.seeds)))
