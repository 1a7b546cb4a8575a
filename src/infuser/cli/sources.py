"""How people name knowledge on the command line: files by flags, or one sources file in TOML or JSON.

Each file becomes one source and so one map. A list file has tabs between its cells (.csv: commas; .json: a list):

    entities      name, or name and label          New York      city
    phrases       phrase                           near me
    correlation   word, word, score                buy           shop     2.0
    graph         head, relation, tail (, weight)  glipizide     is a     medicine
    aliases       entity id, alias                 medicine      drug

A line that only repeats these column names is a heading and is left out.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from infuser.cli.files import Row, read_json, read_rows
from infuser.errors import InputError, SourceError
from infuser.registry import SOURCES
from infuser.types import Source

_PANEL = "Knowledge"


def _files(flag: str, help: str) -> Any:
    return typer.Option(flag, metavar="FILE", help=f"{help} Repeatable.", rich_help_panel=_PANEL, show_default=False)


SourcesFile = Annotated[
    Path | None,
    typer.Option(
        "--sources",
        metavar="FILE",
        help="All sources in one .toml or .json file, with their settings: \\[\\[source]] kind = 'graph', "
        "file = 'g.tsv', hops = 2. Its sources come before those of flags.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
EntityFiles = Annotated[list[Path] | None, _files("--entities", "Names, one per line: name, or name<TAB>label.")]
PhraseFiles = Annotated[list[Path] | None, _files("--phrases", "Phrases, one per line.")]
CorrelationFiles = Annotated[
    list[Path] | None, _files("--correlation", "Words that go together: word<TAB>word<TAB>score.")
]
GraphFiles = Annotated[list[Path] | None, _files("--graph", "Triples: head<TAB>relation<TAB>tail.")]
AliasFiles = Annotated[list[Path] | None, _files("--aliases", "Names of the graph's entities: id<TAB>alias.")]
TermCount = Annotated[
    int | None,
    typer.Option(
        "--terms",
        metavar="N",
        min=0,
        help="Add N correlated terms that are not in the text, from --correlation.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]


class _Kind(NamedTuple):
    """How the list file of one kind of source is read."""

    field: str
    """The setting that takes the rows."""
    headings: tuple[str, ...]
    n_needed: int
    make: Callable[[list[list[Any]]], Any]
    """Rows to the value of the setting."""


def _labelled(rows: list[list[Any]]) -> Any:
    if all(len(row) == 1 for row in rows):
        return [row[0] for row in rows]
    labels: dict[str, str] = {}
    for name, *label in rows:
        labels.setdefault(name, label[0] if label else "entity")
    return labels


def _grouped(rows: list[list[Any]]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for entity, alias in rows:
        names.setdefault(entity, []).append(alias)
    return names


_KINDS = {
    "entities": _Kind("names", ("name", "label"), 1, _labelled),
    "phrases": _Kind("phrases", ("phrase",), 1, lambda rows: [row[0] for row in rows]),
    "correlation": _Kind("scores", ("word", "word", "score"), 3, lambda rows: [tuple(row) for row in rows]),
    "graph": _Kind("triples", ("head", "relation", "tail", "weight"), 3, lambda rows: [tuple(row) for row in rows]),
}
_ALIASES = _Kind("aliases", ("id", "alias"), 2, _grouped)
_NUMBERS = ("score", "weight")


def read_sources(
    sources: Path | None = None,
    *,
    entities: Sequence[Path] | None = None,
    phrases: Sequence[Path] | None = None,
    correlation: Sequence[Path] | None = None,
    graph: Sequence[Path] | None = None,
    aliases: Sequence[Path] | None = None,
    terms: int | None = None,
) -> list[Source]:
    """Return the sources that a command line names: the sources file's first, then entities, phrases and so on."""
    import infuser.sources  # noqa: F401  # enters the classes into the registry

    if aliases and not graph:
        raise InputError("--aliases names the entities of a graph, but there is no --graph FILE.")
    if terms and not correlation:
        raise InputError("--terms takes its terms from a correlation table, but there is no --correlation FILE.")
    read = [] if sources is None else _from_file(sources)
    read += [_make("entities", path, {}) for path in entities or ()]
    read += [_make("phrases", path, {}) for path in phrases or ()]
    read += [_make("correlation", path, {"n_terms": terms or 0}) for path in correlation or ()]
    names = _grouped([row for path in aliases or () for _, row in _rows(path, _ALIASES)])
    read += [_make("graph", path, {"aliases": names}) for path in graph or ()]
    return read


