"""Finds the mentions of texts and links them, with the linkers inside an infused model."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from infuser.errors import CheckpointError, InputError
from infuser.hosts.checkpoints import CARD, is_infused
from infuser.hosts.loading import to_fastest_device
from infuser.infused import Infused, load
from infuser.linking.mentions import Mention, ScoredCandidate, decide, without_overlaps
from infuser.linking.windows import moved
from infuser.methods.entity_reader import Trace, trace_candidates
from infuser.methods.together import methods_of, name_of
from infuser.progress import track
from infuser.signals.candidates import bases_among, part_name
from infuser.signals.windows import MAX_WORDS, cut_windows
from infuser.sources import KnowledgeBase
from infuser.types import Annotations, HasEntityVectors, HasLinkers, Source
from infuser.words import find_tokens

_AT_ONCE = 16
"""Batches whose windows are sorted by length together: less padding, so more speed."""


def find_mentions(
    infused: Infused,
    texts: str | Iterable[str],
    *,
    batch_size: int = 32,
    max_words: int = MAX_WORDS,
    threshold: float | None = None,
    progress: bool = False,
) -> list[list[Mention]]:
    """Return the mentions of each text, by knowledge base and place, each with all its candidates and their scores.

    Needs a method with a linker (`Kar`). A mention whose best score reaches the threshold (None: the method's) is
    linked to that candidate; of several that share characters only the best scored is. Long texts are read in windows
    that cut no mention; only a mention that is longer than what the encoder reads is left out.
    """
    listed = [texts] if isinstance(texts, str) else texts
    return list(
        iter_mentions(
            infused, listed, batch_size=batch_size, max_words=max_words, threshold=threshold, progress=progress
        )
    )


def iter_mentions(
    infused: Infused,
    texts: Iterable[str],
    *,
    batch_size: int = 32,
    max_words: int = MAX_WORDS,
    threshold: float | None = None,
    progress: bool = False,
) -> Iterator[list[Mention]]:
    """Yield what `find_mentions` returns, for texts without end."""
    if batch_size < 1 or (threshold is not None and math.isnan(threshold)):
        raise InputError(
            f"batch_size={batch_size}, threshold={threshold}: the first is at least 1, the other a number."
        )
    reader = _MentionReader(infused, threshold)
    stream = iter(track(texts, "linking", unit="texts", shown=progress))
    while some := list(islice(stream, batch_size * _AT_ONCE)):
        yield from reader.find(some, batch_size, max_words)


def load_linker(folder: str | Path) -> Infused:
    """Return a saved model that has a linker, on the fastest device."""
    if not is_infused(folder):
        raise CheckpointError(
            f"{str(folder)!r} is no folder with a linker: it has no {CARD}. Train one: infuser linker train CHECKPOINT "
            "--candidates DIR --vectors DIR --links FILE --out RUN"
        )
    infused = load(folder)
    check_linker(infused)
    to_fastest_device(infused.model)
    return infused


def check_linker(infused: Infused) -> dict[int, HasEntityVectors]:
    """Return the knowledge bases of a model that can link, by their place among its sources; raise if it cannot."""
    bases = bases_among(infused.sources)
    if not bases or not any(isinstance(one, HasLinkers) for one in methods_of(infused.method)):
        raise InputError(
            f"This model has no linker: it was infused with {name_of(infused.method)}. Infuse the checkpoint "
            "with Kar() and knowledge bases, and train it: infuser linker train, or linking.training.train_linker."
        )
    return bases


def bases_of(sources: Iterable[Source]) -> dict[str, KnowledgeBase]:
    """Return the knowledge bases among sources by name."""
    return {base.name: cast(KnowledgeBase, base) for base in bases_among(sources).values()}


def choose_base(sources: Iterable[Source], name: str | None) -> KnowledgeBase:
    """Return the knowledge base of a name, or the only one."""
    bases = bases_of(sources)
    if name is None and len(bases) > 1:
        raise InputError(
            f"This model has several knowledge bases. Say whose entities are meant: --base {'|'.join(bases)}"
        )
    if name is not None:
        check_names([name], bases)
    return bases[name or next(iter(bases))]


def check_names(names: Iterable[str], known: Collection[str]) -> None:
    """Raise if one of the names is that of no knowledge base."""
    for name in names:
        if name not in known:
            raise InputError(f"There is no knowledge base {name!r} in this model; it has {', '.join(known)}.")


@dataclass(frozen=True, slots=True)
class _Window:
    """Part of a text, where it begins there, and what each source found in it."""

    text: str
    found: tuple[Annotations, ...]
    start: int = 0

    def cut(self, max_words: int, *, whole_mentions: bool = True) -> list[_Window]:
        """Return the windows of this one, itself if it is short enough."""
        spans = {(span.start, span.end) for found in self.found for span in found.spans} if whole_mentions else ()
        places = cut_windows(self.text, max_words, keep=spans)
        return [self] if places == [(0, len(self.text))] else [self._part(*place) for place in places]

    def halves(self) -> list[_Window]:
        """Return two or more shorter windows; mentions are cut only where they overlap from one end to the other."""
        n_words = max(1, len(find_tokens(self.text, case=False)) // 2)
        parts = self.cut(n_words)
        return parts if len(parts) > 1 else self.cut(n_words, whole_mentions=False)

    def _part(self, start: int, end: int) -> _Window:
        text = self.text[start:end]
        return _Window(text, tuple(_part_of(found, text, start, end) for found in self.found), self.start + start)


def _part_of(found: Annotations, text: str, start: int, end: int) -> Annotations:
    places = [place for place, span in enumerate(found.spans) if start <= span.start and span.end <= end]
    spans = tuple(moved(found.spans[place], -start) for place in places)
    return Annotations(text, spans, candidates=tuple(found.candidates[place] for place in places))


class _MentionReader:
    """The model, its collator and its knowledge bases, ready to link."""

    def __init__(self, infused: Infused, threshold: float | None) -> None:
        self.bases = check_linker(infused)
        self.model, self.collator = infused.model, infused.collator()
        knowledge: Any = self.model.base_model.knowledge
        self.thresholds: dict[str, float] = {
            name: part.threshold if threshold is None else threshold for name, part in knowledge.items()
        }

    def find(self, texts: Sequence[str], batch_size: int, max_words: int) -> list[list[Mention]]:
        """Return the mentions of each text."""
        found = self.collator.annotate(texts)
        windows = [
            (i, window)
            for i, (text, of_text) in enumerate(zip(texts, found, strict=True))
            for window in _Window(text, of_text).cut(max_words)
        ]
        windows.sort(key=lambda one: len(one[1].text))
        mentions: list[list[Mention]] = [[] for _ in texts]
        for first in range(0, len(windows), batch_size):
            some = windows[first : first + batch_size]
            for (i, _), read in zip(some, self._read([window for _, window in some]), strict=True):
                mentions[i] += read
        return [self._in_order(of_text) for of_text in mentions]

    def _in_order(self, mentions: list[Mention]) -> list[Mention]:
        """Return the mentions of a text by knowledge base and place, with one entity for each stretch of it."""
        by_base = ([one for one in mentions if one.base == base.name] for base in self.bases.values())
        ordered = (sorted(of_base, key=lambda one: (one.start, one.end)) for of_base in by_base)
        return [mention for of_base in ordered for mention in without_overlaps(of_base)]

    def _read(self, windows: Sequence[_Window]) -> list[list[Mention]]:
        """Return the mentions of windows that fit into one batch; one that proves too long is read in parts."""
        batch = self.collator([{"text": window.text, "annotations": window.found} for window in windows])
        trace = trace_candidates(self.model.base_model, batch)
        is_full = (batch["attention_mask"].sum(dim=1) >= (self.collator.max_length or torch.inf)).tolist()
        read: list[list[Mention]] = []
        for i, window in enumerate(windows):
            mentions = [
                mention
                for place, base in self.bases.items()
                for mention in mentions_in(base.name, i, window.found[place], batch, trace, self.thresholds[base.name])
            ]
            n_found = sum(len(window.found[place].spans) for place in self.bases)
            parts = window.halves() if is_full[i] and len(mentions) < n_found else []
            if len(parts) > 1:  # the encoder reads fewer tokens than this window has
                mentions = [mention for of_part in self._read(parts) for mention in of_part]
            else:
                mentions = [moved(mention, window.start) for mention in mentions]
            read.append(mentions)
        return read


def mentions_in(
    name: str, row: int, found: Annotations, batch: dict[str, Tensor], trace: Trace, threshold: float
) -> list[Mention]:
    """Return the mentions of one base in one row of a batch, as the spans that the encoder read."""
    spans = batch[part_name(name, "spans")][row]
    places = batch[part_name(name, "places")][row].tolist()
    sizes = torch.bincount(
        batch[part_name(name, "candidates")][row, :, 0][batch[part_name(name, "priors")][row] > 0],
        minlength=len(places),
    ).tolist()
    scores, weights = trace.scores[name][row].tolist(), trace.weights[name][row].tolist()
    mentions, first = [], 0
    for (start, end), place, size in zip(spans.tolist(), places, sizes, strict=True):
        if end <= start:
            continue
        candidates = found.candidates[place]
        scored = [
            ScoredCandidate(candidate.id, candidate.prior, score, weight)
            for candidate, score, weight in zip(
                candidates, scores[first : first + size], weights[first : first + size], strict=True
            )
        ]
        first += size
        mentions.append(decide(found, place, scored, threshold, name))
    return mentions
