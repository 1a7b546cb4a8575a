"""Options of `infuser select`: how entities are sampled, and what the encoder knows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from infuser.cli.options import option
from infuser.errors import InputError

if TYPE_CHECKING:
    from infuser.sources import Sampling


_sampling = partial(option, panel="Sampling (rare and connected entities)")
_known = partial(option, panel="Known (what the encoder predicts)")


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Draw rare and connected entities more often than others."""

    frequencies: Annotated[
        Path | None,
        _sampling(
            "In how many texts entities are mentioned: a folder of infuser annotate, candidates or a graph.",
            metavar="DIR",
            default="counted in these texts",
        ),
    ] = None
    hop_graph: Annotated[
        Path | None, _sampling("Graph in which hops are counted.", metavar="DIR", default="that of each graph source")
    ] = None
    rare: Annotated[int, _sampling("Entities of fewer texts are rare, which adds 1 to their weight.")] = 100
    hops: Annotated[int, _sampling("Entities at most so many edges apart are near.")] = 6
    fewest: Annotated[int, _sampling("So many near entities count at least.")] = 5
    most: Annotated[int, _sampling("So many near entities count at most.")] = 20
    connection: Annotated[float, _sampling("What each near entity adds to the weight.")] = 0.5
    share: Annotated[float, _sampling("Share of a text's entities that is drawn.")] = 0.85
    neglected: Annotated[float, _sampling("Chance of an entity that was not drawn.")] = 0.15
    once: Annotated[bool, _sampling("Draw once for training and answering, not in every epoch.", "--once")] = False
    seed: Annotated[int, _sampling("Decides the draws.")] = 0

    def strategy(self) -> Sampling:
        """Return the strategy; what these options cannot mean is an error."""
        from infuser.sources import Sampling

        how = asdict(self)
        return Sampling(graph=how.pop("hop_graph"), each_epoch=not how.pop("once"), **how)


@dataclass(frozen=True, slots=True)
class KnownOptions:
    """Leave out what the plain encoder knows."""

    known: Annotated[
        Path | None,
        _known("Scores of entities and relations, from --measure or infuser probe --scores.", metavar="FILE"),
    ] = None
    measure: Annotated[
        Literal["masked", "probe"] | None,
        _known("Measure it: masked words (needs a masked-LM head), or a probe of entity types."),
    ] = None
    checkpoint: Annotated[str | None, _known("The plain encoder to measure: a folder, hub id or asset.")] = None
    types: Annotated[
        Path | None,
        _known("Types for the probe: entity<TAB>type.", metavar="FILE", default="the labels that sources give"),
    ] = None
    threshold: Annotated[float, _known("Entities and relations with this score or more are left out.")] = 0.5

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
