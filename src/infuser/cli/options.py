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
from dataclasses import MISSING, astuple, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from infuser.tables.examples import Columns

_Command = TypeVar("_Command", bound=Callable[..., Any])


def option(help: str, *flags: str, panel: str | None = None, default: str | bool = True, **more: Any) -> Any:
    """Return an option of a command; `default` is what the help calls its default, if that is not the value itself."""
    return typer.Option(*flags, help=help, rich_help_panel=panel, show_default=default, **more)


def argument(help: str, **more: Any) -> Any:
    """Return an argument of a command."""
    return typer.Argument(help=help, **more)


Paths = list[Path] | None
Checkpoint = Annotated[str, argument("The encoder: a folder, a hub id, or an asset such as minilm, which is fetched.")]
Texts = Annotated[Path, argument("Texts: .csv, .tsv, .jsonl, .json, .txt (also packed, .gz or .zst), or .parquet.")]
Strict = Annotated[bool, option("Stop at the first row that cannot be read.", "--strict")]
AsJson = Annotated[bool, option("Print JSON, for programs.", "--json")]


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
class TextColumnOptions:
    """Which columns of a table hold text and pair."""

    text_column: Annotated[str, option("Column that holds the text.")] = "text"
    pair_column: Annotated[
        str | None, option("Column that holds the other side of a sentence pair.", default="pair, if there is one")
    ] = None

    def columns(self) -> Columns:
        """Return the columns as readers of examples take them."""
        from infuser.tables.examples import Columns

        return Columns(*astuple(self))


@dataclass(frozen=True, slots=True)
class ColumnOptions(TextColumnOptions):
    """Which columns of a table hold text, pair and label."""

    label_column: Annotated[str, option("Column that holds the label.")] = "label"
