"""Assets of the registry, for tests that read the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from infuser import assets
from infuser.errors import AssetError


def fetch_or_skip(name: str) -> Path:
    """Return the asset's folder, or skip the test where it cannot be fetched."""
    try:
        return assets.fetch(name)
    except AssetError as error:
        pytest.skip(f"the asset {name} cannot be fetched here: {error}")
