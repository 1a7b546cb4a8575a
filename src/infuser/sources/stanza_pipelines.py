"""What a Stanza pipeline finds: named entities, and phrases of its constituency trees, as in the KAM-BERT paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from infuser.errors import SourceError
from infuser.registry import SOURCES
from infuser.sources.constituents import phrases_at
from infuser.sources.storage import settings_of
from infuser.sources.tagging import (
    TINY,
    Finding,
    annotate_by_paragraph,
    at_least_one,
    checked_levels,
    names_or_none,
    need,
    settings_by_name,
)
from infuser.types import Annotations
from infuser.words import find_tokens

_ADVICE = "Give the folder of its models instead."


@SOURCES.register("stanza-entities")
@dataclass(frozen=True)
class StanzaEntities:
    """Ties the words of each named entity that a Stanza pipeline finds (`doc.ents`)."""

    pipeline: Any
    """A folder of Stanza models, the one that holds resources.json; a `stanza.Pipeline`, or anything that is called
    with a text and returns a Stanza document; or "tiny", a miniature in memory. Nothing is ever downloaded."""
    lang: str = "en"
    """Language of the models in the folder."""
    processors: str = "tokenize,ner"
    """What the pipeline runs; languages with contracted words need "tokenize,mwt,ner"."""
    labels: Sequence[str] | None = None
    """Keep only entities with these labels, such as ("PERSON", "GPE"); None keeps all."""
    batch_size: int = 32
    """Texts that Stanza reads at once."""
    device: str = "cpu"
    """Where the models of a folder run."""

    def __post_init__(self) -> None:
        _settle(self)

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the entities in each text."""
        return annotate_by_paragraph(texts, self._tag, labels=self.labels)

    def _tag(self, pieces: list[str]) -> Iterator[list[Finding]]:
        for doc in _read(self._pipeline, pieces, self.batch_size):
            yield [Finding(ent.start_char, ent.end_char, ent.type) for ent in doc.ents]

    @cached_property
    def _pipeline(self) -> Any:
        return _load(self)

    def __getstate__(self) -> dict[str, Any]:
        return settings_of(self)  # a worker loads its own pipeline

    def to_json(self) -> dict[str, Any]:
        """Return the settings; SourceError if the pipeline was given as an object."""
        return settings_by_name(self, "pipeline", advice=_ADVICE)

    @classmethod
    def tiny(cls) -> Self:
        """Return a stand-in that takes every word with a capital letter for a name; its documents are Stanza's."""
        return cls(TINY)


@SOURCES.register("stanza-phrases")
@dataclass(frozen=True)
class StanzaPhrases:
    """Ties the words of each phrase at chosen levels of the constituency tree.

    Levels are explained in `constituents.py`: 1 is a part of speech, 2 a phrase of tagged words only. A phrase has at
    least two words; of nodes over the same words the lowest counts.
    """

    pipeline: Any
    """A folder of Stanza models, the one that holds resources.json; a `stanza.Pipeline`, or anything that is called
    with a text and returns a Stanza document; or "tiny", a miniature in memory. Nothing is ever downloaded."""
    lang: str = "en"
    """Language of the models in the folder."""
    processors: str = "tokenize,pos,constituency"
    """What the pipeline runs; languages with contracted words need "tokenize,mwt,pos,constituency"."""
    levels: Sequence[int] = (2,)
    """Which levels of a tree are phrases."""
    labels: Sequence[str] | None = None
    """Keep only phrases with these labels, such as ("NP", "VP"); None keeps all."""
    batch_size: int = 32
    """Texts that Stanza reads at once."""
    device: str = "cpu"
    """Where the models of a folder run."""

    def __post_init__(self) -> None:
        _settle(self)
        object.__setattr__(self, "levels", checked_levels(self.levels))

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the phrases of each text."""
        return annotate_by_paragraph(texts, self._tag)

    def _tag(self, pieces: list[str]) -> Iterator[list[Finding]]:
        for doc in _read(self._pipeline, pieces, self.batch_size):
            yield [finding for sentence in doc.sentences for finding in self._phrases(sentence)]

    def _phrases(self, sentence: Any) -> Iterator[Finding]:
        tree = sentence.constituency
        if tree is None:
            raise SourceError("The Stanza pipeline makes no trees; add 'constituency' to its processors.")
        places = [_place(word) for word in sentence.words]
        if len(tree) != len(places):
            raise SourceError(
                f"A tree of Stanza has {len(tree)} words, its sentence {len(places)}: {sentence.text!r}. Were they "
                "made by different pipelines?"
            )
        for phrase in phrases_at(tree, self.levels, self.labels):
            yield Finding(places[phrase.first][0], places[phrase.end - 1][1], phrase.label)

    @cached_property
    def _pipeline(self) -> Any:
        return _load(self)

    def __getstate__(self) -> dict[str, Any]:
        return settings_of(self)  # a worker loads its own pipeline

    def to_json(self) -> dict[str, Any]:
        """Return the settings; SourceError if the pipeline was given as an object."""
        return settings_by_name(self, "pipeline", advice=_ADVICE)

    @classmethod
    def tiny(cls) -> Self:
        """Return a stand-in that takes every two words for a noun phrase; its documents and trees are Stanza's."""
        return cls(TINY)


