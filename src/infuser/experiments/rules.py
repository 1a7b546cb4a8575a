"""What rules reach without an encoder, printed beside the results of arms that read the same knowledge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infuser.stats.comparison import signed
from infuser.tasks.base import Prediction, Task


def score_rule(task: Task, golds: Sequence[Any], answers: Sequence[Prediction]) -> dict[str, Any]:
    """Return the scores and the answers of a rule, as a cell keeps them."""
    return {"scores": task.score(golds, answers), "predictions": list(answers)}


def rule_sentences(
    task: Task,
    metric: str,
    results: Mapping[str, Sequence[Mapping[str, Any]]],
    plain: str | None,
    *,
    scale: float = 1.0,
) -> list[str]:
    """Return what each rule reaches alone and, where the plain arm was scored on the same examples, joined with it.

    `results` are those of each arm, one per seed. Arms with the same knowledge have the same rules, named once.
    """
    judge, found = task.get_metric(metric), list[tuple[str, Mapping[str, Any], list[str]]]()
    for arm, of_arm in results.items():
        for name, rule in of_arm[0].get("rules", {}).items() if of_arm else ():
            known = next((arms for other, same, arms in found if other == name and same == rule), None)
            if known is None:
                found.append((name, rule, [arm]))
            else:
                known.append(arm)
    sentences = []
    for name, rule, arms in found:
        said = [f"{name} {signed(rule['scores'][metric], scale)[1:]}"]
        golds = results[arms[0]][0]["golds"]
        beside = [one for one in results.get(plain or "", ()) if one["golds"] == golds]
        if beside:
            joined = [judge(task.with_rule(one["predictions"], rule["predictions"]), golds) for one in beside]
            said.append(f"{name.split()[0]} + {plain} {signed(float(np.mean(joined)), scale)[1:]}")
        sentences.append(f"{metric} without a method (knowledge of {', '.join(arms)}): {', '.join(said)}.")
    return sentences
