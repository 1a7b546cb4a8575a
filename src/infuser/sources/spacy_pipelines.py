"""What a spaCy pipeline finds: named entities, noun chunks, sub-trees of its dependency parse."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from infuser.errors import SourceError
from infuser.registry import SOURCES
from infuser.sources.tagging import TINY, Finding, TaggerSource, need

_ASSET = "spacy-en"


@dataclass(frozen=True)
class _SpacySource(TaggerSource):
    """What both sources share: the pipeline, loaded when first needed."""

    advice: ClassVar[str] = "Write it with pipeline.to_disk(folder) and give the folder."
    unneeded: ClassVar[tuple[str, ...]]
    """Components of "spacy-en" that are not run unless `exclude` says otherwise."""

    pipeline: Any = _ASSET
    """A folder, an installed pipeline's name, a spaCy `Language` object, or one of two names of ours: "spacy-en",
    spaCy's small English pipeline, which is fetched when first needed, and "tiny", a miniature in memory."""
    exclude: Sequence[str] | None = field(default=None, kw_only=True)
    """Components that are not run. None leaves out what the source does not need from "spacy-en", and nothing from
    other pipelines, because one component may need another."""
    batch_size: int = field(default=64, kw_only=True)
    """Texts that spaCy reads at once."""

    @cached_property
    def _pipeline(self) -> Any:
        return _load(self.pipeline, self.exclude, self.unneeded)

    def _labels_of(self, *assigned: str) -> Iterator[str]:
        """Yield the labels of components that write one of these attributes, or do not say what they write."""
        pipeline = self._pipeline
        for name, labels in getattr(pipeline, "pipe_labels", {}).items():
            writes = pipeline.get_pipe_meta(name).assigns
            if name not in (self.exclude or ()) and (not writes or set(writes) & set(assigned)):
                yield from labels

    def _read(self, pieces: list[str]) -> Iterator[Any]:
        pipeline = self._pipeline
        # in a memory zone the words that were met are forgotten afterwards; else a pipeline grows with every text
        inside = nullcontext() if pipeline.vocab.in_memory_zone else pipeline.memory_zone()
        with inside:
            yield from pipeline.pipe(pieces, batch_size=self.batch_size, disable=list(self.exclude or ()))


@SOURCES.register("spacy-entities")
@dataclass(frozen=True)
class SpacyEntities(_SpacySource):
    """Ties the words of each named entity that a spaCy pipeline finds (`doc.ents`).

    A span carries the entity's label and, as id, what an entity linker or ruler wrote down (`kb_id_`, else `ent_id_`).
    """

    unneeded: ClassVar[tuple[str, ...]] = ("tagger", "parser", "attribute_ruler", "lemmatizer", "senter")

    labels: Sequence[str] | None = None
    """Keep only entities with these labels, such as ("PERSON", "GPE"); None keeps all."""

    def _tag(self, pieces: list[str]) -> Iterator[list[Finding]]:
        for doc in self._read(pieces):
            yield [Finding(ent.start_char, ent.end_char, ent.label_, ent.kb_id_ or ent.ent_id_) for ent in doc.ents]

    def _known_labels(self) -> Iterator[str]:
        return self._labels_of("doc.ents", "doc.spans")

    @classmethod
    def tiny(cls) -> Self:
        """Return a blank English pipeline with rules for four names."""
        return cls(TINY)


