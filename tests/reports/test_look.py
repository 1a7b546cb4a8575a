"""The look that files and the live page share: heat maps, and in a real browser what one can do with them."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import Seen
from matplotlib.image import imread

from infuser.analysis.explanation import Explanation
from infuser.reports import write_explanation
from infuser.reports.charts import bar, bar_chart
from infuser.reports.grids import Panel, heat_map, png
from infuser.reports.page import document, look_css, look_js

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

Explain = Callable[..., Explanation]
Values = Callable[..., np.ndarray]
SVG = "{http://www.w3.org/2000/svg}"


def attributes(drawn: str) -> dict[str, str]:
    """Return what the <svg> of a heat map carries."""
    return ElementTree.fromstring(drawn).find(f".//{SVG}svg").attrib  # type: ignore[union-attr]


def test_hover_values_are_those_of_the_matrices(
    explain: Explain, values_of: Values, tmp_path: Path, read_page: Callable[[Path], Any]
) -> None:
    told = explain(n_terms=2)
    grids = read_page(write_explanation(told, tmp_path / "page.html")).grids()
    matrices = [told.maps["graph"], told.plain, told.infused, told.difference]
    assert len(grids) == len(matrices)
    for grid, matrix in zip(grids, matrices, strict=True):
        np.testing.assert_allclose(values_of(grid).reshape(matrix.shape), matrix, atol=5.1e-5)
        assert json.loads(grid["data-rows"]) == told.words
    assert json.loads(grids[0]["data-columns"]) == [*told.words, "term0", "term1"]
    assert [grid["data-signed"] for grid in grids] == ["", "", "", "1"]


@pytest.mark.parametrize("largest", [0.0, 3.2767, 3.2768, 1234.5678])
def test_large_values_travel_with_four_decimals_too(largest: float, values_of: Values) -> None:
    values = np.array([[largest, -largest], [0.00005, -0.12345]])
    drawn = heat_map(Panel(values, 1.0, signed=True), ["a", "b"], ["c", "d"], title="t")
    np.testing.assert_allclose(values_of(attributes(drawn)), values.ravel(), atol=5.1e-5)


def test_cells_are_coloured_by_value_and_sign() -> None:
    values = np.array([[0.0, 0.25], [-1.0, 1.0]])
    drawn = heat_map(Panel(values, 1.0, "root", signed=True), ["a", "b"], ["a", "b"], title="t")
    encoded = re.findall(r'href="data:image/png;base64,([^"]+)"', drawn)[0]
    pixels = imread(io.BytesIO(base64.b64decode(encoded)))  # (2, 2, 4), 0 to 1
    np.testing.assert_allclose(pixels[..., 3], [[0.0, 0.5], [1.0, 1.0]], atol=0.01)
    np.testing.assert_array_equal(pixels[0, 1, :3], pixels[1, 1, :3])
    assert pixels[1, 1, 0] > pixels[1, 1, 2] and pixels[1, 0, 2] > pixels[1, 0, 0]  # orange is more, purple less


def test_png_of_our_own_is_read_back_by_another_reader() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 4)).astype(np.uint8)
    np.testing.assert_array_equal(np.rint(imread(io.BytesIO(png(pixels))) * 255), pixels)


def test_the_kind_and_the_chosen_cell_are_marked() -> None:
    figure = ElementTree.fromstring(
        heat_map(Panel(np.ones((3, 4)), 1.0), list("abc"), list("wxyz"), title="t", kind="heads", chosen=(2, 1))
    )
    assert figure.attrib == {"class": "heat small heads", "data-kind": "heads"}
    svg = figure.find(f".//{SVG}svg")
    assert svg is not None and svg.get("tabindex") == "0"
    [image], [frame] = svg.findall(f"{SVG}image"), [one for one in svg.iter() if one.get("class") == "chosen"]
    cell = float(svg.get("data-cell", 0))
    assert float(frame.get("x", 0)) == float(image.get("x", 0)) + cell
    assert float(frame.get("y", 0)) == float(image.get("y", 0)) + 2 * cell
    assert 'class="chosen"' not in heat_map(Panel(np.ones((1, 1)), 1.0), ["a"], ["b"], title="t")


@pytest.mark.parametrize(("share", "width"), [(0.25, 14.0), (-1.0, 0.0), (7.0, 56.0)])
def test_a_bar_is_as_long_as_its_share_and_stays_on_its_rail(share: float, width: float) -> None:
    rail, drawn = ElementTree.fromstring(bar(share))
    assert float(rail.get("width", 0)) == 56 and float(drawn.get("width", 0)) == width


def test_characters_that_no_page_may_hold_are_replaced() -> None:
    drawn = heat_map(Panel(np.ones((1, 1)), 1.0), ["a\x00\ud800\ufffe"], ["b\x0b"], title="\x00\ud800\ufffe")
    assert "\x00" not in drawn and "\ufffd" in drawn
    ElementTree.fromstring(drawn)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21, as the WCAG defines it."""

    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = np.frombuffer(bytes.fromhex(digits), np.uint8) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


