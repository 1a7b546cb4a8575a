"""Triples out of raw text: spans from sources, candidates, attention, decision; texts without end, in bounded memory.

Long texts are read in windows that end with a sentence where one ends; a triple lies within one window. Of each pair of
spans the best trigger counts and one relation is told. Of pairs that share characters in both spans ("a commune" and
"commune") the most probable is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from infuser.errors import InputError
from infuser.linking.windows import MAX_WORDS, cut_windows
from infuser.relations.classifier import Decided, Thresholds
from infuser.relations.examples import RelationText, Triple
from infuser.relations.finding import find_candidates
from infuser.relations.model import AttentionRelations
from infuser.relations.negation import Denials
from infuser.types import Source, Span

_TEXTS = 128
"""Texts that are read together."""
_TRIPLES = 20_000
"""Candidates whose features are held at once: about 35 MB for MiniLM."""


@dataclass(frozen=True, slots=True)
class DecidingHead:
    """One head of the encoder and how much it added to a decision."""

    layer: int
    head: int
    weight: float
    """In units of the decision's logit; above 0 it spoke for the relation."""


@dataclass(frozen=True, slots=True)
class Found:
    """A triple that was found in a text, and why."""

    triple: Triple
    probability: float
    """That it is a relation, times that it is this one."""
    heads: tuple[DecidingHead, ...] = ()
    """Those that spoke most for it, the strongest first."""

    def to_json(self, text: str) -> dict[str, Any]:
        """Return the triple as it is written to files, with its words beside its places."""
        triple = self.triple
        told: dict[str, Any] = {
            "head": _placed(text, triple.head),
            "tail": _placed(text, triple.tail),
            "relation": triple.relation,
            "label": triple.label,
            "probability": round(self.probability, 6),
            "negated": triple.negated,
            "heads": [{"layer": one.layer, "head": one.head, "weight": round(one.weight, 4)} for one in self.heads],
        }
        if triple.trigger is not None:
            told["trigger"] = _placed(text, triple.trigger)
        return told


def extract(
    model: AttentionRelations,
    texts: Iterable[str | RelationText],
    spans: Sequence[Source] = (),
    *,
    n_heads: int = 3,
    max_words: int = MAX_WORDS,
    progress: bool = False,
) -> Iterator[list[Found]]:
    """Yield the triples of each text, in the order of the text, with the `n_heads` heads that decided most.

    `spans` are sources that find heads and tails; a `RelationText` is read between its known mentions where none are
    given. What a text denies comes with `negated`.
    """
    rest = iter(tqdm(texts, desc="extracting", unit="text", disable=not progress))
    while some := list(islice(rest, _TEXTS)):
        asked = [RelationText(text) if isinstance(text, str) else text for text in some]
        if not spans and any(isinstance(text, str) for text in some):
            raise InputError("Raw text has no spans to relate. Give sources that find them, such as SpacyEntities().")
        yield from _extract(model, asked, spans, n_heads, max_words)


def _extract(
    model: AttentionRelations, texts: list[RelationText], spans: Sequence[Source], n_heads: int, max_words: int
) -> Iterator[list[Found]]:
    for text, proposed in zip(texts, _propose_windows(model, texts, spans, n_heads, max_words), strict=True):
        accepted = [one.found for one in proposed if one.accepted(model.thresholds_)]
        denials = Denials(
            text.text, [span for one in proposed for span in (one.found.triple.head, one.found.triple.tail)]
        )
        yield [replace(one, triple=replace(one.triple, negated=denials.denies(one.triple))) for one in accepted]


def propose_all(
    model: AttentionRelations,
    texts: Sequence[RelationText],
    spans: Sequence[Source] = (),
    *,
    max_words: int = MAX_WORDS,
    progress: bool = False,
) -> list[list[Proposal]]:
    """Return what a model could say about each text, whatever its thresholds."""
    proposals: list[list[Proposal]] = []
    with tqdm(total=len(texts), desc="proposing triples", unit="text", disable=not progress) as bar:
        for first in range(0, len(texts), _TEXTS):
            some = list(texts[first : first + _TEXTS])
            proposals += _propose_windows(model, some, spans, 0, max_words)
            bar.update(len(some))
    return proposals


def _propose_windows(
    model: AttentionRelations, texts: list[RelationText], spans: Sequence[Source], n_heads: int, max_words: int
) -> list[list[Proposal]]:
    """Return the proposals of each text, from all its windows, in places of the whole text."""
    windows = [(place, *window) for place, text in enumerate(texts) for window in _windows(text, max_words)]
    candidates = find_candidates([text for *_, text in windows], spans, model._words(), model._rule())
    asked = [replace(text, triples=tuple(triples)) for (*_, text), triples in zip(windows, candidates, strict=True)]
    proposals: list[list[Proposal]] = [[] for _ in texts]
    for first, last in _portions(asked):
        proposed = propose(model, asked[first:last], n_heads=n_heads)
        for (place, start, _), of_window in zip(windows[first:last], proposed, strict=True):
            proposals[place] += [one.moved(start) for one in of_window]
    return proposals


