"""A tokenizer without transformers: what batch makers ask of one, on top of the tokenizers library."""

from __future__ import annotations

import threading
from collections.abc import ItemsView, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Encoding, Tokenizer

from infuser.errors import CheckpointError

_SPECIAL = ("pad_token", "sep_token", "unk_token")
_SETTINGS = ("padding_side", "truncation_side", "model_max_length", "model_input_names", "pad_token_type_id", *_SPECIAL)


def tokenizer_settings(tokenizer: Any) -> dict[str, Any]:
    """Return what a tokenizer of transformers knows beside its tokenizer.json."""
    return {name: getattr(tokenizer, name) for name in _SETTINGS}


class TokenizedTexts:
    """The tokens of texts, by the names that transformers gives them."""

    def __init__(self, data: dict[str, Any], encodings: Sequence[Encoding]) -> None:
        self._data, self._encodings = data, encodings

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def items(self) -> ItemsView[str, Any]:
        """Return names and lists, one row per text."""
        return self._data.items()

    def sequence_ids(self, place: int) -> list[int | None]:
        """Return of each token of a row whether it is of the text (0), of the pair (1), or special."""
        return list(self._encodings[place].sequence_ids)

    def word_ids(self, place: int) -> list[int | None]:
        """Return of each token of a row the number of its word."""
        return list(self._encodings[place].word_ids)


class TextTokenizer:
    """Tokenises as the fast tokenizer of transformers that it was exported from; safe to use in several threads."""

    is_fast = True

    def __init__(self, backend: Tokenizer, settings: dict[str, Any]) -> None:
        self._backend = backend
        self._lock = threading.Lock()  # how the backend cuts and pads is a state of it
        self.padding_side: str = settings["padding_side"]
        self.truncation_side: str = settings["truncation_side"]
        self.model_max_length: int = settings["model_max_length"]
        self.model_input_names: list[str] = settings["model_input_names"]
        self.pad_token: str = settings["pad_token"]
        self.sep_token: str | None = settings["sep_token"]
        self._pad_type: int = settings["pad_token_type_id"]
        self._pad_id = backend.token_to_id(self.pad_token)
        unknown = settings["unk_token"]
        self.unk_token_id = None if unknown is None else backend.token_to_id(unknown)

    @classmethod
    def load(cls, path: Path, settings: dict[str, Any]) -> TextTokenizer:
        """Return the tokenizer of a tokenizer.json."""
        try:
            return cls(Tokenizer.from_file(str(path)), settings)
        except Exception as error:  # a damaged file raises a bare Exception
            raise CheckpointError(f"{path} cannot be read as a tokenizer ({error}). Export the model again.") from error

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Return how many special tokens stand beside a text or a pair."""
        return int(self._backend.num_special_tokens_to_add(pair))

    def __call__(
        self,
        text: str | Sequence[str | tuple[str, str]],
        text_pair: str | None = None,
        *,
        add_special_tokens: bool = True,
        padding: str | bool = False,
        truncation: str | bool = False,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        **_: Any,
    ) -> TokenizedTexts:
        """Return the tokens of a text, with or without a pair, or of a list of texts and pairs."""
        alone = isinstance(text, str)
        inputs: Any = [(text, text_pair) if text_pair is not None else text] if alone else list(text)
        with self._lock:
            self._set(bool(padding), max_length if truncation else None, pad_to_multiple_of)
            encodings = self._backend.encode_batch(inputs, add_special_tokens=add_special_tokens)
        data: dict[str, Any] = {
            "input_ids": [one.ids for one in encodings],
            "attention_mask": [one.attention_mask for one in encodings],
            "offset_mapping": [one.offsets for one in encodings],
        }
        if "token_type_ids" in self.model_input_names:
            data["token_type_ids"] = [one.type_ids for one in encodings]
        return TokenizedTexts({name: rows[0] for name, rows in data.items()} if alone else data, encodings)

    def _set(self, padding: bool, limit: int | None, multiple: int | None) -> None:
        if limit is None:
            self._backend.no_truncation()
        else:
            self._backend.enable_truncation(limit, strategy="longest_first", direction=self.truncation_side)
        if padding:
            self._backend.enable_padding(
                direction=self.padding_side,
                pad_id=self._pad_id,
                pad_type_id=self._pad_type,
                pad_token=self.pad_token,
                pad_to_multiple_of=multiple,
            )
        else:
            self._backend.no_padding()
