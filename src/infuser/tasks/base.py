"""What a task is: where its examples come from, which head answers them, and how answers are judged.

A task is one file: a frozen dataclass whose fields are its settings, entered into `TASKS` by name. Readers and scores
load without torch; training and asking import what they need. A new one needs `read`, `head_options` and, if it is not
about classes, the methods below that are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from infuser.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.methods.spectral import Spectral
    from infuser.signals import Collator
    from infuser.stats.metrics import Metric
    from infuser.training import TrainResult, TrainSettings
    from infuser.training.evaluation import Judge
    from infuser.training.steps import StepReport

Example = dict[str, Any]
"""text, and if there are any pair and label; a list of texts or pairs is multiple choice. See `signals.Collator`."""
Examples = Sequence[Example]
Prediction = Any
"""Plain values that JSON can hold; for classes, the logits."""
Split = Literal["train", "dev", "test"]


@dataclass(frozen=True)
class Training:
    """A model and how it is trained."""

    model: PreTrainedModel
    collator: Collator
    settings: TrainSettings
    progress: bool | Callable[[StepReport], None] = True
    """Show a bar, or call this with the state of each step."""
    spectral: Spectral | None = None
    """The penalty of SR, if it is wanted."""
    checkpoints: Path | None = None
    """Folder of checkpoints, from which a stopped training resumes; None writes none."""
    resume: bool = True

    def fit(
        self,
        examples: Sequence[Any],
        *,
        dev: Examples | None = None,
        collate: Any = None,
        judge: Judge | None = None,
        **changes: Any,
    ) -> TrainResult:
        """Run the training loop, with another collator, a judge of the dev set or changed settings if given."""
        from infuser.training import train

        return train(
            self.model,
            examples,
            collate or self.collator,
            dev=dev,
            settings=replace(self.settings, **changes),
            out=self.checkpoints,
            resume=self.resume,
            progress=self.progress,
            spectral=self.spectral,
            judge=judge,
        )


@dataclass(frozen=True)
class Solved:
    """What came of training a model for a task and asking it."""

    predictions: list[Prediction]
    history: list[dict[str, Any]]
    """What was known at each evaluation while it was trained."""
    training: float
    """Seconds."""
    answering: float
    """Seconds."""
    trained: TrainResult | None = None
    """How training went; None where nothing was trained."""


@dataclass(frozen=True)
class Task:
    """The base of all tasks; as it stands, one that is about classes."""

    data: str
    """A folder with the official files, or `datasets:NAME` (`datasets:NAME,CONFIG`) for the datasets library."""

    head: ClassVar[str] = "sequence-classification"
    """Which of `hosts.loading.HEADS` answers."""
    paths: ClassVar[tuple[str, ...]] = ("data",)
    """Which fields name files or folders; a bench looks for them beside its settings file."""
    tolerates_rounding: ClassVar[bool] = False
    """Whether a model that trained in 16 bits answers in 16 bits too: faster, but ranks and AUC need all digits."""
    reading: ClassVar[str] = ""
    """How answers are read, where that has changed: results read otherwise are computed again."""
    takes_annotations: ClassVar[bool] = True
    """Whether `annotations` of the examples are what the model reads; if not, the task calls the sources itself."""

    @property
    def learns(self) -> bool:
        """Whether there is a training part; a probe has none."""
        return True

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the scores; the first one is what is tuned for. A class may set them as a plain tuple."""
        return ("accuracy",)

    def read(self, split: Split) -> list[Example]:
        """Return the examples of a split; those of a hidden test part have no label."""
        raise NotImplementedError

    def head_options(self) -> dict[str, Any]:
        """Return what `from_pretrained` needs to make the head: num_labels, id2label."""
        return {}

    def gold(self, example: Example) -> Any:
        """Return what the right answer to an example is, as plain values."""
        return example["label"]

    def golds(self, examples: Sequence[Example], train: Sequence[Example]) -> list[Any]:
        """Return the right answers to examples; `train` is what was learned from, where scores depend on it."""
        return [self.gold(example) for example in examples]

    def rules(self, train: Sequence[Example], asked: Sequence[Example]) -> dict[str, list[Prediction]]:
        """Return by name what rules answer from the annotations of the examples alone, without an encoder."""
        return {}

    def with_rule(self, answers: Sequence[Prediction], of_rule: Sequence[Prediction]) -> list[Prediction]:
        """Return a model's answers joined with those of a rule; only tasks with `rules` need it."""
        raise NotImplementedError

    def covered(self, asked: Sequence[Example]) -> list[bool] | None:
        """Return which annotated examples the sources know something about; None if they are not scored apart."""
        return None

    def strata(self, examples: Sequence[Example]) -> Sequence[Hashable] | None:
        """Return the class of each example, which hold-outs keep in proportion; None where examples have no class."""
        labels = [example.get("label") for example in examples]
        return labels if all(isinstance(label, str | int) for label in labels) else None

    def held_out_groups(self, examples: Sequence[Example]) -> Sequence[Hashable] | None:
        """Return the group of each example where only whole groups can be held out; None where any example can be."""
        return None

    def dev_beside(self, scored: Split) -> list[Example] | None:
        """Return the part that chooses epochs while another is scored; None holds it out of the training part."""
        return None

    def fit(self, training: Training, examples: Examples, dev: Examples | None = None) -> TrainResult:
        """Fine-tune the model; with a dev set it ends with the weights that are best there."""
        return training.fit(examples, dev=dev, metric=self.metrics[0])

    def answer(
        self, model: PreTrainedModel, collator: Collator, examples: Sequence[Example], *, batch_size: int = 64
    ) -> list[Prediction]:
        """Return the model's answer to each example."""
        from infuser.training.evaluation import logits_of

        answers: list[Prediction] = logits_of(model, examples, collator, batch_size=batch_size).tolist()
        return answers

    def solve(self, training: Training, train: Examples, asked: Examples, dev: Examples | None = None) -> Solved:
        """Train the model if there is something to learn from, and ask it."""
        from infuser.training.steps import make_accelerator

        started = time.perf_counter()
        fitted = self.fit(training, train, dev) if self.learns else None
        history = [asdict(one) for one in fitted.history] if fitted else []
        trained = time.perf_counter()
        with make_accelerator(training.settings.mixed_precision if self.tolerates_rounding else "no").autocast():
            predictions = self.answer(training.model, training.collator, asked)
        return Solved(predictions, history, trained - started, time.perf_counter() - trained, fitted)

    @property
    def has_usual_metrics(self) -> bool:
        """Whether `stats.metrics` judges logits and labels as they are."""
        return type(self).score is Task.score and type(self).get_metric is Task.get_metric

    def get_metric(self, name: str) -> Metric:
        """Return one of the metrics: how it judges predictions and golds, and how it is resampled for intervals.

        A task that computes its scores itself in `score` and does not declare metrics has them recomputed for each
        resample.
        """
        from infuser.stats.metrics import Metric, get_metric

        if type(self).score is not Task.score:
            return Metric(name, lambda predictions, golds: self.score(golds, predictions)[name], kind="own")
        return get_metric(name)

    def score(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return every metric of these predictions."""
        if len(golds) != len(predictions):
            raise InputError(f"{len(predictions)} predictions for {len(golds)} examples. Give one for each.")
        return {name: self.get_metric(name)(predictions, golds) for name in self.metrics}

    def dependent_groups(self, golds: Sequence[Any]) -> list[str] | None:
        """Return the group of each example where examples of one group are drawn together; None if none depend."""
        return None

    def notes(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Return what belongs beside the scores, such as what was left out and why."""
        return {}


def class_options(labels: Sequence[str]) -> dict[str, Any]:
    """Return the options of a head that chooses one of these labels."""
    names: Mapping[int, str] = dict(enumerate(labels))
    return {"num_labels": len(names), "id2label": names, "label2id": {name: at for at, name in names.items()}}
