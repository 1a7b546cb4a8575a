"""Selections as files, and sources that select by them: what `infuser select` writes and `infuser train` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.files import write_whole
from infuser.sources.selective import Strategy, describe_strategy, make_strategy
from infuser.tables.rows import read_json

SAMPLING = "sampling"
_KIND = "infuser selection"


def read_strategy(selection: str | None) -> Strategy | str | None:
    """Return what a selection names: the strategy of a file of `infuser select`, "sampling", or None for everything."""
    return selection if selection in (None, SAMPLING) else read_selection(Path(selection))


def write_selection(path: Path, strategy: Strategy, about: Mapping[str, Any]) -> None:
    """Write a selection as one JSON file."""
    content = {"kind": _KIND, "about": dict(about), "strategy": describe_strategy(strategy)}
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False))


def read_selection(path: Path) -> Strategy:
    """Return the strategy of a file that `infuser select` wrote."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") != _KIND or not isinstance(content.get("strategy"), dict):
        raise InputError(f"{path} is no selection. Write one: infuser select DATA ... --out {path}")
    try:
        return make_strategy(content["strategy"])
    except TypeError as error:
        raise InputError(
            f"The selection {path} cannot be read: {error}. Write it again with infuser select."
        ) from error
