"""The live page in a real browser, on a real server with a tiny model that also lies on disk for `infuser explain`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import pytest
import torch
from browser import Seen
from cli.commands import run_command
from miniatures import tiny_host, tiny_tokenizer
from relation_texts import shaped_texts
from tiny_infusions import shake

import infuser
from infuser import Entities, Graph, Kam, Phrases
from infuser.viewer.looking import Example, InfusedView, Question, RelationsView
from infuser.viewer.serving import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow

TEXT, PAIR = "buy tablets near me", "the old pharmacy of the town"
OTHER = "the river flows in the old town"
SCRIPT = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">'
N_LAYERS, N_HEADS = 3, 4


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with three sources on disk, its new weights moved to where knowledge changes answers."""
    torch.manual_seed(0)
    host = tiny_host("bert", "sequence-classification", num_hidden_layers=N_LAYERS, num_attention_heads=N_HEADS)
    host.config.id2label = {0: "no", 1: "perhaps", 2: "yes"}
    infused = infuser.infuse(
        host,
        Kam(),
        sources=[
            Graph([("pharmacy", "sells", "tablets"), ("river", "near", "town")]),
            Phrases(["near me", "old town"]),
            Entities({"pharmacy": "shop", "river": "water"}),
        ],
        tokenizer=tiny_tokenizer("bert"),
    )
    shake(infused.model)
    folder = tmp_path_factory.mktemp("saved") / "model"
    infused.save(folder)
    return folder


@pytest.fixture(scope="module")
def view(saved: Path) -> InfusedView:
    examples = [Example(TEXT, PAIR), Example(OTHER)]
    return InfusedView(infuser.load(saved), "A tiny model", note="Only for tests.", examples=examples)


@pytest.fixture(scope="module")
def address(view: InfusedView) -> Iterator[str]:
    with running(view) as address:
        yield address


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


def test_a_server_that_died_is_named_the_picture_stays_and_trying_again_helps(page: Page, view: InfusedView) -> None:
    from playwright.sync_api import expect

    with running(view) as address:
        open_page(page, link(address, text=TEXT, layer=0, head=0))
        before = page.inner_html("#parts")
    page.click("#head-next")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer. Is `infuser view` still running?")
    assert page.inner_html("#parts") == before
    with running(view, port=int(address.rsplit(":", 1)[1])):
        page.click("#again")
        wait_for_picture(page, "layer 0, head 1")
    assert page.locator("#alert").is_hidden()


