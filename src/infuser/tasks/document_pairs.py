"""Relations of all candidate pairs of documents: pairs of one document share its words and are not independent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuser.stats.metrics import Metric, get_metric
from infuser.tasks.base import Example, Prediction
from infuser.tasks.relation_classification import RelationClassification


class DocumentPairs(RelationClassification):
    """Which relation each candidate pair of a document has; class 0 means no relation.

    Pairs of one document are held out together, and drawn together for intervals.
    """

    metrics = ("relation-f1", "relation-precision", "relation-recall", "relation-macro-f1", "detection-f1")

    def document_of(self, name: str) -> str:
        """Return the document of the pair with this name."""
        raise NotImplementedError

    def gold(self, example: Example) -> dict[str, Any]:
        """Return the label and the document."""
        return {"label": example["label"], "document": self.document_of(example["id"])}

    def held_out_groups(self, examples: Sequence[Example]) -> list[str]:
        """Return the document of each pair."""
        return [self.document_of(example["id"]) for example in examples]

    def dependent_groups(self, golds: Sequence[Any]) -> list[str]:
        """Return the document of each pair."""
        return [gold["document"] for gold in golds]

    def get_metric(self, name: str) -> Metric:
        """Return a metric that judges by the labels."""
        return get_metric(name).after(lambda predictions: predictions, _labels)

    def notes(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Return F1 of each relation that is predicted or gold."""
        chosen, gold = np.argmax(np.asarray(predictions), axis=1), np.asarray(_labels(golds))
        f1 = {}
        for at, label in enumerate(self.labels):
            n_both = int(np.sum(chosen == at) + np.sum(gold == at))
            if at and n_both:
                f1[label] = 2 * int(np.sum((chosen == at) & (gold == at))) / n_both
        return {"F1 by relation": f1}


def _labels(golds: Sequence[Any]) -> list[int]:
    return [gold["label"] for gold in golds]