def test_words_stand_out_from_the_paper_in_light_and_in_dark() -> None:
    light, dark = (dict(re.findall(r"(--\w+): (#\w+);", part)) for part in look_css().split("@media screen")[:2])
    dark = {name: dark[name] for name in light}  # no colour is named for light alone
    for colours in (light, dark):
        for paper in ("--paper", "--tint"):
            assert all(contrast(colours[name], colours[paper]) >= 4.5 for name in ("--ink", "--soft", "--focus"))
            assert all(contrast(colours[name], colours[paper]) >= 3 for name in ("--edge", "--blue", "--orange"))
            assert all(contrast(colours[name], colours[paper]) >= 3 for name in ("--purple", "--green", "--red"))


def test_look_needs_nothing_from_elsewhere() -> None:
    assert not re.search(r"url\(|@import|https?:", look_css())
    assert re.findall(r"https?:[^\"]*", look_js()) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert "</script" not in look_js() and "</style" not in look_css()


# ---- in a browser ----


WORDS = ["one", "two", "<b>three", "four"]
VALUES = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, -0.6, 0.7, 0.8], [0.0, 0.0, 0.0, 1.0], [0.12344, 0.0, 0.0, 0.0]])


@pytest.fixture
def opened(page: Page, seen: Seen, tmp_path: Path) -> Page:
    """Return a page with a heat map, a chart and a head that might be chosen, opened as a file."""
    drawn = heat_map(Panel(VALUES, 1.0, signed=True), WORDS, WORDS, title="a & b", kind="heads", chosen=(1, 1))
    chart = bar_chart({"first": 1.0, "second": 0.5}, label="Two bars")
    head = '<button type="button" class="head" data-layer="0" data-head="1">layer 0 head 1</button>'
    path = tmp_path / "page.html"
    path.write_text(document("A page", [drawn, chart, head]), "utf-8")
    page.goto(path.as_uri())
    page.evaluate("addEventListener('infuser:cell', (event) => { window.chosenCell = event.detail; })")
    return page


def told(page: Page) -> list[str]:
    """Return what is shown beside a cell, and what is told to screen readers."""
    return [page.locator(part).inner_text() for part in ("#look-tip:not([hidden])", "#look-status")]


@pytest.mark.slow
def test_a_heat_map_is_read_by_keyboard_alone(opened: Page, seen: Seen) -> None:
    for _ in range(3):  # the two buttons of the map, then the map
        opened.keyboard.press("Tab")
    assert told(opened) == ["one → one: +0.100"] * 2
    for key, expected in (
        ("ArrowRight", "one → two: +0.200"),
        ("ArrowDown", "two → two: -0.600"),
        ("End", "two → four: +0.800"),
        ("PageDown", "four → four: 0.000"),
        ("Home", "four → one: +0.123"),
        ("ArrowLeft", "four → one: +0.123"),
        ("PageUp", "one → one: +0.100"),
        ("Control+End", "four → four: 0.000"),
        ("ArrowUp", "<b>three → four: +1.000"),
    ):
        opened.keyboard.press(key)
        assert told(opened) == [expected] * 2
    opened.keyboard.press("Enter")
    assert opened.evaluate("chosenCell") == {"row": 2, "column": 3, "kind": "heads"}
    opened.keyboard.press("Escape")
    assert opened.locator("#look-tip").is_hidden()
    assert opened.evaluate("document.activeElement === document.body")
    assert seen.errors == [] and [address.partition(":")[0] for address in seen.requests] == ["file"]


@pytest.mark.slow
def test_a_heat_map_is_read_and_chosen_from_by_pointer(opened: Page, seen: Seen) -> None:
    cells = opened.locator(".heat image").bounding_box()
    assert cells is not None
    width, height = cells["width"] / 4, cells["height"] / 4
    opened.mouse.move(cells["x"] + 2.5 * width, cells["y"] + 1.5 * height)
    assert opened.locator("#look-tip").inner_text() == "two → <b>three: +0.700"
    opened.mouse.click(cells["x"] + 3.5 * width, cells["y"] + 0.5 * height)
    assert told(opened) == ["one → four: +0.400"] * 2
    assert opened.evaluate("chosenCell") == {"row": 0, "column": 3, "kind": "heads"}
    opened.mouse.move(2, 2)
    assert opened.locator("#look-tip").is_hidden()
    values = "[0, 1, 2, 3].map((row) => infuserLook.value(document.querySelector('.heat svg'), row, row === 3 ? 0 : 1))"
    assert opened.evaluate(values) == [0.2, -0.6, 0, 0.1234]
    assert opened.locator("button.head").is_disabled()  # nothing in a file would answer
    assert seen.errors == []


