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
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from infuser.errors import InputError
from infuser.types import Source

if TYPE_CHECKING:
    from infuser.tables.examples import Columns

_Command = TypeVar("_Command", bound=Callable[..., Any])
_KNOWLEDGE = "Knowledge"

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


def _knowledge(flag: str, help: str, metavar: str = "FILE") -> Any:
    return typer.Option(
        flag, metavar=metavar, help=f"{help} Repeatable.", rich_help_panel=_KNOWLEDGE, show_default=False
    )


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Knowledge named on the command line: any source by --source, files by flags, or one sources file.

    --source spacy-entities                      a kind with its default settings
    --source graph=triples.tsv,hops=2            a kind, the path of its knowledge, and settings (values as in TOML)
    --source knowledge/wordnet                   a folder that infuser built
    --source sources.toml                        all sources of a TOML or JSON file
    """

    source: Annotated[
        list[str] | None,
        _knowledge(
            "--source",
            "Any source: KIND, KIND=PATH, KIND=PATH,setting=value, a folder that infuser built, or a .toml or .json "
            "file.",
            metavar="SOURCE",
        ),
    ] = None
    sources: Annotated[
        Path | None,
        typer.Option(
            "--sources",
            metavar="FILE",
            help="All sources in one .toml or .json file, with their settings: \\[\\[source]] kind = 'graph', "
            "file = 'g.tsv', hops = 2. Its sources come before those of flags.",
            rich_help_panel=_KNOWLEDGE,
            show_default=False,
        ),
    ] = None
    entities: Annotated[
        list[Path] | None,
        _knowledge("--entities", "Names, one per line: name, or name<TAB>label; or a built folder.", "FILE|DIR"),
    ] = None
    phrases: Annotated[list[Path] | None, _knowledge("--phrases", "Phrases, one per line.")] = None
    correlation: Annotated[
        list[Path] | None,
        _knowledge("--correlation", "Correlated words: word<TAB>word<TAB>score; or a built folder.", "FILE|DIR"),
    ] = None
    graph: Annotated[
        list[Path] | None, _knowledge("--graph", "Triples: head<TAB>relation<TAB>tail; or a built folder.", "FILE|DIR")
    ] = None
    aliases: Annotated[list[Path] | None, _knowledge("--aliases", "Names of the graph's entities: id<TAB>alias.")] = (
        None
    )
    terms: Annotated[
        int | None,
        typer.Option(
            "--terms",
            metavar="N",
            min=0,
            help="Add N correlated terms that are not in the text, from --correlation.",
            rich_help_panel=_KNOWLEDGE,
            show_default=False,
        ),
    ] = None

    def read(self) -> list[Source]:
        """Return the sources in this order: the sources file, each --source, entities, phrases, correlation, graph."""
        from infuser.sources.lists import read_aliases
        from infuser.sources.naming import from_file, from_path, read_named

        if self.aliases and not self.graph:
            raise InputError("--aliases names the entities of a graph, but there is no --graph FILE.")
        if self.terms and not self.correlation:
            raise InputError("--terms takes its terms from a correlation table, but there is no --correlation.")
        found = [] if self.sources is None else from_file(self.sources)
        found += [source for given in self.source or () for source in read_named(given)]
        found += [from_path("entities", path, {}) for path in self.entities or ()]
        found += [from_path("phrases", path, {}) for path in self.phrases or ()]
        found += [from_path("correlation", path, {"n_terms": self.terms or 0}) for path in self.correlation or ()]
        names = {"aliases": read_aliases(self.aliases)} if self.aliases else {}
        found += [from_path("graph", path, names) for path in self.graph or ()]
        return found


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """Where the sources' annotations are cached."""

    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            metavar="DIR",
            help="Folder of cached annotations.",
            rich_help_panel=_KNOWLEDGE,
            show_default="the user's cache",
        ),
    ] = None
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Annotate every text again, without the cache.", rich_help_panel=_KNOWLEDGE),
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


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Where a large input is worked on, and whether an earlier run is resumed."""

    engine: Annotated[
        Literal["local", "spark"], typer.Option(help="Work on this machine, see --workers, or on a Spark cluster.")
    ] = "local"
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where Spark runs: spark://HOST:7077, yarn, k8s://..., sc://HOST or local[4]. Else what Spark's own "
            "settings say, or all cores of this machine.",
            show_default=False,
        ),
    ] = None
    restart: Annotated[
        bool, typer.Option("--restart", help="Start again instead of resuming a run that was stopped.")
    ] = False
