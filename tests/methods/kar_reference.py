"""METHODS section 2 transcribed literally: a BERT with KAR in NumPy and Python loops, no torch.

Slow on purpose. It reads the model's weights by name and the batch as arrays, keeps for each mention a list of its own
candidates, and follows the formula mention by mention and word by word. Nothing in it is padded or masked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Weights = Mapping[str, Array]


@dataclass
class Mention:
    """A span of tokens, and prior and vector of everything it may mean."""

    start: int
    end: int
    candidates: list[tuple[float, Array]]


def mentions_of(batch: Mapping[str, Array], base: str, example: int) -> list[Mention]:
    """Return what one knowledge base found in one text of a batch."""
    spans, candidates, priors, vectors = (
        batch[f"knowledge_{base}_{part}"][example] for part in ("spans", "candidates", "priors", "vectors")
    )
    return [
        Mention(
            int(start),
            int(end),
            [
                (float(prior), vectors[vector].astype(np.float64))
                for (of_span, vector), prior in zip(candidates, priors, strict=True)
                if prior > 0 and of_span == place
            ],
        )
        for place, (start, end) in enumerate(spans)
        if end > start
    ]


def linear(weights: Weights, name: str, x: Array) -> Array:
    y = x @ weights[f"{name}.weight"].T
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


def norm(weights: Weights, name: str, x: Array, eps: float) -> Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def multi_head(query: Array, key: Array, value: Array, n_heads: int) -> Array:
    """Return (n, size): every query looks at all keys, each head at its own part of the numbers."""
    size = query.shape[1] // n_heads
    mixed = np.zeros_like(query)
    for head in range(n_heads):
        part = slice(head * size, (head + 1) * size)
        for i in range(len(query)):
            shares = softmax(np.array([query[i, part] @ k[part] / math.sqrt(size) for k in key]))
            mixed[i, part] = sum(share * v[part] for share, v in zip(shares, value, strict=True))
    return mixed


def attend(weights: Weights, name: str, queries: Array, things: Array, n_heads: int) -> Array:
    query, key, value = (
        linear(weights, f"{name}.{part}", x) for part, x in (("query", queries), ("key", things), ("value", things))
    )
    return linear(weights, f"{name}.out", multi_head(query, key, value, n_heads))


def feed_forward(weights: Weights, name: str, x: Array) -> Array:
    return linear(weights, f"{name}.2", gelu(linear(weights, f"{name}.0", x)))


def kar(
    weights: Weights, name: str, states: Array, mentions: list[Mention], *, threshold: float, n_heads: int
) -> Array:
    """Return H' (n, hidden) of H (n, hidden); `name` is where the weights of this knowledge base are."""
    if not mentions:
        return states
    eps, linker = 1e-5, f"{name}.linker"
    words = linear(weights, f"{name}.project", states)  # H_p = H W1 + b1
    size = words.shape[1]
    pooled = []
    for mention in mentions:
        inside = words[mention.start : mention.end]
        shares = softmax(np.array([float(word @ weights[f"{linker}.pooling.weight"][0]) for word in inside]))
        pooled.append(sum(share * word for share, word in zip(shares, inside, strict=True)))
    spans = norm(weights, f"{linker}.span_norm", np.stack(pooled), eps)
    # TransformerBlock(S), as in BERT: each half with a residual and a norm behind it
    seen = spans + attend(weights, f"{linker}.block.attention", spans, spans, n_heads)
    seen = norm(weights, f"{linker}.block.attention_norm", seen, eps)
    spans = norm(
        weights, f"{linker}.block.norm", seen + feed_forward(weights, f"{linker}.block.feed_forward", seen), eps
    )
    knowing = []
    for mention, span in zip(mentions, spans, strict=True):
        kept = []
        for prior, vector in mention.candidates:
            features = np.array([prior, float(span @ vector) / math.sqrt(size)])
            inner = np.maximum(linear(weights, f"{linker}.scorer.0", features), 0)
            psi = float(linear(weights, f"{linker}.scorer.2", inner)[0])
            if psi >= threshold:
                kept.append((psi, vector))
        if kept:
            shares = softmax(np.array([psi for psi, _ in kept]))
            knowing.append(span + sum(share * vector for share, (_, vector) in zip(shares, kept, strict=True)))
        else:
            knowing.append(span + weights[f"{name}.null"])
    entities = norm(weights, f"{name}.entity_norm", np.stack(knowing), eps)
    read = feed_forward(weights, f"{name}.feed_forward", attend(weights, f"{name}.attention", words, entities, n_heads))
    return states + float(weights[f"{name}.gate"]) * linear(weights, f"{name}.back", read)


def bert_block(weights: Weights, block: str, states: Array, real: Array, n_heads: int) -> Array:
    own, eps = f"{block}.attention.self", 1e-12
    query, key, value = (linear(weights, f"{own}.{part}", states) for part in ("query", "key", "value"))
    context = linear(weights, f"{block}.attention.output.dense", multi_head(query, key[real], value[real], n_heads))
    states = norm(weights, f"{block}.attention.output.LayerNorm", states + context, eps)
    inner = gelu(linear(weights, f"{block}.intermediate.dense", states))
    return norm(weights, f"{block}.output.LayerNorm", states + linear(weights, f"{block}.output.dense", inner), eps)


def forward(
    weights: Weights,
    batch: Mapping[str, Array],
    example: int,
    *,
    n_layers: int,
    host_heads: int,
    layers: Mapping[str, int],
    heads: Mapping[str, int],
    threshold: float,
) -> Array:
    """Return the last hidden states (n, hidden) of one text; `layers` says behind which block each base stands."""
    ids, segments = batch["input_ids"][example], batch["token_type_ids"][example]
    real = batch["attention_mask"][example].astype(bool)
    embedded = weights["embeddings.word_embeddings.weight"][ids]
    embedded = embedded + weights["embeddings.position_embeddings.weight"][np.arange(len(ids))]
    embedded = embedded + weights["embeddings.token_type_embeddings.weight"][segments]
    states = norm(weights, "embeddings.LayerNorm", embedded, 1e-12)
    for number in range(n_layers):
        states = bert_block(weights, f"encoder.layer.{number}", states, real, host_heads)
        for base, layer in layers.items():
            if layer == number:
                mentions = mentions_of(batch, base, example)
                states = kar(weights, f"knowledge.{base}", states, mentions, threshold=threshold, n_heads=heads[base])
    return states
