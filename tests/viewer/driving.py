"""The live page as a person uses it, in a browser: opening, waiting, reading what it shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
from cli.commands import run_command

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

TEXT, PAIR = "buy tablets near me", "the old pharmacy of the town"
OTHER = "the river flows in the old town"
N_LAYERS, N_HEADS = 3, 4


def link(address: str, **state: Any) -> str:
    return f"{address}/#{urlencode(state, doseq=True)}"


def open_page(page: Page, address: str) -> None:
    page.goto(address)
    wait_for_picture(page)


def wait_for_picture(page: Page, told: str = "read in") -> None:
    """Wait until the newest question is answered."""
    from playwright.sync_api import expect

    expect(page.locator("#status")).to_contain_text(told)
    expect(page.locator("#results[aria-busy]")).to_have_count(0)


def wait_for_change(page: Page, part: str, before: str) -> None:
    from playwright.sync_api import expect

    # read like `before`: what a script sees has no blanks between the cells of a table, and differs at once
    expect(page.locator(f"[data-part={part}]")).not_to_have_text(before, use_inner_text=True)
    wait_for_picture(page)


def source(page: Page, name: str) -> Locator:
    """Return the switch of a source."""
    return page.get_by_role("checkbox", name=name, exact=True)


def answers(page: Page) -> dict[str, list[str]]:
    """Return the numbers of the table of answers, as shown: {label: [without, with, change, without a source ...]}."""
    rows = page.locator("[data-part=answer] tr").all()[1:]
    read = [re.split(r"\s+", row.inner_text().strip()) for row in rows]
    return {label: numbers for label, *numbers in read}


def heat_map(page: Page, part: str, at: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the values that a heat map of a part tells its reader."""
    values = (
        page.locator(f"[data-part={part}] svg[data-values]")
        .nth(at)
        .evaluate(
            "svg => JSON.parse(svg.dataset.rows).map((_, row) =>"
            " JSON.parse(svg.dataset.columns).map((_, column) => infuserLook.value(svg, row, column)))"
        )
    )
    return np.array(values, dtype=np.float64)


def explained(saved: Path, text: str, pair: str | None, *options: object) -> dict[str, Any]:
    """Return what `infuser explain --json` says."""
    sides = ("--text", text) if pair is None else ("--text", text, "--pair", pair)
    told: dict[str, Any] = json.loads(run_command("explain", saved, *sides, *options, "--json").stdout)
    return told


def assert_agrees(page: Page, told: dict[str, Any]) -> None:
    """See that the page shows the numbers of an explanation."""
    without, infused = told["answer_plain"], told["answer_infused"]
    columns = [without, infused, {label: infused[label] - without[label] for label in infused}]
    columns += list(told["answers_without"].values())
    shown = answers(page)
    assert list(shown) == list(infused) == ["no", "perhaps", "yes"]
    for label, numbers in shown.items():
        np.testing.assert_allclose([float(number) for number in numbers], [one[label] for one in columns], atol=5.1e-4)
    plain, changed = np.array(told["plain"]), np.array(told["infused"])
    for at, expected in enumerate((plain, changed, changed - plain)):
        np.testing.assert_allclose(heat_map(page, "attention", at), expected, atol=5.2e-5)
    for at, drawn in enumerate(told["maps"].values()):
        np.testing.assert_allclose(heat_map(page, "maps", at), drawn, atol=5.2e-5)
    assert page.locator("[data-part=maps] svg[data-values]").count() == len(told["maps"])
    np.testing.assert_allclose(heat_map(page, "heads"), told["changes"], atol=5.2e-5)
    assert page.input_value("#layer") == str(told["layer"])
    assert page.input_value("#head") == ("mean" if told["head"] is None else str(told["head"]))
