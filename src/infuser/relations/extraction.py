"""Extracts triples from raw text: sources find spans, candidates are read, thresholds decide. Memory stays bounded.

Long texts are read in windows that end with a sentence where one ends; a triple lies within one window. Of each pair of
spans the best trigger counts, and one relation is returned. Of pairs that share characters in both spans ("a commune"
and "commune") the most probable is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.linking.windows import moved
from infuser.progress import track
from infuser.relations.candidates import find_candidates
from infuser.relations.classifier import Thresholds
from infuser.relations.examples import RelationText, Triple
from infuser.relations.features import portions
from infuser.relations.negation import Denials
from infuser.signals.windows import MAX_WORDS, cut_windows
from infuser.types import Source, Span

if TYPE_CHECKING:
    from infuser.relations.model import AttentionRelations

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
class FoundTriple:
    """A triple that was found in a text, and why."""

    triple: Triple
    probability: float
    """That it is a relation, times that it is this one."""
    heads: tuple[DecidingHead, ...] = ()
    """Those that spoke most for it, the strongest first."""

    def to_json(self, text: str) -> dict[str, Any]:
        """Return the triple as it is written to files, with its words beside its places."""
        triple = self.triple
        plain: dict[str, Any] = {
            "head": _placed(text, triple.head),
            "tail": _placed(text, triple.tail),
            "relation": triple.relation,
            "label": triple.label,
            "probability": round(self.probability, 6),
            "negated": triple.negated,
            "heads": [{"layer": one.layer, "head": one.head, "weight": round(one.weight, 4)} for one in self.heads],
        }
        if triple.trigger is not None:
            plain["trigger"] = _placed(text, triple.trigger)
        return plain


def extract(
    model: AttentionRelations,
    texts: Iterable[str | RelationText],
    spans: Sequence[Source] = (),
    *,
    n_heads: int = 3,
    max_words: int = MAX_WORDS,
    progress: bool = False,
) -> Iterator[list[FoundTriple]]:
    """Yield the triples of each text, in the order of the text, with the `n_heads` heads that decided most.

    `spans` are sources that find heads and tails; a `RelationText` is read between its known mentions where none are
    given. What a text denies comes with `negated`.
    """

    def known(text: str | RelationText) -> RelationText:
        if not spans and isinstance(text, str):
            raise InputError("Raw text has no spans to relate. Give sources that find them, such as SpacyEntities().")
        return RelationText(text) if isinstance(text, str) else text

    given = map(known, track(texts, "extracting", unit="texts", shown=progress))
    for text, proposed, _ in _propose_each(model, given, spans, n_heads, max_words):
        yield accept(text.text, proposed, model.thresholds_)


def accept(text: str, proposed: Sequence[Proposal], thresholds: Thresholds) -> list[FoundTriple]:
    """Return the proposals for a text that pass the thresholds; what the text denies comes with `negated`."""
    of_window: dict[tuple[int, int], list[FoundTriple]] = {}
    names: dict[tuple[int, int], list[Span]] = {}
    for one in proposed:
        names.setdefault(one.window, []).extend((one.found.triple.head, one.found.triple.tail))
        if one.accepted(thresholds):
            of_window.setdefault(one.window, []).append(one.found)
    found = []
    for (start, end), accepted in of_window.items():  # within a window, because looking for cues takes its time
        denials = Denials(text[start:end], [moved(span, -start) for span in names[start, end]])
        found += [
            replace(one, triple=replace(one.triple, negated=denials.denies(_moved_triple(one.triple, -start))))
            for one in accepted
        ]
    return found


def propose_all(
    model: AttentionRelations,
    texts: Sequence[RelationText],
    spans: Sequence[Source] = (),
    *,
    max_words: int = MAX_WORDS,
    progress: bool = False,
) -> list[tuple[list[Proposal], list[Triple]]]:
    """Return what a model could extract from each text, whatever its thresholds, and all candidates that it read."""
    given = track(texts, "proposing triples", len(texts), unit="texts", shown=progress)
    return [(proposed, read) for _, proposed, read in _propose_each(model, given, spans, 0, max_words)]


def _propose_each(
    model: AttentionRelations, texts: Iterable[RelationText], spans: Sequence[Source], n_heads: int, max_words: int
) -> Iterator[tuple[RelationText, list[Proposal], list[Triple]]]:
    """Yield each text, its proposals and its candidates, from all its windows, in places of the whole text."""
    rest = iter(texts)
    while some := list(islice(rest, _TEXTS)):
        found: list[tuple[RelationText, list[Proposal], list[Triple]]] = [(text, [], []) for text in some]
        windows = _all_windows(some, max_words)
        candidates = find_candidates([window.text for window in windows], spans, model.trigger_words(), model.rule_)
        to_read = [replace(one.text, triples=tuple(triples)) for one, triples in zip(windows, candidates, strict=True)]
        proposed = (one for part in portions(to_read, _TRIPLES) for one in propose(model, part, n_heads=n_heads))
        for window, triples, of_window in zip(windows, candidates, proposed, strict=True):
            _, proposals, read = found[window.place]
            read += [_moved_triple(triple, window.start) for triple in triples]
            for one in of_window:
                triple = _moved_triple(one.found.triple, window.start)
                place = window.start, window.start + len(window.text.text)
                proposals.append(replace(one, found=replace(one.found, triple=triple), window=place))
        yield from found


@dataclass(frozen=True, slots=True)
class Proposal:
    """The best reading of one pair of spans, before thresholds decide whether it is accepted."""

    found: FoundTriple
    gate: float
    best: float
    window: tuple[int, int] = (0, 0)
    """The characters of the text that were read together."""

    def accepted(self, thresholds: Thresholds) -> bool:
        """Return whether it passes the thresholds."""
        return self.gate > thresholds.gate and self.best > thresholds.best


def propose(model: AttentionRelations, texts: Sequence[RelationText], *, n_heads: int = 0) -> list[list[Proposal]]:
    """Return one proposal for each pair among the candidates (`triples`) of each text, in the order of the text."""
    learned = model.fitted()
    values, readable = model.features(texts)
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

    def proposal(row: int) -> Proposal:
        relation = decided.relations[int(decided.best[row])]
        found = replace(triples[row], relation=relation, label=model.labels_.get(relation, relation))
        gate, best = float(decided.gate[row]), float(decided.best_probability[row])
        return Proposal(FoundTriple(found, gate * best, next(heads)), gate, best)

    return [[proposal(row) for row in of_text] for of_text in chosen]


def _best_rows(triples: Sequence[Triple], score: NDArray[np.float64], first: int) -> list[int]:
    """Return the best row of each pair, without pairs that touch a better one in both spans; in the text's order."""
    numbers: dict[tuple[int, int], int] = {}
    pairs = [
        tuple(numbers.setdefault((span.start, span.end), len(numbers)) for span in (triple.head, triple.tail))
        for triple in triples
    ]
    start, end = np.array(list(numbers), np.int64).reshape(-1, 2).T
    touching = [np.flatnonzero(near) for near in (start[:, None] < end) & (start < end[:, None])]
    taken = np.zeros((len(numbers), len(numbers)), bool)
    kept: list[int] = []
    for row in np.argsort(-score, kind="stable").tolist():
        if score[row] < 0:
            break
        head, tail = pairs[row]
        if not taken[head, tail]:
            kept.append(first + row)
            taken[np.ix_(touching[head], touching[tail])] = True
    return sorted(kept)


