"""What a Stanza pipeline finds: named entities, and phrases of its constituency trees, as in the KAM-BERT paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

from infuser.errors import SourceError
from infuser.registry import SOURCES
from infuser.sources.constituents import phrases_at
from infuser.sources.tagging import TINY, Finding, TaggerSource, need
from infuser.words import find_tokens

_TINY_NAME, _TINY_PHRASE = "NAME", "NP"
"""The labels of the miniature."""


@dataclass(frozen=True)
class _StanzaSource(TaggerSource):
    """What both sources share: the pipeline, loaded when first needed."""

    advice: ClassVar[str] = "Give the folder of its models instead."

    pipeline: Any
    """A folder of Stanza models, the one that holds resources.json; a `stanza.Pipeline`, or anything that is called
    with a text and returns a Stanza document; or "tiny", a miniature in memory. Nothing is ever downloaded."""
    lang: str = "en"
    """Language of the models in the folder."""
    processors: str = "tokenize"
    """What the pipeline runs."""
    batch_size: int = field(default=32, kw_only=True)
    """Texts that Stanza reads at once."""
    device: str = field(default="cpu", kw_only=True)
    """Where the models of a folder run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.pipeline, str) or callable(self.pipeline)):
            raise SourceError(f"pipeline is {self.pipeline!r}; give a folder of Stanza models or a stanza.Pipeline.")

    @cached_property
    def _pipeline(self) -> Any:
        if not isinstance(self.pipeline, str):
            return self.pipeline
        stanza = need("stanza", extra="stanza")
        if self.pipeline == TINY:
            return _tiny_document
        try:
            return stanza.Pipeline(
                self.lang,
                dir=self.pipeline,
                download_method=None,
                processors=self.processors,
                device=self.device,
                verbose=False,
            )
        except Exception as error:  # Stanza's errors have no common parent
            raise SourceError(
                f"Stanza cannot load {self.processors!r} for the language {self.lang!r} from {self.pipeline!r}: "
                f"{error} Fetch the models once with stanza.download({self.lang!r}, model_dir={self.pipeline!r})."
            ) from error

    def _processors(self) -> Mapping[str, Any]:
        """Return what a real pipeline runs; nothing for any other function."""
        processors: Mapping[str, Any] = getattr(self._pipeline, "processors", {})
        return processors

    def _read(self, pieces: list[str]) -> Iterator[Any]:
        pipeline = self._pipeline
        if not hasattr(pipeline, "bulk_process"):
            yield from map(pipeline, pieces)
            return
        for start in range(0, len(pieces), self.batch_size):
            yield from pipeline.bulk_process(pieces[start : start + self.batch_size])


@SOURCES.register("stanza-entities")
@dataclass(frozen=True)
class StanzaEntities(_StanzaSource):
    """Ties the words of each named entity that a Stanza pipeline finds (`doc.ents`)."""

    processors: str = "tokenize,ner"
    """What the pipeline runs; languages with contracted words need "tokenize,mwt,ner"."""
    labels: Sequence[str] | None = None
    """Keep only entities with these labels, such as ("PERSON", "GPE"); None keeps all."""

    def _tag(self, pieces: list[str]) -> Iterator[list[Finding]]:
        for doc in self._read(pieces):
            yield [Finding(ent.start_char, ent.end_char, ent.type) for ent in doc.ents]

    def _known_labels(self) -> Iterable[str]:
        ner = self._processors().get("ner")
        if ner is None:
            return [_TINY_NAME] if self.pipeline == TINY else []
        return [tag for place in range(len(ner.trainers)) for tag in ner.get_known_tags(place)]

    @classmethod
    def tiny(cls) -> Self:
        """Return a stand-in that takes every word with a capital letter for a name; its documents are Stanza's."""
        return cls(TINY)


@SOURCES.register("stanza-phrases")
@dataclass(frozen=True)
class StanzaPhrases(_StanzaSource):
    """Ties the words of each phrase at chosen levels of the constituency tree.

    Levels are explained in `constituents.py`: 1 is a part of speech, 2 a phrase of tagged words only. A phrase has at
    least two words; of nodes over the same words the lowest counts.
    """

    processors: str = "tokenize,pos,constituency"
    """What the pipeline runs; languages with contracted words need "tokenize,mwt,pos,constituency"."""
    levels: Sequence[int] = (2,)
    """Which levels of a tree are phrases."""
    labels: Sequence[str] | None = None
    """Keep only phrases with these labels, such as ("NP", "VP"); None keeps all."""

    def _tag(self, pieces: list[str]) -> Iterator[list[Finding]]:
        for doc in self._read(pieces):
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

    def _known_labels(self) -> Iterable[str]:
        parser = self._processors().get("constituency")
        if parser is None:
            return [_TINY_PHRASE] if self.pipeline == TINY else []
        return sorted(parser.get_constituents())

    @classmethod
    def tiny(cls) -> Self:
        """Return a stand-in that takes every two words for a noun phrase; its documents and trees are Stanza's."""
        return cls(TINY)


def _place(word: Any) -> tuple[int, int]:
    """Return where a word stands; the parts of a contraction ("du" for "de le") stand where all of it does."""
    own = word if word.start_char is not None else word.parent
    return own.start_char, own.end_char


def _tiny_document(text: str) -> Any:
    """Return a Stanza document of one sentence: names by their capital letter, every two words a noun phrase."""
    from stanza.models.common.doc import Document
    from stanza.models.constituency.parse_tree import Tree

    tokens: list[dict[str, Any]] = []
    for number, (start, end, _) in enumerate(find_tokens(text), start=1):
        tag = f"S-{_TINY_NAME}" if text[start].isupper() else "O"
        tokens.append({"id": number, "text": text[start:end], "ner": tag, "start_char": start, "end_char": end})
    words = [Tree("X", [Tree(token["text"])]) for token in tokens]
    pairs = [Tree(_TINY_PHRASE, words[start : start + 2]) for start in range(0, len(words), 2)]
    document = Document([tokens], text=text)
    document.sentences[0].constituency = Tree("ROOT", [Tree("S", pairs)])
    return document
