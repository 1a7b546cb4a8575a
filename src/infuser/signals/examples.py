"""Validates examples and turns them into text rows, tokenizer inputs and arrays of labels."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.types import Annotations, join_pair

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IGNORED = -100
"""The label that transformers' losses leave out."""
_LONG = 8
"""A text of more characters than this many times the longest input is worth a look before it is tokenised."""
_REACH = 1000
"""How far a text is kept beyond the last token that can be read, if the word there does not end before."""
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class InputRow:
    """One sequence for the encoder."""

    text: str
    pair: str | None = None
    annotations: tuple[Annotations, ...] | None = None
    """What the sources found; None if they have not annotated it yet."""
    appended_at: int | None = None
    """Where in `pair` begins what was appended to the input; None if nothing was."""

    @property
    def joined(self) -> str:
        """The text that sources read."""
        return join_pair(self.text, self.pair)


def read_rows(examples: Sequence[Mapping[str, Any]]) -> tuple[list[InputRow], int | None]:
    """Return the rows of all examples and, for multiple choice, how many rows each example has."""
    if not len(examples):
        raise InputError("The batch is empty. Give at least one text.")
    choices = [_choices_of(example, f"Example {i} of the batch") for i, example in enumerate(examples)]
    rows = [row for of_one in choices for row in of_one]
    if not any(isinstance(example.get(side), list | tuple) for example in examples for side in ("text", "pair")):
        return rows, None
    counts = {len(of_one) for of_one in choices}
    if len(counts) > 1:
        raise InputError(f"The examples of a batch have {sorted(counts)} choices. Give all the same number of choices.")
    return rows, counts.pop()


def rows_of(texts: Sequence[str], pairs: Sequence[str | None] | None) -> list[InputRow]:
    """Return the rows of texts and, if given, one pair or None for each."""
    return read_rows(examples_of(texts, pairs))[0]


def examples_of(texts: Sequence[str], pairs: Sequence[str | None] | None) -> list[dict[str, Any]]:
    """Return texts and pairs as examples without labels."""
    texts = [texts] if isinstance(texts, str) else texts
    pairs = [pairs] if isinstance(pairs, str) else pairs
    if pairs is not None and len(pairs) != len(texts):
        raise InputError(f"There are {len(texts)} texts but {len(pairs)} pairs. Give one pair (or None) per text.")
    return [{"text": text, "pair": None if pairs is None else pairs[i]} for i, text in enumerate(texts)]


def _choices_of(example: Mapping[str, Any], where: str) -> list[InputRow]:
    if "text" not in example:
        raise InputError(
            f"{where} has no 'text' but {sorted(example)}. Rename its columns to 'text', 'pair' and 'label'; under "
            "transformers.Trainer also set remove_unused_columns=False."
        )
    text, pair, found = example["text"], example.get("pair"), example.get("annotations")
    counts = {len(side) for side in (text, pair) if isinstance(side, list | tuple)}
    if not counts:
        return [_row(text, pair, found, where)]
    if len(counts) > 1 or 0 in counts:
        raise InputError(f"{where} lists {sorted(counts)} choices as text and pair. Give one of each per choice.")
    n_choices = counts.pop()
    texts = text if isinstance(text, list | tuple) else [text] * n_choices
    pairs = pair if isinstance(pair, list | tuple) else [pair] * n_choices
    each = [None] * n_choices if found is None else found
    if len(each) != n_choices:
        raise InputError(f"{where} has {n_choices} choices but annotations for {len(each)}. Give one tuple per choice.")
    return [_row(*choice, f"{where}, choice {i},") for i, choice in enumerate(zip(texts, pairs, each, strict=True))]


def _row(text: object, pair: object, annotations: Sequence[Annotations] | None, where: str) -> InputRow:
    checked = _string(text, "text", where)
    return InputRow(
        checked,
        None if pair is None else _string(pair, "pair", where),
        None if annotations is None else tuple(annotations),
    )


def _string(value: object, side: str, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(
            f"{where} has a {side} of type {type(value).__name__} ({str(value)[:40]}), not a string. An empty cell of "
            "a table is often the cause: drop the row or fill it with ''."
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where} has a {side} with half of a character (a lone surrogate) at place {error.start}. Read the file "
            "with encoding='utf-8', errors='replace'."
        ) from error
    return value


