"""What all taggers share: texts are read paragraph by paragraph, and what was found in them is put in order.

A text is cut at every paragraph break before a tagger sees it, so no mention or phrase reaches across the break of a
pair, and the same paragraph is read once however often it comes. A paragraph of more than `LONGEST` characters is cut
again, at white space. Lone surrogates, which no tagger can read, are shown to it as U+FFFD.
"""

from __future__ import annotations

import importlib
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from string import ascii_lowercase
from typing import Any, ClassVar, NamedTuple

from infuser.errors import MissingExtraError, SourceError
from infuser.sources.storage import SettingsState, settings_of
from infuser.types import PAIR_BREAK, Annotations, Link, Span

TINY = "tiny"
"""The name of a miniature made in memory, instead of a model; a folder of that name is given as "./tiny"."""
LONGEST = 100_000
"""Characters that a tagger is given at once."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"\w")
_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)


class Finding(NamedTuple):
    """A mention or phrase, in characters of the piece of text that the tagger was given."""

    start: int
    end: int
    label: str
    id: str = ""


class TaggerSource(SettingsState):
    """Mixin of sources that run a model: checks their fields, reads by paragraph, saves a model that has a name."""

    models: ClassVar[tuple[str, ...]] = ("pipeline",)
    """The fields that hold a model: its name, its folder or an object."""
    advice: ClassVar[str] = ""
    """How to save a source whose model was given as an object."""
    longest: ClassVar[int] = LONGEST
    """Characters of a paragraph that are read at once."""

    def __post_init__(self) -> None:
        for name, value in settings_of(self).items():
            if name == "batch_size" and (not isinstance(value, int) or value < 1):
                raise SourceError(f"batch_size is {value!r}; it must be a whole number, 1 or more.")
            if name in self.models and isinstance(value, Path):
                value = str(value)
            elif name in ("labels", "exclude"):
                value = _names_or_none(value, name)
            elif name == "levels":
                value = _checked_levels(value)
            object.__setattr__(self, name, value)

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return what the model finds in each text."""
        labels = settings_of(self).get("labels")
        return annotate_by_paragraph(texts, self._tag, labels=labels, longest=self.longest)

    def _tag(self, pieces: list[str]) -> Iterable[Iterable[Finding]]:
        raise NotImplementedError

    @cached_property
    def span_types(self) -> tuple[str, ...]:
        """The labels asked for, else those that the model knows, in its order; none if it does not name them."""
        labels = settings_of(self).get("labels")
        return tuple(dict.fromkeys(self._known_labels() if labels is None else labels))

    @property
    def relation_types(self) -> tuple[str, ...]:
        """The one relation without a name, which ties the words of a span."""
        return ("",)

    def _known_labels(self) -> Iterable[str]:
        """Return the labels of the model, which is loaded if it has to be."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the settings; SourceError if a model was given as an object."""
        settings = settings_of(self)
        for field in self.models:
            if not isinstance(settings[field], str | None):
                raise SourceError(
                    f"Its {field} was given as an object, a {type(settings[field]).__name__}. {self.advice}"
                )
        return settings


def annotate_by_paragraph(
    texts: Sequence[str],
    tag: Callable[[list[str]], Iterable[Iterable[Finding]]],
    *,
    labels: Collection[str] | None = None,
    longest: int = LONGEST,
) -> list[Annotations]:
    """Return what a tagger finds in each text, each finding tied to itself.

    `tag` gets pieces of text, no two the same and none without a word, and returns the findings of each. Findings
    without a letter or digit, and those with another label than `labels`, are left out; the rest lose the white space
    around them and never cut a character from its accents.
    """
    pieces = [list(_pieces(text, longest)) for text in texts]
    distinct = list(dict.fromkeys(piece for found in pieces for _, piece in found))
    findings = dict(zip(distinct, tag(distinct), strict=True)) if distinct else {}
    return [
        _annotations(text, ((start, piece, findings[piece]) for start, piece in found), labels)
        for text, found in zip(texts, pieces, strict=True)
    ]


def _pieces(text: str, longest: int) -> Iterator[tuple[int, str]]:
    """Yield the pieces of a text that hold a word, each with its place."""
    start = 0
    for paragraph in _LONE_SURROGATE.sub("\ufffd", text).split(PAIR_BREAK):
        for cut, piece in _cut(paragraph, longest):
            if has_word(piece):
                yield start + cut + len(piece) - len(piece.lstrip()), piece.strip()
        start += len(paragraph) + len(PAIR_BREAK)


