"""Options of `infuser select`: how entities are sampled, and what the encoder knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infuser.errors import InputError

if TYPE_CHECKING:
    from infuser.sources import Sampling


def _sampling(*flags: str, **options: Any) -> Any:
    return typer.Option(*flags, rich_help_panel="Sampling (rare and connected entities)", **options)


def _known(**options: Any) -> Any:
    return typer.Option(rich_help_panel="Known (what the encoder predicts)", **options)


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Draw rare and connected entities more often than others."""

    frequencies: Annotated[
        Path | None,
        _sampling(
            metavar="DIR",
            help="In how many texts entities are mentioned: a folder of infuser annotate, candidates or a graph.",
            show_default="counted in these texts",
        ),
    ] = None
    hop_graph: Annotated[
        Path | None,
        _sampling(metavar="DIR", help="Graph in which hops are counted.", show_default="that of each graph source"),
    ] = None
    rare: Annotated[int, _sampling(help="Entities of fewer texts are rare, which adds 1 to their weight.")] = 100
    hops: Annotated[int, _sampling(help="Entities at most so many edges apart are near.")] = 6
    fewest: Annotated[int, _sampling(help="So many near entities count at least.")] = 5
    most: Annotated[int, _sampling(help="So many near entities count at most.")] = 20
    connection: Annotated[float, _sampling(help="What each near entity adds to the weight.")] = 0.5
    share: Annotated[float, _sampling(help="Share of a text's entities that is drawn.")] = 0.85
    neglected: Annotated[float, _sampling(help="Chance of an entity that was not drawn.")] = 0.15
    once: Annotated[
        bool, _sampling("--once", help="Draw once for training and answering, not anew in every epoch.")
    ] = False
    seed: Annotated[int, _sampling(help="Decides the draws.")] = 0

    def strategy(self) -> Sampling:
        """Return the strategy; what these options cannot mean is an error."""
        from infuser.sources import Sampling

        return Sampling(
            frequencies=self.frequencies,
            graph=self.hop_graph,
            rare=self.rare,
            hops=self.hops,
            fewest=self.fewest,
            most=self.most,
            connection=self.connection,
            share=self.share,
            neglected=self.neglected,
            each_epoch=not self.once,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class KnownOptions:
    """Leave out what the plain encoder knows."""

    known: Annotated[
        Path | None,
        _known(
            metavar="FILE",
            help="Scores of entities and relations, from --measure or infuser probe --scores.",
            show_default=False,
        ),
    ] = None
    measure: Annotated[
        Literal["masked", "probe"] | None,
        _known(
            help="Measure it: masked words (needs a masked-LM head), or a probe of entity types.", show_default=False
        ),
    ] = None
    checkpoint: Annotated[
        str | None, _known(help="The plain encoder to measure: a folder, hub id or asset.", show_default=False)
    ] = None
    types: Annotated[
        Path | None,
        _known(
            metavar="FILE", help="Types for the probe: entity<TAB>type.", show_default="the labels that sources give"
        ),
    ] = None
    threshold: Annotated[float, _known(help="Entities and relations with this score or more are left out.")] = 0.5

    def check(self) -> None:
        """Raise if these options do not go together."""
        if self.known is not None and self.measure is not None:
            raise InputError("--known FILE holds what --measure would measure. Give one of them.")
        if (self.measure is None) != (self.checkpoint is None):
            raise InputError(
                "--measure masked|probe and --checkpoint CHECKPOINT go together: what to measure, and of whom."
            )

    def read_types(self) -> dict[str, str] | None:
        """Return the types of entities; None if the labels of sources are the types."""
        from infuser.sources.lists import read_aliases

        return None if self.types is None else {key: of[0] for key, of in read_aliases([self.types]).items()}
