"""The embedded example: small, and knowledge changes its answers."""

from __future__ import annotations

import json

import pytest

from infuser.viewer.default import FOLDER, KNOWLEDGE, open_default
from infuser.viewer.request import ViewRequest


def test_what_the_package_carries_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 200_000


@pytest.mark.slow
def test_knowledge_decides_what_the_example_answers() -> None:
    view = open_default()
    known = json.loads((FOLDER / KNOWLEDGE).read_text(encoding="utf-8"))
    about = view.about()
    assert about["examples"] == known["examples"]
    first = view.see(ViewRequest(**known["examples"][0], layer="strongest"))
    before, after = first.answer_plain, first.answer_infused
    assert before is not None and after is not None
    assert before["relevant"] < 0.3 < 0.8 < after["relevant"]  # measured: .22 and .84
    assert first.answers_without["graph"]["relevant"] < 0.5 < first.answers_without["phrases"]["relevant"]
    assert first.terms and first.found["graph"].links and first.changes is not None and first.changes.max() > 0.1


@pytest.mark.slow
def test_no_head_of_the_example_runs_away() -> None:
    view = open_default()
    assert [view.see(ViewRequest(one.text, one.pair)).runaway for one in view.examples] == [()] * len(view.examples)
