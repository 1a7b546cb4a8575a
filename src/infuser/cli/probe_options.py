"""Options of `infuser probe`: which triples are asked about, and what is read of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infuser.errors import InputError

if TYPE_CHECKING:
    from infuser.analysis.probe.relations import ProbeSettings


def _of_reading(*flags: str, **options: Any) -> Any:
    return typer.Option(*flags, rich_help_panel="What is read", **options)


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Which triples are asked about, and what is read of them."""

    relations: Annotated[
        str | None, typer.Option(metavar="ID,ID,...", help="Only these relations.", show_default="all")
    ] = None
    sample: Annotated[
        int | None,
        typer.Option(min=2, help="So many triples of each relation at most, to be quick.", show_default="all"),
    ] = None
    ids: Annotated[bool, typer.Option("--ids", help="Entities in --scores go by their ids, not by their words.")] = (
        False
    )
    seed: Annotated[int, typer.Option(help="Decides all that is drawn.")] = 0
    features: Annotated[
        Literal["attention", "embeddings"], _of_reading(help="Attention between the spans, or their states.")
    ] = "attention"
    pooling: Annotated[Literal["sum", "mean"], _of_reading(help="How attention between words becomes one number.")] = (
        "sum"
    )
    pairs: Annotated[
        bool, _of_reading("--pairs", help="Look at head and tail alone, not at the words that say the relation.")
    ] = False
    no_curve: Annotated[bool, _of_reading("--no-curve", help="Do not ask each layer alone; much faster.")] = False
    strength: Annotated[float, _of_reading(min=0.0, help="How freely classifiers may fit (scikit-learn's C).")] = 1.0

    def settings(self, *, scores: bool) -> ProbeSettings:
        """Return the same for the library; `scores` also asks for those of relations and entities."""
        from infuser.analysis.probe.relations import ProbeSettings

        wanted = None if self.relations is None else {id.strip() for id in self.relations.split(",") if id.strip()}
        return ProbeSettings(
            kind=self.features,
            pooling=self.pooling,
            trigger=False if self.pairs else None,
            relations=wanted,
            per_relation=self.sample,
            curve=not self.no_curve,
            scores=scores,
            by_id=self.ids,
            strength=self.strength,
            seed=self.seed,
        )

    def check(self) -> None:
        """Raise if a number has no meaning."""
        if self.strength <= 0:
            raise InputError(f"--strength {self.strength:g}: give a number above 0.")
