"""What an encoder's heads say about triples: attention between their spans, pooled for a whole batch at once.

For every layer and head there is one number per direction: the attention that flows from the tokens of one span to
those of the other, summed over both (or averaged). Special tokens belong to no span, so they are cut. Spans are found
by their character offsets, never by their words: the same name twice in a sentence is two places.

With `kind="embeddings"` the features are the states of every layer instead, averaged over each span.

`write_features` writes the features of any number of texts to one .npy file (4 bytes per number, for MiniLM 1.7 KB per
triple) with the memory of a few batches.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.errors import InputError
from infuser.files import whole_file
from infuser.hosts import answering, n_blocks, watching_attention
from infuser.hosts.loading import longest_input
from infuser.progress import progress_bar
from infuser.relations.examples import RelationText
from infuser.signals import Collator
from infuser.signals.align import Range
from infuser.types import Source, Span

DIRECTIONS = ("head>tail", "tail>head", "head>trigger", "trigger>head", "tail>trigger", "trigger>tail")
"""From whose tokens to whose; data without triggers has the first two."""
_FROM = (0, 1, 0, 2, 1, 2)
_TO = (1, 0, 2, 0, 2, 1)

Kind = Literal["attention", "embeddings"]
Pooling = Literal["sum", "mean"]

_AHEAD = 16
"""Batches that are sorted by length together: less padding, and still a bounded number of texts in memory."""
_MOST_TRIPLES = 1 << 16
"""Triples whose features are held at once by `stream`: 113 MB for MiniLM; a text with more comes alone."""
_MOST_WEIGHTS = 1 << 26
"""Attention weights of one layer held at once: a quarter of a gigabyte; long texts make batches smaller."""


@dataclass(frozen=True, slots=True)
class FeatureSettings:
    """Which numbers stand for a triple."""

    kind: Kind = "attention"
    """"attention" between the spans, or "embeddings": the spans' states."""
    pooling: Pooling = "sum"
    """How the attention between the tokens of two spans becomes one number; states are always averaged."""
    trigger: bool = True
    """Read the words that say the relation, too; without them there are two directions instead of six."""

    def __post_init__(self) -> None:
        if self.kind not in ("attention", "embeddings"):
            raise InputError(f"Features of the kind {self.kind!r} do not exist. Known: attention, embeddings.")
        if self.pooling not in ("sum", "mean"):
            raise InputError(f"Attention cannot be pooled by {self.pooling!r}. Known: sum, mean.")

    @property
    def directions(self) -> tuple[str, ...]:
        """What the last axis of attention features stands for."""
        return DIRECTIONS if self.trigger else DIRECTIONS[:2]


@dataclass(frozen=True, slots=True)
class Features:
    """The features of all triples of some texts, in their order."""

    values: NDArray[np.float32]
    """(triples, layers, heads, directions), or (triples, layers + 1, spans, hidden) for embeddings."""
    readable: NDArray[np.bool_]
    """False where a span has no token that the encoder reads (cut off, blank), or a trigger is missing; zeros there."""