def _from_file(path: Path) -> list[Source]:
    """Return the sources that a TOML or JSON file lists; its paths start from where it lies."""
    if path.suffix.lower() == ".json":
        listed = read_json(path)
    else:
        try:
            listed = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"Cannot read the sources file {str(path)!r}: {error.strerror}.") from error
        except ValueError as error:
            raise InputError(f"{path} is not TOML: {error}.") from error
    entries = listed.get("source") if isinstance(listed, dict) else listed
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path} lists no sources. Write [[source]] tables with kind = 'entities' and file = '...'.")
    return [
        _from_entry(entry, f"{path}, source {number}", path.parent) for number, entry in enumerate(entries, start=1)
    ]


def _from_entry(entry: object, where: str, folder: Path) -> Source:
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
        raise InputError(f"{where} has no kind. Known kinds: {', '.join(SOURCES)}.")
    settings = {name: value for name, value in entry.items() if name not in ("kind", "file")}
    cls = SOURCES[entry["kind"]]
    known = [field.name for field in dataclasses.fields(cls) if field.init]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(f"{where}: {entry['kind']} has no setting {name!r}.{hint} Known: {', '.join(known)}.")
    if isinstance(settings.get("aliases"), str):
        rows = _rows(folder / settings["aliases"], _ALIASES)
        settings["aliases"] = _grouped([row for _, row in rows])
    if "file" in entry:
        if entry["kind"] not in _KINDS:
            raise InputError(f"{where}: {entry['kind']} reads no file. Kinds that do: {', '.join(_KINDS)}.")
        return _make(entry["kind"], folder / str(entry["file"]), settings)
    try:
        source: Source = cls(**settings)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}") from error
    return source


def _make(kind: str, path: Path, settings: Mapping[str, Any]) -> Source:
    """Return the source of one list file; a line that the source refuses is named."""
    how, cls = _KINDS[kind], SOURCES[kind]
    rows = _rows(path, how)
    if not rows:
        raise InputError(f"{path} is empty. A line holds {', '.join(how.headings[: how.n_needed])}.")
    if kind == "graph" and settings.get("aliases"):  # names of entities that this graph does not have tie nothing
        inside = {entity for _, (head, _, tail, *_) in rows for entity in (head, tail)}
        settings = {**settings, "aliases": {key: names for key, names in settings["aliases"].items() if key in inside}}
    try:
        source: Source = cls(**{**settings, how.field: how.make([row for _, row in rows])})
    except SourceError as error:
        for where, row in rows:  # only now: a table may have millions of rows
            try:
                cls(**{how.field: how.make([row])})
            except SourceError as reason:
                raise InputError(f"{where}: {reason}") from error
        raise InputError(f"{path}: {error}") from error
    except TypeError as error:
        raise InputError(f"{path}: {error}") from error
    return source


def _rows(path: Path, how: _Kind) -> list[Row]:
    """Return the rows of a list file, checked and with numbers as numbers."""
    rows: list[Row] = []
    for where, cells in read_rows(path):
        row = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        while len(row) > how.n_needed and row[-1] == "":
            row.pop()
        if (
            not rows
            and len(row) >= how.n_needed
            and [str(cell).lower() for cell in row] == list(how.headings[: len(row)])
        ):
            continue
        if not how.n_needed <= len(row) <= len(how.headings) or any(cell in ("", None) for cell in row):
            optional = how.headings[how.n_needed :]
            wanted = ", ".join(how.headings[: how.n_needed]) + "".join(f" (, {name})" for name in optional)
            raise InputError(
                f"{where} has {len(row)} cells: {str(cells)[:80]}. A line holds {wanted}, none of it empty."
            )
        rows.append((where, [_typed(cell, name, where) for cell, name in zip(row, how.headings, strict=False)]))
    return rows


def _typed(cell: Any, name: str, where: str) -> Any:
    if name not in _NUMBERS:
        if not isinstance(cell, str):
            raise InputError(f"{where}: the {name} is {str(cell)[:40]!r} ({type(cell).__name__}), not a text.")
        return cell
    try:
        return float(cell)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: the {name} is {str(cell)[:40]!r}, not a number.") from error
