"""Hosts and arms: which encoder is trained, and with which knowledge.

An arm is one way of training: the plain encoder, a method with its sources, or the placebo of such an arm, which has
the same new weights and the same links, shuffled between texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from infuser.errors import InputError, did_you_mean
from infuser.files import digest_of
from infuser.registry import METHODS
from infuser.sources.naming import describe_type, has_type, split_settings
from infuser.types import Source

if TYPE_CHECKING:
    from infuser.infused import Infused
    from infuser.signals import Collator
    from infuser.tasks.base import Task

PLAIN, PLACEBO, TEXT, SAMPLING = "plain", "placebo", "text", "sampling"


@dataclass(frozen=True)
class Host:
    """An encoder to train."""

    checkpoint: str
    """A folder, a hub id or the name of an asset."""
    max_length: int | None = None
    """Longest input in tokens; None takes what the encoder can read."""
    random_weights: bool = False
    """Keep the checkpoint's shape and discard its weights: a control for probes."""


@dataclass(frozen=True)
class Arm:
    """One way of training: `Arm()` is the plain encoder, `Arm(Kam(), [source])` puts knowledge inside."""

    method: Any = None
    """A method such as `Kam()`, or its registered name for the settings that `infuser train` uses; None trains the
    plain encoder."""
    sources: Sequence[Source] = ()
    name: str = ""
    """What tables call it; "" takes the method's registered name, or "plain"."""
    select: Any = None
    """Inject a part of the knowledge: "sampling", a mapping with settings of `Sampling`, or a strategy."""
    spectral: float | None = None
    """Weight of the spectral penalty."""
    fit: bool = True
    """Let sources that can be fitted learn from labelled entities of the training part which names mislead."""
    shuffled: bool = False
    """Give each text the knowledge of another one: the placebo."""
    label: str | None = field(default=None, compare=False)
    """How the selection of sources that select already is recorded; None describes `select` by its content."""

    def __post_init__(self) -> None:
        if isinstance(self.method, str):
            object.__setattr__(self, "method", make_method(self.method, {}, where="Arm"))
        elif isinstance(self.method, Sequence):
            from infuser.methods.together import as_method

            object.__setattr__(self, "method", as_method(self.method))
        if not self.name:
            object.__setattr__(self, "name", self.kind)
        object.__setattr__(self, "sources", tuple(self.sources))
        if self.method is None and (self.sources or self.select is not None or self.shuffled):
            raise InputError(f"The arm {self.name!r} has knowledge but no method. Give one, as in Arm(Kam(), sources).")
        if self.method is not None and not self.sources:
            raise InputError(f"The arm {self.name!r} has no sources, so nothing can be put inside. Give at least one.")
        if self.spectral is not None:
            from infuser.methods.spectral import Spectral

            Spectral(self.spectral)  # raises if the weight cannot be used

    @property
    def kind(self) -> str:
        """Which arm it is: "plain", "placebo", or the registered name of the method."""
        if self.method is None:
            return PLAIN
        from infuser.methods.together import name_of

        return PLACEBO if self.shuffled else name_of(self.method)

    def placebo(self, name: str = PLACEBO) -> Arm:
        """Return the placebo of this arm."""
        return replace(self, name=name, shuffled=True)

    def as_text(self, name: str = TEXT) -> Arm:
        """Return the arm that reads the same knowledge as text, written behind each text."""
        from infuser.methods import Text

        return replace(self, method=Text(), name=name, shuffled=False)

    @cached_property
    def digests(self) -> list[str]:
        """A digest of what each source knows."""
        return source_digests(self.sources)

    def describe(self) -> dict[str, Any]:
        """Return what decides the arm's result as plain values; its name decides nothing."""
        from infuser.methods.together import describe

        return {
            "method": None if self.method is None else describe(self.method),
            "sources": self.digests,
            "select": self.label or _describe_selection(self.select),
            "spectral": self.spectral,
            "shuffled": self.shuffled,
            **({} if self.fit else {"fit": False}),
        }


def source_digests(sources: Sequence[Source]) -> list[str]:
    """Return a digest of what each source knows; code and versions of packages do not count."""
    from infuser.sources.annotating.fingerprints import describe

    return [
        digest_of({key: part for key, part in describe(source).items() if key not in ("code", "versions")})
        for source in sources
    ]


def _describe_selection(select: Any) -> Any:
    from infuser.sources.selective import describe_strategy

    if select is None or isinstance(select, str | Mapping):
        return select
    about = describe_strategy(select)
    return f"{about['name']} ({digest_of(about)})"