class SpanReader:
    """Reads texts with a plain or an infused encoder, and returns the features of their triples."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        sources: Sequence[Source] = (),
        *,
        settings: FeatureSettings | None = None,
        batch_size: int = 32,
    ) -> None:
        """Take an encoder; `sources` are those of an infused one, which then reads with its knowledge."""
        if batch_size < 1:
            raise InputError(f"batch_size={batch_size}: give 1 or more.")
        self.model, self.tokenizer, self.sources = model, tokenizer, tuple(sources)
        self.settings = settings or FeatureSettings()
        self.batch_size = batch_size
        padding_behind = copy.copy(tokenizer)
        padding_behind.padding_side = "right"  # before a text it would move the positions that most encoders count
        self._collator = Collator(padding_behind, self.sources, max_length=longest_input(model, tokenizer))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one triple's features."""
        config = self.model.config
        if self.settings.kind == "attention":
            return n_blocks(self.model), config.num_attention_heads, len(self.settings.directions)
        return n_blocks(self.model) + 1, 3 if self.settings.trigger else 2, config.hidden_size

    def read(self, texts: Sequence[RelationText]) -> Features:
        """Return the features of all triples of these texts; use `stream` for many."""
        counts = [len(text.triples) for text in texts]
        firsts = np.cumsum([0, *counts])
        values, readable = np.empty((firsts[-1], *self.shape), np.float32), np.empty(firsts[-1], bool)
        places = [place for place in sorted(range(len(texts)), key=lambda at: -len(texts[at].text)) if counts[place]]
        with answering(self.model):
            while places:
                some = places[: self._n_rows(texts[places[0]].text)]
                del places[: len(some)]
                of_batch, could = self._read_batch([texts[place] for place in some])
                rows = np.concatenate([np.arange(firsts[place], firsts[place + 1]) for place in some])
                values[rows], readable[rows] = of_batch, could
        return Features(values, readable)

    def stream(
        self, texts: Iterable[RelationText], *, progress: bool = False
    ) -> Iterator[tuple[list[RelationText], Features]]:
        """Yield texts and the features of their triples, some at a time, in order; memory does not grow with texts."""
        n_texts = len(texts) if isinstance(texts, Sequence) else None
        with progress_bar("reading attention", n_texts, unit="texts", shown=progress) as bar:
            for some in portions(texts, _MOST_TRIPLES, _AHEAD * self.batch_size):
                yield some, self.read(some)
                bar.advance(len(some))

    def _n_rows(self, longest: str) -> int:
        """Return how many texts are read together, the longest of them given; two characters per token are few."""
        n_tokens = min(self._collator.max_length or len(longest), len(longest) // 2 + 3)
        n_weights: int = self.model.config.num_attention_heads * n_tokens**2
        return max(1, min(self.batch_size, _MOST_WEIGHTS // n_weights))

    def _read_batch(self, texts: Sequence[RelationText]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        spans_of_texts, *of_triples = _places(texts, trigger=self.settings.trigger)
        batch, ranges = self._collator.place([{"text": text.text} for text in texts], spans_of_texts)
        batch = {name: tensor.to(self.model.device) for name, tensor in batch.items()}
        members, lengths = _members(ranges, batch["input_ids"].shape[1], self.model.device)
        rows, spans = (torch.tensor(values, device=self.model.device) for values in of_triples)
        seen = self._attention if self.settings.kind == "attention" else self._states
        values = seen(batch, members, lengths, rows, spans)
        readable = (lengths[rows[:, None], spans] > 0).all(dim=1) & (spans >= 0).all(dim=1)  # (triples,)
        if not readable.all():
            values[~readable] = 0
        return values.float().cpu().numpy(), readable.cpu().numpy()

    def _attention(
        self, batch: dict[str, Tensor], members: Tensor, lengths: Tensor, rows: Tensor, spans: Tensor
    ) -> Tensor:
        """Return (triples, layers, heads, directions)."""
        n_directions = len(self.settings.directions)
        origin, target = spans[:, _FROM[:n_directions]], spans[:, _TO[:n_directions]]  # (triples, directions)
        n_weights = (lengths[rows[:, None], origin] * lengths[rows[:, None], target]).clamp(min=1)[:, None]
        layers: list[Tensor] = []

        def pool(weights: Tensor) -> None:
            of_spans = members[:, None].to(weights.dtype)  # (batch, 1, spans, seq)
            between = of_spans @ weights @ of_spans.mT  # (batch, heads, spans, spans)
            pooled = between[rows[:, None], :, origin, target].mT  # (triples, heads, directions)
            layers.append(pooled / n_weights if self.settings.pooling == "mean" else pooled)

        encoder: Any = self.model.base_model
        with watching_attention(self.model, pool):
            encoder(**batch)
        return torch.stack(layers, dim=1)

    def _states(
        self, batch: dict[str, Tensor], members: Tensor, lengths: Tensor, rows: Tensor, spans: Tensor
    ) -> Tensor:
        """Return (triples, layers + 1, spans, hidden)."""
        encoder: Any = self.model.base_model
        states = encoder(**batch, output_hidden_states=True).hidden_states
        n_tokens = lengths[rows[:, None], spans].clamp(min=1)[..., None]  # (triples, spans, 1)
        of_spans = members.to(states[0].dtype)
        return torch.stack([(of_spans @ layer)[rows[:, None], spans] / n_tokens for layer in states], dim=1)


def write_features(
    reader: SpanReader, texts: Iterable[RelationText], path: str | Path, *, progress: bool = False
) -> Features:
    """Write the features of all triples of some texts to `path` (.npy), and return them as a memory map.

    Texts may be an iterator without a length. Which triples were readable is kept beside it, in `NAME.readable.npy`.
    """
    path = Path(path)
    n_rows = 0
    readable: list[NDArray[np.bool_]] = []
    with whole_file(path, "wb") as file:
        _write_header(file, (0, *reader.shape))
        body = file.tell()
        for _, of_some in reader.stream(texts, progress=progress):
            file.write(np.ascontiguousarray(of_some.values, "<f4").tobytes())
            readable.append(of_some.readable)
            n_rows += len(of_some.readable)
        file.seek(0)
        _write_header(file, (n_rows, *reader.shape))
        assert file.tell() == body  # NumPy leaves room for the first axis to grow
        with whole_file(_beside(path), "wb") as marks:
            np.save(marks, np.concatenate(readable) if readable else np.zeros(0, bool), allow_pickle=False)
    return open_features(path)


def open_features(path: str | Path) -> Features:
    """Open the features that `write_features` wrote, without reading them into memory."""
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    return Features(values, np.load(_beside(Path(path)), allow_pickle=False))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.readable.npy")


def _write_header(file: IO[bytes], shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})


def portions(
    texts: Iterable[RelationText], most_triples: int, most_texts: int | None = None
) -> Iterator[list[RelationText]]:
    """Yield texts in order, as many together as hold at most so many triples; a text with more comes alone."""
    some: list[RelationText] = []
    n_triples = 0
    for text in texts:
        if some and n_triples + len(text.triples) > most_triples:
            yield some
            some, n_triples = [], 0
        some.append(text)
        n_triples += len(text.triples)
        if len(some) == most_texts:
            yield some
            some, n_triples = [], 0
    if some:
        yield some


def _places(texts: Sequence[RelationText], *, trigger: bool) -> tuple[list[list[Span]], list[int], list[list[int]]]:
    """Return the different spans of each text and, for each triple, the place of its text and those of its spans.

    The place of a span is its number among those of its text; -1 for a trigger that is missing.
    """
    spans: list[list[Span]] = []
    rows: list[int] = []
    triples: list[list[int]] = []
    for row, text in enumerate(texts):
        places: dict[tuple[int, int], int] = {}
        for one in text.triples:
            parts = (one.head, one.tail, one.trigger) if trigger else (one.head, one.tail)
            triples.append([-1 if it is None else places.setdefault((it.start, it.end), len(places)) for it in parts])
        rows += [row] * len(text.triples)
        spans.append([Span(*place) for place in places])
    return spans, rows, triples


def _members(ranges: Sequence[Sequence[Range]], n_tokens: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return which tokens belong to which span (batch, spans, seq), and how many each has (batch, spans)."""
    most = max(1, *map(len, ranges)) if ranges else 1
    borders = [[*(place or (0, 0) for place in of_text), *[(0, 0)] * (most - len(of_text))] for of_text in ranges]
    edges = torch.tensor(borders, device=device)  # (batch, spans, 2)
    positions = torch.arange(n_tokens, device=device)
    members = (positions >= edges[..., :1]) & (positions < edges[..., 1:])
    return members, edges[..., 1] - edges[..., 0]
