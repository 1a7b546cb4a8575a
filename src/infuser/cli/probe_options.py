"""Options of `infuser probe`: which triples are asked about, and what is read of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from infuser.cli.options import option
from infuser.errors import InputError

if TYPE_CHECKING:
    from infuser.analysis.probe.relations import ProbeSettings


_of_reading = partial(option, panel="What is read")


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Which triples are asked about, and what is read of them."""

    relations: Annotated[str | None, option("Only these relations.", metavar="ID,ID,...", default="all")] = None
    sample: Annotated[
        int | None, option("So many triples of each relation at most, to be quick.", min=2, default="all")
    ] = None
    ids: Annotated[bool, option("Entities in --scores go by their ids, not by their words.", "--ids")] = False
    seed: Annotated[int, option("Decides all that is drawn.")] = 0
    features: Annotated[
        Literal["attention", "embeddings"], _of_reading("Attention between the spans, or their states.")
    ] = "attention"
    pooling: Annotated[Literal["sum", "mean"], _of_reading("How attention between words becomes one number.")] = "sum"
    pairs: Annotated[
        bool, _of_reading("Look at head and tail alone, not at the words that say the relation.", "--pairs")
    ] = False
    no_curve: Annotated[bool, _of_reading("Do not ask each layer alone; much faster.", "--no-curve")] = False
    strength: Annotated[float, _of_reading("How freely classifiers may fit (scikit-learn's C).", min=0.0)] = 1.0

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
