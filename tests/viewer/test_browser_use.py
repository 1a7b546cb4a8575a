"""The live page in a real browser: keyboard, errors, what survives a new answer, narrow windows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from viewer import driving

from infuser.viewer.server import running
from infuser.viewer.views import InfusedView, SampleText

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


def test_a_server_that_died_is_named_the_picture_stays_and_trying_again_helps(page: Page, shown: InfusedView) -> None:
    from playwright.sync_api import expect

    with running(shown) as address:
        driving.open_page(page, driving.link(address, text=driving.TEXT, layer=0, head=0))
        before = page.inner_html("#parts")
    page.click("#head-next")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer. Is `infuser view` still running?")
    assert page.inner_html("#parts") == before
    with running(shown, port=int(address.rsplit(":", 1)[1])):
        page.click("#again")
        driving.wait_for_picture(page, "layer 0, head 1")
    assert page.locator("#alert").is_hidden()


def test_what_the_server_refuses_is_shown_as_its_sentence_and_the_picture_stays(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    driving.open_page(page, driving.link(address, text=driving.TEXT, layer=0, head=0))
    before = page.inner_html("#parts")
    page.goto(driving.link(address, text=driving.TEXT, layer=77, head=0))
    expect(page.get_by_role("alert")).to_contain_text("There is no layer 77: this model has 3 of them, 0 to 2.")
    assert page.locator("#again").is_hidden() and page.inner_html("#parts") == before
    page.select_option("#layer", "1")
    driving.wait_for_picture(page, "layer 1, head 0")
    assert page.locator("#alert").is_hidden()


def test_what_may_pass_can_be_asked_again(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    driving.open_page(page, driving.link(address, text=driving.TEXT, layer=0, head=0))
    busy = {"status": 503, "json": {"error": "Too many questions wait for the model. Ask again in a second."}}
    page.route("**/api/see", lambda route: route.fulfill(**busy), times=1)
    page.click("#head-next")
    expect(page.get_by_role("alert")).to_contain_text("Ask again in a second.")
    page.click("#again")
    driving.wait_for_picture(page, "layer 0, head 1")
    assert page.locator("#alert").is_hidden()


def test_without_a_text_nothing_is_shown_and_nothing_can_be_downloaded(page: Page, address: str) -> None:
    driving.open_page(page, driving.link(address, text=driving.TEXT, layer=0, head=0))
    page.locator("#text").fill("  ")
    driving.wait_for_picture(page, "Write a text")
    assert page.inner_text("#parts").strip() == "" and page.locator("#alert").is_hidden()
    assert page.locator("#download").is_disabled()
    page.locator("#text").fill(driving.OTHER)
    driving.wait_for_picture(page)
    assert page.locator("#download").is_enabled() and driving.OTHER.split()[1] in page.inner_text("[data-part=found]")


def test_an_example_without_a_second_text_leaves_none_behind(page: Page, address: str, saved: Path) -> None:
    driving.open_page(page, driving.link(address, text=driving.TEXT, pair=driving.PAIR, layer=0, head=0))
    page.get_by_role("button", name=driving.OTHER, exact=True).click()
    driving.wait_for_picture(page)
    assert page.input_value("#text") == driving.OTHER and page.input_value("#pair") == ""
    page.locator("#text").press_sequentially(" again")  # what is written next is read alone, too
    driving.wait_for_picture(page)
    driving.assert_agrees(page, driving.explained(saved, f"{driving.OTHER} again", None, "--layer", 0, "--head", 0))


def test_a_head_chosen_while_the_strongest_is_looked_for_is_not_lost(page: Page, address: str) -> None:
    driving.open_page(page, driving.link(address, text=driving.TEXT, pair=driving.PAIR, layer=1, head=0))
    held: list[Any] = []
    page.route("**/api/see", lambda route: held.append(route), times=1)
    page.click("#strongest")
    page.select_option("#head", "2")
    driving.wait_for_picture(page, "layer 1, head 2")
    assert page.input_value("#layer") == "1" and page.input_value("#head") == "2"


def test_an_answer_that_a_newer_question_overtook_is_dropped(page: Page, address: str) -> None:
    driving.open_page(page, driving.link(address, text=driving.TEXT, layer=0, head=0))
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
    driving.wait_for_picture(page, "layer 2, head 0")
    after = page.inner_html("#parts")
    for route, answer in held:
        route.fulfill(response=answer)
    page.wait_for_timeout(150)
    assert page.inner_html("#parts") == after and page.input_value("#layer") == "2"


def test_all_can_be_done_with_the_keyboard_alone(page: Page, address: str, saved: Path) -> None:
    driving.open_page(page, address)
    focused = "document.activeElement.id"
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "text"
    page.keyboard.press("Control+A")
    page.keyboard.type(driving.OTHER)
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("the river")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate(focused) == "switch-0":
            break
    assert page.evaluate(focused) == "switch-0"
    page.keyboard.press("Space")
    while page.evaluate(focused) != "head":
        page.keyboard.press("Tab")
    for _ in range(driving.N_HEADS):
        page.keyboard.press("ArrowUp")  # whatever it was: now the mean
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    layer = page.input_value("#layer")
    driving.wait_for_picture(page, f"layer {layer}, head 1")
    driving.assert_agrees(
        page, driving.explained(saved, driving.OTHER, "the river", "--layer", layer, "--head", 1, "--off", "graph")
    )


def test_single_keys_switch_heads_layers_and_sources_but_not_while_writing(page: Page, address: str) -> None:
    driving.open_page(page, driving.link(address, text=driving.TEXT, pair=driving.PAIR, layer=1, head=1))
    keyboard = page.keyboard
    for key, told in (("]", "layer 1, head 2"), ("[", "layer 1, head 1"), ("}", "layer 2, head 1"), ("{", "layer 1, ")):
        keyboard.press(key)
        driving.wait_for_picture(page, told)
    keyboard.press("2")
    assert not driving.source(page, "phrases").is_checked()
    keyboard.press("2")
    assert driving.source(page, "phrases").is_checked()
    keyboard.press("?")
    assert page.locator("#help").is_visible()
    keyboard.press("]")  # sleeps while the list is open
    keyboard.press("Escape")
    assert page.locator("#help").is_hidden() and page.input_value("#head") == "1"
    keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"
    keyboard.press("End")
    keyboard.type(" [2]?")
    assert page.input_value("#text") == f"{driving.TEXT} [2]?" and driving.source(page, "phrases").is_checked()


def test_focus_folds_and_place_survive_a_new_answer(page: Page, address: str) -> None:
    driving.open_page(page, driving.link(address, text=driving.TEXT, pair=driving.PAIR, layer=1, head=1))
    page.locator("[data-part=found] summary").first.click()
    heads = page.locator("[data-part=heads] svg")
    heads.focus()
    for key in ("Home", "PageUp", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    top = heads.evaluate("svg => svg.getBoundingClientRect().top")
    page.keyboard.press("Enter")
    driving.wait_for_picture(page, "layer 2, head 3")
    assert page.evaluate("document.activeElement.closest('[data-part]').dataset.part") == "heads"
    assert heads.evaluate("svg => svg.getBoundingClientRect().top") == pytest.approx(top, abs=2)
    page.keyboard.press("ArrowLeft")  # goes on from where it was
    page.keyboard.press("Enter")
    driving.wait_for_picture(page, "layer 2, head 2")
    page.set_viewport_size({"width": 390, "height": 844})  # here maps stand below each other: one less moves the rest
    heads.evaluate("svg => svg.scrollIntoView()")
    answer = page.locator("[data-part=answer] .wide")
    answer.evaluate("box => (box.scrollLeft = 40)")
    maps, top = page.locator("[data-part=maps]"), heads.evaluate("svg => svg.getBoundingClientRect().top")
    tall = maps.evaluate("part => part.offsetHeight")
    page.keyboard.press("1")
    driving.wait_for_picture(page, "layer 2, head 2")
    assert maps.evaluate("part => part.offsetHeight") < tall - 100
    assert heads.evaluate("svg => svg.getBoundingClientRect().top") == pytest.approx(top, abs=2)
    assert answer.evaluate("box => box.scrollLeft") == 40
    assert page.locator("[data-part=found] details").first.evaluate("fold => fold.open")
    assert not page.locator("[data-part=found] details").nth(1).evaluate("fold => fold.open")


def test_a_second_text_can_be_added_and_removed(page: Page, shown: InfusedView, saved: Path) -> None:
    alone = InfusedView(shown.infused, "Single texts", examples=[SampleText(driving.OTHER)])
    with running(alone) as address:
        driving.open_page(page, driving.link(address, text=driving.OTHER, layer=0, head=0))
        assert page.locator("#pair").is_hidden()
        before = page.inner_text("[data-part=answer]")
        page.click("text=add a second text")
        page.keyboard.type("the old pharmacy")
        driving.wait_for_change(page, "answer", before)
        driving.wait_for_picture(page)
        driving.assert_agrees(
            page, driving.explained(saved, driving.OTHER, "the old pharmacy", "--layer", 0, "--head", 0)
        )
        with_pair = page.inner_text("[data-part=answer]")
        page.click("text=remove the second text")
        driving.wait_for_change(page, "answer", with_pair)
        assert page.inner_text("[data-part=answer]") == before and "pair=" not in page.url


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_the_page_never_scrolls_sideways(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    long = "the old bridge of the town near the river in the city and " * 3 + "x" * 200
    driving.open_page(page, driving.link(address, text=long, pair=f"<b>{'y' * 300}", layer=0, head=0))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.locator("[data-part=attention] .wide")
    assert boxes.count() == 3
    assert all(box.evaluate("box => box.clientWidth <= innerWidth") for box in boxes.all())
