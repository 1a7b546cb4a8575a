"""Groups of options that several commands share, each declared once.

A group is a frozen dataclass whose fields are annotated with `typer.Option`. A command takes it as one keyword-only
argument, and `@option_groups` replaces that argument by the group's own options:

    @option_groups
    def train(data: Path, *, sources: SourceOptions) -> None:
        found = sources.read()
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from infuser.cli.source_options import KNOWLEDGE, SourceOptions
from infuser.errors import InputError

if TYPE_CHECKING:
    from infuser.tables.examples import Columns

_Command = TypeVar("_Command", bound=Callable[..., Any])

__all__ = ["CacheOptions", "ColumnOptions", "SourceOptions", "option_groups"]

Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first row that cannot be read.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def option_groups(command: _Command) -> _Command:
    """Replace every argument whose type is an option group by the options of that group."""
    hints = typing.get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
            parameters += _parameters(hints[name])
        else:
            parameters.append(
                parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)  # typer passes keywords
            )

    @functools.wraps(command)
    def wrapped(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return typing.cast(_Command, wrapped)


def _parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """Where the sources' annotations are cached."""

    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            metavar="DIR",
            help="Folder of cached annotations.",
            rich_help_panel=KNOWLEDGE,
            show_default="the user's cache",
        ),
    ] = None
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Annotate every text again, without the cache.", rich_help_panel=KNOWLEDGE),
    ] = False

    def folder(self) -> Path | None:
        """Return the cache's folder; None if annotations are not cached."""
        if self.no_cache and self.cache is not None:
            raise InputError("--cache and --no-cache exclude each other. Give one of them.")
        from infuser.sources.annotating.cache import default_cache

        return None if self.no_cache else self.cache or default_cache()


@dataclass(frozen=True, slots=True)
class TextColumnOptions:
    """Which columns of a table hold text and pair."""

    text_column: Annotated[str, typer.Option(help="Column that holds the text.")] = "text"
    pair_column: Annotated[
        str | None,
        typer.Option(help="Column that holds the other side of a sentence pair.", show_default="pair, if there is one"),
    ] = None

    def columns(self) -> Columns:
        """Return the columns as readers of examples take them."""
        from infuser.tables.examples import Columns

        return Columns(self.text_column, self.pair_column)


@dataclass(frozen=True, slots=True)
class ColumnOptions(TextColumnOptions):
    """Which columns of a table hold text, pair and label."""

    label_column: Annotated[str, typer.Option(help="Column that holds the label.")] = "label"

    def columns(self) -> Columns:
        """Return the columns as readers of examples take them."""
        from infuser.tables.examples import Columns

        return Columns(self.text_column, self.pair_column, self.label_column)