@pytest.mark.slow
def test_a_copied_svg_stands_alone(opened: Page, seen: Seen) -> None:
    opened.get_by_role("button", name="Copy as SVG: a & b").click()
    opened.get_by_text("a & b: copied as SVG.").wait_for()
    svg = ElementTree.fromstring(opened.evaluate("navigator.clipboard.readText()"))
    assert svg.tag == f"{SVG}svg" and {"width", "height", "viewBox", "font-family"} <= svg.attrib.keys()
    words = [text for text in svg.iter(f"{SVG}text") if text.text in WORDS]
    assert [text.text for text in words] == WORDS * 2 and all(text.get("dominant-baseline") for text in words)
    assert {text.get("text-anchor") for text in words} == {"end", None}
    paper = svg[0]
    assert (paper.tag, paper.get("fill")) == (f"{SVG}rect", "rgb(255, 255, 255)")
    assert svg[1].text == "a & b (-1 to +1)"  # says what it is, above the picture
    box = [float(number) for number in svg.get("viewBox", "").split()]
    assert box[1] < 0 and [float(paper.get(side, 0)) for side in ("x", "y", "width", "height")] == box
    names = {name for one in svg.iter() for name in one.attrib}
    assert not {"class", "style", "tabindex"} & names and not [name for name in names if name.startswith("data-")]
    assert not [one for one in svg.iter() if one.get("visibility") == "hidden"]
    [image] = svg.iter(f"{SVG}image")
    pixels = imread(io.BytesIO(base64.b64decode(image.get("href", "").partition(",")[2])))
    assert len(np.unique(pixels[..., 3])) <= len(np.unique(np.abs(VALUES)))  # enlarged, and no shade between two cells
    assert pixels.shape[:2] == (2 * float(image.get("height", 0)), 2 * float(image.get("width", 0)))
    assert seen.errors == []


@pytest.mark.slow
def test_a_copied_png_is_as_sharp_as_two_pixels_for_one(opened: Page, seen: Seen) -> None:
    opened.emulate_media(color_scheme="dark")
    for name, of in (("a & b", ".heat svg"), ("Two bars", "svg.chart")):
        opened.get_by_role("button", name=f"Copy as PNG: {name}").click()
        opened.get_by_text(f"{name}: copied as PNG.").wait_for()
        file = opened.evaluate(
            """async () => {
              const [item] = await navigator.clipboard.read();
              const file = await item.getType("image/png");
              return btoa(String.fromCharCode(...new Uint8Array(await file.arrayBuffer())));
            }"""
        )
        pixels = imread(io.BytesIO(base64.b64decode(file)))
        box = opened.locator(of).evaluate("(svg) => [svg.viewBox.baseVal.height, svg.viewBox.baseVal.width]")
        title = 22  # a line that says what it is
        assert list(pixels.shape[:2]) == [2 * (box[0] + title), 2 * box[1]]
        np.testing.assert_allclose(pixels[0, 0, :3] * 255, [0x14, 0x17, 0x1A], atol=0.5)  # on the paper of the page
        assert np.ptp(pixels) > 0.5  # something is drawn on it
    assert seen.errors == []


@pytest.mark.slow
def test_where_the_clipboard_is_refused_a_file_is_saved(opened: Page, context: BrowserContext) -> None:
    refuse = "() => { navigator.clipboard.write = () => Promise.reject(new DOMException('no', 'NotAllowedError')); }"
    opened.evaluate(refuse)
    for format_, starts in (("PNG", b"\x89PNG"), ("SVG", b"<svg ")):
        with opened.expect_download() as saving:
            opened.get_by_role("button", name=f"Copy as {format_}: a & b").click()
        assert saving.value.suggested_filename == f"a-b.{format_.lower()}"
        assert Path(saving.value.path()).read_bytes().startswith(starts)
        opened.get_by_text(f"Saved as a-b.{format_.lower()}.").wait_for()


@pytest.mark.slow
def test_parts_that_come_later_are_enhanced_once(opened: Page, seen: Seen) -> None:
    part = heat_map(Panel(VALUES, 1.0), WORDS, WORDS, title="later")
    opened.evaluate(
        """(part) => {
          const wrapped = `<div xmlns="http://www.w3.org/1999/xhtml">${part}</div>`;
          const read = new DOMParser().parseFromString(wrapped, "application/xhtml+xml");
          document.querySelector("main").append(document.adoptNode(read.documentElement));
          infuserLook.enhance(document);
          infuserLook.enhance(document);
        }""",
        part,
    )
    assert opened.get_by_role("button", name="Copy as PNG: later").count() == 1
    opened.locator(".heat svg").last.focus()
    opened.keyboard.press("ArrowDown")
    assert told(opened)[0] == "two → one: 0.500"
    assert seen.errors == []


@pytest.mark.slow
def test_nothing_is_cut_off_on_a_phone(opened: Page) -> None:
    opened.set_viewport_size({"width": 390, "height": 844})
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
