"""What knowledge does to one text: its maps, one layer's attention and the answer, without and with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.errors import InputError, UnknownNameError
from infuser.hosts import showing_weights
from infuser.infused import Infused
from infuser.registry import SOURCES
from infuser.reports.explanation import Explanation
from infuser.signals import draw_maps
from infuser.signals.long_texts import shorten
from infuser.sources.selective import bare
from infuser.types import Source

_WORD_STARTS = ("##", "Ġ", "▁")
"""Marks of tokenizers at the head of a piece; `reports` puts words together by them."""


def explain(
    infused: Infused, text: str, pair: str | None = None, *, layer: int = -1, head: int | None = None
) -> Explanation:
    """Return what knowledge changed in one text or pair, seen at one layer and one head (None: the mean over heads).

    A negative layer counts from the last one. The maps are drawn as the sources gave them, without the row and column
    that a method may add for [CLS].
    """
    batch, plain, changed = _run_both(infused, text, pair)
    n_layers = len(changed.attentions)
    place = _within(layer, n_layers, "layer")
    which = None if head is None else _within(head, changed.attentions[place].shape[1], "head")
    terms = batch.get("knowledge_terms")
    return Explanation(
        words=_labels(infused.tokenizer, text, pair, batch["input_ids"][0]),
        terms=[] if terms is None else list(infused.tokenizer.convert_ids_to_tokens(terms[0].tolist())),
        maps=dict(zip(source_names(infused.sources), _maps(batch, len(infused.sources)), strict=True)),
        plain=_attention(plain, place, which),
        infused=_attention(changed, place, which),
        layer=place,
        head=which,
        text=text,
        pair=pair,
        answer_plain=_answer(infused.model, plain),
        answer_infused=_answer(infused.model, changed),
    )


def strongest_change(infused: Infused, text: str, pair: str | None = None) -> tuple[int, int]:
    """Return the (layer, head) whose attention knowledge changes most anywhere in this text, counted from 0."""
    _, plain, changed = _run_both(infused, text, pair)
    changes = torch.stack(  # (layers, heads)
        [
            (one - other).abs().amax(dim=(0, 2, 3))
            for one, other in zip(changed.attentions, plain.attentions, strict=True)
        ]
    )
    layer, head = divmod(int(changes.argmax()), changes.shape[1])
    return layer, head


def source_names(sources: Sequence[Source]) -> list[str]:
    """Return a name for each source that people recognise, numbered where two are of one kind."""
    kinds = []
    for source in sources:
        known = bare(source)  # what it selects from is what people know
        try:
            kinds.append(SOURCES.name_of(known))
        except UnknownNameError:  # a class of the user's own, never registered
            kinds.append(type(known).__name__)
    return [f"{kind} {kinds[: at + 1].count(kind)}" if kinds.count(kind) > 1 else kind for at, kind in enumerate(kinds)]


def label_names(model: PreTrainedModel) -> list[str]:
    """Return the names of a classifier's labels, or the one name "score" if it answers with a number."""
    if model.config.num_labels == 1:
        return ["score"]
    return [str(name) for _, name in sorted((model.config.id2label or {}).items())]


def probabilities(model: PreTrainedModel, logits: Tensor) -> Tensor:
    """Return what logits (texts, labels) mean: probabilities, or the number itself for a model with one label."""
    if model.config.num_labels == 1:
        return logits.float()
    if model.config.problem_type == "multi_label_classification":
        return logits.float().sigmoid()
    return logits.float().softmax(dim=-1)


def _run_both(infused: Infused, text: str, pair: str | None) -> tuple[dict[str, Tensor], Any, Any]:
    """Return the batch of one text and what the model gives for it without knowledge and with it."""
    batch = infused.batch([text], None if pair is None else [pair])
    bare = {name: tensor for name, tensor in batch.items() if not name.startswith("knowledge_")}
    return batch, _run(infused.model, bare), _run(infused.model, batch)


@torch.inference_mode()
def _run(model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Any:
    was_training = model.training
    model.train(False)  # dropout would blur what is compared
    try:
        with showing_weights(model):
            return model(**batch, output_attentions=True)
    finally:
        model.train(was_training)


def _within(number: int, n: int, what: str) -> int:
    if not -n <= number < n:
        raise InputError(f"There is no {what} {number}: this model has {n} of them, 0 to {n - 1}.")
    return number % n


def _attention(out: Any, layer: int, head: int | None) -> NDArray[np.float64]:
    heads = out.attentions[layer][0].double()  # (heads, seq, seq)
    chosen: NDArray[np.float64] = (heads.mean(dim=0) if head is None else heads[head]).cpu().numpy()
    return chosen


def _maps(batch: Mapping[str, Tensor], n_sources: int) -> list[NDArray[np.float64]]:
    """Return one map (seq, seq + terms) per source."""
    maps = draw_maps(
        batch["knowledge_maps"],
        batch["knowledge_weights"].double(),
        n_channels=n_sources,
        n_tokens=batch["input_ids"].shape[1],
        n_terms=batch["knowledge_terms"].shape[1] if "knowledge_terms" in batch else 0,
    )
    return [drawn.cpu().numpy() for drawn in maps[0]]


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


def _answer(model: PreTrainedModel, out: Any) -> dict[str, float] | None:
    """Return the probability of each label if the model classifies texts, else None."""
    logits = getattr(out, "logits", None)
    if logits is None or not type(model).__name__.endswith("ForSequenceClassification"):
        return None
    return dict(zip(label_names(model), probabilities(model, logits)[0].tolist(), strict=True))