def _deciding(
    model: AttentionRelations, values: NDArray[np.float32], relations: NDArray[np.int64], n_heads: int
) -> list[tuple[DecidingHead, ...]]:
    """Return for each row the heads that spoke most for its relation; none for features that are not attention."""
    if not n_heads or model.features_.kind != "attention" or not len(values):
        return [()] * len(values)
    layers, heads, directions = model.reader().shape
    each = model.fitted().contributions(values, relations).reshape(-1, layers * heads, directions).sum(axis=2)
    n_heads = min(n_heads, layers * heads)
    top = np.argsort(-each, axis=1, kind="stable")[:, :n_heads]
    return [
        tuple(DecidingHead(place // heads, place % heads, float(each[row, place])) for place in places)
        for row, places in enumerate(top.tolist())
    ]


class _Window(NamedTuple):
    """Part of a text."""

    place: int
    """Which text it is of."""
    start: int
    """Where it begins there."""
    text: RelationText


def _all_windows(texts: Sequence[RelationText], max_words: int) -> list[_Window]:
    """Return the windows of all texts, with their known mentions, none of which is cut, and without triples."""
    windows = []
    for place, text in enumerate(texts):
        mentions = text.mentions()
        for start, end in cut_windows(text.text, max_words, keep=[(span.start, span.end) for span in mentions]):
            inside = [moved(one, -start) for one in mentions if start <= one.start and one.end <= end]
            windows.append(_Window(place, start, RelationText(text.text[start:end], spans=tuple(inside))))
    return windows


def _moved_triple(triple: Triple, by: int) -> Triple:
    trigger = None if triple.trigger is None else moved(triple.trigger, by)
    return replace(triple, head=moved(triple.head, by), tail=moved(triple.tail, by), trigger=trigger)


def _placed(text: str, span: Span) -> dict[str, Any]:
    plain: dict[str, Any] = {"start": span.start, "end": span.end, "text": text[span.start : span.end]}
    return plain | ({"id": span.id} if span.id else {}) | ({"type": span.label} if span.label else {})
