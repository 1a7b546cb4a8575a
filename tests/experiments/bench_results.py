"""Settings and cell results of a bench, as `infuser bench run` would leave them, for the tests of its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import infuser.tasks.catalogue  # noqa: F401  # enters the tasks into the registry
from infuser.experiments.settings import Bench, make_bench
from infuser.registry import TASKS

TABLES: dict[str, Any] = {
    "title": "KAM on two tasks",
    "seeds": [0, 1, 2],
    "baseline": "plain",
    "host": {"minilm": {"checkpoint": "minilm"}},
    "source": {"pmi": {"kind": "correlation", "file": "pmi"}},
    "method": {
        "plain": {},
        "kam": {"kind": "kam", "sources": ["pmi"]},
        "placebo": {"like": "kam", "placebo": True},
    },
    "task": {"cola": {"kind": "cola", "data": "CoLA"}, "mrpc": {"kind": "mrpc", "data": "MRPC"}},
}
"""The tables of a settings file."""
N = 240
"""Test examples of each task."""


def settings(**changed: Any) -> Bench:
    """Return a bench with other tables in place of some."""
    return make_bench({**TABLES, **changed}, "test", Path("."))


def logits(golds: np.ndarray, share_right: float, stream: tuple[int, ...]) -> list[list[float]]:
    """Return two logits per example, the larger one right in about this share; the same examples are hard for all."""
    hard = np.random.default_rng(5).random(len(golds))
    random = np.random.default_rng(stream)
    right = hard + random.normal(scale=0.05, size=len(golds)) < share_right
    answers = np.where(right, golds, 1 - golds)
    sure = 0.1 + random.random(len(golds))
    return np.stack([np.where(answers == 0, sure, 0), np.where(answers == 1, sure, 0)], axis=1).round(4).tolist()


def cell(
    method: str, task: str, seed: int, *, share_right: float = 0.7, host: str = "minilm", **changed: Any
) -> dict[str, Any]:
    """Return the result of one cell."""
    golds = np.random.default_rng(len(task)).integers(0, 2, N)
    predictions = logits(golds, share_right, (seed, len(method)))
    judge = TASKS[task](data="")
    return {
        "format": 1,
        "cell": {"host": host, "method": method, "task": task, "seed": seed},
        "digest": f"{host}-{method}-{task}-{seed}",
        "settings": {"knowledge": [] if method == "plain" else ["cc"]},
        "versions": {"infuser": "0.1.0", "torch": "2.6.0"},
        "data": {
            "train": {"n": 9000, "digest": "aa"},
            "held_out": {"n": 100, "digest": "ab"},
            "score": {"split": "dev", "n": N, "digest": "bb"},
        },
        "seconds": {"total": 20.0 + seed, "training": 9.0 + seed, "answering": 1.0},
        "peak_mib": 800.0 + seed,
        "extra_weights": 0 if method == "plain" else 1234,
        "n_processes": 1,
        "metrics": list(judge.metrics),
        "scores": judge.score(golds.tolist(), predictions),
        "notes": {},
        "golds": golds.tolist(),
        "predictions": predictions,
        "history": [],
    } | changed


def all_cells() -> list[dict[str, Any]]:
    """Return a finished bench: KAM is better on CoLA and worse on MRPC, the placebo is as good as the plain encoder."""
    shares = {("kam", "cola"): 0.8, ("kam", "mrpc"): 0.6}
    return [
        cell(method, task, seed, share_right=shares.get((method, task), 0.7))
        for method in TABLES["method"]
        for task in TABLES["task"]
        for seed in TABLES["seeds"]
    ]
