"""Takes the pictures of the viewer that README and docs show: the embedded default in a real browser, at three sizes.

python benchmarks/viewer_pictures.py    # a few seconds; needs Playwright and Chromium
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, expect, sync_playwright
from transformers.utils import logging

from infuser.viewer.default import open_default
from infuser.viewer.request import ViewRequest
from infuser.viewer.server import running

IMAGES = Path(__file__).parent.parent / "docs" / "images"
# name, width, height, colours, and what is scrolled to; without a height the whole page
PICTURES: tuple[tuple[str, int, int | None, Literal["light", "dark"], str], ...] = (
    ("viewer", 1280, 900, "light", "body"),
    ("viewer_whole", 1280, None, "light", "body"),
    ("viewer_tablet", 820, 1180, "light", "body"),
    ("viewer_phone", 390, 844, "dark", "#results"),
)


def main() -> None:
    """Write every picture and say how large it is."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    view = open_default()
    with running(view) as address, sync_playwright() as playwright:
        found = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        for name, *how in PICTURES:
            view.see(
                ViewRequest(**asdict(view.examples[1]))
            )  # the page tells how long it took: warm, but not remembered
            path = take(browser, address, IMAGES / f"{name}.png", *how)
            print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")
        browser.close()


def take(
    browser: Browser,
    address: str,
    path: Path,
    width: int,
    height: int | None,
    colours: Literal["light", "dark"],
    to: str,
) -> Path:
    """Write what a window of this size shows, scrolled to a part of the page."""
    context = browser.new_context(viewport={"width": width, "height": height or 900}, color_scheme=colours)
    page = context.new_page()
    page.goto(address)
    expect(page.locator("#status")).to_contain_text("read in", timeout=60_000)
    expect(page.locator("[data-part=attention] svg").first).to_be_visible()
    page.locator(to).evaluate("part => part.scrollIntoView()")
    page.wait_for_timeout(500)  # the parts are still being faded in
    page.screenshot(path=path, full_page=height is None)
    context.close()
    return path


if __name__ == "__main__":
    main()
