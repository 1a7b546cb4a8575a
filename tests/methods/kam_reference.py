"""METHODS section 1 transcribed literally: a BERT with KAM in NumPy and Python loops, no torch.

Slow on purpose. It reads the model's weights by name and the batch as arrays, draws the maps cell by cell, keeps the
auxiliary terms as real rows and columns of the score matrix (a zero row and column before them, trimmed after
attention), convolves with nested loops, and follows the formula line by line with alpha outside the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

Array = np.ndarray


def draw(batch: Mapping[str, Array], example: int, n_channels: int, n_terms: int, *, cls_row: bool) -> Array:
    """Return M (channels, n + n_terms, n + n_terms): the largest weight of the links that cover a cell."""
    n = batch["input_ids"].shape[1]
    valid = batch["attention_mask"][example].astype(bool)
    maps = np.zeros((n_channels, n + n_terms, n + n_terms))
    for box, weight in zip(batch["knowledge_boxes"][example], batch["knowledge_weights"][example], strict=True):
        channel, top, bottom, left, right = (int(x) for x in box)
        if channel < 0:
            continue
        for i in range(top, bottom):
            for j in range(left, right):
                maps[channel, i, j] = max(maps[channel, i, j], weight)
                maps[channel, j, i] = max(maps[channel, j, i], weight)
    for channel in range(n_channels):
        for i in range(n):
            if not valid[i]:
                maps[channel, i, :] = maps[channel, :, i] = 0
    if cls_row:
        first = int(np.flatnonzero(valid)[0])
        for channel in range(n_channels):
            covered = [j for j in range(n + n_terms) if maps[channel, :, j].any() or maps[channel, j, :].any()]
            for j in covered:
                maps[channel, first, j] = maps[channel, j, first] = 1.0
    return maps


def convolve(stack: Array, kernel: Array, bias: Array | None) -> Array:
    """Return the "same" convolution of (channels, rows, columns) with zero padding, by loops."""
    n_out, n_in, size, _ = kernel.shape
    reach = size // 2
    _, n_rows, n_columns = stack.shape
    out = np.zeros((n_out, n_rows, n_columns))
    for o in range(n_out):
        for i in range(n_rows):
            for j in range(n_columns):
                total = 0.0 if bias is None else float(bias[o])
                for dy in range(-reach, reach + 1):
                    for dx in range(-reach, reach + 1):
                        if 0 <= i + dy < n_rows and 0 <= j + dx < n_columns:
                            for c in range(n_in):
                                total += kernel[o, c, dy + reach, dx + reach] * stack[c, i + dy, j + dx]
                out[o, i, j] = total
    return out


def linear(weights: Mapping[str, Array], name: str, x: Array) -> Array:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def norm(weights: Mapping[str, Array], name: str, x: Array) -> Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-12) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def embed(weights: Mapping[str, Array], ids: Array, segments: Array) -> Array:
    words = weights["embeddings.word_embeddings.weight"][ids]
    positions = weights["embeddings.position_embeddings.weight"][np.arange(len(ids))]
    return norm(
        weights,
        "embeddings.LayerNorm",
        words + positions + weights["embeddings.token_type_embeddings.weight"][segments],
    )


def forward(
    weights: Mapping[str, Array],
    batch: Mapping[str, Array],
    example: int,
    *,
    n_heads: int,
    n_layers: int,
    n_channels: int,
    alpha: float,
    map_step: float,
    fusion: str,
    gates: float | None,
    cls_row: bool,
    gap: int,
) -> Array:
    """Return the last hidden states (n, hidden) of one example. `gates` None: learned ones, else this fixed weight."""
    ids, valid = batch["input_ids"][example], batch["attention_mask"][example].astype(bool)
    n = len(ids)
    terms = batch.get("knowledge_terms")
    term_ids = np.array([], dtype=int) if terms is None else terms[example]
    n_terms = len(term_ids)
    states = embed(weights, ids, batch["token_type_ids"][example])
    term_states = embed(weights, np.where(term_ids < 0, 0, term_ids), np.zeros(n_terms, dtype=int))

    # the square of tokens, gap and terms; `real` marks what takes part
    side = n + (gap + n_terms if n_terms else 0)
    places = np.concatenate([np.arange(n), np.arange(side - n_terms, side)]).astype(int)
    real = np.zeros(side, dtype=bool)
    real[:n] = valid
    real[side - n_terms :] = term_ids >= 0
    maps = np.zeros((n_channels, side, side))
    maps[:, places[:, None], places[None, :]] = draw(batch, example, n_channels, n_terms, cls_row=cls_row)

    size = states.shape[1] // n_heads
    fused_below = None
    for layer in range(n_layers):
        block = f"encoder.layer.{layer}"
        own = f"{block}.attention.self"
        inputs = np.zeros((side, states.shape[1]))
        inputs[:n], inputs[side - n_terms :] = states, term_states
        query, key, value = (linear(weights, f"{own}.{name}", inputs) for name in ("query", "key", "value"))

        scores = np.zeros((n_heads, side, side))
        for head in range(n_heads):
            part = slice(head * size, (head + 1) * size)
            for i in range(side):
                for j in range(side):
                    if real[i] and real[j]:
                        scores[head, i, j] = query[i, part] @ key[j, part] / math.sqrt(size)
        if fused_below is not None:
            gate = gates if gates is not None else float(weights[f"{own}.knowledge.gate"])
            scores = scores + gate * fused_below * real[:, None] * real[None, :]

        if fusion == "mean":
            semantic = (scores + maps.sum(0)) / (1 + n_channels)
        else:
            kernel = np.concatenate(
                [weights[f"{own}.knowledge.scores"], map_step * weights[f"{own}.knowledge.maps"]], axis=1
            )
            semantic = convolve(np.concatenate([scores, maps]), kernel, weights.get(f"{own}.knowledge.bias"))
        fused = alpha * semantic + (1 - alpha) * scores
        fused_below = fused

        context = np.zeros((n, states.shape[1]))
        for head in range(n_heads):
            part = slice(head * size, (head + 1) * size)
            for i in range(n):
                logits = {j: fused[head, i, j] for j in range(side) if real[j]}
                for j in logits:
                    if j >= n:
                        logits[j] += weights[f"{own}.knowledge.terms"][head]
                top = max(logits.values())
                total = sum(math.exp(value_ - top) for value_ in logits.values())
                for j, logit in logits.items():
                    context[i, part] += math.exp(logit - top) / total * value[j, part]

        states = norm(
            weights,
            f"{block}.attention.output.LayerNorm",
            states + linear(weights, f"{block}.attention.output.dense", context),
        )
        inner = linear(weights, f"{block}.intermediate.dense", states)
        inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        states = norm(weights, f"{block}.output.LayerNorm", states + linear(weights, f"{block}.output.dense", inner))
    return states
