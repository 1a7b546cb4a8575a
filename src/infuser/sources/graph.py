"""A knowledge graph: mentions of entities that are near each other in the graph are tied.

The graph is a list of triples or a folder that `infuser graph build` made; both are read in the same way. Its
direction does not matter here: an attention map is symmetric.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from infuser.errors import SourceError
from infuser.knowledge.graph.kinds import EntityLabels, relations_by_count
from infuser.knowledge.names.gazetteer import clean_names
from infuser.knowledge.names.name_rule import NameRule
from infuser.registry import SOURCES
from infuser.sources.fitting import FitsNames
from infuser.sources.mentions import ABBREVIATION, MentionFilter, TextMentions
from infuser.sources.storage import FolderSource
from infuser.sources.terms import (
    DESCRIPTION,
    NEIGHBOURS,
    TYPE,
    UNTYPED,
    EntityTerms,
    check_terms,
    relations_of_terms,
    tie_terms,
)
from infuser.types import Annotations, Link, Span, Term
from infuser.words import readable

if TYPE_CHECKING:
    from infuser.knowledge.graph.store import EntityTie, GraphStore

_Triple = tuple[str, str, str] | tuple[str, str, str, float]


@SOURCES.register("graph")
@dataclass(frozen=True)
class Graph(NameRule, FitsNames, FolderSource):
    """Finds mentions of entities and ties those whose entities are near each other in the graph.

    Near is at most `hops` edges apart. A tie weighs decay ** (h - 1) over a shortest path of h edges, times the weights
    of these edges; over a single edge it carries the edge's relation. Two mentions of one entity are tied only if the
    graph has a loop on it. A name of several entities stands for all of them: the strongest tie counts, and the span's
    id is the entity that has it. A span is labelled with the first type of its entity, if the graph knows one; an
    abbreviation that the text defines is tied to its long form and has its entity.
    """

    folder: ClassVar[tuple[str, str]] = ("triples", "graph")

    triples: Sequence[_Triple] | str | Path
    """(head, relation, tail), entities by id; a fourth element is the edge's weight, above 0 and up to 1. Or the folder
    of a graph."""
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Entity id to its names. An id without names is looked for as it is, underscores read as spaces. A folder has
    its own."""
    hops: int = 1
    """Over how many edges a tie may lead."""
    decay: float = 0.5
    """What each edge after the first takes from the weight."""
    fold_case: bool = True
    """Whether names are found in any case; a folder knows it itself."""
    fold_accents: bool = False
    """Whether names are found without their accents; a folder knows it itself."""
    n_mentions: int = 512
    """Ties reach the first so many mentions of a text and of each side of a pair; an encoder reads no further."""
    n_meanings: int = 10
    """A name stands for so many of its entities: the most frequent, then those with most edges, then the first."""
    types: Sequence[str] | None = None
    """Only entities of these types are mentioned, and their spans are labelled with them; None for all."""
    n_terms: int = 0
    """How many terms each mention may have, words that are not in the text; 0 for none."""
    terms: Sequence[str] = (TYPE, NEIGHBOURS)
    """Which terms, in this order: "type", the type's name; "neighbours", or the relations that lead to them, such as
    "has role"; "description", its first words."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hops < 1 or not 0 < self.decay <= 1 or self.n_mentions < 1 or self.n_meanings < 1:
            raise SourceError(
                f"hops={self.hops}, decay={self.decay}, n_mentions={self.n_mentions}, n_meanings={self.n_meanings} "
                "cannot be used: hops, n_mentions and n_meanings must be 1 or more, decay above 0 and at most 1."
            )
        if isinstance(self.triples, str | Path):
            self._take_folder(Path(os.path.abspath(self.triples)))
        else:
            self._take_triples(self.triples)
        if self.types is not None:
            if isinstance(self.types, str) or not all(isinstance(name, str) for name in self.types):
                raise SourceError(f"types is {self.types!r}; give a list of types, or None.")
            object.__setattr__(self, "types", tuple(self.types))
            self._labels  # raises at once if there is no such type  # noqa: B018
        relations = [TYPE, NEIGHBOURS, DESCRIPTION]
        if not set(self.terms) <= set(relations):
            relations += self.graph_store.relations
        object.__setattr__(self, "terms", check_terms(self.n_terms, self.terms, relations))

    def _take_triples(self, triples: Sequence[_Triple]) -> None:
        object.__setattr__(self, "triples", tuple(_checked(triple) for triple in triples))
        given = self.aliases or {}
        aliases = {entity: tuple(clean_names(given[entity], what=f"names of {entity!r}")) for entity in given}
        object.__setattr__(self, "aliases", aliases)
        entities = dict.fromkeys([*aliases, *(end for triple in triples for end in (triple[0], triple[2]))])
        names = (name for one in entities for name in aliases.get(one) or (one.replace("_", " "),))
        clean_names(names, what="entity ids")

    def _take_folder(self, folder: Path) -> None:
        object.__setattr__(self, "triples", folder)
        if self.aliases:
            raise SourceError(
                f"The graph in {str(folder)!r} has its names already, so aliases cannot be given beside it. Build it "
                "again with them: infuser graph build --entities FILE."
            )
        object.__setattr__(self, "aliases", {})
        for name, usual in (("fold_case", True), ("fold_accents", False)):
            given, of_folder = getattr(self, name), self.graph_store.about[name]
            if given not in (usual, of_folder):
                raise SourceError(
                    f"{name}={given} was asked for, but the graph in {str(folder)!r} was built with "
                    f"{name}={of_folder}. Leave it out, or build the graph again."
                )
            object.__setattr__(self, name, of_folder)

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the mentions in each text and the ties between them."""
        found = self._filter.find(texts)
        names = dict.fromkeys(mention.names for one in found for mention in one.mentions)
        meanings = {one: self._meanings(one) for one in names}  # each name is looked at once for all texts
        return [self._annotate(text, one, meanings) for text, one in zip(texts, found, strict=True)]

    @cached_property
    def span_types(self) -> tuple[str, ...]:
        """The first types of its entities, those of most entities first; "entity" where there is none."""
        return tuple(self._labels.by_count())

    @cached_property
    def relation_types(self) -> tuple[str, ...]:
        """Those of terms, "" of ties over several edges, then those of its edges, the most frequent first."""
        own = [*relations_of_terms(self.n_terms, self.terms), *([""] if self.hops > 1 else [])]
        last = [ABBREVIATION] if self.abbreviations else []
        return tuple(dict.fromkeys([*own, *relations_by_count(self.graph_store), *last]))

    def _annotate(self, text: str, found: TextMentions, known: dict[tuple[int, ...], list[int]]) -> Annotations:
        mentions = found.mentions
        meanings = [known[mention.names] for mention in mentions]
        links: dict[tuple[int, int], Link] = {}
        chosen: dict[int, tuple[float, int]] = {}  # mention to its strongest tie's weight and its own entity in it
        read = readable(text, [mention.start for mention in mentions], self.n_mentions)
        for one, other, tie in self._ties(meanings, read):
            pair = (min(one[0], other[0]), max(one[0], other[0]))
            if pair not in links or tie.weight > links[pair].weight:
                links[pair] = Link(*pair, tie.weight, tie.relation)
            for place, entity in (one, other):
                if place not in chosen or tie.weight > chosen[place][0]:
                    chosen[place] = (tie.weight, entity)
        entities = [chosen[place][1] if place in chosen else meanings[place][0] for place in range(len(mentions))]
        for short, long in found.long_forms.items():
            entities[short] = entities[long]
            pair = (min(short, long), max(short, long))
            links[pair] = Link(*pair, relation=ABBREVIATION)
        spans = tuple(
            Span(mention.start, mention.end, *self._label_and_id(entity))
            for mention, entity in zip(mentions, entities, strict=True)
        )
        terms: tuple[Term, ...] = ()
        if self.n_terms:
            said = self._said
            terms = tie_terms(
                (place, said.of(entities[place], text[span.start : span.end], span.label))
                for place, span in ((place, spans[place]) for place in read)
            )
        return Annotations(text, spans, tuple(links[pair] for pair in sorted(links)), terms)

    @cached_property
    def _said(self) -> EntityTerms:
        return EntityTerms(self.graph_store, self.n_terms, self.terms)

    def _meanings(self, names: tuple[int, ...]) -> list[int]:
        """Return the entities that these names stand for, the most frequent first."""
        entities = list(dict.fromkeys(self.graph_store.owners[list(names)].tolist()))
        if self.types is not None:
            entities = [entity for entity in entities if self._labels[entity]]
        return self.graph_store.by_frequency(entities)[: self.n_meanings]

    @cached_property
    def _filter(self) -> MentionFilter:
        wanted = None if self.types is None else lambda names: bool(self._meanings(names))
        return MentionFilter(self.graph_store.names, self, self._spellings, wanted)

    def _spellings(self, names: tuple[int, ...]) -> list[str]:
        entities = [self.graph_store.entity(entity) for entity in self._meanings(names)]
        return [name for one in entities for name in (one.label, *one.aliases, one.id.replace("_", " ")) if name]

    @cached_property
    def _labels(self) -> EntityLabels:
        return EntityLabels(self.graph_store, UNTYPED, self.types)

    def _ties(
        self, meanings: list[list[int]], places: Iterable[int]
    ) -> Iterator[tuple[tuple[int, int], tuple[int, int], EntityTie]]:
        """Yield every tie between two different mentions, each as its place and the entity it stands for."""
        where: dict[int, list[int]] = defaultdict(list)
        for place in places:
            for entity in meanings[place]:
                where[entity].append(place)
        if not where:
            return
        entities = list(where)
        for tie in self.graph_store.ties(entities, self.hops, self.decay):
            one, other = entities[tie.one], entities[tie.other]
            for here in where[one]:
                for there in where[other]:
                    if here != there:
                        yield (here, one), (there, other), tie

    def _label_and_id(self, entity: int) -> tuple[str, str]:
        return self._labels[entity], self.graph_store.id_of(entity)

    @cached_property
    def graph_store(self) -> GraphStore:
        """The graph, opened or built when first needed."""
        if isinstance(self.triples, str | Path):
            from infuser.knowledge.graph.store import GraphStore

            return GraphStore.open(self.triples)
        from infuser.knowledge.graph.build import build_graph, facts_of

        facts = facts_of(self.triples, self.aliases)
        return build_graph(facts, fold_case=self.fold_case, fold_accents=self.fold_accents)

    @classmethod
    def tiny(cls) -> Self:
        """Return the graph of a medicine and who sells it."""
        triples: list[_Triple] = [
            ("glipizide", "is a", "medicine"),
            ("pharmacy", "sells", "medicine"),
            ("glipizide", "sold by", "pharmacy"),
            ("Fred_Meyer", "is a", "pharmacy"),
        ]
        return cls(triples, aliases={"medicine": ("medicine", "drug"), "pharmacy": ("pharmacy", "drug store")})


def _checked(triple: Sequence[Any]) -> _Triple:
    """Return a triple as a tuple; raise if it is malformed."""
    values = tuple(triple)
    if isinstance(triple, str) or len(values) not in (3, 4) or not all(isinstance(value, str) for value in values[:3]):
        raise SourceError(
            f"A triple is {triple!r}; it must be (head, relation, tail) or (head, relation, tail, weight)."
        )
    if len(values) == 4 and not (isinstance(values[3], int | float) and 0 < values[3] <= 1):
        raise SourceError(f"The weight of {values[:3]!r} is {values[3]!r}; it must be above 0 and at most 1.")
    return values
