"""Named entity recognition with a token classification head.

Entities are character spans; only `signals.tags` maps them to tokens. Long texts are split into windows. A window that
is still longer than the encoder reads is cut at its end, and the entities that were cut off count as missed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from infuser.errors import InputError
from infuser.hosts.answers import finite
from infuser.registry import TASKS
from infuser.signals.windows import MAX_WORDS, cut_windows, is_cut, read_in_windows
from infuser.stats.entity_scores import mentions_of, score_entities
from infuser.stats.metrics import get_metric
from infuser.tables.rows import Record
from infuser.tasks.base import Example, Examples, Prediction, Split, Training, class_options
from infuser.tasks.ner_readers import dataset_entities, read_entities
from infuser.tasks.ner_rules import DICTIONARY, Dictionary, union
from infuser.tasks.official import is_datasets_name
from infuser.tasks.parts import InParts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.signals import Collator
    from infuser.signals.tags import FoundEntity, Tags
    from infuser.training import TrainResult
    from infuser.training.steps import Precision

logger = logging.getLogger(__name__)

_METRICS = ("entity-f1", "entity-precision", "entity-recall", "entity-f1-seen", "entity-f1-unseen")


@TASKS.register("ner")
@dataclass(frozen=True)
class Ner(InParts):
    """Entities in texts from files of your own, see `ner_readers` for the formats, or from the datasets library."""

    train: str = "train.conll"
    """The file of the training part; with the datasets library, what stands before the dot names the split."""
    metric: str | None = None
    """What epochs and settings are chosen by; None takes entity-f1."""
    max_words: int | None = MAX_WORDS
    """Texts with more words are split into windows, at the ends of sentences if possible; None splits none."""

    head: ClassVar[str] = "token-classification"
    tolerates_rounding: ClassVar[bool] = True
    reading: ClassVar[str] = "best path"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric is not None and self.metric not in _METRICS:
            get_metric(self.metric)  # raises for unknown names
            raise InputError(f"The metric {self.metric!r} does not judge entities. Take {', '.join(_METRICS)}.")

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the scores, the chosen one first."""
        return tuple(dict.fromkeys((self.metric or _METRICS[0], *_METRICS)))

    def load(self, name: str, split: Split) -> list[Record]:
        """Return the texts of a file with their entities; a file without any is an error."""
        if is_datasets_name(self.data):
            rows = list(dataset_entities(self.data, Path(name).stem))
        else:
            rows = list(read_entities(self.path_of(name)))
        hidden = split == "test" and not any("entities" in example for _, example in rows)
        for place, example in rows:
            if "entities" not in example and not hidden:
                raise InputError(f"{place} has no entities. Give a list of them, [] for a text that has none.")
        if rows and not hidden and not any(example["entities"] for _, example in rows):
            where = self.data if is_datasets_name(self.data) else self.path_of(name)
            raise InputError(
                f"None of the {len(rows)} texts of {str(where)!r} has an entity. Does the last column hold the tags?"
            )
        return rows

    def read(self, split: Split) -> list[Example]:
        """Return the texts of a part; those of a test part without entities have none."""
        examples = [example for _, example in self.rows(split)]
        return examples if self.max_words is None else split_texts(examples, self.max_words, split)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types of entities in the training part, in the order of the alphabet."""
        return tuple(sorted({label for example in self.read("train") for *_, label in example["entities"]}))

    def head_options(self) -> dict[str, Any]:
        """Return the tags of the types: O, B-TYPE, I-TYPE and so on."""
        return class_options(self._tags.names)

    @cached_property
    def _tags(self) -> Tags:
        from infuser.signals.tags import Tags

        return Tags(self.types)

    def gold(self, example: Example) -> dict[str, Any]:
        """Return text and entities, as if nothing had been seen in training."""
        return {"text": example["text"], "entities": [list(one) for one in example["entities"]], "seen": []}

    def golds(self, examples: Sequence[Example], train: Sequence[Example]) -> list[Any]:
        """Return texts and entities, and the mentions of the training set that occur in each text."""
        known = mentions_of(train)
        golds = []
        for gold in map(self.gold, examples):
            lowered = gold["text"].lower()
            golds.append({**gold, "seen": [mention for mention in known if mention in lowered]})
        return golds

    def fit(self, training: Training, examples: Examples, dev: Examples | None = None) -> TrainResult:
        """Fine-tune the model; the scores of entities on the dev set choose the epoch."""
        golds = self.golds(dev, examples) if dev else []
        tags = self._tags.with_moves(examples, training.collator.tokenizer)
        tags.keep(training.model.config)

        def judge(model: Any, asked: Sequence[Mapping[str, Any]]) -> dict[str, float]:
            found = find_entities(
                model,
                training.collator,
                asked,
                batch_size=training.settings.batch_size,
                mixed_precision=training.settings.mixed_precision,
                progress=False,
            )
            return self.score(golds, found)

        collate = training.collator.with_tags(tags)
        return training.fit(examples, dev=dev, collate=collate, judge=judge, metric=self.metrics[0])

    def answer(
        self, model: PreTrainedModel, collator: Collator, examples: Sequence[Example], *, batch_size: int = 64
    ) -> list[Prediction]:
        """Return the entities that the model finds in each text: [start, end, type, probability]."""
        return find_entities(model, collator, examples, batch_size=batch_size)

    def rules(self, train: Sequence[Example], asked: Sequence[Example]) -> dict[str, list[Prediction]]:
        """Return what the sources found in each text, as entities of the types that it mostly was in training."""
        dictionary = Dictionary.fit(train, self.types)
        return {DICTIONARY: [dictionary.find(example["annotations"]) for example in asked]}

    def with_rule(self, answers: Sequence[Prediction], of_rule: Sequence[Prediction]) -> list[Prediction]:
        """Return the entities of a model and, where it found none, those of the dictionary."""
        return [union(found, more) for found, more in zip(answers, of_rule, strict=True)]

    def notes(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Return how many entities there are, how many of them were not seen in training, and F1 of each type."""
        every = [(gold, *one) for gold in golds for one in gold["entities"]]
        n_unseen = sum(gold["text"][start:end].lower() not in gold["seen"] for gold, start, end, _ in every)
        types = sorted({label for *_, label in every} | {one[2] for found in predictions for one in found})
        by_type = {label: score_entities(predictions, golds, label=label) for label in types}
        return {"entities": len(every), "of them unseen in training": n_unseen, "F1 by type": by_type}


