"""METHODS section 1 transcribed literally: a BERT with KAM in NumPy and Python loops, no torch.

Slow on purpose. It reads the model's weights by name and the batch as arrays, draws the maps cell by cell, bounds the
weights one by one, convolves with nested loops, follows the formula line by line with alpha outside the kernel, and
attends to the text and, apart from it, to the terms that a token sees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray


def draw(
    batch: Mapping[str, Array], example: int, starts: list[int] | None, n_channels: int, *, cls_row: bool
) -> Array:
    """Return M (channels, n, n): the largest weight of the links that cover a cell. `starts`: channels by kind."""
    n = batch["input_ids"].shape[1]
    valid = batch["attention_mask"][example].astype(bool)
    maps = np.zeros((n_channels, n, n))
    for number, (box, weight) in enumerate(
        zip(batch["knowledge_boxes"][example], batch["knowledge_weights"][example], strict=True)
    ):
        channel, top, bottom, left, right = (int(x) for x in box)
        if channel < 0:
            continue
        if starts is not None:
            channel = starts[channel] + int(batch["knowledge_kinds"][example][number])
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
            covered = [j for j in range(n) if maps[channel, :, j].any() or maps[channel, j, :].any()]
            for j in covered:
                maps[channel, first, j] = maps[channel, j, first] = 1.0
    return maps


def tie(batch: Mapping[str, Array], example: int, n_pieces: int, *, scope: str, cls_row: bool) -> Array:
    """Return how much each token is tied to each piece of the terms, (n, pieces)."""
    n = batch["input_ids"].shape[1]
    valid = batch["attention_mask"][example].astype(bool)
    ties = np.zeros((n, n_pieces))
    for (_, _, top, bottom, begin, end), weight in zip(
        batch["knowledge_ties"][example], batch["knowledge_tie_weights"][example], strict=True
    ):
        for i in range(top, bottom):
            for piece in range(begin, end):
                ties[i, piece] = max(ties[i, piece], weight)
    of_text = ties.max(axis=0)
    if scope == "text":
        ties[:] = of_text
    elif cls_row:
        ties[int(np.flatnonzero(valid)[0])] = of_text
    ties[~valid] = 0
    return ties


def kernels(weights: Mapping[str, Array], own: str, settings: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return the kernel over scores and alpha times the kernel over maps, cell by cell."""
    alpha, limit = float(weights.get(f"{own}.knowledge.alpha", settings["alpha"])), settings["limit"]
    maps = weights[f"{own}.knowledge.maps"]
    strength = np.zeros(maps.shape)
    size = maps.shape[-1]
    for place in np.ndindex(maps.shape):
        grown = alpha * settings["map_step"] * maps[place]
        share = 1.0 if size == 1 else 0.75 if place[2:] == (size // 2, size // 2) else 0.25 / (size * size - 1)
        strength[place] = grown if limit == "off" else share * limit * math.tanh(grown / limit)
    identity = np.zeros((len(maps), len(maps), size, size))
    for head in range(len(maps)):
        identity[head, head, size // 2, size // 2] = 1.0
    if settings["fusion"] == "bias":
        return identity, strength
    scores = weights[f"{own}.knowledge.scores"]
    if limit != "off":
        n = len(maps) * size * size
        scores = identity + np.tanh(scores * n) / n
    return scores, strength


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
    starts: list[int] | None,
    settings: Mapping[str, Any],
) -> Array:
    """Return the last hidden states (n, hidden) of one example."""
    ids, real = batch["input_ids"][example], batch["attention_mask"][example].astype(bool)
    n = len(ids)
    states = embed(weights, ids, batch["token_type_ids"][example])
    maps = draw(batch, example, starts, n_channels, cls_row=settings["cls_row"])
    terms = batch.get("knowledge_terms")
    if terms is not None:
        term_states = embed(weights, terms[example], np.zeros(len(terms[example]), dtype=int))
        ties = tie(batch, example, len(terms[example]), scope=settings["term_scope"], cls_row=settings["cls_row"])

    size = states.shape[1] // n_heads
    fused_below = None
    for layer in range(n_layers):
        block = f"encoder.layer.{layer}"
        own = f"{block}.attention.self"
        query, key, value = (linear(weights, f"{own}.{name}", states) for name in ("query", "key", "value"))

        scores = np.zeros((n_heads, n, n))
        for head in range(n_heads):
            part = slice(head * size, (head + 1) * size)
            for i in range(n):
                for j in range(n):
                    if real[i] and real[j]:
                        scores[head, i, j] = query[i, part] @ key[j, part] / math.sqrt(size)
        if fused_below is not None and settings["fusion"] != "bias":
            gate = {"off": 0.0}.get(settings["residual"], settings["residual"])
            if gate == "learned":
                gate = float(weights[f"{own}.knowledge.gate"])
                gate = gate if settings["limit"] == "off" else 0.2 * math.tanh(gate / 0.2)
            scores = scores + gate * fused_below * real[:, None] * real[None, :]

        alpha = float(weights.get(f"{own}.knowledge.alpha", settings["alpha"]))
        if settings["fusion"] == "mean":
            fused = alpha * (scores + maps.sum(0)) / (1 + n_channels) + (1 - alpha) * scores
        else:
            of_scores, of_maps = kernels(weights, own, settings)
            semantic = convolve(scores, of_scores, weights.get(f"{own}.knowledge.bias"))
            fused = alpha * semantic + (1 - alpha) * scores + convolve(maps, of_maps, None)
        fused_below = fused

        context = np.zeros((n, states.shape[1]))
        for head in range(n_heads):
            part = slice(head * size, (head + 1) * size)
            for i in range(n):
                text = {j: math.exp(fused[head, i, j]) for j in range(n) if real[j]}
                total = sum(text.values())
                read = sum(weight / total * value[j, part] for j, weight in text.items())
                context[i, part] = read
                if terms is None:
                    continue
                term_key, term_value = (linear(weights, f"{own}.{name}", term_states) for name in ("key", "value"))
                seen = {
                    piece: math.exp(query[i, part] @ term_key[piece, part] / math.sqrt(size)) * ties[i, piece]
                    for piece in range(len(term_states))
                    if ties[i, piece] > 0
                }
                if seen:
                    of_terms = sum(seen.values())
                    said = sum(weight / of_terms * term_value[piece, part] for piece, weight in seen.items())
                    gate = settings["term_gate"]
                    if gate == "learned":
                        grown = settings["term_step"] * float(weights[f"{own}.knowledge.term_gates"][head])
                        gate = math.tanh(max(grown, 0.0))
                    context[i, part] += gate * of_terms / (of_terms + total) * (said - read)

        states = norm(
            weights,
            f"{block}.attention.output.LayerNorm",
            states + linear(weights, f"{block}.attention.output.dense", context),
        )
        inner = linear(weights, f"{block}.intermediate.dense", states)
        inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        states = norm(weights, f"{block}.output.LayerNorm", states + linear(weights, f"{block}.output.dense", inner))
    return states
