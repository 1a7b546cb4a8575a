"""An exported model: texts in, answers out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.runtime.card import OUTPUT, ExportCard
from infuser.signals.answers import (
    MAX_ANSWER_TOKENS,
    best_answer,
    check_finite,
    entity_answer,
    passage_answer,
    passage_words,
    several_answer,
    softmax,
    text_answer,
)
from infuser.signals.batches import Batch, BatchMaker
from infuser.signals.candidates import check_replaceable
from infuser.signals.drawing import MapDrawer
from infuser.signals.examples import examples_of
from infuser.signals.tags import FoundEntity, Tags
from infuser.signals.windows import is_cut, read_in_windows
from infuser.types import Source

Example = Mapping[str, Any]
_Answer = TypeVar("_Answer")


class ExportedModel:
    """A graph with its tokenizer and sources; safe to use in several threads."""

    def __init__(
        self, card: ExportCard, session: Any, maker: BatchMaker, drawer: MapDrawer | None, tags: Tags | None
    ) -> None:
        self.card = card
        self._session, self._maker, self._drawer, self._tags = session, maker, drawer, tags

    @property
    def head(self) -> str:
        """What the model answers: "sequence-classification", "token-classification" and so on."""
        return self.card.head

    @property
    def labels(self) -> list[str]:
        """The names of its labels, in the order of the logits."""
        return self.card.labels

    @property
    def sources(self) -> tuple[Source, ...]:
        """What its knowledge comes from."""
        return self._maker.sources

    def with_sources(self, sources: Sequence[Source]) -> Self:
        """Return the same model with other sources in the place of its own, such as a base that knows more entities."""
        check_replaceable(self.sources, sources)
        other = copy.copy(self)
        other._maker = self._maker.with_sources(sources)
        return other

    def predict(
        self, texts: Sequence[Any], pairs: Sequence[Any] | None = None, *, batch_size: int = 32
    ) -> list[dict[str, Any]]:
        """Return what the model says about each text or pair, see `answer`."""
        return self.answer(examples_of(texts, pairs), batch_size=batch_size)

    def answer(self, examples: Sequence[Example], *, batch_size: int = 32) -> list[dict[str, Any]]:
        """Return what the model says about each example (text and, if there are any, pair and annotations).

        Classifiers  label, probabilities; score if they answer with a number; labels if there may be several
        Taggers      entities, with start, end, label, text and probability, of texts of any length
        Choices      choice (its place) and probabilities, of examples with a list of texts or pairs
        Questions    answer, start and end in the pair, and score: how much better it is than no answer
        """
        if self.head == "token-classification":
            if self._tags is None:
                raise InputError(
                    f"The model's labels are {', '.join(self.labels[:6])}; entities need O, B-TYPE, I-TYPE and so on. "
                    "Read its logits instead: model.logits(texts)."
                )
            found = read_in_windows(examples, lambda some: self._in_batches(some, self._read_entities, batch_size))
            return [entity_answer(one["text"], of_text) for one, of_text in zip(examples, found, strict=True)]
        answers = {
            "sequence-classification": self._read_labels,
            "multiple-choice": self._read_choices,
            "question-answering": self._read_answers,
        }
        if self.head not in answers:
            raise InputError("This is an encoder without a head. Read its states instead: model.logits(texts).")
        return self._in_batches(examples, answers[self.head], batch_size)

    def logits(self, texts: Sequence[Any], pairs: Sequence[Any] | None = None) -> NDArray[np.float32]:
        """Return what the graph gives for these texts as one batch.

        Shapes: (texts, labels), (texts, tokens, labels), (texts, choices), (texts, 2, tokens) for the first and the
        last token of an answer, (texts, tokens, hidden) of an encoder without a head.
        """
        examples = examples_of(texts, pairs)
        return self._run(self._maker(examples))

    def batch(self, texts: Sequence[Any], pairs: Sequence[Any] | None = None) -> Batch:
        """Return the inputs of the graph for these texts."""
        return self._inputs(self._maker.encode(texts, pairs))

    def _in_batches(
        self, examples: Sequence[Example], answer: Callable[[list[Example]], list[_Answer]], batch_size: int
    ) -> list[_Answer]:
        """Return the answer to each example, asked in batches of similar length."""
        sizes = [_size(example) for example in examples]
        order = sorted(range(len(examples)), key=sizes.__getitem__)
        found: dict[int, _Answer] = {}
        while order:
            n_choices = sizes[order[0]][0]  # a batch has as many choices throughout
            places = [place for place in order[:batch_size] if sizes[place][0] == n_choices]
            order = order[len(places) :]
            found |= zip(places, answer([examples[place] for place in places]), strict=True)
        return [found[place] for place in range(len(examples))]

    def _read_labels(self, examples: list[Example]) -> list[dict[str, Any]]:
        logits = self._run(self._maker(examples))
        if len(self.labels) == 1:
            return [text_answer(self.labels, row) for row in logits.tolist()]
        if self.card.several_labels:
            return [several_answer(self.labels, row) for row in (1 / (1 + np.exp(-logits))).tolist()]
        return [text_answer(self.labels, row) for row in softmax(logits).tolist()]

    def _read_choices(self, examples: list[Example]) -> list[dict[str, Any]]:
        if any(_size(example)[0] == 0 for example in examples):
            raise InputError("This model chooses: each text or its pair is a list, with one entry for each choice.")
        shares = softmax(self._run(self._maker(examples)))
        return [{"choice": int(row.argmax()), "probabilities": row.tolist()} for row in shares]

    def _read_answers(self, examples: list[Example]) -> list[dict[str, Any]]:
        words, spans = passage_words(examples)
        arrays, ranges = self._maker.place(examples, spans)
        firsts = arrays["attention_mask"].argmax(axis=1).tolist()
        rows = zip(self._run(arrays), words, ranges, firsts, strict=True)
        answers = []
        for example, (logits, of_text, tokens, first) in zip(examples, rows, strict=True):
            best = best_answer(logits, of_text, tokens, first, MAX_ANSWER_TOKENS)
            answers.append(passage_answer(example["pair"], *best))
        return answers

    def _read_entities(self, examples: Sequence[Example]) -> list[tuple[list[FoundEntity], bool]]:
        assert self._tags is not None
        arrays, words = self._maker.with_words(examples)
        found = map(self._tags.read, self._run(arrays), words)
        cut = [is_cut(one["text"], of_text) for one, of_text in zip(examples, words, strict=True)]
        return list(zip(found, cut, strict=True))

    def _run(self, arrays: Batch) -> NDArray[np.float32]:
        """Return the graph's output for a batch; rows of choices side by side."""
        output: NDArray[np.float32] = self._session.run([OUTPUT], self._inputs(arrays))[0]
        check_finite(int(output.size - np.isfinite(output).sum()), output.size)
        if self.head == "multiple-choice":
            output = output.reshape(arrays["input_ids"].shape[:-1])
        return output

    def _inputs(self, arrays: Batch) -> Batch:
        """Return the graph's inputs, one row per sequence: knowledge drawn, and nothing where there is none."""
        if arrays["input_ids"].ndim == 3:  # choices are sequences of their own
            arrays = {name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()}
        if self._drawer is not None:
            arrays = arrays | self._drawer.draw(arrays)
        texts, tokens = arrays["input_ids"].shape
        inputs = {}
        for name, (dtype, *sizes) in self.card.inputs.items():
            if name in arrays:
                inputs[name] = np.ascontiguousarray(arrays[name], dtype=str(dtype))
            else:  # of terms, when no text has any
                known = {"texts": texts, "tokens": tokens}
                shape = [size if isinstance(size, int) else known.get(size, 1) for size in sizes]
                inputs[name] = np.zeros(shape, str(dtype))
        return inputs


def _size(example: Example) -> tuple[int, int]:
    """Return how many choices an example has, 0 if it is none of multiple choice, and how long it is."""
    sides = [example.get("text"), example.get("pair")]
    lists = [side for side in sides if isinstance(side, list | tuple)]
    length = sum(len("".join(map(str, side))) for side in sides if side is not None)
    return (max(map(len, lists)) if lists else 0), length
