"""Entities of a transformers token-classification checkpoint, such as a named entity recogniser.

Subwords are tagged, words are joined: the first subword that touches a word (as `words.py` has it) decides for the
word, and words become entities by their tags. Tags may be BIO, IO, BIOES or BILOU; without a prefix they count as I.
An entity begins at B, S or U, where the type changes, and at I where nothing goes on; it ends behind E, L, S or U.

A paragraph that is longer than the model can read is read in windows that overlap; where two windows overlap, each
decides up to the middle, so every decision but those at the ends of the text has context on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

from infuser.errors import CheckpointError, SourceError
from infuser.registry import SOURCES
from infuser.sources.tagging import TINY, Finding, TaggerSource, owners, tiny_tokenizer, windows
from infuser.words import find_tokens

_PREFIXED = re.compile(r"([BIMESLU])[-_](.+)")
_UNNAMED = re.compile(r"LABEL_\d+")
_USUAL = 512
"""Tokens in a window if model and tokenizer know no limit, or a larger one; what most models were trained on."""


@SOURCES.register("token-classifier")
@dataclass(frozen=True)
class TokenClassifier(TaggerSource):
    """Ties the words of each entity that a token-classification model tags."""

    models: ClassVar[tuple[str, ...]] = ("model", "tokenizer")
    advice: ClassVar[str] = "Write both with save_pretrained(folder) and give the folder."

    model: Any
    """A folder, a model's name on the hub, a transformers model, or "tiny", a miniature in memory. Weights are read
    from safetensors files only."""
    tokenizer: Any = None
    """The tokenizer of a model that was given as an object; otherwise it lies beside the model."""
    labels: Sequence[str] | None = None
    """Keep only entities of these types, such as ("PER", "LOC"); None keeps all."""
    window: int | None = None
    """Tokens read at once, special tokens included; None takes what the model can read, 512 at most."""
    overlap: int = 64
    """Tokens that a window has in common with the next, at most a quarter of it."""
    batch_size: int = 16
    """Windows that are read together; windows of like length are."""
    device: str = "cpu"
    """Where a model given by name runs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.overlap < 0 or (self.window is not None and self.window < 8):
            raise SourceError(f"window={self.window}, overlap={self.overlap} cannot be used: at least 8, at least 0.")
        if not isinstance(self.model, str) and self.tokenizer is None:
            raise SourceError(f"A {type(self.model).__name__} was given without its tokenizer; pass tokenizer= too.")

    def _tag(self, pieces: list[str]) -> list[list[Finding]]:
        tagger = self._tagger
        readings = [tagger.split(piece) for piece in pieces]
        rows = [(number, run) for number, reading in enumerate(readings) for run in reading.windows]
        tagged = tagger.predict([readings[number].ids[run.start : run.stop] for number, run in rows], self.batch_size)
        tags: list[list[list[int]]] = [[] for _ in pieces]
        for (number, _), predicted in zip(rows, tagged, strict=True):
            tags[number].append(predicted)
        return [
            list(join_words(_word_tags(piece, reading, found, tagger.names)))
            for piece, reading, found in zip(pieces, readings, tags, strict=True)
        ]

    def _known_labels(self) -> Iterator[str]:
        for _, label in map(_split_tag, self._names):
            if label:
                yield label

    @property
    def _names(self) -> Sequence[str]:
        """The model's tags; of a checkpoint that is not loaded yet only the configuration is read."""
        if "_tagger" in self.__dict__ or self.model == TINY or not isinstance(self.model, str):
            return self._tagger.names
        from transformers import AutoConfig

        try:
            config = AutoConfig.from_pretrained(self.model, trust_remote_code=False)
        except Exception:  # whatever transformers makes of a damaged file
            return self._tagger.names  # says what is wrong
        return [config.id2label[number] for number in range(config.num_labels)]

    @cached_property
    def _tagger(self) -> _Tagger:
        model, tokenizer = _tiny() if self.model == TINY else _load(self.model, self.tokenizer, self.device)
        return _Tagger(model, tokenizer, self.window, self.overlap)

    @classmethod
    def tiny(cls) -> Self:
        """Return a BERT without layers whose embeddings were set by hand to know a few names."""
        return cls(TINY)


TaggedWord = tuple[int, int, str]
"""Start and end of a word, in characters, and its tag, such as "B-PER"."""


def join_words(words: Iterable[TaggedWord]) -> Iterator[Finding]:
    """Yield the entities that tagged words make up."""
    start = end = 0
    current = ""  # type of the entity that may go on
    for word_start, word_end, tag in words:
        prefix, kind = _split_tag(tag)
        if current and (kind != current or prefix in "BSU"):
            yield Finding(start, end, current)
            current = ""
        if not kind:
            continue
        if not current:
            start, current = word_start, kind
        end = word_end
        if prefix in "ESLU":
            yield Finding(start, end, current)
            current = ""
    if current:
        yield Finding(start, end, current)


def _split_tag(tag: str) -> tuple[str, str]:
    """Return the prefix of a tag and the type behind it, which is empty for "outside"."""
    match = _PREFIXED.fullmatch(tag)
    return (match[1], match[2]) if match else ("I", "" if tag in ("O", "0") else tag)


