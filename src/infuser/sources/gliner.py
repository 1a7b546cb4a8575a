"""Entities of a GLiNER model, which looks for labels in plain words: "city", "medicine", "legal document"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from infuser.errors import CheckpointError, SourceError
from infuser.files import parse_json
from infuser.registry import SOURCES
from infuser.sources.tagging import TINY, Finding, TaggerSource, has_word, need, owners, tiny_tokenizer, windows

_NO_LIMIT = 10**6
"""Transformers writes 1e30 where a tokenizer knows no longest sequence."""


@SOURCES.register("gliner")
@dataclass(frozen=True)
class Gliner(TaggerSource):
    """Ties the words of each entity that a GLiNER model finds for the given labels.

    GLiNER cuts off what is too long for it. Here a long paragraph is read in windows that overlap by an eighth of the
    longest; where two overlap, each decides on the entities that begin before or behind the middle of the overlap.
    """

    models: ClassVar[tuple[str, ...]] = ("checkpoint",)
    advice: ClassVar[str] = "Write it with model.save_pretrained(folder, safe_serialization=True) and give the folder."

    checkpoint: Any
    """A folder, a model's name on the hub, a loaded GLiNER model, or "tiny", a miniature in memory. Weights are read
    from safetensors files only."""
    labels: Sequence[str]
    """What to look for, in plain words, such as ("person", "city")."""
    threshold: float = 0.5
    """How sure the model must be, between 0 and 1."""
    batch_size: int = 8
    """Windows that are read together."""
    device: str = "cpu"
    """Where a model given by name runs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.labels:
            raise SourceError("GLiNER looks for what it is told; give labels such as ('person', 'city').")
        if not 0 <= self.threshold <= 1:
            raise SourceError(f"threshold is {self.threshold!r}; it must be between 0 and 1.")

    def _tag(self, pieces: list[str]) -> list[list[Finding]]:
        rows = [(number, *row) for number, piece in enumerate(pieces) for row in self._windows(piece)]
        rows.sort(key=lambda row: row[2] - row[1])  # like lengths together: less padding
        texts = [pieces[number][start:end] for number, start, end, _ in rows]
        found = self._model.inference(texts, list(self.labels), threshold=self.threshold, batch_size=self.batch_size)
        findings: list[list[Finding]] = [[] for _ in pieces]
        for (number, start, _, own), entities in zip(rows, found, strict=True):
            for entity in entities:
                first = start + entity["start"]
                if first in own:
                    findings[number].append(Finding(first, start + entity["end"], entity["label"]))
        return findings

    def _windows(self, text: str) -> Iterator[tuple[int, int, range]]:
        """Yield start, end and the part to decide on, in characters, of runs of words that the model reads whole."""
        config, processor = self._model.config, self._model.data_processor
        tokenizer = processor.transformer_tokenizer
        words = [(start, end) for _, start, end in processor.words_splitter(text)]
        room, costs = _NO_LIMIT, [1] * len(words)
        if tokenizer.model_max_length < _NO_LIMIT:
            costs = _n_tokens(tokenizer, [text[start:end] for start, end in words])
            prompt = [part for label in self.labels for part in (config.ent_token, label)]
            room = tokenizer.model_max_length - sum(_n_tokens(tokenizer, [*prompt, config.sep_token]))
            room -= tokenizer.num_special_tokens_to_add()
        if room < 1:
            raise SourceError(
                f"{len(self.labels)} labels leave no room for text: the model reads {tokenizer.model_max_length} "
                "tokens. Give fewer or shorter labels."
            )
        runs = list(windows(costs, room, overlap=config.max_len // 8, n_longest=config.max_len))
        owner = owners(runs)
        for number, run in enumerate(runs):
            own = [words[place] for place in run if owner[place] == number]
            start, end = words[run.start][0], words[run.stop - 1][1]
            if own and has_word(text[start:end]):
                yield start, end, range(own[0][0], own[-1][1])

    def _known_labels(self) -> Sequence[str]:
        return self.labels

    @cached_property
    def _model(self) -> Any:
        if not isinstance(self.checkpoint, str):
            return self.checkpoint
        gliner = need("gliner", extra="gliner")
        if self.checkpoint == TINY:
            return _tiny()
        folder = _folder(self.checkpoint)
        try:
            return gliner.GLiNER.from_pretrained(str(folder), map_location=self.device)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise CheckpointError(f"GLiNER cannot load {self.checkpoint!r}: {error}") from error

    @classmethod
    def tiny(cls) -> Self:
        """Return a GLiNER of one layer with random weights; it finds something, but knows nothing."""
        return cls(TINY, ("city", "medicine"), threshold=0.3)


def _n_tokens(tokenizer: Any, words: list[str]) -> list[int]:
    """Return how many tokens each word becomes."""
    encoding = tokenizer(words, is_split_into_words=True, add_special_tokens=False, truncation=False, verbose=False)
    counts = Counter(encoding.word_ids())
    return [counts[place] for place in range(len(words))]


def _folder(checkpoint: str) -> Path:
    """Return the folder of a checkpoint, fetched from the hub if need be, and see that it can be read safely.

    GLiNER loads encoders with `trust_remote_code=True`, so nothing that it reaches may name code: the settings of each
    encoder must be in the checkpoint, of a kind that is part of transformers, and no file may have an `auto_map`.
    """
    folder = _fetched(checkpoint, ignore_patterns=["*.bin", "*.pt", "*.pth", "*.onnx"])
    needed = ("gliner_config.json", "model.safetensors", "tokenizer_config.json")
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{str(folder)!r} holds no {' and no '.join(missing)}. Pickled weights (pytorch_model.bin) are not read; "
            "if you trust them, load them yourself and write them as safetensors: gliner.GLiNER.from_pretrained(...)"
            ".save_pretrained(folder, safe_serialization=True)."
        )
    _refuse_code(folder)
    config = _read_json(folder / "gliner_config.json")
    if not isinstance(config, dict):
        raise CheckpointError(f"{str(folder / 'gliner_config.json')!r} holds no settings, but {config!r:.40}.")
    _check_encoder(folder, config, "encoder_config")
    for part in ("labels_encoder", "labels_decoder"):  # their tokenizers are read where they are named
        if config.get(part):
            _check_encoder(folder, config, f"{part}_config")
            _refuse_code(_fetched(str(config[part]), allow_patterns=["*.json"]))
    return folder


def _fetched(checkpoint: str, **patterns: Any) -> Path:
    """Return a checkpoint's folder: the one given, or a copy from the hub."""
    if Path(checkpoint).is_dir():
        return Path(checkpoint)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(checkpoint, **patterns))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"No GLiNER model at {checkpoint!r}: no such folder, and the hub says: {error}"
        ) from error


