"""The live page of a tagger with several methods: marked entities, switches of methods, a note on runaway heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from browser import Seen
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import shake
from viewer import driving

import infuser
from infuser import Kam
from infuser.methods import Types
from infuser.sources import Entities
from infuser.viewer.request import ViewRequest
from infuser.viewer.server import running
from infuser.viewer.views import InfusedView, SampleText

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

TEXT = "buy glipizide tablets near the river"


@pytest.fixture(scope="module")
def tagger() -> InfusedView:
    host = tiny_host("bert", "token-classification")
    host.config.id2label = {0: "O", 1: "B-Drug", 2: "I-Drug"}
    torch.nn.init.constant_(host.classifier.bias[:1], -9.0)  # O is not all it says
    sources = [Entities({"glipizide": "drug"})]
    infused = infuser.infuse(host, [Types(), Kam(limit="off")], sources=sources, tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    return InfusedView(infused, "A tagger", examples=[SampleText(TEXT)])


def test_methods_are_switched_and_entities_marked(page: Page, seen: Seen, tagger: InfusedView) -> None:
    with running(tagger) as address:
        driving.open_page(page, address)
        told = tagger.see(ViewRequest(TEXT))
        assert told.entities_plain and told.entities_infused
        lines = page.locator("[data-part=entities] .tagged")
        assert lines.count() == 2 + len(told.entities_without)
        assert lines.nth(1).locator("mark").count() == len(told.entities_infused)
        start, end, label, share = told.entities_infused[0]
        first = lines.nth(1).locator("mark").first.inner_text()
        assert first.startswith(TEXT[start:end]) and f"{label} {share:.2f}" in first
        before = page.inner_text("[data-part=entities]")
        page.keyboard.press("3")  # behind the one source and types
        driving.wait_for_change(page, "entities", before)
        assert not page.get_by_label("kam", exact=True).is_checked() and "off=kam" in page.url
        assert page.locator("[data-part=entities] .tagged").count() == 1 + len(told.entities_without)
        assert seen.errors == []


def test_heads_that_ran_away_are_named_above_all_else(page: Page, tagger: InfusedView) -> None:
    assert isinstance(tagger.infused, infuser.Infused)
    for seed in range(20):
        shake(tagger.infused.model, seed=seed)
    told = InfusedView(tagger.infused, "").see(ViewRequest(TEXT))
    with running(InfusedView(tagger.infused, "Run away", examples=[SampleText(TEXT)])) as address:
        driving.open_page(page, address)
        assert told.warning and told.warning in page.inner_text("[data-part=warning]")
        assert page.locator("#parts section:visible").first.get_attribute("data-part") == "warning"