def split_texts(examples: Sequence[Example], max_words: int, split: Split) -> list[Example]:
    """Return the texts as windows of about so many words, each with its own entities.

    No entity of a training text is split. In other parts the windows do not depend on the entities; one that a window
    ends within keeps its length, so it counts as missed.
    """
    windows = []
    for example in examples:
        entities = example.get("entities", [])
        keep = [(start, end) for start, end, _ in entities] if split == "train" else []
        places = cut_windows(example["text"], max_words, keep=keep)
        if len(places) == 1:
            windows.append(example)
            continue
        for first, last in places:
            window = {**example, "text": example["text"][first:last]}
            if "entities" in example:
                window["entities"] = [(a - first, b - first, label) for a, b, label in entities if first <= a < last]
            windows.append(window)
    return windows


def find_entities(
    model: PreTrainedModel,
    collator: Collator,
    examples: Sequence[Mapping[str, Any]],
    *,
    batch_size: int = 64,
    mixed_precision: Precision = "no",
    progress: bool = True,
) -> list[list[FoundEntity]]:
    """Return the entities that a trained model finds in each text: [start, end, type, probability]."""
    found = _read_all(
        model, collator, examples, batch_size=batch_size, mixed_precision=mixed_precision, progress=progress
    )
    if n_cut := sum(cut for _, cut in found):
        logger.warning(
            "%d of %d texts are longer than the encoder reads; no entity is found in the rest. A lower max_words "
            "of the task splits them",
            n_cut,
            len(found),
        )
    return [entities for entities, _ in found]


def find_in_documents(
    model: PreTrainedModel, collator: Collator, documents: Sequence[Mapping[str, Any]], *, batch_size: int = 64
) -> list[list[FoundEntity]]:
    """Return the entities in examples with texts of any length, as `find_entities` does.

    A text that the encoder cannot read whole is read in windows that end with a paragraph or a sentence if possible.
    """
    return read_in_windows(
        documents, lambda some: _read_all(model, collator, some, batch_size=batch_size, progress=False)
    )


def _read_all(
    model: PreTrainedModel, collator: Collator, examples: Sequence[Mapping[str, Any]], **options: Any
) -> list[tuple[list[FoundEntity], bool]]:
    """Return what `_read_batch` does, in batches of similar length; options go to `answer_in_batches`."""
    from infuser.signals.tags import Tags
    from infuser.training.evaluation import answer_in_batches

    tags = Tags.of_model(model.config)
    return answer_in_batches(
        model,
        examples,
        lambda some: _read_batch(model, collator, tags, some),
        lengths=[len(example["text"]) for example in examples],
        title="finding entities",
        unit="texts",
        **options,
    )


def _read_batch(
    model: PreTrainedModel, collator: Collator, tags: Tags, examples: Sequence[Mapping[str, Any]]
) -> list[tuple[list[FoundEntity], bool]]:
    """Return the entities of each text of one batch, and whether the text was cut."""
    batch, words = collator.with_words(examples)
    logits = finite(model(**{name: tensor.to(model.device) for name, tensor in batch.items()}).logits.double().cpu())
    cut = [is_cut(one["text"], of_text) for one, of_text in zip(examples, words, strict=True)]
    return list(zip(map(tags.read, logits.numpy(), words), cut, strict=True))