def _check_encoder(folder: Path, config: dict[str, Any], name: str) -> None:
    """Raise CheckpointError unless these settings are there and of an encoder that is part of transformers."""
    from transformers import CONFIG_MAPPING

    settings = config.get(name)
    kind = settings.get("model_type") if isinstance(settings, dict) else None
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise CheckpointError(
            f"{str(folder / 'gliner_config.json')!r} has no {name} with a model_type that transformers knows, but "
            f"{settings!r:.60}. GLiNER would look for an encoder elsewhere and run code that it finds there. If you "
            "trust the model, load it with GLiNER and write it again: save_pretrained(folder, safe_serialization=True)."
        )


def _refuse_code(folder: Path) -> None:
    """Raise CheckpointError if a JSON file anywhere in a folder names code to be run."""
    for path in sorted(folder.rglob("*.json")):
        waiting = [_read_json(path)]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict):
                if "auto_map" in one:
                    raise CheckpointError(  # GLiNER would run it without asking
                        f"{str(path)!r} names code of its own (auto_map), which is not run. Use a checkpoint whose "
                        "encoder is part of transformers."
                    )
                waiting += one.values()
            elif isinstance(one, list):
                waiting += one


def _read_json(path: Path) -> Any:
    try:
        return parse_json(path, "it")
    except ValueError as error:
        raise CheckpointError(f"{str(path)!r} cannot be read as JSON: {error}") from error


def _tiny() -> Any:
    import torch
    from gliner.config import UniEncoderSpanConfig
    from gliner.model import UniEncoderSpanGLiNER

    tokenizer = tiny_tokenizer(last=("<<ENT>>", "<<SEP>>"), longest=512)
    encoder = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    encoder |= {"intermediate_size": 16, "max_position_embeddings": 512, "vocab_size": len(tokenizer)}
    config = UniEncoderSpanConfig(
        model_name=TINY,
        encoder_config=encoder,
        hidden_size=16,
        max_width=3,
        max_len=64,
        dropout=0.0,
        num_rnn_layers=0,
        vocab_size=len(tokenizer),
        class_token_index=len(tokenizer) - 2,
    )
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
        torch.manual_seed(0)
        return UniEncoderSpanGLiNER(config, tokenizer=tokenizer).eval()