def check_names(given: Iterable[str], known: Collection[str], where: str) -> None:
    """Reject unknown settings and suggest the closest match."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"{where} has no setting {name!r}.{hint} Known: {', '.join(sorted(known))}.")


def make_method(kind: str, settings: Mapping[str, Any], *, where: str = "") -> Any:
    """Return a registered method with these settings; in fine-tuning, `Kar` injects every candidate by default.

    A linker that was never trained has no threshold to go by, so all candidates pass. "types+kam" is several methods,
    and settings may stand behind each name: "types,vectors=names+kam,channels=types".
    """
    named = named_methods(kind)
    if len(named) > 1:
        from infuser.methods.together import Together

        if settings:
            raise InputError(
                f"{where}: {next(iter(settings))!r} could belong to each of {kind}. Write settings behind their "
                "method, as in 'types,vectors=names+kam,channels=types'."
            )
        return Together(tuple(make_method(name, own, where=where) for name, own in named))
    import infuser.methods
    from infuser.methods.kar import EVERY_CANDIDATE

    [(kind, own)] = named
    settings = {**own, **settings}
    cls = METHODS[kind]
    check_names(settings, [one.name for one in fields(cls)], f"{where}: {kind}")
    wanted = get_type_hints(cls)
    for name, value in settings.items():
        if not has_type(value, wanted[name]):
            raise InputError(f"{where}: {kind} takes {describe_type(wanted[name], value)} for {name}, not {value!r}.")
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    if cls is infuser.methods.Kar:
        given.setdefault("threshold", EVERY_CANDIDATE)
    try:
        return cls(**given)
    except TypeError as error:
        raise InputError(f"{where}: {error}.") from error


def named_methods(written: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the registered names in "types,vectors=names+kam" with the settings behind each."""
    return [split_settings(one.strip()) for one in re.split(r"\+(?=\s*[A-Za-z])", written)]


def method_for(kind: str, checkpoint: str) -> Any:
    """Return the method that "types,vectors=names" names, or that of a checkpoint which it infuses already."""
    from infuser.hosts.checkpoints import CARD, is_infused
    from infuser.tables.rows import read_json

    named = named_methods(kind)
    if is_infused(checkpoint):
        saved = read_json(Path(checkpoint) / CARD).get("method", {})
        if saved.get("name") in ("together", named[0][0]):
            from infuser.methods.together import name_of

            method = METHODS[saved["name"]](**saved["settings"])
            if name_of(method) == "+".join(name for name, _ in named):
                if any(own for _, own in named):
                    raise InputError(
                        f"{checkpoint} is infused by {name_of(method)} already and keeps its settings. Name the method "
                        "alone, or start from the plain checkpoint."
                    )
                return method
    return make_method(kind, {})


def open_base(candidates: str | Path, vectors: str | Path, **settings: Any) -> Source:
    """Return a knowledge base of built candidates and vectors; entities without a vector are skipped."""
    from infuser.sources import Candidates, KnowledgeBase

    return KnowledgeBase(Candidates(str(candidates)), vectors, **{"missing": "skip", **settings})


def select_sources(arm: Arm, sources: Sequence[Source], found: Sequence[Any]) -> tuple[Source, ...]:
    """Return sources that select as the arm says; `found` are the annotations of the training texts."""
    from infuser.sources import Sampling, Selective
    from infuser.sources.entity_statistics import count_entities

    strategy = arm.select
    if strategy == SAMPLING or isinstance(strategy, Mapping):
        settings = {} if strategy == SAMPLING else dict(strategy)
        strategy = Sampling(**{"frequencies": count_entities(found), **settings})
    return tuple(Selective(source, strategy) for source in sources)


def make_model(task: Task, host: Host, arm: Arm) -> tuple[Any, Collator, Infused | None]:
    """Return the model of a cell, its collator, and the infused model if the arm has a method."""
    from infuser.hosts.checkpoints import find_checkpoint
    from infuser.hosts.loading import load_model, load_tokenizer, longest_input
    from infuser.infused import infuse
    from infuser.signals import Collator

    checkpoint = find_checkpoint(host.checkpoint)
    options: dict[str, Any] = {"task": task.head, **task.head_options()}
    if task.learns and task.head != "masked-lm":
        options["ignore_mismatched_sizes"] = True  # the checkpoint may have a head for other labels
    tokenizer = load_tokenizer(checkpoint)
    start: Any = checkpoint
    if host.random_weights or arm.method is None:
        start, options = load_model(checkpoint, **options), {}
    if host.random_weights:
        start = type(start)(start.config)

    def longest(model: Any) -> int:
        most = longest_input(model, tokenizer)
        return most if host.max_length is None else min(most, host.max_length)

    if arm.method is None:
        return start, Collator(tokenizer, max_length=longest(start)), None
    infused = infuse(start, arm.method, sources=arm.sources, tokenizer=tokenizer, **options)
    return infused.model, infused.collator(max_length=longest(infused.model)), infused
