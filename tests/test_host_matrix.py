"""The tables of docs/reference/hosts.md list what is registered today, and their marks come from contract tests."""

from __future__ import annotations

import itertools
from typing import Any

import host_matrix
import pytest
from host_matrix import FAILED, NO_HEAD, PAGE, PASSED, Outcome, contract_tests, draw_page, marks_on_page, run_cell
from miniatures import HEADS, HOSTS, every_host_and_head

from infuser import hosts
from infuser.registry import METHODS

AGAIN = "Write the tables again: python tests/host_matrix.py --write"


def test_the_page_lists_exactly_the_hosts_heads_and_methods_of_today() -> None:
    marks = marks_on_page(PAGE.read_text(encoding="utf-8"))
    assert set(marks) == set(itertools.product(HOSTS, HEADS, METHODS)), AGAIN
    assert {host for host, _, _ in marks} == set(hosts.HOSTS), AGAIN
    without = {(host, head) for (host, head, _), mark in marks.items() if mark == NO_HEAD}
    assert without == set(itertools.product(HOSTS, HEADS)) - set(every_host_and_head()), AGAIN
    assert set(marks.values()) <= {PASSED, NO_HEAD}, AGAIN


def test_the_page_says_what_a_mark_stands_for() -> None:
    drawn = draw_page({})
    assert drawn.partition("### What a mark stands for")[2].strip() in PAGE.read_text(encoding="utf-8"), AGAIN


def test_a_mark_is_the_outcome_of_every_test_that_takes_its_cell() -> None:
    outcome = run_cell(("bert", "encoder", "kam"))
    assert set(outcome.passed) == set(contract_tests()) and not outcome.failed
    of_text = run_cell(("bert", "masked-lm", "text"))
    assert set(of_text.passed) == {"test_company_does_not_matter", "test_detach_gives_the_host_back"}
    assert outcome.mark == of_text.mark == PASSED


def test_a_test_that_fails_is_seen_in_its_cell_and_in_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    @pytest.mark.parametrize(("host", "method"), [("bert", "kam"), ("albert", "types")])
    def of_encoders(host: str, method: str) -> None:
        assert host != "albert", "albert is wrong"

    tests: dict[str, Any] = {"of_encoders": of_encoders}
    cells = list(itertools.product(["bert", "albert"], ["encoder", "masked-lm"], ["kam", "types"]))
    outcomes = {cell: run_cell(cell, tests) for cell in cells}
    assert {cell: outcome.failed for cell, outcome in outcomes.items() if outcome.failed}.keys() == {
        ("albert", "encoder", "kam"),
        ("albert", "encoder", "types"),
    }
    assert "albert is wrong" in outcomes["albert", "encoder", "kam"].failed["of_encoders"]
    assert Outcome().mark == FAILED  # nothing was tried
    monkeypatch.setattr(host_matrix, "HOSTS", ("bert", "albert"))
    marks = marks_on_page(draw_page(outcomes))
    assert marks["albert", "encoder", "kam"] == FAILED and marks["bert", "encoder", "kam"] == PASSED
    assert marks["bert", "question-answering", "kam"] == NO_HEAD
