"""Annotations as Arrow columns, and back: one struct of lists per source, one row per text.

    spans       list of (start, end, label, id)
    links       list of (source, target, weight, relation)
    terms       list of (text, ties: list of (span, weight), relation); older columns have no relation
    candidates  list, for each span, of lists of (id, prior)
    odds        list, for each span, of how strongly it asks to be kept; only if a text of the column has any

Labels, ids and relations are dictionary-encoded: each distinct one is stored once per file. Numbers keep all their
bits, so what is read back equals what was written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from infuser.errors import SourceError
from infuser.types import Annotations, Candidate, Link, Span, Term


def encode(found: Sequence[Annotations]) -> pa.StructArray:
    """Return what one source found in some texts as one column; the texts themselves are not in it."""
    spans = [span for one in found for span in one.spans]
    links = [link for one in found for link in one.links]
    terms = [term for one in found for term in one.terms]
    choices = [choice for one in found for choice in one.candidates]
    ties = [tie for term in terms for tie in term.ties]
    candidates = list(chain.from_iterable(choices))
    try:
        return _struct(
            spans=_lists(
                [len(one.spans) for one in found],
                _struct(
                    start=_whole(span.start for span in spans),
                    end=_whole(span.end for span in spans),
                    label=_words([span.label for span in spans]),
                    id=_words([span.id for span in spans]),
                ),
            ),
            links=_lists(
                [len(one.links) for one in found],
                _struct(
                    source=_whole(link.source for link in links),
                    target=_whole(link.target for link in links),
                    weight=_real(link.weight for link in links),
                    relation=_words([link.relation for link in links]),
                ),
            ),
            terms=_lists(
                [len(one.terms) for one in found],
                _struct(
                    text=_words([term.text for term in terms]),
                    ties=_lists(
                        [len(term.ties) for term in terms],
                        _struct(span=_whole(span for span, _ in ties), weight=_real(weight for _, weight in ties)),
                    ),
                    relation=_words([term.relation for term in terms]),
                ),
            ),
            candidates=_lists(
                [len(one.candidates) for one in found],
                _lists(
                    [len(choice) for choice in choices],
                    _struct(
                        id=_words([candidate.id for candidate in candidates]),
                        prior=_real(candidate.prior for candidate in candidates),
                    ),
                ),
            ),
            **(
                {"odds": _lists([len(one.odds) for one in found], _real(odds for one in found for odds in one.odds))}
                if any(one.odds for one in found)
                else {}
            ),
        )
    except (TypeError, ValueError, OverflowError) as error:  # a lone surrogate is a ValueError, an Arrow error too
        raise SourceError(
            f"Annotations cannot be written down: {error}. Places are whole numbers, weights and priors are numbers, "
            "labels, ids, relations and terms are texts without halves of characters."
        ) from error


class SourceColumn:
    """A column that `encode` made, read row by row without copying the rest."""

    def __init__(self, column: pa.StructArray) -> None:
        spans, links, terms, choices = (
            _Lists(column.field(name)) for name in ("spans", "links", "terms", "candidates")
        )
        self._spans, self._links, self._terms, self._choices = spans, links, terms, choices
        self._starts, self._ends = _numbers(spans, "start"), _numbers(spans, "end")
        self._labels, self._ids = _Words(spans, "label"), _Words(spans, "id")
        self._sources, self._targets = _numbers(links, "source"), _numbers(links, "target")
        self._weights, self._relations = _numbers(links, "weight"), _Words(links, "relation")
        self._words, self._ties = _Words(terms, "text"), _Lists(terms.values.field("ties"))
        self._tied, self._tie_weights = _numbers(self._ties, "span"), _numbers(self._ties, "weight")
        related = terms.values.type.get_field_index("relation") >= 0
        self._term_relations = _Words(terms, "relation") if related else None
        self._candidates = _Lists(choices.values)
        self._candidate_ids, self._priors = _Words(self._candidates, "id"), _numbers(self._candidates, "prior")
        self._odds = _Lists(column.field("odds")) if column.type.get_field_index("odds") >= 0 else None

    def read(self, row: int, text: str) -> Annotations:
        """Return what was found in the text of this row."""
        at = self._spans.part(row)
        spans = map(Span, self._starts[at].tolist(), self._ends[at].tolist(), self._labels[at], self._ids[at])
        at = self._links.part(row)
        links = map(
            Link,
            self._sources[at].tolist(),
            self._targets[at].tolist(),
            self._weights[at].tolist(),
            self._relations[at],
        )
        odds = () if self._odds is None else tuple(self._odds.values.to_numpy()[self._odds.part(row)].tolist())
        return Annotations(text, tuple(spans), tuple(links), self._read_terms(row), self._read_candidates(row), odds)

    def _read_terms(self, row: int) -> tuple[Term, ...]:
        at = self._terms.part(row)
        words = self._words[at]
        relations = [""] * len(words) if self._term_relations is None else self._term_relations[at]
        return tuple(
            Term(word, tuple(zip(self._tied[ties].tolist(), self._tie_weights[ties].tolist(), strict=True)), relation)
            for word, ties, relation in zip(words, self._ties.parts(at), relations, strict=True)
        )

    def _read_candidates(self, row: int) -> tuple[tuple[Candidate, ...], ...]:
        return tuple(
            tuple(map(Candidate, self._candidate_ids[choice], self._priors[choice].tolist()))
            for choice in self._candidates.parts(self._choices.part(row))
        )


def span_ids(column: pa.StructArray) -> tuple[NDArray[np.int64], pa.Array]:
    """Return for every span of a column the number of its row, and its id."""
    spans = column.field("spans")
    rows = np.repeat(np.arange(len(spans)), np.diff(spans.offsets.to_numpy()))
    return rows, spans.values.field("id").dictionary_decode()


class _Lists:
    """The lists of a column: where each begins among the values of all."""

    def __init__(self, column: pa.ListArray) -> None:
        self.values = column.values
        self._offsets: NDArray[np.int32] = column.offsets.to_numpy()

    def part(self, row: int) -> slice:
        return slice(*self._offsets[row : row + 2].tolist())

    def parts(self, rows: slice) -> list[slice]:
        if rows.start == rows.stop:
            return []
        return [slice(*ends) for ends in pairwise(self._offsets[rows.start : rows.stop + 1].tolist())]


class _Words:
    """Dictionary-encoded words, each distinct one decoded once and shared by all files that have it."""

    def __init__(self, lists: _Lists, name: str) -> None:
        column = lists.values.field(name)
        self._codes: NDArray[np.int32] = column.indices.to_numpy()
        self._encoded = column.dictionary

    @cached_property
    def _words(self) -> list[str]:
        return [sys.intern(word) for word in self._encoded.to_pylist()]

    def __getitem__(self, at: slice) -> list[str]:
        if at.start == at.stop:
            return []
        words = self._words
        return [words[code] for code in self._codes[at].tolist()]


def _numbers(lists: _Lists, name: str) -> NDArray[Any]:
    numbers: NDArray[Any] = lists.values.field(name).to_numpy(zero_copy_only=True)
    return numbers


def _struct(**fields: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _lists(lengths: Sequence[int], values: pa.Array) -> pa.ListArray:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _whole(numbers: Iterable[int]) -> pa.Array:
    return _complete(pa.array(list(numbers), pa.int32()))


def _real(numbers: Iterable[float]) -> pa.Array:
    return _complete(pa.array(list(numbers), pa.float64()))


def _words(words: list[str]) -> pa.DictionaryArray:
    codes: dict[str, int] = {}  # in the order of first appearance, so that the same words make the same bytes
    indices = [codes.setdefault(word, len(codes)) for word in words]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), _complete(pa.array(list(codes), pa.string())))


def _complete(values: pa.Array) -> pa.Array:
    if values.null_count:
        raise TypeError("one of them is None")
    return values