def _settle(source: Any) -> None:
    """Bring the fields that both classes have into one form."""
    at_least_one(source.batch_size, "batch_size")
    object.__setattr__(source, "labels", names_or_none(source.labels, "labels"))
    if isinstance(source.pipeline, Path):
        object.__setattr__(source, "pipeline", str(source.pipeline))
    if not (isinstance(source.pipeline, str) or callable(source.pipeline)):
        raise SourceError(f"pipeline is {source.pipeline!r}; give a folder of Stanza models or a stanza.Pipeline.")


def _place(word: Any) -> tuple[int, int]:
    """Return where a word stands; the parts of a contraction ("du" for "de le") stand where all of it does."""
    own = word if word.start_char is not None else word.parent
    return own.start_char, own.end_char


def _read(pipeline: Any, pieces: list[str], batch_size: int) -> Iterator[Any]:
    if not hasattr(pipeline, "bulk_process"):
        yield from map(pipeline, pieces)
        return
    for start in range(0, len(pieces), batch_size):
        yield from pipeline.bulk_process(pieces[start : start + batch_size])


def _load(source: StanzaEntities | StanzaPhrases) -> Any:
    if not isinstance(source.pipeline, str):
        return source.pipeline
    stanza = need("stanza", extra="stanza")
    if source.pipeline == TINY:
        return _tiny_document
    try:
        return stanza.Pipeline(
            source.lang,
            dir=source.pipeline,
            download_method=None,
            processors=source.processors,
            device=source.device,
            verbose=False,
        )
    except Exception as error:  # Stanza's errors have no common parent
        raise SourceError(
            f"Stanza cannot load {source.processors!r} for the language {source.lang!r} from {source.pipeline!r}: "
            f"{error} Fetch the models once with stanza.download({source.lang!r}, model_dir={source.pipeline!r})."
        ) from error


def _tiny_document(text: str) -> Any:
    """Return a Stanza document of one sentence: names by their capital letter, every two words a noun phrase."""
    from stanza.models.common.doc import Document
    from stanza.models.constituency.parse_tree import Tree

    tokens: list[dict[str, Any]] = []
    for number, (start, end, _) in enumerate(find_tokens(text), start=1):
        tag = "S-NAME" if text[start].isupper() else "O"
        tokens.append({"id": number, "text": text[start:end], "ner": tag, "start_char": start, "end_char": end})
    words = [Tree("X", [Tree(token["text"])]) for token in tokens]
    pairs = [Tree("NP", words[start : start + 2]) for start in range(0, len(words), 2)]
    document = Document([tokens], text=text)
    document.sentences[0].constituency = Tree("ROOT", [Tree("S", pairs)])
    return document
