"""A knowledge graph: mentions of entities that are adjacent in the graph are tied.

The graph is a list of triples and lives in memory. Its direction does not matter here: an attention map is symmetric.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from infuser.errors import SourceError
from infuser.registry import SOURCES
from infuser.sources.matching import Matcher, clean_names
from infuser.sources.paths import Tie, ties_between
from infuser.sources.storage import settings_of
from infuser.types import Annotations, Link, Span
from infuser.words import readable

Triple = tuple[str, str, str] | tuple[str, str, str, float]


@SOURCES.register("graph")
@dataclass(frozen=True)
class Graph:
    """Finds mentions of entities and ties those whose entities are at most `hops` edges apart.

    A tie weighs decay ** (h - 1) over a shortest path of h edges, times the weights of these edges; over a single
    edge it carries the edge's relation. Two mentions of one entity are tied only if the graph has a loop on it. A
    name of several entities stands for all of them: the strongest tie counts, and the span's id is the entity that
    has it.
    """

    triples: Sequence[Triple]
    """(head, relation, tail), entities by id; a fourth element is the edge's weight, above 0 and up to 1."""
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Entity id to its names. An id without names is looked for as it is, underscores read as spaces."""
    hops: int = 1
    """Over how many edges a tie may lead."""
    decay: float = 0.5
    """What each edge after the first takes from the weight."""
    fold_case: bool = True
    """Whether names are found in any case."""
    fold_accents: bool = False
    """Whether names are found without their accents."""
    n_mentions: int = 512
    """Ties reach the first so many mentions of a text and of each side of a pair; an encoder reads no further."""

    def __post_init__(self) -> None:
        if self.hops < 1 or not 0 < self.decay <= 1 or self.n_mentions < 1:
            raise SourceError(
                f"hops={self.hops}, decay={self.decay}, n_mentions={self.n_mentions} cannot be used: hops and "
                "n_mentions must be 1 or more, decay above 0 and at most 1."
            )
        object.__setattr__(self, "triples", tuple(_checked(triple) for triple in self.triples))
        given = self.aliases or {}
        aliases = {entity: tuple(clean_names(given[entity], what=f"names of {entity!r}")) for entity in given}
        object.__setattr__(self, "aliases", aliases)
        clean_names((name for name, _ in _names(self.triples, aliases)), what="entity ids")

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the mentions in each text and the ties between them."""
        return [self._annotate(text) for text in texts]

    def _annotate(self, text: str) -> Annotations:
        matcher, owners = self._index
        mentions = matcher.find(text)
        meanings = [list(dict.fromkeys(owners[name] for name in mention.names)) for mention in mentions]
        links: dict[tuple[int, int], Link] = {}
        chosen: dict[int, tuple[float, str]] = {}  # mention to its strongest tie's weight and its own entity in it
        for one, other, tie in self._ties(
            meanings, readable(text, [mention.start for mention in mentions], self.n_mentions)
        ):
            pair = (min(one[0], other[0]), max(one[0], other[0]))
            if pair not in links or tie.weight > links[pair].weight:
                links[pair] = Link(*pair, tie.weight, tie.relation)
            for place, entity in (one, other):
                if place not in chosen or tie.weight > chosen[place][0]:
                    chosen[place] = (tie.weight, entity)
        spans = tuple(
            Span(
                mention.start,
                mention.end,
                label="entity",
                id=chosen[place][1] if place in chosen else meanings[place][0],
            )
            for place, mention in enumerate(mentions)
        )
        return Annotations(text, spans, tuple(links[pair] for pair in sorted(links)))

    def _ties(
        self, meanings: list[list[str]], places: Iterable[int]
    ) -> Iterable[tuple[tuple[int, str], tuple[int, str], Tie]]:
        """Yield every tie between two different mentions, each as its place and the entity it stands for."""
        where: dict[str, list[int]] = defaultdict(list)
        for place in places:
            for entity in meanings[place]:
                where[entity].append(place)
        for (one, other), tie in ties_between(list(where), self._edges, hops=self.hops, decay=self.decay).items():
            for here in where[one]:
                for there in where[other]:
                    if here != there:
                        yield (here, one), (there, other), tie

    @cached_property
    def _index(self) -> tuple[Matcher, list[str]]:
        """The names, ready to be found, and the entity that each belongs to."""
        names = _names(self.triples, self.aliases)
        matcher = Matcher([name for name, _ in names], fold_case=self.fold_case, fold_accents=self.fold_accents)
        return matcher, [entity for _, entity in names]

    @cached_property
    def _edges(self) -> dict[str, dict[str, Tie]]:
        """Entity to its neighbours; of parallel edges the heaviest counts, of equals the first."""
        edges: dict[str, dict[str, Tie]] = defaultdict(dict)
        for head, relation, tail, *weight in self.triples:
            tie = Tie(float(weight[0]) if weight else 1.0, relation)
            if tail not in edges[head] or tie.weight > edges[head][tail].weight:
                edges[head][tail] = edges[tail][head] = tie
        return dict(edges)

    def __getstate__(self) -> dict[str, Any]:
        return settings_of(self)  # a worker builds its own index

    @classmethod
    def tiny(cls) -> Self:
        """Return the graph of a medicine and who sells it."""
        triples: list[Triple] = [
            ("glipizide", "is a", "medicine"),
            ("pharmacy", "sells", "medicine"),
            ("glipizide", "sold by", "pharmacy"),
            ("Fred_Meyer", "is a", "pharmacy"),
        ]
        return cls(triples, aliases={"medicine": ("medicine", "drug"), "pharmacy": ("pharmacy", "drug store")})


def _checked(triple: Sequence[Any]) -> Triple:
    """Return a triple as a tuple, or say what is wrong with it."""
    values = tuple(triple)
    if isinstance(triple, str) or len(values) not in (3, 4) or not all(isinstance(value, str) for value in values[:3]):
        raise SourceError(
            f"A triple is {triple!r}; it must be (head, relation, tail) or (head, relation, tail, weight)."
        )
    if len(values) == 4 and not (isinstance(values[3], int | float) and 0 < values[3] <= 1):
        raise SourceError(f"The weight of {values[:3]!r} is {values[3]!r}; it must be above 0 and at most 1.")
    return values


def _names(triples: Sequence[Triple], aliases: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return (name, entity id) for all entities, each in the order in which they were given."""
    entities = dict.fromkeys([*aliases, *(entity for triple in triples for entity in (triple[0], triple[2]))])
    return [(name, entity) for entity in entities for name in aliases.get(entity) or (entity.replace("_", " "),)]