def tokenizer_inputs(
    tokenizer: PreTrainedTokenizerBase, rows: Sequence[InputRow], limit: int | None
) -> list[str | tuple[str, str]]:
    """Return texts and pairs for a tokenizer that will cut them to `limit` tokens; it keeps the same tokens of each.

    Very long pairs are shortened before: when a pair is cut, the tokenizers library also builds every combination of
    the parts that it cut off, the product of both lengths, which can exhaust the memory of a machine.
    """
    cuts_pairs = limit is not None and tokenizer.truncation_side == "right"
    inputs: list[str | tuple[str, str]] = []
    for row in rows:
        if row.pair is None:
            inputs.append(row.text)
        elif cuts_pairs and limit is not None:
            inputs.append((shorten(tokenizer, row.text, limit), shorten(tokenizer, row.pair, limit)))
        else:
            inputs.append((row.text, row.pair))
    return inputs


def shorten(tokenizer: PreTrainedTokenizerBase, text: str, limit: int) -> str:
    """Return the beginning of a text that holds its first `limit` tokens, up to the end of a word if one is near."""
    if len(text) <= _LONG * limit:
        return text
    encoding = tokenizer(text, add_special_tokens=False, truncation=True, max_length=limit, return_offsets_mapping=True)
    if len(encoding["input_ids"]) < limit:
        return text
    end = int(encoding["offset_mapping"][-1][1])
    space = _SPACE.search(text, end, end + _REACH)
    return text[: space.start() if space else end + _REACH]


def read_labels(
    examples: Sequence[Mapping[str, Any]], lengths: Sequence[int], *, n_tokens: int, padding_side: str
) -> dict[str, NDArray[Any]]:
    """Return the labels of a batch: one number per example, or one per token padded with -100 to `n_tokens`.

    `lengths` are the examples' own token counts; question answering's `start_positions` and `end_positions` come along.
    """
    labels = {}
    for name, spellings in (
        ("labels", ("labels", "label")),
        ("start_positions", ("start_positions",)),
        ("end_positions", ("end_positions",)),
    ):
        values: list[Any] = [next((e[s] for s in spellings if e.get(s) is not None), None) for e in examples]
        missing = [i for i, value in enumerate(values) if value is None]
        if len(missing) == len(values):
            continue
        if missing:
            raise InputError(f"Examples {missing[:8]} of the batch have no {name}, the others do. Label all or none.")
        plain = [value.tolist() if hasattr(value, "tolist") else value for value in values]  # tensors, NumPy scalars
        if all(isinstance(value, list | tuple) and _all_whole(value) for value in plain):
            labels[name] = _per_token(plain, lengths, n_tokens, padding_side)
        else:
            labels[name] = _per_example(plain, name)
    return labels


def _all_whole(values: Sequence[object]) -> bool:
    return all(isinstance(value, Integral) for value in values)


def _all_finite(values: Sequence[object]) -> bool:
    return all(isinstance(value, Real) and math.isfinite(value) for value in values)


def _per_example(values: list[Any], name: str) -> NDArray[Any]:
    if _all_whole(values):
        return np.array([int(value) for value in values], np.int64)
    if _all_finite(values):
        return np.array([float(value) for value in values], np.float32)
    lists = [value for value in values if isinstance(value, list | tuple) and _all_finite(value)]
    if len(lists) == len(values) and len({len(value) for value in lists}) == 1:
        return np.array(lists, np.float32)  # several yes-or-no labels per text
    strange = next((value for value in values if not isinstance(value, Integral)), values[0])
    raise InputError(
        f"Cannot make {name} of {str(strange)[:60]!r} ({type(strange).__name__}). Labels are whole numbers (classes), "
        "finite floats (scores), lists of whole numbers (one per token) or, all of one length, lists of floats "
        "(several labels per text)."
    )


def _per_token(values: list[Sequence[int]], lengths: Sequence[int], n_tokens: int, padding_side: str) -> NDArray[Any]:
    rows = []
    for i, (value, length) in enumerate(zip(values, lengths, strict=True)):
        if len(value) != length:
            raise InputError(
                f"Example {i} of the batch has {len(value)} token labels but {length} tokens, special tokens included "
                f"and after truncation. Give one label per token, {IGNORED} where none counts."
            )
        padding = [IGNORED] * (n_tokens - length)
        rows.append([*padding, *value] if padding_side == "left" else [*value, *padding])
    return np.array(rows, np.int64)
