"""Strict scores of entities: one is right if its start, its end and its type are; summed over all texts (micro).

A prediction is a list of [start, end, type, ...]. A gold is a mapping with `text`, `entities`, [start, end, type], and
`seen`: the mentions of the training set, in lower case, that occur in the text. An entity is seen if its words in lower
case are among them; so gold and predicted entities fall into the same two parts, and F1 of each part is of its own
right, predicted and gold entities. These are seqeval's counts, and nothing of nothing is 0 as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from infuser.stats.weighted import Floats, ratio

Measure: TypeAlias = Literal["f1", "precision", "recall"]
Part: TypeAlias = Literal["all", "seen", "unseen"]


def entity_counts(
    predictions: Sequence[Any], golds: Sequence[Any], *, part: Part = "all", label: str | None = None
) -> Floats:
    """Return how many entities of each text are right, predicted and gold, (texts, 3): of one part, of one type."""
    counts = np.zeros((len(golds), 3))
    for row, predicted, gold in zip(counts, predictions, golds, strict=True):
        found, right = (_of_part(side, gold, part, label) for side in (predicted, gold["entities"]))
        row[:] = len(found & right), len(found), len(right)
    return counts


def measure_entities(
    predictions: Any,
    golds: Any,
    weights: Floats,
    *,
    measure: Measure = "f1",
    part: Part = "all",
    label: str | None = None,
) -> Floats:
    """Return a measure for all rows of weights (rounds, texts), one value per round."""
    right, predicted, gold = (weights @ entity_counts(predictions, golds, part=part, label=label)).T
    if measure == "f1":
        return ratio(2 * right, predicted + gold)
    return ratio(right, predicted if measure == "precision" else gold)


def score_entities(predictions: Any, golds: Any, **options: Any) -> float:
    """Return a measure over all texts; options as of `measure_entities`."""
    return float(measure_entities(predictions, golds, np.ones((1, len(golds))), **options)[0])


def mentions_of(examples: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the mentions of examples with text and entities, in lower case, each once."""
    return sorted({one["text"][start:end].lower() for one in examples for start, end, *_ in one.get("entities", ())})


def _of_part(
    entities: Iterable[Sequence[Any]], gold: Mapping[str, Any], part: Part, label: str | None
) -> set[tuple[Any, ...]]:
    chosen = {tuple(one[:3]) for one in entities if label in (None, one[2])}
    if part == "all":
        return chosen
    seen, text = gold["seen"], gold["text"]
    return {one for one in chosen if (text[one[0] : one[1]].lower() in seen) == (part == "seen")}