@dataclass(frozen=True, slots=True)
class Proposal:
    """The best that a model has to say about one pair of spans, before it is decided whether to say it."""

    found: Found
    gate: float
    best: float

    def accepted(self, thresholds: Thresholds) -> bool:
        """Tell whether thresholds let it pass."""
        return self.gate > thresholds.gate and self.best > thresholds.best

    def moved(self, by: int) -> Proposal:
        """Return the proposal in places of the text in which its window begins at `by`."""
        return replace(self, found=replace(self.found, triple=_moved(self.found.triple, by)))


def propose(model: AttentionRelations, texts: Sequence[RelationText], *, n_heads: int = 0) -> list[list[Proposal]]:
    """Return one proposal for each pair among the candidates (`triples`) of each text, in the order of the text."""
    learned = model._fitted()
    values, readable = model._features(texts)
    decided = learned.decide(values)
    triples = [triple for text in texts for triple in text.triples]
    score = np.where(readable, decided.gate * decided.best_probability, -1.0)
    chosen: list[list[int]] = []
    first = 0
    for text in texts:
        chosen.append(_best_rows(text.triples, score[first : first + len(text.triples)], first))
        first += len(text.triples)
    rows = np.array([row for of_text in chosen for row in of_text], np.int64)
    heads = iter(_deciding(model, values[rows], decided.best[rows], n_heads))
    return [[_proposal(model, triples[row], row, decided, next(heads)) for row in of_text] for of_text in chosen]


def _best_rows(triples: Sequence[Triple], score: NDArray[np.float64], first: int) -> list[int]:
    """Return the best row of each pair, without pairs that touch a better one in both spans; in the text's order."""
    kept: list[int] = []
    heads: list[Span] = []
    tails: list[Span] = []
    for row in np.argsort(-score, kind="stable").tolist():
        if score[row] < 0:
            break
        triple = triples[row]
        if any(
            _touch(triple.head, head) and _touch(triple.tail, tail) for head, tail in zip(heads, tails, strict=True)
        ):
            continue
        kept.append(row)
        heads.append(triple.head)
        tails.append(triple.tail)
    return [first + row for row in sorted(kept)]


def _touch(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _deciding(
    model: AttentionRelations, values: NDArray[np.float32], relations: NDArray[np.int64], n_heads: int
) -> list[tuple[DecidingHead, ...]]:
    """Return for each row the heads that spoke most for its relation; none for features that are not attention."""
    if not n_heads or model.kind != "attention" or not len(values):
        return [()] * len(values)
    layers, heads, directions = model.reader().shape
    each = model._fitted().contributions(values, relations).reshape(-1, layers * heads, directions).sum(axis=2)
    n_heads = min(n_heads, layers * heads)
    top = np.argsort(-each, axis=1, kind="stable")[:, :n_heads]
    return [
        tuple(DecidingHead(place // heads, place % heads, float(each[row, place])) for place in places)
        for row, places in enumerate(top.tolist())
    ]


def _proposal(
    model: AttentionRelations, triple: Triple, row: int, decided: Decided, heads: tuple[DecidingHead, ...]
) -> Proposal:
    relation = decided.relations[int(decided.best[row])]
    said = replace(triple, relation=relation, label=model.labels_.get(relation, relation))
    gate, best = float(decided.gate[row]), float(decided.best_probability[row])
    return Proposal(Found(said, gate * best, heads), gate, best)


def _windows(text: RelationText, max_words: int) -> list[tuple[int, RelationText]]:
    """Return the windows of a text, each after the place where it begins; no known mention is cut."""
    mentions = text.mentions()
    places = cut_windows(text.text, max_words, keep=[(span.start, span.end) for span in mentions])
    if len(places) == 1:
        return [(0, replace(text, triples=(), spans=mentions))]
    return [
        (
            start,
            RelationText(
                text.text[start:end],
                spans=tuple(_shifted(one, -start) for one in mentions if start <= one.start and one.end <= end),
            ),
        )
        for start, end in places
    ]


def _portions(texts: Sequence[RelationText]) -> Iterator[tuple[int, int]]:
    """Yield ranges of texts that hold a bounded number of candidates together."""
    first = total = 0
    for place, text in enumerate(texts):
        if total and total + len(text.triples) > _TRIPLES:
            yield first, place
            first, total = place, 0
        total += len(text.triples)
    if first < len(texts):
        yield first, len(texts)


def _moved(triple: Triple, by: int) -> Triple:
    trigger = None if triple.trigger is None else _shifted(triple.trigger, by)
    return replace(triple, head=_shifted(triple.head, by), tail=_shifted(triple.tail, by), trigger=trigger)


def _shifted(span: Span, by: int) -> Span:
    return replace(span, start=span.start + by, end=span.end + by)


def _placed(text: str, span: Span) -> dict[str, Any]:
    told: dict[str, Any] = {"start": span.start, "end": span.end, "text": text[span.start : span.end]}
    return told | ({"id": span.id} if span.id else {}) | ({"type": span.label} if span.label else {})
