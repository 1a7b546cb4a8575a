"""Examples become batches: tokens and, beside them, knowledge in a few integers per link; as NumPy arrays."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from infuser.errors import InputError
from infuser.signals.align import Range, align, token_ranges
from infuser.signals.appending import append_text, hide_appended, most_appended
from infuser.signals.candidates import bases_among, candidate_arrays, read_golds
from infuser.signals.examples import InputRow, examples_of, read_labels, read_rows, rows_of, tokenizer_inputs
from infuser.signals.tags import Tags, TokenWord, token_words
from infuser.signals.terms import Speller, padded, term_arrays
from infuser.sources.storage import annotate_checked
from infuser.types import Annotations, DrawsPerEpoch, Method, Source, Span, Vocabulary, WritesText, keep_spans

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase

Batch = dict[str, Any]
"""Arrays by name; `Collator` makes tensors of them."""
_NO_LIMIT = 1_000_000
"""Transformers writes 1e30 where a tokenizer knows no longest sequence; nothing real is longer than this."""


class BatchMaker:
    """Turns examples into batches of arrays.

    An example is a mapping with `text`, and if there are any `pair`, `label` (or `labels`) and `annotations` (what
    each source found, from `Collator.annotate`; otherwise the sources annotate, once per batch). For multiple choice,
    `text` or `pair` or both are lists, and every array has the shape (batch, choices, ...).

    With at least one source, a batch carries
        knowledge_boxes        (batch, L, 5) channel, row_start, row_end, col_start, col_end; channel -1 is padding
        knowledge_weights      (batch, L) weights of those boxes
        knowledge_kinds        (batch, L) their types and relations, see `Aligned.kinds`
        knowledge_spans        (batch, S, 4) source, type, start, end of every span; padding is empty
        knowledge_terms        (batch, K) token ids of the terms, one behind the other; only if there are any
        knowledge_ties         (batch, T, 6) source, relation, row_start, row_end, and which of those ids; likewise
        knowledge_tie_weights  (batch, T) likewise
    with types and relations by their numbers in `vocabulary`, and for each knowledge base among the sources its
    mentions and candidates, see `signals.candidates`. An example may then have `gold`, what these mentions mean (see
    `linking.examples`).

    With a `writer`, what the sources found is also appended to the text; with `tensors=False`, only appended.

    Batches are those for answering; `for_epoch` gives those for training, where a `Selective` source draws.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        sources: Iterable[Source] = (),
        *,
        max_length: int | None = None,
        vocabulary: Vocabulary | None = None,
        writer: Method | None = None,
        tensors: bool = True,
        max_term_tokens: int = 64,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        if not tokenizer.is_fast:
            raise InputError(
                f"{type(tokenizer).__name__} is a slow tokenizer: it cannot say which characters a token covers, so "
                "knowledge finds no place. Load a fast one with AutoTokenizer.from_pretrained(...)."
            )
        if tokenizer.pad_token is None:
            raise InputError("The tokenizer has no padding token. Set one: tokenizer.pad_token = tokenizer.eos_token.")
        self.tokenizer = tokenizer
        self.sources = tuple(sources)
        self.vocabulary = Vocabulary.of(self.sources) if vocabulary is None else vocabulary
        self.writer = writer if isinstance(writer, WritesText) else None
        self.tensors = tensors
        self.max_length = max_length
        self.max_term_tokens = max_term_tokens
        self.pad_to_multiple_of = pad_to_multiple_of
        self._spell = Speller(tokenizer)
        self._bases = bases_among(self.sources)
        self._epoch: dict[str, int] | None = None
        self._tags: Tags | None = None

    def with_tags(self, tags: Tags) -> Self:
        """Return a collator that makes `labels` of the `entities` of each example: one tag per word."""
        tagging = copy.copy(self)
        tagging._tags = tags
        return tagging

    def with_sources(self, sources: Sequence[Source]) -> Self:
        """Return a maker that reads other sources, with the same vocabulary."""
        other = copy.copy(self)
        other.sources = tuple(sources)
        other._bases = bases_among(sources)
        return other

    def for_epoch(self, epoch: int, *, seed: int = 0) -> Self:
        """Return the collator for one epoch of training, in which selective sources inject what they draw for it.

        Our loop calls it by itself. Epochs count from 0, and `seed` is that of the training run.
        """
        drawing = copy.copy(self)
        drawing._epoch = {"epoch": epoch, "seed": seed}
        return drawing

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> Batch:
        """Return the batch of these examples."""
        rows, n_choices = read_rows(examples)
        return self._batch(examples, *self._read(rows, examples, n_choices), n_choices)

    def place(
        self, examples: Sequence[Mapping[str, Any]], spans: Sequence[Sequence[Span]]
    ) -> tuple[Batch, list[list[Range]]]:
        """Return the batch of these examples, and where some spans of each of them stand in it, in token positions."""
        rows, n_choices = read_rows(examples)
        if n_choices is not None:
            raise InputError("Spans can be placed in texts and pairs, not in multiple choice.")
        knowledge, encoding = self._read(rows, examples, n_choices)
        ranges = [
            token_ranges(of_row, row.text, row.pair, encoding["offset_mapping"][i], encoding.sequence_ids(i))
            for i, (row, of_row) in enumerate(zip(rows, spans, strict=True))
        ]
        return self._batch(examples, knowledge, encoding, n_choices), ranges

    def _read(
        self, rows: list[InputRow], examples: Sequence[Mapping[str, Any]], n_choices: int | None
    ) -> tuple[Batch, BatchEncoding]:
        """Return what is known about rows as arrays, and their tokens."""
        if not self.sources:
            return {}, self._tokenize(rows)
        found, golds = self.find(rows, examples if n_choices is None else ())
        encoding = self._tokenize(self.written(rows, found, self.limit))
        return self.knowledge(rows, found, encoding, golds), encoding

    def with_words(self, examples: Sequence[Mapping[str, Any]]) -> tuple[Batch, list[list[TokenWord]]]:
        """Return the batch of these examples, and the words of each text, each with its first token."""
        rows, n_choices = read_rows(examples)
        knowledge, encoding = self._read(rows, examples, n_choices)
        words = [token_words(row.text, encoding, place) for place, row in enumerate(rows)]
        return self._batch(examples, knowledge, encoding, n_choices), words

    def _batch(
        self,
        examples: Sequence[Mapping[str, Any]],
        knowledge: Batch,
        encoding: BatchEncoding,
        n_choices: int | None,
    ) -> Batch:
        batch = {name: np.array(values, np.int64) for name, values in encoding.items() if name != "offset_mapping"}
        batch |= knowledge
        if self._tags is not None and n_choices is None:
            batch |= self._tags.labels(examples, encoding)
        if n_choices is not None:
            batch = {name: array.reshape(-1, n_choices, *array.shape[1:]) for name, array in batch.items()}
        lengths = [sum(mask) for mask in encoding["attention_mask"]][:: n_choices or 1]
        n_tokens, side = batch["input_ids"].shape[-1], self.tokenizer.padding_side
        return self.finish(batch | read_labels(examples, lengths, n_tokens=n_tokens, padding_side=side))

    def finish(self, arrays: Batch) -> Batch:
        """Return a batch in the form that this class gives."""
        return arrays

    def encode(self, texts: Sequence[str], pairs: Sequence[str | None] | None = None) -> Batch:
        """Return the batch of these texts or pairs, without labels."""
        return self(examples_of(texts, pairs))

    def annotate(
        self,
        texts: Sequence[str],
        pairs: Sequence[str | None] | None = None,
        *,
        batch_size: int = 256,
        progress: bool = False,
    ) -> list[tuple[Annotations, ...]]:
        """Return what each source found in each text or pair, to be kept and given along as `annotations`."""
        from infuser.sources.annotating.cache import annotate_cached  # not above: pyarrow is slow to load

        joined = [row.joined for row in rows_of(texts, pairs)]
        return annotate_cached(self.sources, joined, None, batch_size=batch_size, progress=progress)

    def _annotate(self, rows: list[InputRow]) -> list[tuple[Annotations, ...]]:
        joined = [row.joined for row in rows]
        answers = [annotate_checked(source, joined) for source in self.sources]
        return [tuple(answer[i] for answer in answers) for i in range(len(rows))]

    def _found(self, rows: list[InputRow]) -> list[tuple[Annotations, ...]]:
        """Return each row's annotations: its own, or what the sources find, in one call for all rows without any."""
        missing = [row for row in rows if row.annotations is None]
        answers = iter(self._annotate(missing) if missing else ())
        found = [next(answers) if row.annotations is None else row.annotations for row in rows]
        for row, of_row in zip(rows, found, strict=True):
            if len(of_row) != len(self.sources):
                raise InputError(
                    f"{row.text[:40]!r} comes with annotations of {len(of_row)} sources, but this collator has "
                    f"{len(self.sources)}. Make them with Collator.annotate of the same sources."
                )
        return found

    @property
    def limit(self) -> int | None:
        """The longest input in tokens; None if there is no limit."""
        if self.max_length is None and self.tokenizer.model_max_length < _NO_LIMIT:
            return int(self.tokenizer.model_max_length)
        return self.max_length

    def _tokenize(self, rows: list[InputRow]) -> BatchEncoding:
        limit = self.limit
        if limit is not None:
            n_special = self.tokenizer.num_special_tokens_to_add(pair=any(row.pair is not None for row in rows))
            if limit <= n_special:
                raise InputError(f"max_length={limit} leaves no room for text beside {n_special} special tokens.")
        encoding: BatchEncoding = self.tokenizer(
            tokenizer_inputs(self.tokenizer, rows, limit),
            padding="longest",
            truncation=False if limit is None else "longest_first",
            max_length=limit,
            pad_to_multiple_of=self.pad_to_multiple_of,
            return_attention_mask=True,
            return_offsets_mapping=True,
        )
        hide_appended(encoding, rows)
        return encoding

    def find(
        self, rows: list[InputRow], examples: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[list[tuple[Annotations, ...]], dict[str, list[Any] | None]]:
        """Return what the sources find in rows, or draw of it in this epoch, and what mentions of each base mean."""
        found = self._found(rows)
        golds = {base.name: read_golds(examples, base.name) for base in self._bases.values()}
        return (found, golds) if self._epoch is None else self._drawn(found, golds, **self._epoch)

    def written(
        self, rows: list[InputRow], found: Sequence[Sequence[Annotations]], limit: int | None
    ) -> list[InputRow]:
        """Return the rows as the encoder reads them: with a writer, what was found stands behind each text.

        limit: to how many tokens the rows will be cut; texts and pairs then make room, so that no knowledge is cut off.
        """
        return [
            append_text(self.tokenizer, row, text, limit) if text else row
            for row, text in zip(rows, self.written_texts(found, limit), strict=True)
        ]

    def written_texts(self, found: Sequence[Sequence[Annotations]], limit: int | None = None) -> list[str]:
        """Return what the writer puts behind each text; "" where it has nothing to say, or where there is no writer.

        limit: longest input in tokens, of which the writer takes its share; None takes that of the collator.
        """
        if self.writer is None:
            return [""] * len(found)
        lines = [self.writer.write(of_row) for of_row in found]
        self._spell(line for of_row in lines for line in of_row)  # in one call for all rows
        limit = limit or self.limit or _NO_LIMIT
        room = min(int(self.writer.share * limit), most_appended(self.tokenizer, limit))
        return [" . ".join(self._spell.fitting(of_row, room)) for of_row in lines]

    def knowledge(
        self,
        rows: list[InputRow],
        found: Sequence[Sequence[Annotations]],
        encoding: BatchEncoding,
        golds: Mapping[str, list[Any] | None],
    ) -> Batch:
        """Return what was found in rows as arrays, for their tokens."""
        if not self.tensors:
            return {}
        aligned = [
            align(of_row, row.text, row.pair, encoding["offset_mapping"][i], encoding.sequence_ids(i), self.vocabulary)
            for i, (row, of_row) in enumerate(zip(rows, found, strict=True))
        ]
        knowledge = {
            "knowledge_boxes": padded([one.boxes for one in aligned], (-1, 0, 0, 0, 0)),
            "knowledge_weights": padded([one.weights for one in aligned], 0.0),
            "knowledge_kinds": padded([one.kinds for one in aligned], 0),
            "knowledge_spans": padded([one.spans for one in aligned], (0, 0, 0, 0)),
        }
        knowledge |= term_arrays(aligned, self._spell, max_tokens=self.max_term_tokens)
        for place, base in self._bases.items():
            of_base, ranges = [of_row[place] for of_row in found], [one.ranges[place] for one in aligned]
            knowledge |= candidate_arrays(base, of_base, ranges, golds[base.name])
        return knowledge

    def _drawn(
        self, found: list[tuple[Annotations, ...]], golds: dict[str, list[Any] | None], *, epoch: int, seed: int
    ) -> tuple[list[tuple[Annotations, ...]], dict[str, list[Any] | None]]:
        """Return what is injected in this epoch, and what the mentions that are left mean."""
        columns, golds = list(zip(*found, strict=True)), dict(golds)
        for place, source in enumerate(self.sources):
            if not isinstance(source, DrawsPerEpoch):
                continue
            stays = [source.drawn(one, epoch=epoch, seed=seed) for one in columns[place]]
            columns[place] = tuple(map(keep_spans, columns[place], stays))
            base = self._bases.get(place)
            if base is not None and (gold := golds[base.name]) is not None:
                golds[base.name] = [_left(*of_text) for of_text in zip(gold, stays, strict=True)]
        return list(zip(*columns, strict=True)), golds


def _left(gold: Sequence[Any] | None, stays: Sequence[bool]) -> list[Any] | None:
    """Return what the mentions that stay mean."""
    if gold is None:
        return None
    if len(gold) != len(stays):
        raise InputError(
            f"An example has {len(gold)} gold entities for {len(stays)} mentions. Give one, or None, each."
        )
    return [one for one, kept in zip(gold, stays, strict=True) if kept]
