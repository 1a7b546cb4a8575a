from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from experiments.bench_results import TABLES, settings

from infuser.errors import InputError
from infuser.experiments.published import check_published
from infuser.experiments.settings import make_bench
from infuser.experiments.summary import judging_task, summarise

TASKS = {
    name: judging_task(entry.kind, entry.settings).metrics
    for name, entry in make_bench(TABLES, "test", Path(".")).tasks.items()
}
GOOD = {
    "from": "A paper",
    "note": "test server",
    "scale": 100,
    "bert": {"plain": {"cola": 50, "mrpc": {"f1": 88.7}, "average": 77.5, "n_weights": 1.1e8, "elsewhere": {"x": 1}}},
}


def test_numbers_of_tasks_averages_and_models_are_taken() -> None:
    check_published(GOOD, TASKS)
    check_published({}, TASKS)


@pytest.mark.parametrize(
    ("published", "told"),
    [
        ({"sacle": 100}, r"\[published\] has no setting 'sacle'. It has from, note, scale, and a table"),
        ({"scale": 0}, r"\[published\]: scale is 0; give a number above 0"),
        ({"scale": "100"}, r"scale is '100'"),
        ({"scale": True}, r"scale is True"),
        ({"from": 3}, r"\[published\]: from is 3; give a text"),
        ({"bert": {"cola": 50.1}}, r"\[published.bert\]: cola is 50.1, not the table of a method"),
        ({"bert": {"kam": {"cola": "50.1"}}}, r"\[published.bert.kam\]: cola is '50.1'; give a number"),
        ({"bert": {"kam": {"cola": math.nan}}}, r"cola is nan; give a number"),
        ({"bert": {"kam": {"elsewhere": [1]}}}, r"elsewhere is \[1\]; give a number"),
        ({"bert": {"kam": {"n_weights": "110M"}}}, r"n_weights is '110M'; give a number"),
        ({"bert": {"kam": {"mrpc": {"f1": "high"}}}}, r"\[published.bert.kam\]: mrpc, f1 is 'high'"),
        ({"bert": {"kam": {"mrpc": {"acc": 84.3}}}}, r"mrpc has no metric 'acc'. Known: f1, accuracy"),
        ({"bert": {"kam": {"average": {"glue": 77.5}}}}, r"\[published.bert.kam\]: average is .*; give a number"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place_before_training_and_in_a_table(
    published: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        check_published(published, TASKS)
    with pytest.raises(InputError, match=told):
        summarise(settings(published=published), [])


def test_tasks_of_the_paper_that_are_not_run_are_named() -> None:
    table = summarise(settings(published=GOOD), [])
    assert table.notes[-1] == "Published: A paper (test server). Of its tasks, not run here: elsewhere."
