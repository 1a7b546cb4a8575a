"""Very long pairs are shortened before they are tokenised.

When a pair is cut to what the encoder reads, the tokenizers library also builds every combination of the parts that it
cut off: the product of both lengths, which for two texts of 100,000 characters can exhaust the memory of a machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from infuser.signals.examples import InputRow

_LONG = 8
"""A text of more characters than this many times the longest input is worth a look before it is tokenised."""
_REACH = 1000
"""How far a text is kept beyond the last token that can be read, if the word there does not end before."""
_SPACE = re.compile(r"\s")


def tokenizer_inputs(
    tokenizer: PreTrainedTokenizerBase, rows: Sequence[InputRow], limit: int | None
) -> list[str | tuple[str, str]]:
    """Return texts and pairs for a tokenizer that will cut them to `limit` tokens; it keeps the same tokens of each."""
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
