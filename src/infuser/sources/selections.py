"""Selections as files, and sources that select by them: what `infuser select` writes and `infuser train` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.files import write_whole
from infuser.sources.annotating.cache import annotate_cached
from infuser.sources.entity_statistics import count_entities
from infuser.sources.sampling import Sampling
from infuser.sources.selective import Selective, Strategy, describe_strategy, make_strategy
from infuser.tables.rows import read_json
from infuser.types import Source, join_pair

SAMPLING = "sampling"
_KIND = "infuser selection"


def select_sources(
    selection: str, sources: Sequence[Source], examples: Sequence[Mapping[str, Any]], cache: Path | None
) -> list[Source]:
    """Return sources that select: by a file of `infuser select`, or by "sampling", counted in these examples."""
    if selection != SAMPLING:
        strategy = read_selection(Path(selection))
    else:
        texts = [join_pair(example["text"], example["pair"]) for example in examples]
        strategy = Sampling(frequencies=count_entities(annotate_cached(sources, texts, cache)))
    return [Selective(source, strategy) for source in sources]


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
