"""Links texts with the linkers inside an infused model: windows in, mentions out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from infuser.errors import InputError
from infuser.linking.mentions import Mention, Scored, without_overlaps
from infuser.linking.windows import MAX_WORDS, cut_windows, move_mentions
from infuser.methods.entity_reader import Trace
from infuser.signals.candidates import Base, bases_among, part_name
from infuser.types import Annotations

if TYPE_CHECKING:
    from infuser.infused import Infused

_AT_ONCE = 16
"""Batches whose windows are sorted by length together: less padding, so more speed."""


def link(
    infused: Infused,
    texts: Iterable[str],
    *,
    batch_size: int = 32,
    max_words: int = MAX_WORDS,
    progress: bool = False,
) -> Iterator[list[Mention]]:
    """Yield the mentions of each text, by knowledge base and place, each with all its candidates and their scores.

    A mention whose best score reaches the method's threshold is linked to that candidate; of several that share
    characters only the best scored is. Long texts are read in windows.
    """
    linker = _Linker(infused)
    stream = iter(tqdm(texts, desc="linking", unit="text", disable=not progress))
    while some := list(islice(stream, batch_size * _AT_ONCE)):
        yield from linker.link(some, batch_size, max_words)


class _Linker:
    """The model, its collator and its knowledge bases, ready to link."""

    def __init__(self, infused: Infused) -> None:
        self.model, self.collator = infused.model, infused.collator()
        self.bases: dict[int, Base] = bases_among(infused.sources)
        knowledge: Any = getattr(self.model.base_model, "knowledge", {})
        if not self.bases or not all(hasattr(part, "linker") for part in knowledge.values()):
            raise InputError("This model has no linker. Infuse it with Kar() and knowledge bases, and train_linker it.")
        self.thresholds = {name: part.threshold for name, part in knowledge.items()}

    def link(self, texts: Sequence[str], batch_size: int, max_words: int) -> list[list[Mention]]:
        """Return the mentions of each text."""
        windows = [(i, start, end) for i, text in enumerate(texts) for start, end in cut_windows(text, max_words)]
        windows.sort(key=lambda window: window[2] - window[1])
        mentions: list[list[Mention]] = [[] for _ in texts]
        for first in range(0, len(windows), batch_size):
            some = windows[first : first + batch_size]
            read = self._read([texts[i][start:end] for i, start, end in some], max_words)
            for (i, start, _), found in zip(some, read, strict=True):
                mentions[i] += move_mentions(found, start)
        order = {base.name: place for place, base in self.bases.items()}
        return [
            [
                mention
                for name in order
                for mention in without_overlaps(
                    sorted((one for one in found if one.base == name), key=lambda one: (one.start, one.end))
                )
            ]
            for found in mentions
        ]

    def _read(self, texts: Sequence[str], max_words: int) -> list[list[Mention]]:
        """Return the mentions of texts that fit into one batch; one that proves too long is read in parts."""
        found = self.collator.annotate(texts)
        batch = self.collator([{"text": text, "annotations": of} for text, of in zip(texts, found, strict=True)])
        trace = self._score(batch)
        mentions: list[list[Mention]] = [[] for _ in texts]
        for place, base in self.bases.items():
            for i, of in enumerate(found):
                mentions[i] += _mentions(base.name, i, of[place], batch, trace, self.thresholds[base.name])
        for i, text in enumerate(texts):
            n_found = sum(len(found[i][place].spans) for place in self.bases)
            parts = cut_windows(text, max(1, max_words // 2)) if len(mentions[i]) < n_found else []
            if len(parts) > 1:  # the encoder reads fewer tokens than this text has
                read = self._read([text[start:end] for start, end in parts], max(1, max_words // 2))
                mentions[i] = [
                    mention
                    for (start, _), of_part in zip(parts, read, strict=True)
                    for mention in move_mentions(of_part, start)
                ]
        return mentions

    @torch.inference_mode()
    def _score(self, batch: dict[str, Tensor]) -> Trace:
        trace = Trace()
        encoder: Any = self.model.base_model
        was_training = encoder.training
        encoder.train(False)
        try:
            encoder(**{name: tensor.to(encoder.device) for name, tensor in batch.items()}, knowledge_trace=trace)
        finally:
            encoder.train(was_training)
        return trace


def _mentions(
    name: str, row: int, found: Annotations, batch: dict[str, Tensor], trace: Trace, threshold: float
) -> list[Mention]:
    """Return the mentions of one base in one text, as the spans that the encoder read."""
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
        span, candidates = found.spans[place], found.candidates[place]
        scored = [
            Scored(candidate.id, candidate.prior, score, weight)
            for candidate, score, weight in zip(
                candidates, scores[first : first + size], weights[first : first + size], strict=True
            )
        ]
        first += size
        scored.sort(key=lambda one: (-one.score, -one.prior))
        best = scored[0].score if scored else -torch.inf
        linked = scored[0].id if scored and best >= threshold else None
        text = found.text[span.start : span.end]
        mentions.append(Mention(span.start, span.end, text, linked, best, tuple(scored), name))
    return mentions
