"""Entities as tags of tokens, and back: the only place where gold spans in characters become labels of tokens.

A word of the tokenizer has one tag, O, B-TYPE or I-TYPE, and its first token carries it. Other pieces of the word,
special tokens, padding and everything behind the text (a second segment) have the label -100, which losses leave out.
A word is what the tokenizer splits before it looks for pieces; where that includes signs ("Bern." of SentencePiece),
it is divided at them.

The tags of a text are read as its best path (Viterbi): the sum of each word's log-probabilities and of a score for each
move from tag to tag, half of log p(tag | tag before) - log p(tag), counted in the training texts. An I that follows
neither B nor I of its type is impossible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.signals.examples import IGNORED

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedConfig, PreTrainedTokenizerBase

OUTSIDE = "O"
MOVE_WEIGHT = 0.5
"""How much moves between tags count beside the words' own scores; chosen on dev sentences (docs/results/ner.md)."""
SMOOTHING = 0.5
"""Added to the number of times that each move was counted."""
_IN_CONFIG = "tag_moves"
_AT_ONCE = 256
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
    moves: tuple[tuple[float, ...], ...] = ()
    """Scores of moves, (tags + 1, tags): row i is from tag i, the last row from the start of the text. Empty: every
    possible move scores 0."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The tags in the order of their numbers."""
        return (OUTSIDE, *(f"{prefix}-{one}" for one in self.types for prefix in "BI"))

    @classmethod
    def of_model(cls, config: PreTrainedConfig) -> Self:
        """Return the tags of a trained model; raise if its labels are not those of a tagger of ours."""
        id2label: Mapping[Any, str] = config.id2label or {}
        names = [id2label[number] for number in sorted(id2label)]
        kept = getattr(config, _IN_CONFIG, None) or {}
        moves = kept["scores"] if kept.get("tags") == names else ()  # those of an earlier head say nothing
        tags = cls(tuple(name[2:] for name in names[1::2]), tuple(map(tuple, moves)))
        if list(tags.names) != names:
            raise InputError(
                f"The model's labels are {', '.join(names[:6])}; entities need O, B-TYPE, I-TYPE and so on. Train it "
                "with `infuser train --task ner`."
            )
        return tags

    def with_moves(self, examples: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase) -> Self:
        """Return the tags with scores of moves, counted in labelled examples."""
        counts = np.full((len(self.names) + 1, len(self.names)), SMOOTHING)
        for first in range(0, len(examples), _AT_ONCE):
            some = examples[first : first + _AT_ONCE]
            encoding = tokenizer([one["text"] for one in some], return_offsets_mapping=True, verbose=False)
            for place, example in enumerate(some):
                words = token_words(example["text"], encoding, place)
                numbers = self._numbers(example["entities"], words)
                np.add.at(counts, ([-1, *numbers[:-1]] if numbers else [], numbers), 1)
        share = counts.sum(axis=0) / counts.sum()
        scores = MOVE_WEIGHT * np.log(counts / counts.sum(axis=1, keepdims=True) / share)
        return replace(self, moves=tuple(map(tuple, scores.round(4).tolist())))

    def keep(self, config: PreTrainedConfig) -> None:
        """Write the scores of moves into a model's configuration, from which `of_model` reads them."""
        setattr(config, _IN_CONFIG, {"tags": list(self.names), "scores": [list(row) for row in self.moves]})

    def labels(self, examples: Sequence[Mapping[str, Any]], encoding: BatchEncoding) -> dict[str, NDArray[Any]]:
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
        return {"labels": np.array(rows, np.int64)}

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

    def read(self, logits: NDArray[Any], words: Sequence[TokenWord]) -> list[FoundEntity]:
        """Return the entities on the best path through the logits (seq, tags) of one text, in the order of the text.

        An entity's probability is the product of its words' probabilities of their tags.
        """
        if not words:
            return []
        scores = np.asarray(logits)[[word.token for word in words]].astype(np.float64)
        scores -= np.logaddexp.reduce(scores, axis=-1, keepdims=True)
        found: list[FoundEntity] = []
        for word, number, score in zip(words, self._best_path(scores), scores, strict=True):
            tag, share = self.names[number], float(np.exp(score[number]))
            if tag[0] == "I":
                found[-1][1] = word.end
                found[-1][3] *= share
            elif tag != OUTSIDE:
                found.append([word.start, word.end, tag[2:], share])
        return found

    @cached_property
    def _moves(self) -> NDArray[np.float64]:
        """The score of each move, -inf where it is impossible."""
        n_tags = len(self.names)
        scores = np.array(self.moves) if self.moves else np.zeros((n_tags + 1, n_tags))
        for number, tag in enumerate(self.names):
            if tag[0] == "I":
                scores[np.delete(np.arange(n_tags + 1), [number - 1, number]), number] = -np.inf
        return scores

    def _best_path(self, scores: NDArray[np.float64]) -> list[int]:
        """Return the number of each word's tag, given its scores (words, tags)."""
        moves = self._moves[:-1]
        total = self._moves[-1] + scores[0]
        come_from = np.empty(scores.shape, int)
        for place, of_word in enumerate(scores[1:], start=1):
            ways = total[:, None] + moves  # (tag before, tag)
            come_from[place] = ways.argmax(axis=0)
            total = ways.max(axis=0) + of_word
        path = [int(total.argmax())]
        for back in come_from[:0:-1]:
            path.append(int(back[path[-1]]))
        return path[::-1]


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
