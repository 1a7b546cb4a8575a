"""Text behind an input: the input itself is cut to make room for it, so that what was appended is always read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from infuser.signals.examples import InputRow, shorten

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase


def append_text(tokenizer: PreTrainedTokenizerBase, row: InputRow, text: str, limit: int | None) -> InputRow:
    """Return a row with a text behind it: as its pair or, after a separator, behind its pair.

    What exceeds `limit` tokens is cut from the end of the row's own text and pair, the longer one first. Both stay
    prefixes, so positions in them keep their meaning. A tokenizer that cuts on the left keeps the end of a pair anyway.
    """
    if limit is None or tokenizer.truncation_side != "right":
        return _joined(tokenizer, row, text)
    row = replace(
        row,
        text=shorten(tokenizer, row.text, limit),
        pair=None if row.pair is None else shorten(tokenizer, row.pair, limit),
    )
    joined = _joined(tokenizer, row, text)
    if _n_tokens(tokenizer, joined) <= limit:
        return joined
    ends = [_ends(tokenizer, row.text), _ends(tokenizer, row.pair or "")]
    sizes = [len(of_side) for of_side in ends]
    # once, or again where a tokenizer takes more pieces for a text that is cut
    while (excess := _n_tokens(tokenizer, joined) - limit) > 0 and any(sizes):
        sizes = _longest_first(sizes, max(0, sum(sizes) - excess))
        text_end, pair_end = (of_side[size - 1] if size else 0 for of_side, size in zip(ends, sizes, strict=True))
        cut = replace(row, text=row.text[:text_end], pair=None if row.pair is None else row.pair[:pair_end])
        joined = _joined(tokenizer, cut, text)
    return joined


def hide_appended(encoding: BatchEncoding, rows: Sequence[InputRow]) -> None:
    """Make appended tokens special ones: they stand for no characters of the text or of its pair."""
    for place, row in enumerate(rows):
        if row.appended_at is None:
            continue
        offsets = encoding["offset_mapping"][place]
        tokens = zip(offsets, encoding.sequence_ids(place), strict=True)
        hidden = [segment == 1 and start >= row.appended_at for (start, _), segment in tokens]
        encoding["offset_mapping"][place] = [(0, 0) if hide else one for one, hide in zip(offsets, hidden, strict=True)]
        if "special_tokens_mask" in encoding:
            masks = zip(encoding["special_tokens_mask"][place], hidden, strict=True)
            encoding["special_tokens_mask"][place] = [int(mask or hide) for mask, hide in masks]


def most_appended(tokenizer: PreTrainedTokenizerBase, limit: int) -> int:
    """Return how many tokens can be appended to an input of at most `limit` so that some of its own are left."""
    n_own = limit - tokenizer.num_special_tokens_to_add(pair=True)
    return n_own - 2 if tokenizer.truncation_side == "right" else n_own // 2


def _joined(tokenizer: PreTrainedTokenizerBase, row: InputRow, text: str) -> InputRow:
    if row.pair is None:
        return replace(row, pair=text, appended_at=0)
    return replace(row, pair=f"{row.pair} {tokenizer.sep_token or '.'} {text}", appended_at=len(row.pair))


def _ends(tokenizer: PreTrainedTokenizerBase, side: str) -> list[int]:
    """Return where each token of a text ends, in characters."""
    encoding = tokenizer(side, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return [int(end) for _, end in encoding["offset_mapping"]]


def _n_tokens(tokenizer: PreTrainedTokenizerBase, row: InputRow) -> int:
    return len(tokenizer(row.text, row.pair, verbose=False)["input_ids"])


def _longest_first(sizes: Sequence[int], total: int) -> list[int]:
    """Return the sizes of two texts cut to so many tokens in all, as tokenizers cut a pair: the longer one first."""
    first, second = sizes
    short = min(first, second, total // 2)
    return [short, total - short] if first <= second else [total - short, short]
