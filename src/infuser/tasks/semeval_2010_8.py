r"""SemEval-2010 task 8: which of nine relations two nominals have, and in which direction, or another one.

TRAIN_FILE.TXT (8,000 sentences) and TEST_FILE_FULL.TXT (2,717), in the folder itself or where the release has them:

    1\t"The <e1>storm</e1> broke the <e2>window</e2>."
    Cause-Effect(e1,e2)
    Comment:

There is no dev part: a tenth of the training sentences of every label, drawn with a fixed seed, is held out for it.
`datasets:SemEvalWorkshop/sem_eval_2010_task_8` has the columns sentence and relation, the number of its label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from infuser.registry import TASKS
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.readers.common import Unreadable
from infuser.relations.readers.semeval import marked_sentence, read_semeval
from infuser.stats.metrics import METRICS, Array, Metric
from infuser.stats.weighted import ClassCounts, Floats, of_classes, ratio
from infuser.tables.skipped import Place
from infuser.tasks.base import Split
from infuser.tasks.official import dataset_records, find_file, is_datasets_name
from infuser.tasks.relation_classification import NoSkipping, RelationClassification, read_texts, select_part

_OTHER = "Other"
# fmt: off
_RELATIONS = (
    "Cause-Effect", "Component-Whole", "Content-Container", "Entity-Destination", "Entity-Origin", "Instrument-Agency",
    "Member-Collection", "Message-Topic", "Product-Producer",
)
# fmt: on
_DIRECTED = tuple(f"{relation}({ends})" for relation in _RELATIONS for ends in ("e1,e2", "e2,e1"))
_HUB_LABELS = (*_DIRECTED, _OTHER)
_FILES = {
    "train": ("TRAIN_FILE.TXT", "SemEval2010_task8_training/TRAIN_FILE.TXT"),
    "test": ("TEST_FILE_FULL.TXT", "SemEval2010_task8_testing_keys/TEST_FILE_FULL.TXT"),
}


@TASKS.register("semeval-2010-8")
class SemEval2010Task8(RelationClassification):
    """Directed relations between two nominals; they have no types, so "typed" marks are plain ones."""

    metrics = ("semeval-f1", "accuracy")

    def texts(self, split: Split) -> Iterator[RelationText]:
        """Yield the texts of a split; e1 is always marked as the head, so the marks do not show the direction."""
        if split == "test":
            return self._of_file("test")
        return iter(select_part(self._of_file("train"), split, ["dev"]))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Class 0 is "Other", then come the two directions of each relation; `semeval_f1` counts on that order."""
        return (_OTHER, *_DIRECTED)

    def _of_file(self, part: str) -> Iterator[RelationText]:
        if is_datasets_name(self.data):
            texts = read_texts(dataset_records(self.data, part), _hub_text, advice="Its columns: sentence, relation.")
        else:
            texts = read_semeval(find_file(self.data, *_FILES[part]), NoSkipping())
        return (_directed(text) for text in texts)


def _f1_of_relations(counts: ClassCounts) -> Floats:
    """Return `semeval_f1` of every round: the two classes of a relation are counted together."""
    right, predicted, gold = (side[:, 1::2] + side[:, 2::2] for side in (counts.right, counts.predicted, counts.gold))
    asked = gold > 0
    return ratio((ratio(2 * right, predicted + gold) * asked).sum(axis=1), asked.sum(axis=1))


def semeval_f1(logits: Array, labels: Array) -> float:
    """Return the official score: "(9+1)-way evaluation with directionality taken into account", macro-averaged F1.

    Directions of a relation are one class, but an answer in the wrong direction is wrong: it counts among the answers
    of the relation, not among the right ones. The mean is over the relations that the key holds, without "Other".
    Classes are in the order of `SemEval2010Task8.labels`.
    """
    answers = logits.argmax(axis=1)
    answered, asked = (answers + 1) // 2, (labels + 1) // 2  # 0 is "Other", 1 and 2 are one relation, and so on
    right = answered[answers == labels]
    scores = [
        # precision and recall of one relation in one fraction
        2 * np.count_nonzero(right == relation) / np.count_nonzero([answered == relation, asked == relation])
        for relation in np.unique(asked[asked > 0])
    ]
    return float(np.mean(scores)) if scores else 0.0


METRICS["semeval-f1"] = Metric("semeval-f1", semeval_f1, of_classes(_f1_of_relations))


def _directed(text: RelationText) -> RelationText:
    """Return a text whose triple goes from e1 to e2 and says the direction in its label."""
    [triple] = text.triples
    e1, e2 = sorted((triple.head, triple.tail), key=lambda span: span.id)
    ends = "e1,e2" if triple.head == e1 else "e2,e1"
    label = _OTHER if triple.relation == NO_RELATION else f"{triple.relation}({ends})"
    return replace(text, triples=(Triple(e1, e2, label),))


def _hub_text(place: Place, row: dict[str, Any]) -> RelationText:
    sentence, relation = row.get("sentence"), row.get("relation")
    label = _HUB_LABELS[relation] if isinstance(relation, int) and relation in range(19) else relation
    if not isinstance(sentence, str) or not isinstance(label, str):
        raise Unreadable(f"no sentence with a relation from 0 to 18 but {sentence!r:.40} and {relation!r}")
    return marked_sentence(sentence.strip(), label, name=str(place.number))
