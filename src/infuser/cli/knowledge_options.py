"""Options that the commands share which build knowledge from files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer


@dataclass(frozen=True, slots=True)
class NameOptions:
    """Entities of tables and of ready-made knowledge, and how their names are compared with texts."""

    entities: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Table of entities: id, label, aliases, description, types, count. Repeatable.",
            show_default=False,
        ),
    ] = None
    asset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Ready-made: wordnet, conceptnet, biomedical, wikidata-small. Repeatable.",
            show_default=False,
        ),
    ] = None
    fold_case: Annotated[bool, typer.Option(help="Find names in any case.")] = True
    fold_accents: Annotated[bool, typer.Option(help="Find names without their accents too.")] = False

    def settings(self) -> dict[str, Any]:
        """Return them as `infuser.knowledge.builders` takes them."""
        fold = {"fold_case": self.fold_case, "fold_accents": self.fold_accents}
        return {"entities": self.entities or (), "ready": self.asset or (), **fold}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Where a large input is worked on, and whether an earlier run is resumed."""

    engine: Annotated[
        Literal["local", "spark"], typer.Option(help="Work on this machine, see --workers, or on a Spark cluster.")
    ] = "local"
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where Spark runs: spark://HOST:7077, yarn, k8s://..., sc://HOST or local[4]. Else what Spark's own "
            "settings say, or all cores of this machine.",
            show_default=False,
        ),
    ] = None
    restart: Annotated[
        bool, typer.Option("--restart", help="Start again instead of resuming a run that was stopped.")
    ] = False
