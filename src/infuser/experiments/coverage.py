"""Scores of the rows that knowledge covers, and of the others, where it should change little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infuser.stats.comparison import signed
from infuser.tasks.base import Prediction, Task
from infuser.words import counted


def score_apart(
    task: Task, golds: Sequence[Any], predictions: Sequence[Prediction], covered: Sequence[bool]
) -> dict[str, Any]:
    """Return which rows are covered, and number and scores of covered and of uncovered ones, if there are any."""
    places = _places(covered)
    scores = {
        part: task.score([golds[place] for place in rows], [predictions[place] for place in rows])
        for part, rows in places.items()
    }
    return {
        "rows": [int(row) for row in covered],
        "n": {part: len(rows) for part, rows in places.items()},
        "scores": scores,
    }


def coverage_sentences(
    task: Task, metric: str, results: Mapping[str, Sequence[Mapping[str, Any]]], *, scale: float = 1.0
) -> list[str]:
    """Return what every arm reaches on the rows that some arm's knowledge covers, and on the others.

    `results` are those of each arm, one per seed. Arms whose knowledge covers the same rows have one sentence.
    """
    judge, found = task.get_metric(metric), dict[tuple[int, ...], list[str]]()
    for arm, of_arm in results.items():
        if of_arm and "coverage" in of_arm[0]:
            found.setdefault(tuple(of_arm[0]["coverage"]["rows"]), []).append(arm)
    sentences = []
    for covered, arms in found.items():
        golds, said = results[arms[0]][0]["golds"], []
        for part, rows in _places(covered).items():
            means = []
            for arm, of_arm in results.items():
                same = [one for one in of_arm if one["golds"] == golds]
                scores = [
                    judge([one["predictions"][row] for row in rows], [golds[row] for row in rows]) for one in same
                ]
                means += [f"{arm} {signed(float(np.mean(scores)), scale).removeprefix('+')}"] if scores else []
            said.append(f"{counted(len(rows), f'{part} row')}: {', '.join(means)}")
        sentences.append(f"{metric} by rows (knowledge of {', '.join(arms)}): {'; '.join(said)}.")
    return sentences


def _places(covered: Sequence[Any]) -> dict[str, list[int]]:
    """Return the places of covered and of uncovered rows, without a part that has none."""
    parts = {"covered": True, "uncovered": False}
    places = {part: [at for at, row in enumerate(covered) if bool(row) is known] for part, known in parts.items()}
    return {part: rows for part, rows in places.items() if rows}