class _Tokens(NamedTuple):
    """The tokens of a text without special ones, their places, and the windows they are read in."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    windows: list[range]


def _word_tags(
    text: str, reading: _Tokens, tags: Sequence[Sequence[int]], names: Sequence[str]
) -> Iterator[TaggedWord]:
    """Yield the words of a text with the tag of the first token that touches each."""
    owner = owners(reading.windows)
    token = 0
    for start, end, _ in find_tokens(text):
        while token < len(owner) and reading.offsets[token][1] <= start:
            token += 1
        if token == len(owner) or reading.offsets[token][0] >= end:
            continue  # the tokenizer leaves it out, as BERT's does with control characters
        window = owner[token]
        yield start, end, names[tags[window][token - reading.windows[window].start]]


class _Tagger:
    """A model and its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, window: int | None, overlap: int) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise SourceError(f"{type(tokenizer).__name__} does not say where its tokens stand; use a fast tokenizer.")
        names = [model.config.id2label[number] for number in range(model.config.num_labels)]
        if all(_UNNAMED.fullmatch(name) for name in names):
            raise SourceError(
                f"The model's tags are called {', '.join(names[:3])} ..., so nobody knows what they mean. Set "
                'model.config.id2label, for example {0: "O", 1: "B-PER", 2: "I-PER"}, and save it again.'
            )
        self.names = names
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._before, self._after = _special_tokens(tokenizer)
        readable = _longest_input(model, tokenizer)
        if window is not None and window > readable:
            raise SourceError(f"window is {window}, but the model reads {readable} tokens at most.")
        self._room = (window or min(readable, _USUAL)) - len(self._before) - len(self._after)
        self._overlap = min(overlap, self._room // 4)

    def split(self, text: str) -> _Tokens:
        """Return the tokens of a text and its windows."""
        encoding = self._tokenizer(
            text, add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
        )
        ids, offsets = encoding["input_ids"], encoding["offset_mapping"]
        return _Tokens(ids, offsets, list(windows([1] * len(ids), self._room, overlap=self._overlap)))

    def predict(self, rows: Sequence[list[int]], batch_size: int) -> list[list[int]]:
        """Return the most probable tag of each token of each row."""
        import torch

        tags: list[list[int]] = [[]] * len(rows)
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        padding = self._tokenizer.pad_token_id or 0
        for first in range(0, len(order), batch_size):
            numbers = order[first : first + batch_size]
            batch = [torch.tensor([*self._before, *rows[number], *self._after]) for number in numbers]
            ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=padding)  # (batch, seq)
            lengths = torch.tensor([len(row) for row in batch])
            mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
            device = self._model.device
            with torch.inference_mode():
                logits = self._model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits
                if not torch.isfinite(logits).all():
                    raise CheckpointError(
                        f"The answers of {self._model.name_or_path or 'the token classifier'!r} are infinite or not "
                        "numbers: its weights are damaged, or its training diverged. Take another checkpoint."
                    )
                predicted = logits.argmax(-1).tolist()  # (batch, seq)
            for number, row in zip(numbers, predicted, strict=True):
                tags[number] = row[len(self._before) : len(self._before) + len(rows[number])]
        return tags


def _special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the tokens that a tokenizer puts before and after a text."""
    encoding = tokenizer("a", return_special_tokens_mask=True)
    ids, special = encoding["input_ids"], encoding["special_tokens_mask"]
    own = [place for place, is_special in enumerate(special) if not is_special]
    return (ids[: own[0]], ids[own[-1] + 1 :]) if own else (ids, [])


def _longest_input(model: Any, tokenizer: Any) -> int:
    """Return how many tokens the model reads at most; RoBERTa and its kin count positions from the padding on."""
    positions = getattr(model.config, "max_position_embeddings", None) or _USUAL
    embedded = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    if embedded and getattr(embedded[0], "padding_idx", None) is not None:
        positions -= embedded[0].padding_idx + 1
    return min(int(positions), int(tokenizer.model_max_length))


def _load(model: Any, tokenizer: Any, device: str) -> tuple[Any, Any]:
    """Return model and tokenizer, read from disk or from the hub if they were given by name."""
    if not isinstance(model, str) and not isinstance(tokenizer, str):
        return model, tokenizer
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    try:
        if tokenizer is None or isinstance(tokenizer, str):
            tokenizer = AutoTokenizer.from_pretrained(tokenizer or model, trust_remote_code=False)
        if not isinstance(model, str):
            return model, tokenizer
        loaded, info = AutoModelForTokenClassification.from_pretrained(
            model, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    except Exception as error:  # a damaged file may become any
        what = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(
            f"Cannot load the token classifier {model!r}: {what} Give a folder with config.json, model.safetensors "
            "and a tokenizer, as save_pretrained writes them."
        ) from error
    if info["missing_keys"]:
        raise CheckpointError(
            f"{model!r} lacks the weights {', '.join(sorted(info['missing_keys'])[:3])}: it was not trained to tag "
            "tokens. Give a checkpoint that was fine-tuned for token classification."
        )
    return loaded.to(device), tokenizer


def _tiny() -> tuple[Any, Any]:
    """Return a BERT without layers: the embedding of a word points to its tag."""
    import torch
    from transformers import BertConfig, BertForTokenClassification

    tags = ["O", "B-LOC", "I-LOC", "B-ORG", "I-ORG"]
    known = {"bern": 1, "aare": 1, "new": 1, "york": 2, "fred": 3, "meyer": 4}
    tokenizer = tiny_tokenizer(list(known))
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=len(tags),
        num_hidden_layers=0,
        num_attention_heads=1,
        max_position_embeddings=64,
        id2label=dict(enumerate(tags)),
        label2id={tag: number for number, tag in enumerate(tags)},
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():  # the caller's random numbers stay as they are
        model: Any = BertForTokenClassification(config)  # type: ignore[no-untyped-call]
        for weight in model.parameters():
            weight.zero_()
        model.classifier.weight.copy_(torch.eye(len(tags)))
        model.bert.embeddings.LayerNorm.weight.fill_(1)
        for piece, number in tokenizer.get_vocab().items():
            model.bert.embeddings.word_embeddings.weight[number, known.get(piece, 0)] = 1
    return model, tokenizer
