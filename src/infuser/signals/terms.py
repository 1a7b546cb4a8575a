"""Terms become token ids: spelled by the host's tokenizer, placed one behind the other, and tied to tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infuser.signals.align import Aligned

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MOST_SPELLINGS = 100_000
"""Terms whose token ids are cached; beyond that the cache starts empty again."""


class Speller:
    """Spells terms with a tokenizer and caches their token ids."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._cache: dict[str, list[int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}  # workers fill their own

    def __call__(self, terms: Iterable[str]) -> dict[str, list[int]]:
        """Return the token ids of terms, empty where the tokenizer knows no piece; new ones are spelled in one call."""
        if len(self._cache) > _MOST_SPELLINGS:
            self._cache = {}  # not cleared: another thread may be reading the old one
        cache = self._cache
        wanted = list(dict.fromkeys(terms))
        new = [term for term in wanted if term not in cache]
        if new:
            # the space makes the first piece one that begins a word, for byte-level BPE and SentencePiece
            spelled = self._tokenizer([f" {term.strip()}" for term in new], add_special_tokens=False, truncation=False)
            unknown = self._tokenizer.unk_token_id
            for term, ids in zip(new, spelled["input_ids"], strict=True):
                readable = bool(term.strip()) and any(piece != unknown for piece in ids)
                cache[term] = list(ids) if readable else []
        return {term: cache[term] for term in wanted}

    def fitting(self, lines: Sequence[str], room: int) -> list[str]:
        """Return the first lines, as many as fit into so many tokens with a separator behind each."""
        spellings, kept = self(lines), list[str]()
        for line in lines:
            room -= len(spellings[line]) + 1
            if room < 0:
                break
            kept.append(line)
        return kept


def term_arrays(aligned: Sequence[Aligned], spell: Speller, *, max_tokens: int) -> dict[str, NDArray[Any]]:
    """Return ids, ties and weights of a batch's terms, at most so many tokens per text; none without terms."""
    spellings = spell(term for one in aligned for term in one.terms)
    placed = [_place(one, spellings, max_tokens) for one in aligned]
    if not any(ids for ids, _, _ in placed):
        return {}
    ids, ties, weights = zip(*placed, strict=True)
    return {
        "knowledge_terms": padded(ids, 0),
        "knowledge_ties": padded(ties, (0, 0, 0, 0, 0, 0)),
        "knowledge_tie_weights": padded(weights, 0.0),
    }


def no_terms(n_texts: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of texts without any term."""
    return {
        "knowledge_terms": np.zeros((n_texts, 1), np.int64),
        "knowledge_ties": np.zeros((n_texts, 1, 6), np.int64),
        "knowledge_tie_weights": np.zeros((n_texts, 1), np.float32),
    }


def _place(
    aligned: Aligned, spellings: Mapping[str, list[int]], max_tokens: int
) -> tuple[list[int], list[tuple[int, ...]], list[float]]:
    """Return the token ids of a text's terms, which tokens are tied to which of them, and the ties' weights."""
    ids: list[int] = []
    places: dict[int, tuple[int, int]] = {}
    for place, term in enumerate(aligned.terms):
        pieces = spellings[term]  # whole terms only: half a word says something else
        if pieces and len(ids) + len(pieces) <= max_tokens:
            places[place] = (len(ids), len(ids) + len(pieces))
            ids += pieces
    ties, weights = [], []
    for (*tied, place), weight in zip(aligned.ties, aligned.tie_weights, strict=True):
        if place in places:
            ties.append((*tied, *places[place]))
            weights.append(weight)
    return ids, ties, weights


def padded(rows: Sequence[Sequence[Any]], filler: Any) -> NDArray[Any]:
    """Return rows as one array, filled up to the longest (at least one item); float32 if the filler is a float."""
    longest = max(1, *map(len, rows))
    full = [[*row, *[filler] * (longest - len(row))] for row in rows]
    return np.array(full, np.float32 if isinstance(filler, float) else np.int64)