def _cut(paragraph: str, longest: int) -> Iterator[tuple[int, str]]:
    """Yield parts of a paragraph that are not too long, cut at white space if there is any."""
    start = 0
    while len(paragraph) - start > longest:
        space = max(paragraph.rfind(space, start + longest // 2, start + longest) for space in " \n\t")
        end = space if space > 0 else start + longest
        yield start, paragraph[start:end]
        start = end
    yield start, paragraph[start:]


def _annotations(
    text: str, pieces: Iterable[tuple[int, str, Iterable[Finding]]], labels: Collection[str] | None
) -> Annotations:
    spans: set[Span] = set()
    for offset, piece, findings in pieces:
        for start, end, label, id in findings:
            if not 0 <= start <= end <= len(piece):
                raise SourceError(
                    f"The tagger returned ({start}, {end}) for a text of {len(piece)} characters: {piece[:80]!r}. Its "
                    "places must be characters of the text it was given."
                )
            if (labels is None or label in labels) and _WORD.search(piece, start, end):
                spans.add(Span(*_whole(text, offset + start, offset + end), label, id))
    ordered = tuple(sorted(spans, key=lambda span: (span.start, span.end, span.label, span.id)))
    return Annotations(text, ordered, tuple(Link(place, place) for place in range(len(ordered))))


def _whole(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the white space around it, its first and last character with all their marks."""
    while text[start].isspace():
        start += 1
    while text[end - 1].isspace():
        end -= 1
    while start > 0 and not text[start - 1].isspace() and _belongs_to_previous(text, start):
        start -= 1
    while end < len(text) and _belongs_to_previous(text, end):
        end += 1
    return start, end


def _belongs_to_previous(text: str, place: int) -> bool:
    char = text[place]
    if char.isascii() or char.isspace():
        return False
    return (
        unicodedata.category(char)[0] == "M"
        or char == _JOINER
        or text[place - 1] == _JOINER
        or ord(char) in _SKIN_TONES
    )


def has_word(text: str) -> bool:
    """Return whether there is a letter or digit in a text."""
    return _WORD.search(text) is not None


def windows(costs: Sequence[int], room: int, *, overlap: int, n_longest: int | None = None) -> Iterator[range]:
    """Yield runs of things that fit into a model, each `overlap` things into the one before, so that all are covered.

    A run costs at most `room` in all and has at most `n_longest` things; a thing that is too large stands alone.
    """
    start = 0
    while start < len(costs):
        end, total = start, 0
        while end < len(costs) and (n_longest is None or end - start < n_longest) and total + costs[end] <= room:
            total += costs[end]
            end += 1
        end = max(end, start + 1)
        yield range(start, end)
        if end == len(costs):
            return
        start = max(end - overlap, start + 1)


def owners(runs: Sequence[range]) -> list[int]:
    """Return for each thing the number of the window that decides on it: where two overlap, each up to the middle."""
    owner: list[int] = []
    for number, run in enumerate(runs):
        following = runs[number + 1].start if number + 1 < len(runs) else run.stop
        until = (following + run.stop + 1) // 2
        owner += [number] * (until - len(owner))
    return owner


def need(module: str, extra: str) -> Any:
    """Import an optional package; if it is missing, raise an error that shows how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"This source needs {module}, which cannot be imported ({error}): pip install 'infuser[{extra}]'."
        ) from error


def _names_or_none(names: Sequence[str] | None, what: str) -> tuple[str, ...] | None:
    """Return names as a tuple, None as it is, and refuse anything else."""
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise SourceError(f"{what} is {names!r}; give a list of names, or None.")
    return tuple(names)


def _checked_levels(levels: Sequence[int]) -> tuple[int, ...]:
    """Return levels as a tuple; raise unless they are whole numbers from 1 on."""
    given = tuple(levels) if isinstance(levels, Iterable) else (levels,)
    if not given or not all(isinstance(level, int) and not isinstance(level, bool) and level >= 1 for level in given):
        raise SourceError(f"levels is {levels!r}; give a list of whole numbers from 1 on, such as (1, 2).")
    return given


def tiny_tokenizer(words: Sequence[str] = (), *, last: Sequence[str] = (), longest: int = 64) -> Any:
    """Return a fast WordPiece tokenizer of lower-case words and single letters; `last` ends its vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    pieces = [*special.values(), *words, *ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase), *last]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    inside = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inside.normalizer = normalizers.BertNormalizer(lowercase=True)
    inside.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inside.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inside, model_max_length=longest, additional_special_tokens=list(last), **special
    )