def test_what_the_server_refuses_is_shown_as_its_sentence_and_the_picture_stays(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    open_page(page, link(address, text=TEXT, layer=0, head=0))
    before = page.inner_html("#parts")
    page.goto(link(address, text=TEXT, layer=77, head=0))
    expect(page.get_by_role("alert")).to_contain_text("There is no layer 77: this model has 3 of them, 0 to 2.")
    assert page.locator("#again").is_hidden() and page.inner_html("#parts") == before
    page.select_option("#layer", "1")
    wait_for_picture(page, "layer 1, head 0")
    assert page.locator("#alert").is_hidden()


def test_an_answer_that_a_newer_question_overtook_is_dropped(page: Page, address: str) -> None:
    open_page(page, link(address, text=TEXT, layer=0, head=0))
    held: list[Any] = []

    def hold_first(route: Any) -> None:
        asked = json.loads(route.request.post_data)
        if asked["layer"] == 1:
            held.append((route, route.fetch()))
        else:
            route.continue_()

    page.route("**/api/see", hold_first)
    page.select_option("#layer", "1")
    for _ in range(100):
        if held:
            break
        page.wait_for_timeout(50)
    assert held and page.inner_text("#status") == "reading…"
    page.select_option("#layer", "2")
    wait_for_picture(page, "layer 2, head 0")
    after = page.inner_html("#parts")
    for route, answer in held:
        route.fulfill(response=answer)
    page.wait_for_timeout(150)
    assert page.inner_html("#parts") == after and page.input_value("#layer") == "2"


def test_all_can_be_done_with_the_keyboard_alone(page: Page, address: str, saved: Path) -> None:
    open_page(page, address)
    focused = "document.activeElement.id"
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "text"
    page.keyboard.press("Control+A")
    page.keyboard.type(OTHER)
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("the river")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate(focused) == "source-0":
            break
    assert page.evaluate(focused) == "source-0"
    page.keyboard.press("Space")
    while page.evaluate(focused) != "head":
        page.keyboard.press("Tab")
    for _ in range(N_HEADS):
        page.keyboard.press("ArrowUp")  # whatever it was: now the mean
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    layer = page.input_value("#layer")
    wait_for_picture(page, f"layer {layer}, head 1")
    assert_agrees(page, explained(saved, OTHER, "the river", "--layer", layer, "--head", 1, "--off", "graph"))


def test_single_keys_switch_heads_layers_and_sources_but_not_while_writing(page: Page, address: str) -> None:
    open_page(page, link(address, text=TEXT, pair=PAIR, layer=1, head=1))
    keyboard = page.keyboard
    for key, told in (("]", "layer 1, head 2"), ("[", "layer 1, head 1"), ("}", "layer 2, head 1"), ("{", "layer 1, ")):
        keyboard.press(key)
        wait_for_picture(page, told)
    keyboard.press("2")
    assert not source(page, "phrases").is_checked()
    keyboard.press("2")
    assert source(page, "phrases").is_checked()
    keyboard.press("?")
    assert page.locator("#help").is_visible()
    keyboard.press("]")  # sleeps while the list is open
    keyboard.press("Escape")
    assert page.locator("#help").is_hidden() and page.input_value("#head") == "1"
    keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"
    keyboard.press("End")
    keyboard.type(" [2]?")
    assert page.input_value("#text") == f"{TEXT} [2]?" and source(page, "phrases").is_checked()


def test_focus_folds_and_place_survive_a_new_answer(page: Page, address: str) -> None:
    open_page(page, link(address, text=TEXT, pair=PAIR, layer=1, head=1))
    page.locator("[data-part=found] summary").first.click()
    heads = page.locator("[data-part=heads] svg")
    heads.focus()
    for key in ("Home", "PageUp", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    top = heads.evaluate("svg => svg.getBoundingClientRect().top")
    page.keyboard.press("Enter")
    wait_for_picture(page, "layer 2, head 3")
    assert page.evaluate("document.activeElement.closest('[data-part]').dataset.part") == "heads"
    assert heads.evaluate("svg => svg.getBoundingClientRect().top") == pytest.approx(top, abs=2)
    page.keyboard.press("ArrowLeft")  # goes on from where it was
    page.keyboard.press("Enter")
    wait_for_picture(page, "layer 2, head 2")
    page.keyboard.press("1")
    wait_for_picture(page, "layer 2, head 2")
    assert page.locator("[data-part=found] details").first.evaluate("fold => fold.open")
    assert not page.locator("[data-part=found] details").nth(1).evaluate("fold => fold.open")


def test_a_second_text_can_be_added_and_removed(page: Page, view: InfusedView, saved: Path) -> None:
    alone = InfusedView(view.infused, "Single texts", examples=[Example(OTHER)])
    with running(alone) as address:
        open_page(page, link(address, text=OTHER, layer=0, head=0))
        assert page.locator("#pair").is_hidden()
        before = page.inner_text("[data-part=answer]")
        page.click("text=add a second text")
        page.keyboard.type("the old pharmacy")
        wait_for_change(page, "answer", before)
        wait_for_picture(page)
        assert_agrees(page, explained(saved, OTHER, "the old pharmacy", "--layer", 0, "--head", 0))
        with_pair = page.inner_text("[data-part=answer]")
        page.click("text=remove the second text")
        wait_for_change(page, "answer", with_pair)
        assert page.inner_text("[data-part=answer]") == before and "pair=" not in page.url


def test_triples_lead_to_the_heads_that_decided(page: Page, seen: Seen, relations: RelationsView) -> None:
    text = shaped_texts(80, 0, triggers=False)[0].text
    told = relations.see(Question(text, layer="strongest")).triples
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
        attention = relations.see(Question(text, layer=head["layer"], head=head["head"])).plain
        np.testing.assert_allclose(heat_map(page, "attention"), attention, atol=5.2e-5)
        before = page.inner_text("[data-part=triples]")
        page.locator("#text").fill("xyz")
        wait_for_change(page, "triples", before)
        assert "no two spans of this text are related" in page.inner_text("[data-part=triples]")
    assert seen.errors == []


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_the_page_never_scrolls_sideways(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    long = "the old bridge of the town near the river in the city and " * 3 + "x" * 200
    open_page(page, link(address, text=long, pair=f"<b>{'y' * 300}", layer=0, head=0))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.locator("[data-part=attention] .wide")
    assert boxes.count() == 3
    assert all(box.evaluate("box => box.clientWidth <= innerWidth") for box in boxes.all())
