"""Words that a tokenizer holds as one piece: what a model with a head for masked words can rank."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from infuser.errors import InputError
from infuser.tables.files import BadRow, read_lines

_log = logging.getLogger(__name__)


def ranked_words(tokenizer: PreTrainedTokenizerBase, path: str | None = None) -> dict[int, str]:
    """Return words by their token ids: those of a file with one word per line, or every piece that is a whole word.

    Words of the file that this tokenizer cuts into pieces, or does not know, are left out.
    """
    if path is None:
        decoded = [word.strip() for word in tokenizer.batch_decode([[number] for number in range(len(tokenizer))])]
        pieces = [(number, word) for number, word in enumerate(decoded) if word.isalnum()]
        spelled = spell(tokenizer, [word for _, word in pieces])
        # a piece from within words may look like a word, but that word is another piece, or several
        words = {number: word for (number, word), ids in zip(pieces, spelled, strict=True) if ids == [number]}
        told = f"the tokenizer's {len(tokenizer)} pieces"
    else:
        listed, words = _lines(Path(path)), {}
        for word, ids in zip(listed, spell(tokenizer, listed), strict=True):
            if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
                words.setdefault(ids[0], word)
        told = f"the {len(listed)} words in {path}"
    if not words:
        raise InputError(f"None of {told} is a word that the tokenizer has as one piece, so nothing can be ranked.")
    _log.info("%d of %s are ranked.", len(words), told)
    return words


def spell(tokenizer: PreTrainedTokenizerBase, words: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each word as it stands behind a space."""
    if not words:
        return []
    spelled = tokenizer([f" {word.strip()}" for word in words], add_special_tokens=False, truncation=False)
    return [list(ids) for ids in spelled["input_ids"]]


def _lines(path: Path) -> list[str]:
    words = []
    for _, line in read_lines(path):
        if isinstance(line, BadRow):
            raise line
        if word := line.strip():
            words.append(word)
    return words
