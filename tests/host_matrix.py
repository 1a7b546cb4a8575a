"""Runs the contract tests on every host with every head and every method, and writes docs/reference/hosts.md.

    python tests/host_matrix.py           # run, and print what failed
    python tests/host_matrix.py --write   # and write the tables

The test suite tries every head and every method of every host, but not all pairs of them; here each pair is run. It
takes minutes. `tests/test_host_matrix.py` sees that the tables list the hosts, heads and methods of today.
"""

from __future__ import annotations

import argparse
import inspect
import multiprocessing
import re
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

import pytest
import torch
import transformers
from methods import test_contract
from miniatures import HEADS, HOSTS, every_host_and_head

from infuser.registry import METHODS
from infuser.words import counted

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "hosts.md"
BEGIN, END = "<!-- written by tests/host_matrix.py -->\n", "<!-- end of what tests/host_matrix.py writes -->"
PASSED, FAILED, NO_HEAD = "✓", "✗", "–"

Cell = tuple[str, str, str]
"""A host, a head, a method."""


@dataclass
class Outcome:
    """What the contract tests said about one cell."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Why a test failed, by its name."""

    @property
    def mark(self) -> str:
        return PASSED if self.passed and not self.failed else FAILED


def contract_tests() -> dict[str, Callable[..., None]]:
    """Return the contract tests that are parametrised by host and method, by name."""
    tests = inspect.getmembers(test_contract, inspect.isfunction)
    return {
        name: test
        for name, test in tests
        if name.startswith("test_") and {"host", "method"} <= inspect.signature(test).parameters.keys()
    }


def values_tried(test: Callable[..., None]) -> dict[str, set[Any]]:
    """Return which values each parameter of a test takes in the test suite."""
    tried: dict[str, set[Any]] = {}
    for mark in getattr(test, "pytestmark", []):
        names = mark.args[0] if not isinstance(mark.args[0], str) else [mark.args[0]]
        for row in mark.args[1]:
            values = getattr(row, "values", row)
            for name, value in zip(names, values if len(names) > 1 else [values], strict=True):
                tried.setdefault(name, set()).add(value)
    return tried


def run_cell(cell: Cell, tests: dict[str, Callable[..., None]] | None = None) -> Outcome:
    """Run every contract test that takes this cell; tests without a head are about the bare encoder."""
    host, head, method = cell
    outcome = Outcome()
    for name, test in (contract_tests() if tests is None else tests).items():
        given = {"host": host, "head": head, "method": method}
        tried = values_tried(test)
        if "head" not in tried:
            given.pop("head")
            if head != "encoder":
                continue
        if any(value not in tried[parameter] for parameter, value in given.items()):
            continue
        try:
            test(**given)
            outcome.passed.append(name)
        except pytest.skip.Exception:
            continue
        except Exception as error:  # whatever a test raises is its failure, assertions too
            outcome.failed[name] = f"{type(error).__name__}: {error}"
    return outcome


def run_host(host: str) -> dict[Cell, Outcome]:
    """Run all cells of one host."""
    torch.set_num_threads(1)
    heads = [head for known, head in every_host_and_head() if known == host]
    cells = [(host, head, method) for head in heads for method in METHODS]
    return {cell: run_cell(cell) for cell in cells}


def draw_page(outcomes: dict[Cell, Outcome]) -> str:
    """Return the tables, one per head, and what a mark stands for."""
    n_tests = sum(len(outcome.passed) for outcome in outcomes.values())
    with_versions = f"transformers {transformers.__version__}, torch {torch.__version__.partition('+')[0]}"
    lines = [
        f"{counted(n_tests, 'contract test')} passed on {counted(len(HOSTS), 'host')} ({with_versions}).",
        "",
    ]
    for head in HEADS:
        lines += [f"### {head}", "", f"| host | {' | '.join(METHODS)} |", f"|---|{'---|' * len(list(METHODS))}"]
        for host in HOSTS:
            found = [outcomes.get((host, head, method)) for method in METHODS]
            lines.append(f"| {host} | {' | '.join(NO_HEAD if one is None else one.mark for one in found)} |")
        lines.append("")
    lines += ["### What a mark stands for", "", "| test | heads | methods |", "|---|---|---|"]
    for name, test in contract_tests().items():
        sentence = name.removeprefix("test_").replace("_", " ")
        tried = values_tried(test)
        lines.append(
            f"| {sentence} | {_said(tried.get('head', {'encoder'}), HEADS)} | {_said(tried['method'], METHODS)} |"
        )
    return "\n".join(lines) + "\n"


def _said(tried: set[Any], known: Iterable[str]) -> str:
    among, missing = [one for one in known if one in tried], [one for one in known if one not in tried]
    if not missing:
        return "all"
    return f"all but {', '.join(missing)}" if len(missing) < len(among) else ", ".join(among)


def marks_on_page(text: str) -> dict[Cell, str]:
    """Return the marks of the tables of a page."""
    marks: dict[Cell, str] = {}
    for head, table in re.findall(r"^### (\S+)\n\n((?:\|.*\n)+)", text, re.M):
        names, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
        for host, *cells in rows:
            marks |= {(host, head, method): mark for method, mark in zip(names[1:], cells, strict=True)}
    return marks


def main(arguments: list[str]) -> int:
    """Run everything; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the tables into docs/reference/hosts.md")
    parser.add_argument("--processes", type=int, default=1, help="how many hosts are run at the same time")
    options = parser.parse_args(arguments)
    outcomes: dict[Cell, Outcome] = {}
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for host, found in zip(HOSTS, pool.map(run_host, HOSTS), strict=True):
            outcomes |= found
            failed = [(cell, name, why) for cell, one in found.items() for name, why in one.failed.items()]
            print(f"{host}: {sum(len(one.passed) for one in found.values())} passed, {len(failed)} failed", flush=True)
            for cell, name, why in failed:
                print(f"  {' '.join(cell)}: {name}: {why.splitlines()[0][:200]}", flush=True)
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{draw_page(outcomes)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return int(any(outcome.failed for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
