"""Terms of mentions: what a source knows about an entity, in words that are not in the text.

    "type"         the type's name                            drug
    "neighbours"   the names of its neighbours in a graph     diabetes
    RELATION       those of one relation of the graph         diabetes, of "treats"
    "description"  the first words of its description         medicine that lowers the blood sugar

A term is tied to the mentions of the entity that it says something about, and to no others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from infuser.errors import SourceError, did_you_mean
from infuser.knowledge.graph.neighbours import name_of, neighbours_of
from infuser.knowledge.graph.store import GraphStore
from infuser.knowledge.names.name_rule import STOP_WORDS
from infuser.types import Term
from infuser.words import find_words

TYPE, NEIGHBOURS, DESCRIPTION = "type", "neighbours", "description"
UNTYPED = "entity"
"""The label of what has no type; it is never a term."""
_N_WORDS = 8
"""Words of a description that become its term."""
_MOST_KEPT = 100_000


class Said(NamedTuple):
    """What is said about one mention: the text, relation and tie of a term."""

    text: str
    relation: str
    weight: float = 1.0


class EntityTerms:
    """Looks up what a graph says about entities; answers are cached."""

    def __init__(self, store: GraphStore, n_terms: int, kinds: Sequence[str]) -> None:
        self.store, self._n_terms = store, n_terms
        self._kinds = [_relation_called(kind, store.relations) for kind in kinds]
        self._known: dict[tuple[int, str, str], list[Said]] = {}

    def of(self, entity: int, written: str, label: str) -> list[Said]:
        """Return at most `n_terms` terms of an entity whose mention is written so and has this label."""
        key = (entity, written, label)
        if key not in self._known:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            said = (one for kind in self._kinds for one in self._say(kind, entity, label))
            self._known[key] = keep_new(said, written, self._n_terms)
        return self._known[key]

    def _say(self, kind: str, entity: int, label: str) -> Iterator[Said]:
        if kind == TYPE:
            yield from say_type(label)
        elif kind == DESCRIPTION:
            yield Said(first_words(self.store.entity(entity).description), DESCRIPTION)
        else:
            relation = None if kind == NEIGHBOURS else kind
            for neighbour in neighbours_of(self.store, entity, relation):
                yield Said(name_of(self.store, neighbour.entity), neighbour.relation, neighbour.weight)


def say_type(label: str) -> Iterator[Said]:
    """Yield the name of a type, underscores read as spaces; a mention without a type has none."""
    if label != UNTYPED:
        yield Said(label.replace("_", " ").strip(), TYPE)


def first_words(description: str) -> str:
    """Return how a description begins: about eight words, without signs and stop words at their end."""
    words = description.split()
    cut = words[:_N_WORDS]
    while len(words) > len(cut) and cut and cut[-1].strip(",;:.()\"'").lower() in STOP_WORDS:
        cut.pop()
    return " ".join(cut).rstrip(" ,;:.")


def keep_new(said: Iterable[Said], written: str, n_terms: int) -> list[Said]:
    """Return the first terms that say more than the mention itself and than those before them; the type always may."""
    own = {word.folded for word in find_words(written)}
    kept: list[Said] = []
    met: set[tuple[str, ...]] = set()
    for one in said:
        if len(kept) >= n_terms:
            break
        words = tuple(word.folded for word in find_words(one.text))
        if words and words not in met and (one.relation == TYPE or not own.issuperset(words)):
            met.add(words)
            kept.append(one)
    return kept


def tie_terms(said: Iterable[tuple[int, Sequence[Said]]]) -> tuple[Term, ...]:
    """Return the terms of spans, by their place: those with the same text and relation are one.

    The first term of every span comes before the second of any: a limit on terms must not silence the later spans.
    """
    ties: dict[tuple[str, str], dict[int, float]] = {}
    in_turn = sorted(
        ((rank, place, one) for place, of_span in said for rank, one in enumerate(of_span)), key=itemgetter(0, 1)
    )
    for _, place, (text, relation, weight) in in_turn:
        ties.setdefault((text, relation), {})[place] = weight
    return tuple(Term(text, tuple(tied.items()), relation) for (text, relation), tied in ties.items())


def check_terms(n_terms: int, kinds: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the kinds of terms as a tuple; raise if one is unknown or the number cannot be used."""
    if isinstance(n_terms, bool) or not isinstance(n_terms, int) or n_terms < 0:
        raise SourceError(f"n_terms is {n_terms!r}; it must be a whole number, 0 for no terms.")
    if isinstance(kinds, str) or not all(isinstance(kind, str) for kind in kinds):
        raise SourceError(f"terms is {kinds!r}; give a list such as {list(known)[:1]}.")
    for kind in kinds:
        if _relation_called(kind, known) not in known:
            raise SourceError(
                f"terms has {kind!r}, which this source knows nothing of.{did_you_mean(kind, known)} Known: "
                f"{', '.join(list(known)[:12])}."
            )
    return tuple(kinds)


def relations_of_terms(n_terms: int, kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the relations that terms have beside those of a graph."""
    return tuple(kind for kind in dict.fromkeys(kinds) if kind in (TYPE, DESCRIPTION)) if n_terms else ()


def _relation_called(kind: str, relations: Collection[str]) -> str:
    """Return a relation as the graph writes it: "has role" for "has_role"."""
    if kind in relations:
        return kind
    return next((relation for relation in relations if relation.replace("_", " ") == kind), kind)
