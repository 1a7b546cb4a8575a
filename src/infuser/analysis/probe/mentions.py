"""Where entities stand in texts, in token positions: what every measure of an encoder's knowledge begins with.

Of each entity some mentions are taken, chosen by their content: the order of the data changes nothing, and neither does
a text that occurs twice. Mentions that the encoder does not come to read are passed over before that choice.
"""

from __future__ import annotations

import copy
import hashlib
import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.errors import InputError
from infuser.hosts.loading import longest_input
from infuser.progress import progress_bar
from infuser.signals.align import align
from infuser.signals.collator import Collator
from infuser.signals.examples import InputRow, read_rows, tokenizer_inputs
from infuser.types import Annotations, Link, Source, Span, entity_key

Example: TypeAlias = Mapping[str, Any]
"""A text, perhaps its pair, and perhaps what the sources found: {"text": ..., "pair": ..., "annotations": (...)}."""
_AT_ONCE = 256
"""Texts that are tokenised together."""


@dataclass(frozen=True, slots=True)
class ProbedMention:
    """One mention of an entity in one text."""

    key: str
    label: str
    """What the source calls its kind."""
    name: str
    """Its words, folded: two entities may share a name."""
    row: InputRow
    start: int
    """Position of its first token."""
    end: int
    """One after its last token."""
    n_tokens: int
    """Length of the whole text."""
    mark: bytes
    """Tells the mention from all others, by content."""


def name_examples(names: Mapping[str, str]) -> list[Example]:
    """Return entities as examples without any context: each name is a text, with the key as the entity's id."""
    return [
        {"text": name, "annotations": (Annotations(name, (Span(0, len(name), id=key),)),)}
        for key, name in names.items()
    ]


def find_probed_mentions(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    examples: Sequence[Example],
    sources: Sequence[Source] = (),
    *,
    max_mentions: int = 8,
    progress: bool = False,
) -> list[ProbedMention]:
    """Return up to `max_mentions` mentions of each entity that the model can read, sorted by key, then by content.

    Examples come with annotations, as `Collator.annotate` gives them; for those that do not, the sources are asked.
    """
    if max_mentions < 1:
        raise InputError(f"max_mentions={max_mentions}: at least one mention of an entity must be read.")
    collator = Collator(tokenizer, sources, max_length=longest_input(model, tokenizer))
    rows = read_rows(examples)[0] if len(examples) else []
    of_key: dict[str, dict[bytes, ProbedMention]] = {}
    with progress_bar("finding mentions", len(rows), unit="texts", shown=None if progress else False) as bar:
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            for mention in _mentions(collator, some, _found(collator, some)):
                same = of_key.setdefault(mention.key, {})
                # two sources may name its kind differently: the data's order must not decide
                same[mention.mark] = max(mention, same.get(mention.mark, mention), key=lambda one: one.label)
            bar.advance(len(some))
    return [
        mention
        for _, all_of_it in sorted(of_key.items())
        for mention in heapq.nsmallest(max_mentions, all_of_it.values(), key=lambda one: one.mark)
    ]


def _found(collator: Collator, rows: Sequence[InputRow]) -> list[tuple[Annotations, ...]]:
    """Return what is annotated in each row; the sources are asked for rows that do not say."""
    missing = [row for row in rows if row.annotations is None]
    if missing and not collator.sources:
        raise InputError(
            f"{missing[0].text[:40]!r} has no annotations, so nothing says which entities it mentions. Give sources, "
            "or examples with the annotations that Collator.annotate made."
        )
    answers = iter(collator.annotate([row.text for row in missing], [row.pair for row in missing]) if missing else [])
    return [next(answers) if row.annotations is None else row.annotations for row in rows]


def _mentions(
    collator: Collator, rows: Sequence[InputRow], found: Sequence[tuple[Annotations, ...]]
) -> Iterator[ProbedMention]:
    limit = collator.max_length
    encoding = collator.tokenizer(
        tokenizer_inputs(collator.tokenizer, rows, limit),
        truncation="longest_first",
        max_length=limit,
        return_offsets_mapping=True,
    )
    for number, (row, of_row) in enumerate(zip(rows, found, strict=True)):
        # one link, because spans that nothing is said about get no token positions
        spans = [Annotations(one.text, one.spans, (Link(0, 0),) if one.spans else ()) for one in of_row]
        offsets = encoding["offset_mapping"][number]
        ranges = align(spans, row.text, row.pair, offsets, encoding.sequence_ids(number)).ranges
        for one, of_one in zip(spans, ranges, strict=True):
            for span, place in zip(one.spans, of_one, strict=False):
                if place is not None:
                    yield _mention(row, span, place, len(offsets))


def _mention(row: InputRow, span: Span, place: tuple[int, int], n_tokens: int) -> ProbedMention:
    text = row.joined
    key, name = entity_key(text, span), entity_key(text, Span(span.start, span.end))
    content = f"{place} {len(row.text)} {key}\n{text}"  # with where the first side ends: a pair is no long text
    mark = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return ProbedMention(key, span.label, name, row, *place, n_tokens, mark)


def text_batches(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    mentions: Sequence[ProbedMention],
    *,
    batch_size: int,
    most_tokens: int | None = None,
    progress: bool = False,
) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
    """Yield the text of each mention, in batches: places among `mentions` and the batch, padded behind the texts.

    Texts of about the same length come together. `most_tokens` bounds rows times length, for heads with large answers.
    """
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}: give 1 or more.")
    padding_behind = copy.copy(tokenizer)
    padding_behind.padding_side = "right"  # before a text it would move the positions that most encoders count
    collator = Collator(padding_behind, max_length=longest_input(model, tokenizer))
    order = sorted(range(len(mentions)), key=lambda place: -mentions[place].n_tokens)
    with progress_bar("reading mentions", len(order), unit="texts", shown=None if progress else False) as bar:
        done = 0
        while done < len(order):
            longest = mentions[order[done]].n_tokens
            n_rows = batch_size if most_tokens is None else max(1, min(batch_size, most_tokens // longest))
            places = order[done : done + n_rows]
            batch = collator([{"text": mentions[p].row.text, "pair": mentions[p].row.pair} for p in places])
            yield places, {name: tensor.to(model.device) for name, tensor in batch.items()}
            done += len(places)
            bar.advance(len(places))
