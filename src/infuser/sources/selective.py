"""A source that injects only a part of what another one finds: what is worth it, by a strategy."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from infuser.errors import InputError, SourceError
from infuser.files import json_of, parse_json, write_whole
from infuser.registry import SOURCES
from infuser.sources.known import Known
from infuser.sources.sampling import Sampling
from infuser.sources.storage import load_source, save_source
from infuser.types import Annotations, FitsExamples, Source

_RECORD = "selective.json"
_KIND = "infuser selection"


@runtime_checkable
class Strategy(Protocol):
    """Decides what of a source's findings is worth injecting."""

    def select(self, found: Sequence[Annotations], source: Source) -> list[Annotations]: ...


@runtime_checkable
class DrawingStrategy(Strategy, Protocol):
    """A strategy that draws at random which spans are injected."""

    each_epoch: bool
    """Whether every epoch of training draws again; else one draw holds for all."""

    def draw(self, found: Annotations, *, seed: int = 0, epoch: int = 0) -> list[bool]: ...


@runtime_checkable
class ExplainedStrategy(Strategy, Protocol):
    """A strategy that can say why an entity or a relation is left out; None where it is kept."""

    def why(self, key: str, words: str | None = None) -> str | None: ...

    def why_relation(self, relation: str) -> str | None: ...


STRATEGIES: dict[str, type[Any]] = {"sampling": Sampling, "known": Known}
"""The names of strategies in saved files; each has `to_json` and a class method `from_json`."""


@SOURCES.register("selective")
@dataclass(frozen=True)
class Selective:
    """Wraps any source; what the strategy leaves out is not injected, whatever the method.

    A mention goes with its links, auxiliary terms and candidates. `annotate` returns what is injected in answering;
    `drawn` which of that is injected in an epoch of training, see `Collator.for_epoch`. For everything else the
    wrapped source answers: a selective knowledge base is a knowledge base.
    """

    source: Source
    """Finds what there is to select from."""
    strategy: Strategy = field(default_factory=Sampling)
    """`Sampling`, the paper's, or `Known`: what the plain encoder predicts by itself is left out."""

    def __post_init__(self) -> None:
        if not isinstance(self.source, Source):
            raise SourceError(f"{self.source!r} is not a source: it has no annotate(texts). Give the source to wrap.")
        if not isinstance(self.strategy, Strategy):
            raise SourceError(f"{self.strategy!r} is not a strategy. Known: {', '.join(STRATEGIES)}.")
        inside = self.source
        while isinstance(inside, Selective):
            if isinstance(inside.strategy, DrawingStrategy) and isinstance(self.strategy, DrawingStrategy):
                raise SourceError("Two strategies that draw stand one around the other. Draw once.")
            inside = inside.source

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return what the source found as far as it is injected in answering."""
        return self.strategy.select(self.source.annotate(texts), self.source)

    def drawn(self, found: Annotations, *, seed: int, epoch: int) -> list[bool]:
        """Return which spans of its own annotations are injected in one epoch of training."""
        if isinstance(self.strategy, DrawingStrategy) and self.strategy.each_epoch:
            return self.strategy.draw(found, seed=seed, epoch=epoch)
        if isinstance(self.source, Selective):
            return self.source.drawn(found, seed=seed, epoch=epoch)
        return [True] * len(found.spans)

    def with_entities(self, *given: Any, **options: Any) -> Self:
        """Return the same selection around a knowledge base that also knows these entities."""
        base: Any = self.source
        return dataclasses.replace(self, source=base.with_entities(*given, **options))

    def fit(self, examples: Sequence[Mapping[str, Any]]) -> Self:
        """Return the same selection around a source that is fitted to labelled examples, if it can be."""
        inside = self.source
        return dataclasses.replace(self, source=inside.fit(examples)) if isinstance(inside, FitsExamples) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("source", "strategy"):  # copying looks them up before they are set
            raise AttributeError(name)
        return getattr(self.source, name)

    def save(self, directory: Path) -> None:
        """Write what `load` needs: the wrapped source, and the strategy with all counts and scores it goes by."""
        record = {
            "source": save_source(self.source, directory / "source"),
            "strategy": describe_strategy(self.strategy),
        }
        (directory / _RECORD).write_text(json.dumps(record, ensure_ascii=False, allow_nan=False), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read back what `save` wrote."""
        record = parse_json(directory / _RECORD)
        return cls(load_source(record["source"], directory / "source"), make_strategy(record["strategy"]))

    @classmethod
    def tiny(cls) -> Self:
        """Return the tiny entities, drawn again in every epoch."""
        from infuser.sources.entities import Entities

        return cls(Entities.tiny())


def bare(source: Source) -> Source:
    """Return the source that a selective one selects from."""
    while isinstance(source, Selective):
        source = source.source
    return source


def describe_strategy(strategy: Strategy) -> dict[str, Any]:
    """Return a strategy as JSON data; counts and scores are in it, a graph is named with its digest."""
    name = next((name for name, kind in STRATEGIES.items() if type(strategy) is kind), None)
    if name is None:
        raise SourceError(
            f"{type(strategy).__name__} is no strategy that can be saved. Known: {', '.join(STRATEGIES)}."
        )
    known: Any = strategy
    return {"name": name, **known.to_json()}


def make_strategy(record: Mapping[str, Any]) -> Strategy:
    """Return the strategy that `describe_strategy` described."""
    settings = dict(record)
    name = settings.pop("name", None)
    if name not in STRATEGIES:
        raise SourceError(f"No strategy is called {name!r}. Known: {', '.join(STRATEGIES)}.")
    strategy: Strategy = STRATEGIES[name].from_json(settings)
    return strategy


def write_selection(path: Path, strategy: Strategy, about: Mapping[str, Any]) -> None:
    """Write a selection as one JSON file, as `infuser select` does."""
    content = {"kind": _KIND, "about": dict(about), "strategy": describe_strategy(strategy)}
    write_whole(path, json_of(content))


def read_selection(path: Path) -> Strategy:
    """Return the strategy of a file that `infuser select` wrote."""
    from infuser.tables.rows import read_json  # not above: pyarrow is slow to load

    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") != _KIND or not isinstance(content.get("strategy"), dict):
        raise InputError(f"{path} is no selection. Write one: infuser select DATA ... --out {path}")
    try:
        return make_strategy(content["strategy"])
    except TypeError as error:
        raise InputError(
            f"The selection {path} cannot be read: {error}. Write it again with infuser select."
        ) from error


def read_strategy(selection: str | None) -> Strategy | str | None:
    """Return what a selection names: the strategy of a file of `infuser select`, "sampling", or None for everything."""
    return selection if selection in (None, "sampling") else read_selection(Path(selection))
