"""A real browser for tests: fixtures `browser`, `page` and `seen`; skipped with the reason where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

_QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Seen:
    """What went wrong and what was asked for while a page was open."""

    errors: list[str] = field(default_factory=list)
    """Console errors and warnings (a breach of the content security policy is one), and scripts that broke."""
    requests: list[str] = field(default_factory=list)
    """Every address that was asked for, but for data: addresses, which are inside the page."""


def chromium() -> str:
    """Return where Chromium is; $CHROMIUM says so where it is not on the path. Skip the test where there is none."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not found:
        pytest.skip("no browser: chromium is not on the path, and $CHROMIUM is not set")
    return found


@pytest.fixture(scope="module")  # not longer: while it is open, no other test could call asyncio.run
def browser() -> Iterator[Browser]:
    """Open Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = chromium()
    with playwright.sync_playwright() as started:
        # inside a container root has no sandbox, and the pages are our own
        sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        opened = started.chromium.launch(executable_path=found, args=[*_QUIET, *sandbox])
        yield opened
        opened.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return a reader without a past, who lets pages use the clipboard."""
    opened = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.set_default_timeout(10_000)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """Return an empty tab of 1280 x 900."""
    return context.new_page()


@pytest.fixture
def seen(page: Page) -> Seen:
    """Return what `page` complains of and asks for, from now on."""
    watched = Seen()
    page.on("console", lambda told: watched.errors.append(told.text) if told.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: watched.errors.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith("data:") else watched.requests.append(asked.url))
    return watched
