"""Errors in a knowledge base, made on purpose: entities that were taken for entities of another type.

How fast a model's score falls with the share of wrong entities says how much it leans on what it is told. An error
here is one of the knowledge base: the same entity is wrong in every text, and always in the same way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from infuser.errors import InputError, SourceError
from infuser.types import Annotations, Candidate, Link, Span, Term, entity_key


def corrupt(
    annotated: Sequence[Sequence[Annotations]],
    share: float,
    *,
    seed: int = 0,
    types: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
) -> list[tuple[Annotations, ...]]:
    """Return the annotations with about this share of each source's entities replaced by others of the same source.

    `annotated` holds for each example one Annotations per source. An entity is known by `entity_key`; seed and key
    alone decide whether it is wrong, so what is wrong at 10 % is wrong at 20 %, too. Stand-ins come from all that is
    given here: training, dev and test sets that shall have the same errors must be corrupted in one call.

    With `only`, no other entities than these are corrupted; stand-ins may be any. A stand-in is of another type: by
    `types` (key to type) or, without it, by the labels of spans. Where no other type is known, it is any other entity.
    It brings its label, id, candidates and terms; spans stay where they are. Two spans of which one was replaced are
    tied as their entities are tied elsewhere in what is given, or not at all. A link of a span to itself stays: which
    words belong together is not what is wrong, so a source that has only such links (a gazetteer, phrases) changes
    nothing in maps. An entity without any other to take its place is left out: its span keeps no id, candidates, terms
    or links to others.
    """
    return Errors(annotated, seed=seed, types=types, only=only).put_into(annotated, share)


class Errors:
    """The errors that entities of these examples can have; looked for once, put in with any share."""

    def __init__(
        self,
        annotated: Sequence[Sequence[Annotations]],
        *,
        seed: int = 0,
        types: Mapping[str, str] | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        if len({len(example) for example in annotated}) > 1:
            raise SourceError(
                "The examples have different numbers of sources. Corrupt those of the same sources together."
            )
        self.seed = seed
        self._corpora = [_Corpus(found, types) for found in zip(*annotated, strict=True)]
        self._chances = [
            {key: _chance(seed, "wrong", key) for key in corpus.entities if only is None or key in only}
            for corpus in self._corpora
        ]

    def put_into(self, annotated: Sequence[Sequence[Annotations]], share: float) -> list[tuple[Annotations, ...]]:
        """Return all or some of the examples with this share of their entities replaced, see `corrupt`."""
        if not 0 <= share <= 1:
            raise InputError(f"The share of entities to corrupt is {share!r}; give a number between 0 and 1.")
        wrong = [
            {key: corpus.stand_in(key, self.seed) for key, chance in chances.items() if chance < share}
            for corpus, chances in zip(self._corpora, self._chances, strict=True)
        ]
        return [
            tuple(
                _replaced(found, stand_ins, corpus.ties)
                for found, stand_ins, corpus in zip(example, wrong, self._corpora, strict=True)
            )
            for example in annotated
        ]


def _chance(seed: int, what: str, key: str) -> float:
    """Return a number from 0 up to, not including, 1 that depends on nothing but these."""
    digest = blake2b(f"{seed}\0{what}\0{key}".encode(errors="surrogatepass"), digest_size=6).digest()
    return float(int.from_bytes(digest, "big") / 2**48)


@dataclass(frozen=True, slots=True)
class _Entity:
    """What an entity brings where it stands for another."""

    key: str = ""
    label: str = ""
    id: str = ""
    candidates: tuple[Candidate, ...] = ()
    terms: tuple[tuple[str, str, float], ...] = ()


class _Corpus:
    """What one source knows of its entities, as seen over all texts; the order of the texts does not matter."""

    def __init__(self, found: Sequence[Annotations], types: Mapping[str, str] | None) -> None:
        labels: dict[str, Counter[str]] = defaultdict(Counter)
        seen: dict[str, tuple[tuple[int, str, int, int], _Entity]] = {}
        self.ties: dict[str, dict[str, tuple[float, str]]] = defaultdict(dict)
        """Key to the keys it is tied to, with the strongest tie's weight and relation."""
        for one in found:
            keys = [entity_key(one.text, span) for span in one.spans]
            terms = _terms_of_spans(one)
            for place, (key, span) in enumerate(zip(keys, one.spans, strict=True)):
                labels[key][span.label] += 1
                # of all the places where it stands, the one that says most, then the first by the alphabet
                rank = (-len(terms[place]), one.text, span.start, span.end)
                if key not in seen or rank < seen[key][0]:
                    candidates = one.candidates[place] if one.candidates else ()
                    seen[key] = rank, _Entity(key, span.label, span.id, candidates, terms[place])
            for link in one.links:
                if link.source != link.target:
                    self._tie(keys[link.source], keys[link.target], (link.weight, link.relation))
        usual = {key: min(of_key, key=lambda label: (-of_key[label], label)) for key, of_key in labels.items()}
        self.entities = {key: replace(entity, label=usual[key]) for key, (_, entity) in seen.items()}
        said = usual if types is None else types
        known = {key: type for key in usual if (type := said.get(key, ""))}
        if len(set(known.values())) < 2:
            known = {key: key for key in usual}  # no other type is known: each entity is one of its own
        self._types = known
        # sorted by type, so that all entities of other types are a list with a gap
        self._order = sorted((type, key) for key, type in known.items())
        self._gaps: dict[str, tuple[int, int]] = {}
        for place, (type, _) in enumerate(self._order):
            self._gaps[type] = (self._gaps.get(type, (place, place))[0], place + 1)

    def _tie(self, one: str, other: str, tie: tuple[float, str]) -> None:
        for here, there in ((one, other), (other, one)):
            self.ties[here][there] = max(tie, self.ties[here].get(there, tie))

    def stand_in(self, key: str, seed: int) -> _Entity:
        """Return the entity that takes the place of this one; one without a name if there is no other."""
        first, last = self._gaps.get(self._types.get(key, ""), (0, 0))  # one of unknown type may become anything typed
        n_others = len(self._order) - (last - first)
        if not n_others:
            return _Entity(label=self.entities[key].label)
        place = int(_chance(seed, "stand-in", key) * n_others)
        entity = self.entities[self._order[place if place < first else place + last - first][1]]
        left = [candidate for candidate in entity.candidates if candidate.id != key]
        if len(left) == len(entity.candidates):
            return entity
        total = sum(candidate.prior for candidate in left)  # the right entity is not offered in second place either
        return replace(entity, candidates=tuple(replace(one, prior=one.prior / total) for one in left))


