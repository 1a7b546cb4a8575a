"""The live page in a real browser shows the numbers of `infuser explain`, whatever is typed or switched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from browser import Seen
from relation_texts import shaped_texts
from viewer.driving import (
    N_LAYERS,
    OTHER,
    PAIR,
    TEXT,
    assert_agrees,
    explained,
    heat_map,
    link,
    open_page,
    source,
    wait_for_change,
    wait_for_picture,
)

from infuser.viewer.request import ViewRequest
from infuser.viewer.server import running
from infuser.viewer.views import RelationsView

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

SCRIPT = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">'


def test_the_first_example_opens_where_knowledge_changes_most(
    page: Page, seen: Seen, address: str, saved: Path
) -> None:
    open_page(page, address)
    assert page.inner_text("h1") == "A tiny model" and page.inner_text("#note") == "Only for tests."
    assert page.input_value("#text") == TEXT and page.input_value("#pair") == PAIR
    told = explained(saved, TEXT, PAIR, "--layer", "strongest")
    assert np.abs(np.array(told["changes"])).max() > 0.05  # else agreeing would say little
    assert_agrees(page, told)
    assert f"layer {told['layer']}, head {told['head']}" in page.inner_text("#status")
    assert seen.errors == [] and all(asked.startswith(address) for asked in seen.requests)


def test_typing_a_text_changes_the_numbers_to_those_of_that_text(page: Page, address: str, saved: Path) -> None:
    open_page(page, link(address, text=TEXT, pair=PAIR, layer=1, head=2))
    before = page.inner_text("[data-part=answer]")
    page.locator("#text").fill("")
    page.locator("#text").press_sequentially(OTHER, delay=5)
    wait_for_change(page, "answer", before)
    wait_for_picture(page)
    assert_agrees(page, explained(saved, OTHER, PAIR, "--layer", 1, "--head", 2))


def test_switching_a_source_off_and_on_changes_answer_and_attention_and_back(
    page: Page, seen: Seen, address: str, saved: Path
) -> None:
    open_page(page, link(address, text=TEXT, pair=PAIR, layer=2, head=1))
    before, attention = page.inner_text("[data-part=answer]"), heat_map(page, "attention", 1)
    source(page, "graph").uncheck()
    wait_for_change(page, "answer", before)
    off = explained(saved, TEXT, PAIR, "--layer", 2, "--head", 1, "--off", "graph")
    assert list(off["maps"]) == ["phrases", "entities"]
    assert_agrees(page, off)
    assert np.abs(heat_map(page, "attention", 1) - attention).max() > 1e-3
    assert "off=graph" in page.url
    without_graph = page.inner_text("[data-part=answer]")
    source(page, "graph").check()
    wait_for_change(page, "answer", without_graph)
    assert page.inner_text("[data-part=answer]") == before and "off=" not in page.url
    assert seen.errors == []


def test_layers_and_heads_are_switched_by_every_control_there_is(page: Page, address: str, saved: Path) -> None:
    open_page(page, link(address, text=TEXT, pair=PAIR, layer=0, head="mean"))
    page.select_option("#layer", "2")
    wait_for_picture(page, "layer 2, mean over heads")
    page.click("#head-next")
    wait_for_picture(page, "layer 2, head 0")
    page.click("#head-previous")
    wait_for_picture(page, "layer 2, mean over heads")
    page.click("#layer-next")  # round and round
    wait_for_picture(page, "layer 0, mean over heads")
    page.select_option("#head", "3")
    wait_for_picture(page, "layer 0, head 3")
    assert_agrees(page, explained(saved, TEXT, PAIR, "--layer", 0, "--head", 3))
    heads = page.locator("[data-part=heads] svg")
    cell = heads.evaluate("svg => Number(svg.dataset.cell)")
    heads.locator("image").click(position={"x": 1.5 * cell, "y": 2.5 * cell})
    wait_for_picture(page, "layer 2, head 1")
    assert_agrees(page, explained(saved, TEXT, PAIR, "--layer", 2, "--head", 1))
    page.click("#strongest")
    strongest = explained(saved, TEXT, PAIR, "--layer", "strongest")
    wait_for_picture(page, f"layer {strongest['layer']}, head {strongest['head']}")


def test_a_link_opens_the_same_picture_for_somebody_else(page: Page, browser: Browser, address: str) -> None:
    open_page(page, address)
    source(page, "phrases").uncheck()
    page.select_option("#layer", "1")
    page.select_option("#head", "3")
    page.locator("#text").fill(f"{OTHER} & 100 % of #it +1")
    wait_for_picture(page, "layer 1, head 3")
    from playwright.sync_api import expect

    expect(page.locator("[data-part=found]")).to_contain_text("100%of#it+1")  # words stand in cells of their own
    wait_for_picture(page)
    page.click("#copy-link")
    expect(page.locator("#status")).to_have_text("link copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.url
    with browser.new_context() as stranger:
        other = stranger.new_page()
        open_page(other, copied)
        assert other.inner_html("#parts") == page.inner_html("#parts")
        assert other.input_value("#text") == page.input_value("#text")
        assert not source(other, "phrases").is_checked() and source(other, "graph").is_checked()


def test_another_link_pasted_into_the_tab_is_followed_and_back_goes_back(page: Page, address: str) -> None:
    open_page(page, link(address, text=TEXT, pair=PAIR, layer=1, head=0))
    page.goto(link(address, text=OTHER, layer=-1, head=2))
    wait_for_picture(page, f"layer {N_LAYERS - 1}, head 2")
    assert page.input_value("#text") == OTHER and f"layer={N_LAYERS - 1}" in page.url
    page.go_back()
    wait_for_picture(page, "layer 1, head 0")
    assert page.input_value("#text") == TEXT and page.input_value("#pair") == PAIR


def test_script_in_a_text_stays_text(page: Page, seen: Seen, address: str) -> None:
    text, pair = f"the river {SCRIPT}", f"</textarea>{SCRIPT} the town &lt;b&gt;"
    open_page(page, link(address, text=text, pair=pair, layer=0, head="mean"))
    assert page.input_value("#text") == text and page.input_value("#pair") == pair
    shown = page.locator("[data-part=found] svg").first.text_content() or ""
    assert shown.count("<script>window.hacked=1</script>") == 2 and "</textarea>" in shown and "&lt;b&gt;" in shown
    page.locator("#text").fill(f"the river {SCRIPT} \x0b\ufffe ]]> <!-- town")
    from playwright.sync_api import expect

    expect(page.locator("[data-part=found]")).to_contain_text("<!--")
    wait_for_picture(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("#parts script, #parts img, #parts b").count() == 0
    assert page.locator("#alert").is_hidden()
    assert seen.errors == [] and all(asked.startswith(address) for asked in seen.requests)


def test_the_downloaded_json_is_what_explain_prints(page: Page, address: str, saved: Path) -> None:
    open_page(page, link(address, text=TEXT, pair=PAIR, layer=1, head=1, off=["graph", "entities"]))
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == "explanation.json"
    written = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    options = ("--layer", 1, "--head", 1, "--off", "graph", "--off", "entities")
    assert written == explained(saved, TEXT, PAIR, *options)
    assert written["off"] == ["graph", "entities"]


def test_triples_lead_to_the_heads_that_decided(page: Page, seen: Seen, relations: RelationsView) -> None:
    text = shaped_texts(80, 0, triggers=False)[0].text
    told = relations.see(ViewRequest(text, layer="strongest")).triples
    assert told
    with running(relations) as address:
        open_page(page, link(address, text=text))
        assert page.locator("#second-switch").is_hidden()
        rows = page.locator("[data-part=triples] tbody tr")
        assert rows.count() == len(told)
        assert told[0]["head"]["text"] in rows.first.inner_text() and told[0]["relation"] in rows.first.inner_text()
        head = told[-1]["heads"][-1]
        rows.last.locator("button.head").last.click()
        wait_for_picture(page, f"layer {head['layer']}, head {head['head']}")
        attention = relations.see(ViewRequest(text, layer=head["layer"], head=head["head"])).plain
        np.testing.assert_allclose(heat_map(page, "attention"), attention, atol=5.2e-5)
        before = page.inner_text("[data-part=triples]")
        page.locator("#text").fill("xyz")
        wait_for_change(page, "triples", before)
        assert "no two spans of this text are related" in page.inner_text("[data-part=triples]")
    assert seen.errors == []