@SOURCES.register("spacy-phrases")
@dataclass(frozen=True)
class SpacyPhrases(_SpacySource):
    """Ties the words of each noun chunk, or of each sub-tree of the dependency parse at chosen levels.

    The level of a sub-tree is its height, the longest way from its root down to a leaf: "the old bridge" under
    "bridge" is at level 1, "the bridge of the town" at level 3 (bridge, of, town, the). Punctuation and white space
    have no part in this: they are no leaves, and a sub-tree begins and ends with a word. A sub-tree is a phrase if it
    has at least two words and its words stand in a row. Its label is the relation of its root to the word above it.
    """

    unneeded: ClassVar[tuple[str, ...]] = ("ner", "lemmatizer", "senter")

    unit: Literal["noun-chunks", "subtrees"] = "noun-chunks"
    """What a phrase is."""
    levels: Sequence[int] = (1,)
    """Heights of sub-trees; noun chunks have none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit not in ("noun-chunks", "subtrees"):
            raise SourceError(f"unit is {self.unit!r}; it can be 'noun-chunks' or 'subtrees'.")

    def _tag(self, pieces: list[str]) -> Iterator[list[Finding]]:
        for doc in self._read(pieces):
            if not doc.has_annotation("DEP"):
                given = self.pipeline
                name = repr(given) if isinstance(given, str) else f"a {type(given).__name__} object"
                raise SourceError(
                    f"The pipeline {name} does not parse: its components are "
                    f"{', '.join(self._pipeline.pipe_names) or 'none'}. Use one with a dependency parser."
                )
            yield list(_noun_chunks(doc) if self.unit == "noun-chunks" else self._subtrees(doc))

    def _known_labels(self) -> Iterator[str]:
        if self.unit == "noun-chunks":
            yield "noun phrase"
        else:
            yield from self._labels_of("token.dep")
            yield from ("ROOT", "phrase")

    def _subtrees(self, doc: Any) -> Iterator[Finding]:
        words = [not (token.is_space or token.is_punct) for token in doc]
        for root, first, last in find_subtrees([token.head.i for token in doc], words, self.levels):
            yield Finding(doc[first].idx, doc[last].idx + len(doc[last]), doc[root].dep_ or "phrase")

    @classmethod
    def tiny(cls) -> Self:
        """Return a blank English pipeline that takes every other word as a noun with the word before it."""
        return cls(TINY)


def find_subtrees(heads: Sequence[int], words: Sequence[bool], levels: Collection[int]) -> list[tuple[int, int, int]]:
    """Return root, first and last word of every sub-tree that is a phrase (see `SpacyPhrases`), by root.

    heads  for each token the number of its head, its own for the root of a sentence
    words  whether each token is a word
    """
    heights = [0 if word else -1 for word in words]  # -1: no word in it, so it is not there
    firsts = [place if word else len(heads) for place, word in enumerate(words)]
    lasts = [place if word else -1 for place, word in enumerate(words)]
    n_words = [int(word) for word in words]
    waiting = [0] * len(heads)
    for place, head in enumerate(heads):
        waiting[head] += head != place
    ready = [place for place, n_children in enumerate(waiting) if n_children == 0]
    while ready:  # from the leaves upwards, without recursion: a tree may be as deep as a text is long
        place = ready.pop()
        head = heads[place]
        if head == place:
            continue
        if n_words[place]:
            heights[head] = max(heights[head], heights[place] + 1)
            firsts[head], lasts[head] = min(firsts[head], firsts[place]), max(lasts[head], lasts[place])
            n_words[head] += n_words[place]
        waiting[head] -= 1
        if waiting[head] == 0:
            ready.append(head)
    before = [0, *accumulate(map(int, words))]
    return [
        (root, firsts[root], lasts[root])
        for root in range(len(heads))
        if heights[root] in levels
        and n_words[root] >= 2
        and before[lasts[root] + 1] - before[firsts[root]] == n_words[root]
    ]


def _noun_chunks(doc: Any) -> Iterable[Finding]:
    try:
        return [Finding(chunk.start_char, chunk.end_char, "noun phrase") for chunk in doc.noun_chunks]
    except NotImplementedError as error:
        raise SourceError(f"spaCy has no noun chunks for the language {doc.lang_!r}; use unit='subtrees'.") from error


def _load(pipeline: Any, exclude: Sequence[str] | None, unneeded: Sequence[str]) -> Any:
    if not isinstance(pipeline, str):
        return pipeline
    spacy = need("spacy", extra="spacy")
    if pipeline == TINY:
        return _tiny(spacy)
    place: str | Path = pipeline
    if pipeline == _ASSET and not Path(pipeline).is_dir():
        from infuser import assets

        place, exclude = assets.fetch(_ASSET), unneeded if exclude is None else exclude
    try:
        return spacy.load(place, exclude=list(exclude or ()))
    except (OSError, ValueError, ImportError) as error:
        raise SourceError(
            f"spaCy cannot load the pipeline {pipeline!r}: {error} Give a folder that holds a config.cfg, an installed "
            f"pipeline's name, or {_ASSET!r}, which is fetched for you."
        ) from error


def _tiny(spacy: Any) -> Any:
    """Return a blank English pipeline with a few names and a parse made by rule."""
    pipeline = spacy.blank("en")
    if not spacy.Language.has_factory("infuser_pairs"):
        spacy.Language.component("infuser_pairs", func=_pair_words)
    pipeline.add_pipe("infuser_pairs")
    names = {"Bern": "GPE", "New York": "GPE", "New York Times": "ORG", "Aare": "LOC"}
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": label, "pattern": name} for name, label in names.items()])
    return pipeline


def _pair_words(doc: Any) -> Any:
    """Parse a text by rule: every second word of it is a noun, and the word before it its modifier."""
    words = [token.i for token in doc if token.is_alpha]
    noun_of = dict(zip(words[::2], words[1::2], strict=False))
    return type(doc)(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        heads=[noun_of.get(token.i, token.i) for token in doc],
        deps=["compound" if token.i in noun_of else "ROOT" for token in doc],
        pos=["NOUN" if token.is_alpha else "PUNCT" for token in doc],
    )
