"""Open-domain questions: passages that a search engine found, and the answer as a stretch of one of them.

Training shows the encoder the passages that hold the answer (its first occurrence in each) and a few that do not, one
by one. There is no dev set while it trains, so it ends with its last weights. Asking reads every passage and takes the
best span of all, where spans of different passages are compared by how much better they are than no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from infuser.errors import InputError
from infuser.stats.answer_scores import exact_match, word_f1
from infuser.stats.metrics import Metric, mean_metric
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Example, Examples, Prediction, Task, Training
from infuser.tasks.span_windows import WindowCollator, read_windows, training_windows, windows_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.signals import Collator
    from infuser.training import TrainResult


@dataclass(frozen=True)
class OpenQa(Task):
    """The base of tasks with passages; an example is a question: text, pair (its passages), answers, id."""

    max_passages: int = 10
    """How many passages of a question are read, in the order of the data."""
    max_answer_tokens: int = 16
    """How many tokens an answer may have."""
    n_negatives: int = 1
    """How many passages without the answer training shows per question; from them it learns to find none."""

    head: ClassVar[str] = "question-answering"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "exact-match")

    def __post_init__(self) -> None:
        for name, least in (("max_passages", 1), ("max_answer_tokens", 1), ("n_negatives", 0)):
            if getattr(self, name) < least:
                raise InputError(f"The setting {name} is {getattr(self, name)!r}; give at least {least}.")

    def gold(self, example: Example) -> list[str]:
        """Return the accepted answers."""
        return list(example["answers"])

    def fit(self, training: Training, examples: Examples, dev: Examples | None = None) -> TrainResult:
        """Fine-tune the model on the passages of these questions; `dev` and `patience` are ignored."""
        windows = [window for example in examples for window in training_windows(example, n_negatives=self.n_negatives)]
        if not windows:
            raise InputError(
                f"None of the {len(examples)} questions has its answer in one of its passages, so there is nothing to "
                f"learn from. Read more of them: max_passages is {self.max_passages}."
            )
        collate = WindowCollator(training.collator)
        return training.fit(windows, collate=collate, metric=self.metrics[0], patience=None)

    def answer(
        self, model: PreTrainedModel, collator: Collator, examples: Sequence[Example], *, batch_size: int = 64
    ) -> list[Prediction]:
        """Return the best span over all passages of each question, as it is written there."""
        windows = [window for example in examples for window in windows_of(example)]
        most = self.max_answer_tokens
        answers = iter(read_windows(model, collator, windows, max_answer_tokens=most, batch_size=batch_size))
        return [max((next(answers) for _ in example["pair"]), key=lambda one: one.score).text for example in examples]

    def get_metric(self, name: str) -> Metric:
        """Return F1 or exact match, as shares between 0 and 1."""
        value = word_f1 if name == "f1" else exact_match
        return mean_metric(name, lambda answers, golds: list(map(value, answers, golds)))

    def question(self, place: Place, asked: object, answer: object, passages: Sequence[object], *, id: str) -> Example:
        """Return the example of one row of data; raise BadRow if the row is malformed."""
        for name, value in (("question", asked), ("answer", answer)):
            if not isinstance(value, str) or not value.strip():
                raise BadRow(place, f"has no {name} that is a text but {value!r}", advice="Fill it in or drop the row.")
        for passage in passages:
            if not isinstance(passage, str):
                raise BadRow(place, f"has a passage that is no text but {passage!r}")
        # a question without passages still counts: its answer is empty
        return {"text": asked, "pair": list(passages[: self.max_passages]) or [""], "answers": [answer], "id": id}
