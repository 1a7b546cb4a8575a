"""Entities as tags of tokens, and back: the only place where gold spans in characters become labels of tokens.

A word of the tokenizer has one tag, O, B-TYPE or I-TYPE, and its first token carries it. Other pieces of the word,
special tokens, padding and everything behind the text (a second segment) have the label -100, which losses leave out.
A word is what the tokenizer splits before it looks for pieces; where that includes signs ("Bern." of SentencePiece),
it is divided at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from transformers import BatchEncoding

from infuser.errors import InputError
from infuser.signals.examples import IGNORED

OUTSIDE = "O"
FoundEntity = list[Any]
"""start, end, label, probability: plain values, ready for JSON."""


class TokenWord(NamedTuple):
    """A word of a text: the position of its first token, and its characters."""

    token: int
    start: int
    end: int


@dataclass(frozen=True)
class Tags:
    """The tags of some types of entities, numbered as a token classifier's head has them: O, B-a, I-a, B-b, I-b ..."""

    types: tuple[str, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The tags in the order of their numbers."""
        return (OUTSIDE, *(f"{prefix}-{one}" for one in self.types for prefix in "BI"))

    @classmethod
    def of_head(cls, id2label: Mapping[Any, str]) -> Self:
        """Return the tags of a trained model; raise if its labels are not those of a tagger of ours."""
        names = [id2label[number] for number in sorted(id2label)]
        tags = cls(tuple(name[2:] for name in names[1::2]))
        if list(tags.names) != names:
            raise InputError(
                f"The model's labels are {', '.join(names[:6])}; entities need O, B-TYPE, I-TYPE and so on. Train it "
                "with `infuser train --task ner`."
            )
        return tags

    def labels(self, examples: Sequence[Mapping[str, Any]], encoding: BatchEncoding) -> dict[str, Tensor]:
        """Return the labels (batch, seq) of examples with `entities`; nothing where examples have none."""
        given = [example.get("entities") for example in examples]
        if all(entities is None for entities in given):
            return {}
        rows = []
        for place, entities in enumerate(given):
            if entities is None:
                raise InputError(f"Example {place} of the batch has no 'entities', others do. Give a list, or [].")
            row = [IGNORED] * len(encoding["input_ids"][place])
            words = token_words(examples[place]["text"], encoding, place)
            for word, number in zip(words, self._numbers(entities, words), strict=True):
                row[word.token] = number
            rows.append(row)
        return {"labels": torch.tensor(rows, dtype=torch.long)}

    def _numbers(self, entities: Iterable[tuple[int, int, str]], words: Sequence[TokenWord]) -> list[int]:
        """Return the tag of each word: the first that an entity touches begins it, the others are inside."""
        numbers, known = [0] * len(words), {one: 1 + 2 * place for place, one in enumerate(self.types)}
        for start, end, label in entities:
            touched = [at for at, word in enumerate(words) if word.start < end and start < word.end]
            if label not in known:
                raise InputError(f"An entity has the type {label!r}. Known: {', '.join(self.types)}.")
            for place, at in enumerate(touched):
                numbers[at] = known[label] + min(place, 1)
        return numbers

    def read(self, logits: Tensor, words: Sequence[TokenWord]) -> list[FoundEntity]:
        """Return the entities that the logits (seq, tags) of one text say, in the order of the text.

        As seqeval reads tags by default, an I after O or after another type begins an entity. The probability is that
        of all its words having their tags, each for itself.
        """
        if not words:
            return []
        shares = logits[[word.token for word in words]].float().softmax(dim=-1)
        best = shares.max(dim=-1)
        found: list[FoundEntity] = []
        before = OUTSIDE
        for word, number, share in zip(words, best.indices.tolist(), best.values.tolist(), strict=True):
            tag = self.names[number]
            if tag != OUTSIDE:
                goes_on = tag[0] == "I" and before != OUTSIDE and tag[2:] == before[2:]
                if goes_on:
                    found[-1][1] = word.end
                    found[-1][3] *= share
                else:
                    found.append([word.start, word.end, tag[2:], share])
            before = tag
        return found


def token_words(text: str, encoding: BatchEncoding, place: int) -> list[TokenWord]:
    """Return the words of a text that the encoding of row `place` holds; a text that was cut has fewer."""
    words: list[TokenWord] = []
    last: int | None = None
    rows = zip(encoding["offset_mapping"][place], encoding.word_ids(place), encoding.sequence_ids(place), strict=True)
    for token, ((start, end), number, segment) in enumerate(rows):
        piece = text[start:end] if segment == 0 else ""
        if not piece.strip():
            continue
        start += len(piece) - len(piece.lstrip())  # offsets of byte-level BPE may include the space before a word
        end -= len(piece) - len(piece.rstrip())
        if number == last and words and not _divides(text, start, words[-1].end):
            words[-1] = words[-1]._replace(end=max(end, words[-1].end))
        else:
            words.append(TokenWord(token, start, end))
        last = number
    return words


def _divides(text: str, start: int, end_before: int) -> bool:
    """Return whether a piece of the same word begins behind the one before it at a sign, or behind one."""
    return start >= end_before > 0 and not (text[start].isalnum() and text[start - 1].isalnum())