def _terms_of_spans(found: Annotations) -> list[tuple[tuple[str, str, float], ...]]:
    terms: list[list[tuple[str, str, float]]] = [[] for _ in found.spans]
    for term in found.terms:
        for place, weight in term.ties:
            terms[place].append((term.text, term.relation, weight))
    return [tuple(of_span) for of_span in terms]


def _replaced(
    found: Annotations, stand_ins: Mapping[str, _Entity], ties: Mapping[str, Mapping[str, tuple[float, str]]]
) -> Annotations:
    """Return the annotations of one text with the entities that are wrong replaced."""
    keys = [entity_key(found.text, span) for span in found.spans]
    new = {place: stand_ins[key] for place, key in enumerate(keys) if key in stand_ins}
    if not new:
        return found
    spans = list(found.spans)
    candidates = list(found.candidates)
    for place, entity in new.items():
        # where a source gives no ids, the key is one: the words of the span would name what stood there before
        spans[place] = Span(spans[place].start, spans[place].end, entity.label, entity.id or entity.key)
        if candidates:
            candidates[place] = entity.candidates
    return Annotations(
        found.text,
        tuple(spans),
        _links(found, [new[place].key if place in new else key for place, key in enumerate(keys)], new, ties),
        _terms(found, new),
        tuple(candidates),
        found.odds,
    )


def _links(
    found: Annotations,
    keys: Sequence[str],
    new: Mapping[int, _Entity],
    ties: Mapping[str, Mapping[str, tuple[float, str]]],
) -> tuple[Link, ...]:
    """Return the links between spans that stand for these keys now."""
    where: dict[str, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        where[key].append(place)
    links = [link for link in found.links if link.source == link.target or not {link.source, link.target} & new.keys()]
    pairs: dict[tuple[int, int], tuple[float, str]] = {}
    for place in new:
        known = ties.get(keys[place], {})
        for other in known.keys() & where.keys():
            for there in where[other]:
                if there != place:
                    pairs[min(place, there), max(place, there)] = known[other]
    return (*links, *(Link(*pair, *pairs[pair]) for pair in sorted(pairs)))


def _terms(found: Annotations, new: Mapping[int, _Entity]) -> tuple[Term, ...]:
    """Return the terms of spans that stayed and of those that came, each term once."""
    ties: dict[tuple[str, str], dict[int, float]] = {}
    for term in found.terms:
        kept = {place: weight for place, weight in term.ties if place not in new}
        if kept:
            ties.setdefault((term.text, term.relation), {}).update(kept)
    for place, entity in new.items():
        for text, relation, weight in entity.terms:
            ties.setdefault((text, relation), {})[place] = weight
    return tuple(Term(text, tuple(sorted(of_term.items())), relation) for (text, relation), of_term in ties.items())
