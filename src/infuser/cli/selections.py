"""A selection as a file, and sources that select by it: what `infuser select` writes and `infuser train` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from infuser.cli.telling import counting
from infuser.errors import InputError
from infuser.files import write_whole
from infuser.tables.files import read_json
from infuser.types import Annotations, Source, join_pair

if TYPE_CHECKING:
    from infuser.sources.selective import Strategy

SAMPLING = "sampling"
_KIND = "infuser selection"
_AT_ONCE = 256


def select_sources(
    given: str, sources: Sequence[Source], examples: Sequence[dict[str, Any]], cache: Path | None
) -> list[Source]:
    """Return sources that select: by a file of `infuser select`, or "sampling", counted in these examples."""
    from infuser.sources import Sampling, Selective
    from infuser.sources.surroundings import count_entities

    if given != SAMPLING:
        strategy = read_selection(Path(given))
    else:
        found = annotated_by(sources, examples, cache, Console(stderr=True))
        strategy = Sampling(frequencies=count_entities(found))
    return [Selective(source, strategy) for source in sources]


def write_selection(path: Path, strategy: Strategy, about: dict[str, Any]) -> None:
    """Write a selection as one JSON file."""
    from infuser.sources.selective import describe_strategy

    content = {"kind": _KIND, "about": about, "strategy": describe_strategy(strategy)}
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False))


def read_selection(path: Path) -> Strategy:
    """Return the strategy of a file that `infuser select` wrote."""
    from infuser.sources.selective import make_strategy

    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") != _KIND or not isinstance(content.get("strategy"), dict):
        raise InputError(f"{path} is no selection. Write one: infuser select DATA ... --out {path}")
    try:
        return make_strategy(content["strategy"])
    except TypeError as error:
        raise InputError(
            f"The selection {path} cannot be read: {error}. Write it again with infuser select."
        ) from error


def annotated_by(
    sources: Sequence[Source], examples: Sequence[dict[str, Any]], cache: Path | None, told: Console
) -> list[tuple[Annotations, ...]]:
    """Return what the sources find in each example, known answers from the cache."""
    from infuser.sources.annotating.remembering import forget_nothing, remember

    asked = remember(sources, cache)
    texts = [join_pair(one["text"], one["pair"]) for one in examples]
    found: list[tuple[Annotations, ...]] = []
    with counting(told, "annotating") as show:
        show(0, len(texts))
        for first in range(0, len(texts), _AT_ONCE):
            answers = [one.annotate(texts[first : first + _AT_ONCE]) for one in asked]
            found += zip(*answers, strict=True)
            show(len(found), len(texts))
    forget_nothing(asked)
    return found
