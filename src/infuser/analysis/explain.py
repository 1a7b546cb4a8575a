"""What knowledge does to one text: what was found, its maps, attention and the answer, without and with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.analysis.explanation import ROUNDING, Explanation
from infuser.analysis.predict import answer, classifies
from infuser.errors import InputError
from infuser.hosts import showing_weights
from infuser.hosts.loading import longest_input
from infuser.hosts.watching import answering
from infuser.infused import Infused
from infuser.linking.mentions import Mention
from infuser.methods.entity_reader import Trace
from infuser.methods.kar import KarLayer
from infuser.methods.together import methods_of
from infuser.signals import Collator, draw_maps
from infuser.signals.candidates import bases_among
from infuser.signals.examples import shorten
from infuser.signals.maps import draw_ties
from infuser.sources.naming import source_names
from infuser.types import Annotations, Source, WritesText

Layer = int | Literal["strongest"]
"""A layer by its number, negative ones counted from the last; or the one where knowledge changes most."""

_WORD_STARTS = ("##", "Ġ", "▁")
"""Marks of tokenizers at the head of a piece."""


class Explained(Protocol):
    """An `Infused`, or an encoder that holds no knowledge."""

    @property
    def model(self) -> PreTrainedModel: ...
    @property
    def tokenizer(self) -> PreTrainedTokenizerBase: ...
    @property
    def sources(self) -> tuple[Source, ...]: ...


@dataclass(frozen=True, eq=False)
class TextReading:
    """One text or pair, read without knowledge and with it; `at` shows one layer and head."""

    about: Explanation
    """All that does not depend on layer and head; its attention is that of the last layer, mean over heads."""
    plain: Sequence[Tensor]
    """Attention of every layer without knowledge, (heads, seq, seq) each."""
    infused: Sequence[Tensor]

    def at(self, layer: Layer = -1, head: int | None = None) -> Explanation:
        """Return what knowledge changed, seen at one layer and one head (None: the mean over heads)."""
        assert self.about.changes is not None
        place, which = _choose(layer, head, self.about.changes)
        plain, infused = (_attention(layers, place, which) for layers in (self.plain, self.infused))
        return replace(self.about, layer=place, head=which, plain=plain, infused=infused)


def explain(
    infused: Explained,
    text: str,
    pair: str | None = None,
    *,
    layer: Layer = -1,
    head: int | None = None,
    off: Collection[str] = (),
    found: Sequence[Annotations] | None = None,
) -> Explanation:
    """Return what knowledge changed in one text or pair, seen at one layer and one head (None: the mean over heads).

    layer: a negative one counts from the last; "strongest" takes the head that knowledge changes most, of all layers.
    off: names of sources (see `source_names`) that are left out, as if they had found nothing.
    found: what the sources found in this text, from `annotations_of`; None asks them.

    The maps are drawn as the sources gave them, without the row and column that a method may add for [CLS]. Of an
    encoder without sources only the attention is returned: with knowledge and without are the same.
    """
    return read(infused, text, pair, off=off, found=found).at(layer, head)


def read(
    infused: Explained,
    text: str,
    pair: str | None = None,
    *,
    off: Collection[str] = (),
    found: Sequence[Annotations] | None = None,
    before: TextReading | None = None,
) -> TextReading:
    """Return what knowledge changed in one text or pair, for every layer and head; see `explain`.

    before: an earlier reading by the same model; if it is of the same text, its part without knowledge is used again.
    """
    if isinstance(infused, Infused) and any(isinstance(one, WritesText) for one in methods_of(infused.method)):
        raise InputError(
            "This model reads its knowledge as text behind the text, so there is no attention with and without it over "
            "the same tokens to compare. Ask for its answers: infuser predict."
        )
    names = source_names(infused.sources)
    if unknown := sorted(set(off) - set(names)):
        raise InputError(f"There is no source {unknown[0]!r} to leave out: this model has {', '.join(names)}.")
    if found is None:
        found = annotations_of(infused, text, pair)
    on = tuple(_silent(one) if name in off else one for name, one in zip(names, found, strict=True))
    batch = _batch(infused, text, pair, [on])
    bases = bases_among(infused.sources)
    trace = Trace() if bases else None
    plain, answer_plain = _read_plain(infused.model, batch, text, pair, before)
    changed, answer_infused = plain, answer_plain
    if names:
        changed, answer_infused = _run(infused.model, batch, **({} if trace is None else {"knowledge_trace": trace}))
    maps = dict(zip(names, _maps(batch, len(names)), strict=True)) if names else {}
    terms = batch.get("knowledge_terms")
    about = Explanation(
        words=_labels(infused.tokenizer, text, pair, batch["input_ids"][0]),
        terms=[] if terms is None else list(infused.tokenizer.convert_ids_to_tokens(terms[0].tolist())),
        maps={name: drawn for name, drawn in maps.items() if name not in off},
        plain=_attention(plain, -1, None),
        infused=_attention(changed, -1, None),
        layer=len(plain) - 1,
        text=text,
        pair=pair,
        answer_plain=answer_plain,
        answer_infused=answer_infused,
        answers_without=_answers_without(infused, text, pair, dict(zip(names, on, strict=True)), off),
        found=dict(zip(names, found, strict=True)),
        off=tuple(name for name in names if name in off),
        changes=_changes(plain, changed),
        mentions=() if trace is None else _mentions(infused, on, batch, trace),
    )
    return TextReading(about, plain, changed)


def annotations_of(infused: Explained, text: str, pair: str | None = None) -> tuple[Annotations, ...]:
    """Return what each source finds in one text or pair."""
    return _collator(infused).annotate([text], None if pair is None else [pair])[0]


def _silent(found: Annotations) -> Annotations:
    """Return the annotations of a source that found nothing."""
    return Annotations(found.text)


def _collator(infused: Explained) -> Collator:
    longest = longest_input(infused.model, infused.tokenizer)
    if isinstance(infused, Infused):
        return infused.collator(max_length=longest)
    return Collator(infused.tokenizer, infused.sources, max_length=longest)


def _batch(infused: Explained, text: str, pair: str | None, rows: Sequence[Sequence[Annotations]]) -> dict[str, Tensor]:
    """Return a batch that holds one text again and again, each time with other annotations."""
    examples = [{"text": text, "pair": pair, "annotations": tuple(row)} for row in rows]
    return {name: tensor.to(infused.model.device) for name, tensor in _collator(infused)(examples).items()}


def _read_plain(
    model: PreTrainedModel, batch: Mapping[str, Tensor], text: str, pair: str | None, before: TextReading | None
) -> tuple[Sequence[Tensor], dict[str, float] | None]:
    """Return attention and answer without knowledge, from an earlier reading of the same text if there is one."""
    if before is not None and (before.about.text, before.about.pair) == (text, pair):
        known = before.about.answer_plain
        return before.plain, None if known is None else dict(known)
    return _run(model, {name: tensor for name, tensor in batch.items() if not name.startswith("knowledge_")})


def _run(
    model: PreTrainedModel, batch: Mapping[str, Tensor], **options: Any
) -> tuple[Sequence[Tensor], dict[str, float] | None]:
    """Return the attention of every layer, (heads, seq, seq) each, and the answer, None if the model gives no label."""
    with answering(model), showing_weights(model):  # dropout would blur what is compared
        out = model(**batch, output_attentions=True, **options)
    return [of_layer[0] for of_layer in out.attentions], answer(model, out.logits) if classifies(model) else None


def _changes(plain: Sequence[Tensor], changed: Sequence[Tensor]) -> NDArray[np.float64]:
    """Return the share of its attention that each head of each layer moves elsewhere, mean over the tokens."""
    # what is taken away, not half of all changes: some of it may go to auxiliary terms, which have no column here
    pairs = zip(plain, changed, strict=True)
    taken = [(before - after).clamp(min=0).sum(dim=-1).mean(dim=-1) for before, after in pairs]
    moved: NDArray[np.float64] = torch.stack(taken).double().cpu().numpy()
    return moved


def _choose(layer: Layer, head: int | None, changes: NDArray[np.float64]) -> tuple[int, int | None]:
    """Return the layer and the head that were asked for, counted from 0."""
    n_layers, n_heads = changes.shape
    if layer == "strongest":
        if changes.max() <= ROUNDING:
            return n_layers - 1, None
        strongest = int(changes.argmax())
        return strongest // n_heads, strongest % n_heads
    return _within(layer, n_layers, "layer"), None if head is None else _within(head, n_heads, "head")


def _within(number: int, n: int, what: str) -> int:
    if not -n <= number < n:
        raise InputError(f"There is no {what} {number}: this model has {n} of them, 0 to {n - 1}.")
    return number % n


def _attention(layers: Sequence[Tensor], layer: int, head: int | None) -> NDArray[np.float64]:
    heads = layers[layer].double()  # (heads, seq, seq)
    chosen: NDArray[np.float64] = (heads.mean(dim=0) if head is None else heads[head]).cpu().numpy()
    return chosen


def _maps(batch: Mapping[str, Tensor], n_sources: int) -> list[NDArray[np.float64]]:
    """Return one map (seq, seq + terms) per source."""
    n_tokens = batch["input_ids"].shape[1]
    boxes, weights = batch["knowledge_boxes"], batch["knowledge_weights"].double()
    maps = draw_maps(boxes, weights, n_channels=n_sources, n_tokens=n_tokens)[0]
    drawn = [one.cpu().numpy() for one in maps]
    if "knowledge_terms" not in batch:
        return drawn
    ties, weights = batch["knowledge_ties"], batch["knowledge_tie_weights"].double()
    n_pieces = batch["knowledge_terms"].shape[1]
    for source, of_text in enumerate(drawn):
        beside = draw_ties(ties, weights, n_tokens=n_tokens, n_pieces=n_pieces, source=source)[0]
        drawn[source] = np.concatenate([of_text, beside.cpu().numpy()], axis=1)
    return drawn


def _labels(tokenizer: PreTrainedTokenizerBase, text: str, pair: str | None, ids: Tensor) -> list[str]:
    """Return the tokens as the text spells them, with the marks that say where a word goes on or begins."""
    n_tokens = len(ids)
    encoding = tokenizer(
        shorten(tokenizer, text, n_tokens),
        None if pair is None else shorten(tokenizer, pair, n_tokens),
        truncation="longest_first",
        max_length=n_tokens,
        return_offsets_mapping=True,
    )
    tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
    if encoding["input_ids"] != ids.tolist():  # not the same cut: the bare pieces are right in any case
        return list(tokens)
    labels = []
    for token, (start, end), side in zip(tokens, encoding["offset_mapping"], encoding.sequence_ids(0), strict=True):
        if side is None or token == tokenizer.unk_token:
            labels.append(token)
            continue
        # byte-level pieces of "ü" read "Ã¼"; the text itself is what people know
        piece = ((text, pair or "")[side][start:end]).strip()
        mark = next((mark for mark in _WORD_STARTS if token.startswith(mark)), "")
        labels.append(mark + piece if piece else token)
    return labels


def _answers_without(
    infused: Explained, text: str, pair: str | None, found: Mapping[str, Annotations], off: Collection[str]
) -> dict[str, dict[str, float]]:
    """Return the answer without each source that is on, all in one batch; nothing if the model classifies no texts."""
    left_out = [name for name in found if name not in off]
    if not left_out or not classifies(infused.model):
        return {}
    rows = [[_silent(one) if name == out else one for name, one in found.items()] for out in left_out]
    with answering(infused.model):
        logits = infused.model(**_batch(infused, text, pair, rows)).logits
    return {name: answer(infused.model, logits[place : place + 1]) for place, name in enumerate(left_out)}


def _mentions(
    infused: Explained, found: Sequence[Annotations], batch: dict[str, Tensor], trace: Trace
) -> tuple[Mention, ...]:
    """Return what each knowledge base's mentions may mean, and what the model made of it."""
    from infuser.linking.inference import mentions_in
    from infuser.linking.mentions import chosen_by_weight, without_overlaps

    knowledge: Any = infused.model.base_model.knowledge
    mentions: list[Mention] = []
    for place, base in bases_among(infused.sources).items():
        layer = knowledge[base.name]
        threshold = layer.threshold if isinstance(layer, KarLayer) else None
        of_base = mentions_in(base.name, 0, found[place], batch, trace, -np.inf if threshold is None else threshold)
        # a linker decides by its threshold; without one, what was put into the text says what was chosen
        of_base = without_overlaps(of_base) if threshold is not None else [chosen_by_weight(one) for one in of_base]
        mentions += sorted(of_base, key=lambda one: (one.start, one.end))
    return tuple(mentions)
