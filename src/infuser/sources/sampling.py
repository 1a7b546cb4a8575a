"""Selective injection: which of a text's entities are injected is drawn, rare and well connected ones more often.

Zhang et al., Drop Redundant, Shrink Irrelevant (IJCAI 2021), section 4.1. An entity e of a text weighs

    1[DF(e) < rare] + connection * clip(|S(e)|, fewest, most)

where DF(e) is the number of texts that mention it and S(e) are the other entities of the same text that are at most
`hops` edges away from it in a graph, in any direction. A share of the text's entities is drawn by that weight, without
putting back; each of the others, which are neglected, still has a small chance.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from infuser.errors import SourceError
from infuser.sources.entity_statistics import EntityStatistics, read_counts
from infuser.sources.storage import find_folder, name_folder, settings_of
from infuser.types import Annotations, Source, entity_key, keep_spans

_MOST = (1 << 53) - 1
"""A float holds so many bits of chance."""


@dataclass(frozen=True)
class Sampling:
    """The paper's sampling; its constants are the defaults.

    Training draws again in every epoch, and answering injects everything, as with dropout. With `each_epoch=False` a
    text is drawn for once, and the same is injected in training and answering alike.
    """

    frequencies: Mapping[str, int] | str | Path | None = None
    """In how many texts each entity is mentioned: numbers, or a folder of `infuser annotate`, of candidates or of a
    graph. None takes what the source's own store has counted; an entity without a count is rare."""
    graph: str | Path | None = None
    """Folder of the graph in which hops are counted. None takes the graph of a Graph source; without any graph no two
    entities are near."""
    rare: int = 100
    """An entity of fewer texts is rare (the paper's K_thresh)."""
    hops: int = 6
    """Entities at most so many edges apart are near (K_hop)."""
    fewest: int = 5
    """So many near entities count at least (K_min)."""
    most: int = 20
    """So many near entities count at most (K_max)."""
    connection: float = 0.5
    """What a near entity adds to the weight (lambda); being rare adds 1."""
    share: float = 0.85
    """Share of a text's entities that is drawn; what is left of a whole number is left to chance."""
    neglected: float = 0.15
    """Chance of an entity that was not drawn to be injected all the same."""
    each_epoch: bool = True
    """Whether every epoch draws again and answering injects everything; else one draw holds for all."""
    seed: int = 0
    """Decides the draws, together with the seed of training, the epoch and the text."""
    _known: dict[int, tuple[Source, EntityStatistics]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for name in ("share", "neglected"):
            if not 0 <= getattr(self, name) <= 1:
                raise SourceError(f"{name} is {getattr(self, name)}; a share lies between 0 and 1.")
        if not 0 <= self.fewest <= self.most:
            raise SourceError(f"fewest={self.fewest} and most={self.most}; they must be 0 or more, in this order.")
        if self.rare < 0 or self.hops < 1 or not 0 <= self.connection < math.inf:
            raise SourceError(
                f"rare={self.rare}, hops={self.hops}, connection={self.connection} cannot be used: rare and connection "
                "must be 0 or more, hops 1 or more."
            )
        for name in ("frequencies", "graph"):
            if isinstance(path := getattr(self, name), str | Path):
                object.__setattr__(self, name, str(Path(path).expanduser().absolute()))

    def statistics(self, source: Source) -> EntityStatistics:
        """Return what is known about the entities that a source finds; opened once."""
        if id(source) not in self._known:  # holding the source keeps its identity its own
            self._known[id(source)] = source, EntityStatistics(source, self.frequencies, self.graph)
        return self._known[id(source)][1]

    def select(self, found: Sequence[Annotations], source: Source) -> list[Annotations]:
        """Return the annotations with the odds of each span; drawn already, unless every epoch draws again."""
        around = self.statistics(source)
        weighed = [self._with_odds(one, around) for one in found]
        if self.each_epoch:
            return weighed
        return [replace(keep_spans(one, self.draw(one)), odds=()) for one in weighed]

    def weigh(self, entities: Sequence[str], around: EntityStatistics) -> list[float]:
        """Return the weight of each of the different entities of one text."""
        return [
            float(around.count(key) < self.rare) + self.connection * min(max(n_near, self.fewest), self.most)
            for key, n_near in zip(entities, around.n_near(entities, self.hops), strict=True)
        ]

    def draw(self, found: Annotations, *, seed: int = 0, epoch: int = 0) -> list[bool]:
        """Return which spans are injected, by their odds: a function of the text, the epoch and both seeds."""
        if not found.spans:
            return []
        keys = _keys(found)
        odds = dict(zip(keys, found.odds or [1.0] * len(keys), strict=True))
        written = f"{self.seed} {seed} {epoch} {found.text}".encode("utf-8", "surrogatepass")
        state = hashlib.blake2b(written, digest_size=16)
        (rest, _) = _chances(state, "\0".join(odds))
        n_drawn = math.floor(self.share * len(odds) + rest)  # on average exactly the share
        chances = {key: _chances(state, key) for key in odds}
        # those with the largest logarithm of a uniform number divided by the weight: drawing without putting back
        lots = {key: math.log(1 - chance) / max(odds[key], 1e-300) for key, (chance, _) in chances.items()}
        drawn = set(sorted(odds, key=lots.__getitem__, reverse=True)[:n_drawn])
        return [key in drawn or chances[key][1] < self.neglected for key in keys]

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON data; all counts are in it, a graph is named with its digest."""
        settings = settings_of(self)
        if self.frequencies is not None:
            counts = self.frequencies if isinstance(self.frequencies, Mapping) else read_counts(self.frequencies)
            settings["frequencies"] = {key: int(count) for key, count in counts.items()}
        return settings if self.graph is None else name_folder(settings, "graph", "graph")

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> Self:
        """Return the strategy of these settings; its graph must be there and unchanged."""
        return cls(**find_folder(settings, "graph", "graph"))

    def _with_odds(self, found: Annotations, around: EntityStatistics) -> Annotations:
        if not found.spans:
            return found
        keys = _keys(found)
        entities = list(dict.fromkeys(keys))
        odds = dict(zip(entities, self.weigh(entities, around), strict=True))
        return replace(found, odds=tuple([odds[key] for key in keys]))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}  # a worker opens the folders itself


def _keys(found: Annotations) -> list[str]:
    return [entity_key(found.text, span) for span in found.spans]


def _chances(state: hashlib.blake2b, key: str) -> tuple[float, float]:
    """Return two numbers from 0 up to, not including, 1 that depend on the state and the key only."""
    of_key = state.copy()
    of_key.update(key.encode("utf-8", "surrogatepass"))
    both = int.from_bytes(of_key.digest(), "little")
    return (both & _MOST) / (_MOST + 1), (both >> 64 & _MOST) / (_MOST + 1)
