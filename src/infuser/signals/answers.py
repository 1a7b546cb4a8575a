"""Logits become answers: labels with probabilities, entities, the words of a passage that answer a question."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import CheckpointError, InputError
from infuser.signals.align import Range
from infuser.signals.tags import FoundEntity
from infuser.types import PAIR_BREAK, Span
from infuser.words import Word, find_words

MAX_ANSWER_TOKENS = 30
"""The longest answer to a question, in tokens, by default."""


def check_finite(n_bad: int, n_all: int) -> None:
    """Raise CheckpointError if logits are infinite or not a number, which no label may be made of."""
    if n_bad:
        raise CheckpointError(
            f"The model answers with {n_bad} of {n_all} logits that are infinite or not a number. Its weights "
            "are damaged, or training diverged: take a good copy, or train it again with a lower learning rate."
        )


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    """Return the probabilities of logits (..., classes)."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def label_names(id2label: Mapping[Any, Any] | None, n_labels: int) -> list[str]:
    """Return the names of a classifier's labels, or the one name "score" if it answers with a number."""
    if n_labels == 1:
        return ["score"]
    return [str(name) for _, name in sorted((id2label or {}).items())]


def text_answer(names: Sequence[str], row: Sequence[float]) -> dict[str, Any]:
    """Return what a classifier says about a text: the label and its probabilities, or the score."""
    if len(names) == 1:
        return {"score": row[0]}
    shares = dict(zip(names, row, strict=True))
    return {"label": max(shares, key=lambda name: shares[name]), "probabilities": shares}


def several_answer(names: Sequence[str], row: Sequence[float]) -> dict[str, Any]:
    """Return what a classifier that gives a text any number of labels says: those that are likelier than not."""
    shares = dict(zip(names, row, strict=True))
    return {"labels": [name for name, share in shares.items() if share >= 0.5], "probabilities": shares}


def entity_answer(text: str, found: Sequence[FoundEntity]) -> dict[str, Any]:
    """Return the entities of a text as plain values."""
    listed = [
        {"start": start, "end": end, "label": label, "text": text[start:end], "probability": probability}
        for start, end, label, probability in found
    ]
    return {"entities": listed}


def in_pair(text: str, places: Sequence[tuple[int, int]]) -> list[Span]:
    """Return spans of the pair of a text, counted in characters of both joined."""
    begin = len(text) + len(PAIR_BREAK)
    return [Span(begin + start, begin + end) for start, end in places]


def passage_words(examples: Sequence[Mapping[str, Any]]) -> tuple[list[list[Word]], list[list[Span]]]:
    """Return the words of each passage, and their places in question and passage joined."""
    if any(example.get("pair") is None for example in examples):
        raise InputError("A question is answered from a passage: give texts (questions) and pairs (passages).")
    words = [find_words(example["pair"]) for example in examples]
    spans = [
        in_pair(example["text"], [word[:2] for word in found]) for example, found in zip(examples, words, strict=True)
    ]
    return words, spans


def passage_answer(passage: str, score: float, start: int, end: int) -> dict[str, Any]:
    """Return the answer to a question as plain values; `score` says how much better it is than no answer."""
    return {"answer": passage[start:end], "start": start, "end": end, "score": score}


def best_answer(
    logits: NDArray[Any], words: Sequence[Word], ranges: Sequence[Range], none: int, max_tokens: int
) -> tuple[float, int, int]:
    """Return the score of the best run of words that the encoder has read, against none, and where it stands.

    logits  (2, seq) of the first and of the last token
    none    the position of [CLS], which stands for no answer
    """
    kept = [(word, tokens) for word, tokens in zip(words, ranges, strict=True) if tokens is not None]
    firsts = np.array([tokens[0] for _, tokens in kept], np.int64)
    lasts = np.array([tokens[1] - 1 for _, tokens in kept], np.int64)
    n_tokens = lasts[None, :] - firsts[:, None] + 1
    allowed = np.triu(np.ones_like(n_tokens, bool)) & (n_tokens <= max_tokens)  # (first word, last word)
    if not allowed.any():
        return -math.inf, 0, 0
    scores = logits[0, firsts][:, None] + logits[1, lasts][None, :]
    first, last = divmod(int(np.where(allowed, scores, -math.inf).argmax()), len(kept))
    score = scores[first, last] - logits[0, none] - logits[1, none]
    return float(score), kept[first][0].start, kept[last][0].end
