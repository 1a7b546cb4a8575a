"""A knowledge base: what mentions may mean, and a vector for each of these entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from infuser.errors import SourceError
from infuser.files import json_of, parse_json
from infuser.knowledge.artifact import Folder
from infuser.knowledge.vectors.store import KIND, EntityVectors
from infuser.registry import SOURCES
from infuser.sources.candidates import Candidates
from infuser.sources.graph import Graph
from infuser.sources.storage import find_folder, load_source, name_folder, save_source, settings_of
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
from infuser.types import Annotations, Candidate, DeclaresTypes, DrawsPerEpoch, HasGraph, Source, Term, innermost

_MOST_CACHED = 200_000
_LEAST = np.finfo(np.float32).tiny
"""No prior is rounded to 0, which stands for padding."""
_RECORD = "base.json"


@SOURCES.register("knowledge-base")
@dataclass(frozen=True, eq=False)
class KnowledgeBase:
    """Offers candidates with their vectors, for methods that put entities inside an encoder: Kar and Ernie."""

    candidates: Source
    """Finds mentions and what they may mean, most often `Candidates`."""
    vectors: EntityVectors | str | Path
    """The entities' vectors, or the folder that `infuser vectors build` made."""
    name: str = "base"
    """Tells it from other knowledge bases of the same model; it becomes part of the names of weights."""
    missing: Literal["error", "skip"] = "error"
    """What to do with a candidate that has no vector: stop, or leave it out."""
    graph: Source | str | Path | None = None
    """A `Graph` of the same entities, or the folder of one: terms are taken from it."""
    n_terms: int = 0
    """How many terms each mention may have, words about its most probable entity; 0 for none."""
    terms: Sequence[str] = (TYPE, NEIGHBOURS)
    """Which terms, as those of a `Graph`. Candidates and vectors hold no words, so terms need `graph`."""
    _known: dict[int, tuple[Any, ...]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise SourceError(f"A knowledge base is called {self.name!r}; give it a name of letters, digits and _.")
        if self.missing not in ("error", "skip"):
            raise SourceError(f"missing is {self.missing!r}; it can be 'error' or 'skip'.")
        if not isinstance(self.candidates, Source):
            raise SourceError(f"candidates is {self.candidates!r}; give a source, such as Candidates(folder).")
        if isinstance(self.candidates, DrawsPerEpoch):
            raise SourceError("A selective source stands inside a knowledge base. Wrap the base: Selective(base, ...).")
        if not isinstance(self.vectors, EntityVectors):
            folder = Path(self.vectors).expanduser().absolute()
            Folder(folder, KIND)  # raises at once if there is none
            object.__setattr__(self, "vectors", str(folder))
        if isinstance(self.graph, str | Path):
            object.__setattr__(self, "graph", Graph(self.graph))
        object.__setattr__(self, "terms", check_terms(self.n_terms, self.terms, self._known_terms()))

    def _known_terms(self) -> list[str]:
        usual = [TYPE, NEIGHBOURS, DESCRIPTION]
        if self.graph is None:
            if self.n_terms:
                raise SourceError(
                    f"n_terms={self.n_terms}, but nothing is known about the entities in words: candidates and vectors "
                    "hold none. Give a graph of the same entities, graph=FOLDER, which `infuser graph build` makes."
                )
            return list(dict.fromkeys([*usual, *self.terms]))
        if not isinstance(self.graph, HasGraph):
            raise SourceError(f"graph is {self.graph!r}; give the folder of a graph, or a Graph.")
        return [*usual, *self.graph.graph_store.relations]

    @cached_property
    def store(self) -> EntityVectors:
        """The vectors, open."""
        return self.vectors if isinstance(self.vectors, EntityVectors) else EntityVectors.open(self.vectors)

    @property
    def dim(self) -> int:
        """How many numbers a vector has."""
        return self.store.dim

    @property
    def span_types(self) -> tuple[str, ...]:
        """Those of its source of candidates."""
        inside = innermost(self.candidates)
        return tuple(inside.span_types) if isinstance(inside, DeclaresTypes) else ()

    @property
    def relation_types(self) -> tuple[str, ...]:
        """Those of its terms; there are no links."""
        if not self.n_terms or not isinstance(self.graph, DeclaresTypes):
            return ()
        return tuple(dict.fromkeys([*relations_of_terms(self.n_terms, self.terms), *self.graph.relation_types]))

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the mentions in each text and those of their meanings that have a vector."""
        found = [self._with_vectors(found) for found in self.candidates.annotate(texts)]
        return [replace(one, terms=self._terms_of(one)) for one in found] if self.n_terms else found

    def _terms_of(self, found: Annotations) -> tuple[Term, ...]:
        """Return what the graph says about the entity of each span, as far as it has it."""
        store = self._said.store
        entities = [store.number_of(span.id) for span in found.spans]
        return tie_terms(
            (place, self._said.of(entity, found.text[span.start : span.end], (*store.types_of(entity), UNTYPED)[0]))
            for place, (span, entity) in enumerate(zip(found.spans, entities, strict=True))
            if entity is not None
        )

    @cached_property
    def _said(self) -> EntityTerms:
        graph: Any = self.graph
        return EntityTerms(graph.graph_store, self.n_terms, self.terms)

    def look_up(self, candidates: tuple[Candidate, ...]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the rows of vectors and the priors of one span's candidates."""
        known = self._look_up(candidates)
        return known[2], known[3]

    def check(self) -> float:
        """Return which share of the entities that can be offered have a vector; raise if none or too few do.

        Only the entities of a `Candidates` source are known beforehand; any other counts as covered.
        """
        if not isinstance(self.candidates, Candidates):
            return 1.0
        ids = self.candidates.finder.store.ids
        rows = self.store.rows([ids[place] for place in range(len(ids))])
        unknown = np.flatnonzero(rows < 0)
        if len(unknown) == len(ids) or (len(unknown) and self.missing == "error"):
            raise self._unknown(ids[int(unknown[0])], f"{len(unknown):,} of {len(ids):,} entities")
        return 1 - len(unknown) / len(ids)

    def with_entities(
        self,
        mentions: Mapping[str, Mapping[str, float]],
        ids: Sequence[str],
        vectors: NDArray[np.float32],
        *,
        out: str | Path | None = None,
    ) -> Self:
        """Return a base that also knows these entities, by these mentions {mention: {id: count}}; nothing is retrained.

        Where a mention is known already, the counts are added to those it has. A base whose candidates lie in a folder
        needs a new folder, `out`, for the larger ones.
        """
        if not isinstance(self.candidates, Candidates):
            raise SourceError(f"{type(self.candidates).__name__} cannot take further mentions; Candidates can.")
        candidates = self.candidates.with_mentions(mentions, out)
        return replace(self, candidates=candidates, vectors=self.store.with_more(ids, vectors))

    def _with_vectors(self, found: Annotations) -> Annotations:
        if len(found.candidates) != len(found.spans):
            raise SourceError(
                f"{type(self.candidates).__name__} found {len(found.spans)} spans but gave candidates for "
                f"{len(found.candidates)}. A knowledge base needs a source of candidates, such as Candidates(folder)."
            )
        kept = [self._look_up(candidates)[1] for candidates in found.candidates]
        if all(one is other for one, other in zip(kept, found.candidates, strict=True)):
            return found
        # a span that lost all its candidates goes; one for which the source offered none stays
        places = [place for place, candidates in enumerate(kept) if candidates or not found.candidates[place]]
        spans = [found.spans[place] for place in places]
        named = [replace(s, id=kept[p][0].id if kept[p] else s.id) for s, p in zip(spans, places, strict=True)]
        return Annotations(found.text, tuple(named), candidates=tuple(kept[place] for place in places))

    def _look_up(self, candidates: tuple[Candidate, ...]) -> tuple[Any, ...]:
        """Return the given tuple, those of it that have vectors, their rows and priors; cached by identity.

        A finder gives the same tuple for the same words again and again; holding it keeps its identity its own.
        """
        known = self._known.get(id(candidates))
        if known is None:
            if len(self._known) >= _MOST_CACHED:
                self._known.clear()
            self._check(candidates)
            rows = self.store.rows([candidate.id for candidate in candidates])
            priors = np.array([candidate.prior for candidate in candidates], np.float32)
            priors = np.maximum(priors, _LEAST)
            there = rows >= 0
            kept = candidates
            if not there.all():
                if self.missing == "error":
                    raise self._unknown(candidates[int(np.argmin(there))].id, "A candidate")
                rows, priors = rows[there], priors[there]
                priors /= max(float(priors.sum()), 1e-12)
                pairs = zip(np.flatnonzero(there).tolist(), priors.tolist(), strict=True)
                kept = tuple(Candidate(candidates[place].id, prior) for place, prior in pairs)
            known = self._known[id(candidates)] = (candidates, kept, rows, priors)
        return known

    def _check(self, candidates: tuple[Candidate, ...]) -> None:
        times = Counter(candidate.id for candidate in candidates)
        wrong = [candidate for candidate in candidates if times[candidate.id] > 1 or not 0 < candidate.prior <= 1.001]
        if wrong:
            raise SourceError(
                f"{type(self.candidates).__name__} offers the candidate {wrong[0].id!r} with the prior "
                f"{wrong[0].prior!r}, {times[wrong[0].id]} time(s) for one mention. A source offers each entity "
                "once, with a prior above 0 and up to 1."
            )

    def _unknown(self, id: str, who: str) -> SourceError:
        some = self.store.id_of(0) if len(self.store) else "none"
        return SourceError(
            f"{who} of the knowledge base {self.name!r} has no vector: {id!r} is not among its {len(self.store):,} "
            f"vectors (the first is of {some!r}). Build vectors for the same ids, or leave such candidates out with "
            "missing='skip'."
        )

    def save(self, directory: Path) -> None:
        """Write what `load` needs; folders on disk are named with their digest, not copied."""
        named = None
        if isinstance(self.vectors, EntityVectors):
            self.vectors.save(directory / "vectors")
        else:
            named = name_folder({"vectors": self.vectors}, "vectors", KIND)
        record = {
            "candidates": save_source(self.candidates, directory / "candidates"),
            "vectors": named,
            "name": self.name,
            "missing": self.missing,
            "graph": save_source(self.graph, directory / "graph") if isinstance(self.graph, Source) else None,
            "n_terms": self.n_terms,
            "terms": list(self.terms),
        }
        (directory / _RECORD).write_text(json_of(record), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read back what `save` wrote; folders that were named must be there and unchanged."""
        record = parse_json(directory / _RECORD)
        named = record["vectors"]
        # vectors that were in memory are opened but not named: saved again, they are copied again
        vectors = find_folder(named, "vectors", KIND)["vectors"] if named else EntityVectors.open(directory / "vectors")
        candidates = load_source(record["candidates"], directory / "candidates")
        settings = {name: record[name] for name in ("n_terms", "terms") if name in record}  # older files have none
        if record.get("graph"):
            settings["graph"] = load_source(record["graph"], directory / "graph")
        return cls(candidates, vectors, record["name"], record["missing"], **settings)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KnowledgeBase):
            return NotImplemented
        names = ("candidates", "name", "missing", "graph", "n_terms", "terms")
        if any(getattr(self, name) != getattr(other, name) for name in names):
            return False
        one, two = self.store, other.store
        if one is two or (one.digest and one.digest == two.digest):
            return True
        rows = range(len(one))
        return (len(one), one.dim) == (len(two), two.dim) and (
            [one.id_of(row) for row in rows] == [two.id_of(row) for row in rows]
            and np.array_equal(one.take(rows), two.take(rows))
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {**settings_of(self), "_known": {}}  # a worker opens the folder itself

    @classmethod
    def tiny(cls) -> Self:
        """Return the tiny candidates with a vector each."""
        candidates = Candidates.tiny()
        assert isinstance(candidates.mentions, Mapping)
        ids = sorted({id for entities in candidates.mentions.values() for id in entities})
        return cls(candidates, EntityVectors.of(ids, np.random.default_rng(0).normal(size=(len(ids), 8))))
