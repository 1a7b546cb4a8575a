"""METHODS section 3 transcribed literally: a BERT with entity streams in NumPy and Python loops, no torch.

Slow on purpose. It reads the model's weights by name and the batch as arrays, gives every mention its entity one by
one, and follows the formula line by line, word by word and entity by entity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from methods.kam_reference import Array, embed, linear, norm


def entities_of(batch: Mapping[str, Array], example: int, name: str, min_prior: float) -> dict[int, Array]:
    """Return the vector of each entity by the token on which it sits."""
    spans, candidates, priors, vectors = (
        batch[f"knowledge_{name}_{part}"][example] for part in ("spans", "candidates", "priors", "vectors")
    )
    mentions: list[tuple[int, int, Array]] = []
    for place, (start, end) in enumerate(spans):
        if end <= start:
            continue
        mine = [m for m in range(len(priors)) if priors[m] > 0 and candidates[m, 0] == place]
        if mine and priors[mine[0]] >= np.float32(min_prior):
            mentions.append((int(start), int(end), vectors[candidates[mine[0], 1]].astype(float)))
    mentions.sort(key=lambda mention: mention[0] - mention[1])  # the longest first; the sort keeps equals in order
    taken: list[tuple[int, int]] = []
    found: dict[int, Array] = {}
    for start, end, vector in mentions:
        if not any(outer <= start and end <= outer_end for outer, outer_end in taken):
            taken.append((start, end))
            found[start] = vector
    return dict(sorted(found.items()))


def new_norm(weights: Mapping[str, Array], name: str, x: Array) -> Array:
    """Return a layer norm of the new layers, whose epsilon is torch's own."""
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weights[f"{name}.weight"] + weights.get(f"{name}.bias", 0.0)


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(scores: Array) -> Array:
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def look(weights: Mapping[str, Array], name: str, entities: Array, n_heads: int) -> Array:
    """Return what each entity (n, e) sees of all entities."""
    query, value = (linear(weights, f"{name}.{part}", entities) for part in ("query", "value"))
    key = entities @ weights[f"{name}.key.weight"].T
    size = entities.shape[1] // n_heads
    seen = np.zeros_like(entities)
    for head in range(n_heads):
        part = slice(head * size, (head + 1) * size)
        for i in range(len(entities)):
            scores = np.array([query[i, part] @ key[j, part] / math.sqrt(size) for j in range(len(entities))])
            seen[i, part] = sum(share * value[j, part] for j, share in enumerate(softmax(scores)))
    return linear(weights, f"{name}.out", seen)


def fuse(
    weights: Mapping[str, Array], name: str, words: Array, entities: dict[int, Array], n_heads: int
) -> tuple[Array, dict[int, Array]]:
    """Return words (n, hidden) and entities behind one fusion."""
    places = list(entities)
    if places:
        stream = np.stack([entities[place] for place in places])
        stream = new_norm(
            weights, f"{name}.attention_norm", stream + look(weights, f"{name}.attention", stream, n_heads)
        )
        entities = dict(zip(places, stream, strict=True))
    new_words, new_entities = np.zeros_like(words), {}
    for i, word in enumerate(words):
        inside = weights[f"{name}.from_words.weight"] @ word + weights[f"{name}.from_words.bias"]
        if i in entities:
            inside = inside + weights[f"{name}.from_entities.weight"] @ entities[i]
        u = gelu(inside)
        fused = new_norm(weights, f"{name}.word_norm", word + linear(weights, f"{name}.to_words", u))
        if f"{name}.gate" in weights:
            new_words[i] = word + float(weights[f"{name}.gate"]) * (fused - word)
        else:
            new_words[i] = word + fused - new_norm(weights, f"{name}.word_norm", word)
        if i in entities and f"{name}.to_entities.weight" in weights:
            new_entities[i] = new_norm(
                weights, f"{name}.entity_norm", entities[i] + linear(weights, f"{name}.to_entities", u)
            )
    return new_words, new_entities


def block(weights: Mapping[str, Array], name: str, states: Array, real: Array, n_heads: int) -> Array:
    """Return the states (n, hidden) behind one block of a plain BERT."""
    own = f"{name}.attention.self"
    query, key, value = (linear(weights, f"{own}.{part}", states) for part in ("query", "key", "value"))
    size = states.shape[1] // n_heads
    context = np.zeros_like(states)
    for head in range(n_heads):
        part = slice(head * size, (head + 1) * size)
        for i in range(len(states)):
            scores = query[i, part] @ key[real][:, part].T / math.sqrt(size)
            context[i, part] = softmax(scores) @ value[real][:, part]
    states = norm(
        weights,
        f"{name}.attention.output.LayerNorm",
        states + linear(weights, f"{name}.attention.output.dense", context),
    )
    inner = gelu(linear(weights, f"{name}.intermediate.dense", states))
    return norm(weights, f"{name}.output.LayerNorm", states + linear(weights, f"{name}.output.dense", inner))


def forward(
    weights: Mapping[str, Array],
    batch: Mapping[str, Array],
    example: int,
    *,
    bases: Mapping[str, int],
    layers: range,
    n_layers: int,
    min_prior: float,
    bypass_empty: bool,
) -> Array:
    """Return the last hidden states (n, hidden) of one example; `bases` says how many heads each stream has."""
    states = embed(weights, batch["input_ids"][example], batch["token_type_ids"][example])
    real = batch["attention_mask"][example].astype(bool)
    streams = {name: entities_of(batch, example, name, min_prior) for name in bases}
    for layer in range(n_layers):
        states = block(weights, f"encoder.layer.{layer}", states, real, n_heads=2)
        if layer not in layers:
            continue
        for name, n_heads in bases.items():
            if streams[name] or not bypass_empty:
                fusion = f"knowledge.{name}.fusions.{layer - layers.start}"
                states, streams[name] = fuse(weights, fusion, states, streams[name], n_heads)
    return states
