"""How well a text answers a query, from any table of pairs: query and ad, question and passage.

A row has a query, a text and a label, 0 or 1 or a grade. Where a part is held out, whole queries are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.stats.metrics import Metric, get_metric, ranking_scores
from infuser.stats.ranking import mean_ndcg, ndcg_of_groups, rankable
from infuser.stats.weighted import Floats, ratio
from infuser.tables.examples import Columns, make_example, read_label, read_score
from infuser.tables.rows import Record
from infuser.tables.skipped import BadRow
from infuser.tasks.base import Example, Prediction, Split, class_options
from infuser.tasks.tabular import Tabular

logger = logging.getLogger(__name__)


@TASKS.register("relevance")
@dataclass(frozen=True)
class Relevance(Tabular):
    """Relevant or not (AUC) or, with `graded`, how relevant (correlation); both with NDCG over the texts of a query."""

    query: str = "query"
    """The column that holds the query."""
    text: str = "text"
    """The column that holds the text that may be relevant to it."""
    group: str | None = None
    """The column that says which rows are ranked against each other; None takes those of the same query."""
    graded: bool = False
    """Learn the label as a number; else whether it is at least `relevant_from`."""
    relevant_from: float = 1.0
    """The lowest label that is relevant."""
    k: int = 10
    """How many of the first texts of a query NDCG looks at; 0 leaves NDCG out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 0:
            raise InputError(f"The setting k is {self.k}; give a number of texts, or 0 to leave NDCG out.")

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the scores."""
        return (*(("spearman", "pearson") if self.graded else ("auc",)), *(("ndcg",) if self.k else ()))

    def read(self, split: Split) -> list[Example]:
        """Return the examples of a part; those of a test part without labels have none."""
        examples = [example for _, example in self.rows(split)]
        if self.k and split != "train" and "grade" in examples[0]:
            groups = [example["group"] for example in examples]
            n_ranked = len(rankable([example["grade"] for example in examples], groups))
            n_all = len(set(groups))
            logger.info(
                "NDCG on the %s part is the mean over %d of %d queries; %d have one text or nothing relevant",
                *(split, n_ranked, n_all, n_all - n_ranked),
            )
        return examples

    def head_options(self) -> dict[str, Any]:
        """Return a head that answers with a number or with one of two classes."""
        if self.graded:
            return {"num_labels": 1, "problem_type": "regression"}
        return class_options(("irrelevant", "relevant"))

    def gold(self, example: Example) -> dict[str, Any]:
        """Return the label as it stands in the table, and which rows are ranked together."""
        return {"label": example["grade"], "group": example["group"]}

    def held_out_groups(self, examples: Sequence[Example]) -> list[str]:
        """Return the queries, since the texts of one are ranked against each other."""
        return [example["group"] for example in examples]

    def get_metric(self, name: str) -> Metric:
        """Return NDCG as the mean over queries; the other metrics judge by the labels."""
        if name == "ndcg":
            return Metric("ndcg", self._ndcg, self._weighted_ndcg, kind="own")
        return get_metric(name).after(lambda predictions: predictions, self._labels)

    def dependent_groups(self, golds: Sequence[Any]) -> list[str]:
        """Return the queries: their texts are drawn together."""
        return [str(gold["group"]) for gold in golds]

    def _labels(self, golds: Sequence[Any]) -> NDArray[Any]:
        grades = _grades(golds)
        return grades if self.graded else (grades >= self.relevant_from).astype(int)

    def _ndcg(self, predictions: Sequence[Prediction], golds: Sequence[Any]) -> float:
        return mean_ndcg(_ranks(predictions), _grades(golds), [gold["group"] for gold in golds], k=self.k)

    def _weighted_ndcg(self, predictions: Sequence[Prediction], golds: Sequence[Any], weights: Floats) -> Floats:
        """Return the mean over queries, each as often as it was drawn, in every round."""
        grades, groups = _grades(golds), [gold["group"] for gold in golds]
        firsts, values = zip(*ndcg_of_groups(_ranks(predictions), grades, groups, k=self.k), strict=True)
        drawn = weights[:, list(firsts)]  # a query is drawn whole, so the weight of its first text is that of all
        return ratio(drawn @ np.array(values), drawn.sum(axis=1), empty=np.nan)

    def convert(self, record: Record, *, labelled: bool) -> Record:
        """Return a row as an example with its grade and its group."""
        place, cells = record
        example = make_example(place, cells, Columns(self.query, self.text))
        example["group"] = example["text"] if self.group is None else read_label(place, cells, self.group)
        if labelled:
            grade = read_score(place, cells, self.label)
            if grade < 0:
                raise BadRow(place, f"has the label {grade:g}", str(cells), advice="Relevance starts at 0; shift it.")
            example |= {"label": grade if self.graded else int(grade >= self.relevant_from), "grade": grade}
        return place, example


def _grades(golds: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([gold["label"] for gold in golds], dtype=np.float64)


def _ranks(predictions: Sequence[Prediction]) -> NDArray[Any]:
    logits = np.asarray(predictions, dtype=np.float64)
    return ranking_scores(logits if logits.ndim == 2 else logits[:, None], "ndcg")
