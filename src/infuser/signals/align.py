"""Characters become token positions, for one example.

Sources use character offsets in the joined text; the encoder uses positions in a padded token sequence. A link
becomes a box, "these rows and these columns", which later is drawn as a rectangle of the map and its mirror image.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from infuser.errors import InputError
from infuser.types import OTHER, PAIR_BREAK, Annotations, Span, Vocabulary, join_pair
from infuser.words import WordBorders

Box: TypeAlias = tuple[int, int, int, int, int]
"""channel, row_start, row_end, col_start, col_end; ends are exclusive."""

Tie: TypeAlias = tuple[int, int, int, int, int]
"""source, relation, row_start, row_end, place in `Aligned.terms`; the relation by its number in the vocabulary."""

TypedSpan: TypeAlias = tuple[int, int, int, int]
"""source, type, start, end; the type by its number in the vocabulary."""

Range: TypeAlias = tuple[int, int] | None
"""Token positions of a span, end exclusive; None when no token of it is left."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """What all sources know about one example, in token positions."""

    boxes: list[Box] = field(default_factory=list)
    """One per link; it holds in both directions."""
    weights: list[float] = field(default_factory=list)
    """One per box, above 0 and up to 1."""
    kinds: list[int] = field(default_factory=list)
    """One per box: the type of a span that is tied to itself, else the relation, numbered behind the types."""
    spans: list[TypedSpan] = field(default_factory=list)
    """Every span of every source that has tokens."""
    terms: list[str] = field(default_factory=list)
    """Auxiliary words, each once, the first of every source before the second of any."""
    ties: list[Tie] = field(default_factory=list)
    """Which tokens each auxiliary word is tied to."""
    tie_weights: list[float] = field(default_factory=list)
    """One per tie, above 0 and up to 1."""
    ranges: list[list[Range]] = field(default_factory=list)
    """Token positions of every span of every source; empty lists if no source says anything about its spans."""


def align(
    annotations: Sequence[Annotations],
    text: str,
    pair: str | None,
    offsets: Sequence[tuple[int, int]],
    sequence_ids: Sequence[int | None],
    vocabulary: Vocabulary | None = None,
) -> Aligned:
    """Return the token boxes, typed spans and terms of one example's annotations, one channel per source.

    `offsets` and `sequence_ids` are those of the fast tokenizer's encoding, padding included, so positions are right
    for either padding side. Without a vocabulary, all types are 0. Spans are widened to whole words; a span that the
    encoding cut off is left out with its links, and so is one that reaches from one side of a pair into the other.
    """
    joined = join_pair(text, pair)
    for channel, found in enumerate(annotations):
        if found.text != joined:
            raise InputError(
                f"The annotations of source {channel} (counted from 0) belong to another text: {found.text[:40]!r}, "
                f"not {joined[:40]!r}. Annotate join_pair(text, pair), in the order of the examples."
            )
    aligned = Aligned()
    if not any(found.spans for found in annotations):
        aligned.ranges.extend([] for _ in annotations)
        return aligned
    words, sides = WordBorders(joined), _sides(text, pair, offsets, sequence_ids)
    ranges = [[_token_range(span, words, sides) for span in found.spans] for found in annotations]
    aligned.ranges.extend(ranges)
    vocabulary = vocabulary or _untyped(len(annotations))
    _align_spans(aligned, annotations, ranges, vocabulary)
    _align_links(aligned, annotations, ranges, vocabulary)
    _align_terms(aligned, annotations, ranges, vocabulary)
    return aligned


def token_ranges(
    spans: Sequence[Span],
    text: str,
    pair: str | None,
    offsets: Sequence[tuple[int, int]],
    sequence_ids: Sequence[int | None],
) -> list[Range]:
    """Return the token positions of spans of one text or pair, as `align` finds them."""
    words, sides = WordBorders(join_pair(text, pair)), _sides(text, pair, offsets, sequence_ids)
    return [_token_range(span, words, sides) for span in spans]


def _untyped(n_sources: int) -> Vocabulary:
    """Return a vocabulary that distinguishes no types."""
    return Vocabulary(((OTHER,),) * n_sources, ((OTHER,),) * n_sources)


def _align_spans(
    aligned: Aligned, annotations: Sequence[Annotations], ranges: list[list[Range]], vocabulary: Vocabulary
) -> None:
    for channel, found in enumerate(annotations):
        for span, tokens in zip(found.spans, ranges[channel], strict=True):
            if tokens:
                aligned.spans.append((channel, vocabulary.type_of(channel, span.label), *tokens))


def _align_links(
    aligned: Aligned, annotations: Sequence[Annotations], ranges: list[list[Range]], vocabulary: Vocabulary
) -> None:
    for channel, found in enumerate(annotations):
        n_types = len(vocabulary.types[channel])
        for link in found.links:
            weight = _checked(link.weight, channel)
            rows = _look_up(ranges, channel, link.source)
            cols = _look_up(ranges, channel, link.target)
            if not (weight and rows and cols):
                continue
            aligned.boxes.append((channel, *rows, *cols))
            aligned.weights.append(weight)
            if link.source == link.target:
                aligned.kinds.append(vocabulary.type_of(channel, found.spans[link.source].label))
            else:
                aligned.kinds.append(n_types + vocabulary.relation_of(channel, link.relation))


def _align_terms(
    aligned: Aligned, annotations: Sequence[Annotations], ranges: list[list[Range]], vocabulary: Vocabulary
) -> None:
    # the best term of every source comes first: a limit on terms must not silence the later sources
    in_turn = sorted((rank, channel) for channel, found in enumerate(annotations) for rank in range(len(found.terms)))
    places: dict[str, int] = {}
    for rank, channel in in_turn:
        term = annotations[channel].terms[rank]
        relation = vocabulary.relation_of(channel, term.relation)
        for span, tie_weight in term.ties:
            weight = _checked(tie_weight, channel)
            rows = _look_up(ranges, channel, span)
            if weight and rows:
                aligned.ties.append((channel, relation, *rows, places.setdefault(term.text, len(places))))
                aligned.tie_weights.append(weight)
    aligned.terms.extend(places)


class _Side:
    """The tokens of the text or of its pair that hold characters, in characters of the joined text."""

    def __init__(
        self,
        begin: int,
        text: str,
        offsets: Sequence[tuple[int, int]],
        sequence_ids: Sequence[int | None],
        *,
        number: int,
    ) -> None:
        self.begin, self.end = begin, begin + len(text)
        self.positions: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        for position, ((start, end), sequence_id) in enumerate(zip(offsets, sequence_ids, strict=True)):
            if sequence_id != number:
                continue
            piece = text[start:end]
            kept = piece.strip()  # offsets of byte-level BPE and SentencePiece may include the space before a word
            if not kept:
                continue
            start += len(piece) - len(piece.lstrip())
            self.positions.append(position)
            self.starts.append(begin + start)
            self.ends.append(begin + start + len(kept))


def _sides(
    text: str, pair: str | None, offsets: Sequence[tuple[int, int]], sequence_ids: Sequence[int | None]
) -> list[_Side]:
    sides = [_Side(0, text, offsets, sequence_ids, number=0)]
    if pair is not None:
        sides.append(_Side(len(text) + len(PAIR_BREAK), pair, offsets, sequence_ids, number=1))
    return sides


def _token_range(span: Span, words: WordBorders, sides: list[_Side]) -> Range:
    """Return the positions that a span covers, or None.

    The range runs from the first token that shares a character with the span to the last: a piece that is only a
    space, between two words of one phrase, lies inside it.
    """
    if not 0 <= span.start <= span.end <= sides[-1].end:
        raise InputError(
            f"Span {span.start}..{span.end} ({span.label or span.id or 'unnamed'!r}) lies outside its text of "
            f"{sides[-1].end} characters. Sources count characters of the text they were given."
        )
    start, end = words.widen(span.start, span.end) if span.start < span.end else (span.start, span.end)
    for side in sides:
        if not side.begin <= start < end <= side.end:
            continue
        first = bisect_right(side.ends, start)
        beyond = bisect_left(side.starts, end)
        if first < beyond:
            return side.positions[first], side.positions[beyond - 1] + 1
    return None


def _checked(weight: float, channel: int) -> float:
    if 0.0 <= weight <= 1.0:  # false for NaN too
        return weight
    raise InputError(
        f"Source {channel} (counted from 0) gave a link or term the weight {weight!r}. Weights lie between 0 and 1."
    )


def _look_up(ranges: list[list[Range]], channel: int, span: int) -> Range:
    if 0 <= span < len(ranges[channel]):
        return ranges[channel][span]
    raise InputError(
        f"Source {channel} (counted from 0) tied span number {span}, but found {len(ranges[channel])} spans, "
        "counted from 0."
    )
