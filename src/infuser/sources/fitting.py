"""Drops names that the training labels contradict.

An example is {"text": ..., "entities": [(start, end, label), ...]}. The labels of a source need not be those of the
examples: each stands for the gold label with which its mentions coincide most often. An occurrence of a name

    speaks for it       if it coincides with a gold mention of this label
    speaks against it   if it overlaps no gold mention, or only such of other labels
    says nothing        if it overlaps a gold mention of this label in part: "pain" in "chest pain"; or if its label
                        stands for no gold label at all: the examples do not label such things

A name is refuted if more occurrences speak against it than for it, by more than the smoothing.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from infuser.errors import SourceError
from infuser.knowledge.names.name_rule import spelling_of
from infuser.types import FitsExamples, Source, Span

Gold = list[tuple[int, int, str]]
_MOST_PASSES = 4
"""A refuted name may have hidden one inside it, which the next pass judges."""


@dataclass(slots=True)
class LabelCounts:
    """What a label of a source stands for in labelled texts."""

    n_found: int = 0
    """How many mentions have it."""
    n_gold: Counter[str] = field(default_factory=Counter)
    """With how many gold mentions of each label they coincide."""

    @property
    def best(self) -> str | None:
        """The most frequent gold label, ties broken alphabetically; None without any."""
        return min(self.n_gold, key=lambda one: (-self.n_gold[one], one), default=None)

    @property
    def precision(self) -> float:
        """Which share of the mentions has the best gold label."""
        return 0.0 if self.best is None else self.n_gold[self.best] / self.n_found


class FitsNames:
    """Mixin of sources that look names up: they can be fitted to labelled examples."""

    def fit(self, examples: Sequence[Mapping[str, Any]], *, smoothing: float = 0.5) -> Self:
        """Return a source without the names that the examples refute; they join those in `ignored`.

        An example is {"text": ..., "entities": [(start, end, label), ...]}. Give training examples only.
        """
        if not smoothing >= 0:
            raise SourceError(f"smoothing is {smoothing!r}; it must be a number, 0 or more.")
        texts, gold = [example["text"] for example in examples], [_gold(example) for example in examples]
        fitted: Any = self
        for _ in range(_MOST_PASSES):
            plain = dataclasses.replace(fitted, abbreviations=False, n_terms=0)  # a short form is no name of the list
            found = [one.spans for one in plain.annotate(texts)]
            refuted = _refuted(plain, texts, found, gold, smoothing) - set(fitted.ignored)
            if not refuted:
                break
            fitted = dataclasses.replace(fitted, ignored=tuple(sorted({*fitted.ignored, *refuted})))
        return fitted  # type: ignore[no-any-return]


def fit_sources(sources: Sequence[Source], examples: Sequence[Mapping[str, Any]]) -> list[Source]:
    """Return the sources, fitted to labelled training examples where they can be; fit before they are cached."""
    return [source.fit(examples) if isinstance(source, FitsExamples) else source for source in sources]


def _refuted(
    source: Any, texts: Sequence[str], found: Sequence[Sequence[Span]], gold: Sequence[Gold], smoothing: float
) -> set[str]:
    """Return the names, folded, that more occurrences speak against than for."""
    stands_for = {label: counts.best for label, counts in coinciding_labels(found, gold).items()}
    balance: dict[str, float] = defaultdict(float)
    for text, spans, labelled in zip(texts, found, gold, strict=True):
        for span, near in _beside(spans, labelled):
            name = spelling_of(
                text[span.start : span.end], fold_case=source.fold_case, fold_accents=source.fold_accents
            )
            balance[name] += _judge(span, near, stands_for.get(span.label))
    return {name for name, value in balance.items() if value < -smoothing}


def _judge(span: Span, near: Gold, label: str | None) -> int:
    if label is None:
        return 0
    same = [place for place in near if place[2] == label]
    if any(place[:2] == (span.start, span.end) for place in same):
        return 1
    return 0 if same else -1


def coinciding_labels(
    found: Iterable[Iterable[Span]], gold: Iterable[Iterable[tuple[int, int, str]]]
) -> dict[str, LabelCounts]:
    """Return for each label of a source how often it was found, and with which gold labels its mentions coincide."""
    counts: dict[str, LabelCounts] = defaultdict(LabelCounts)
    for spans, labelled in zip(found, gold, strict=True):
        there = {(start, end): label for start, end, label in labelled}
        for start, end, label in {(span.start, span.end, span.label) for span in spans}:
            counts[label].n_found += 1
            if (start, end) in there:
                counts[label].n_gold[there[start, end]] += 1
    return dict(counts)


def _beside(spans: Sequence[Span], labelled: Gold) -> Iterator[tuple[Span, Gold]]:
    for span in spans:
        yield span, [place for place in labelled if place[0] < span.end and span.start < place[1]]


def _gold(example: Mapping[str, Any]) -> Gold:
    try:
        return [(int(start), int(end), str(label)) for start, end, label in example["entities"]]
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(
            f"An example cannot be used to fit a source ({error!r}): {str(example)[:80]}. Give {{'text': ..., "
            "'entities': [(start, end, label), ...]}."
        ) from error
