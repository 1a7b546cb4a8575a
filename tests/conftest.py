"""What a whole run keeps to; it loads no torch, because with several processes the first one runs no test."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["browser", "report_fixtures"]  # one real browser, one small explanation for all rooms

# the same examples in every run, so that a red run can be repeated; HYPOTHESIS_PROFILE=explore looks for new ones
settings.register_profile("repeatable", derandomize=True, deadline=None)  # no wall time in a test
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for garbage less often, and never among the half million objects that are loaded now and stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)  # Python's own 700 takes a fifteenth of the time
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that share a Spark session follow each other, so that one process runs them and starts one."""
    items.sort(key=lambda item: "spark_local" not in getattr(item, "fixturenames", ()))


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the datasets library keep what it writes in the test's own folder, and ask nobody."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
