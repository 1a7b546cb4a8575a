"""How people name knowledge on the command line: any source by --source, files by flags, or one sources file.

    --source spacy-entities                      a kind with its default settings
    --source graph=triples.tsv,hops=2            a kind, where its knowledge lies, and settings (values as in TOML)
    --source knowledge/wordnet                   a folder that infuser built; it says itself what it is
    --source sources.toml                        all sources of a TOML or JSON file

Each becomes one source and so one map. What list files hold is told in `lists.py`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from infuser.cli.files import read_json
from infuser.cli.lists import LISTED, read_aliases, read_list
from infuser.cli.settings import check_complete, check_settings, fields_of
from infuser.errors import InputError
from infuser.registry import SOURCES
from infuser.types import Source

_PANEL = "Knowledge"
_KIND_OF_FOLDER = {
    "graph": "graph",
    "gazetteer": "entities",
    "entities": "entities",
    "candidates": "candidates",
    "correlation": "correlation",
}
"""Which source reads which kind of folder that infuser built."""
_SETTING = re.compile(r",(?=\w+=)")
_OPENING = "\"'[{"


def _files(flag: str, help: str, metavar: str = "FILE") -> Any:
    return typer.Option(flag, metavar=metavar, help=f"{help} Repeatable.", rich_help_panel=_PANEL, show_default=False)


NamedSources = Annotated[
    list[str] | None,
    _files(
        "--source",
        "Any source: KIND, KIND=PATH, KIND=PATH,setting=value, a folder that infuser built, or a .toml or .json file.",
        metavar="SOURCE",
    ),
]
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
EntityFiles = Annotated[
    list[Path] | None,
    _files("--entities", "Names, one per line: name, or name<TAB>label; or a built folder.", metavar="FILE|DIR"),
]
PhraseFiles = Annotated[list[Path] | None, _files("--phrases", "Phrases, one per line.")]
CorrelationFiles = Annotated[
    list[Path] | None,
    _files("--correlation", "Words that go together: word<TAB>word<TAB>score; or a built folder.", metavar="FILE|DIR"),
]
GraphFiles = Annotated[
    list[Path] | None,
    _files("--graph", "Triples: head<TAB>relation<TAB>tail; or a built folder.", metavar="FILE|DIR"),
]
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
CacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        help="Where the sources' answers are kept and looked for.",
        rich_help_panel=_PANEL,
        show_default="the user's cache",
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Ask the sources about every text anew.", rich_help_panel=_PANEL)
]


def chosen_cache(cache: Path | None, no_cache: bool) -> Path | None:
    """Return where answers are kept; None if they are not."""
    if no_cache and cache is not None:
        raise InputError("--cache and --no-cache exclude each other. Give one of them.")
    from infuser.annotating.remembering import default_cache

    return None if no_cache else cache or default_cache()


def read_sources(
    sources: Path | None = None,
    *,
    named: Sequence[str] | None = None,
    entities: Sequence[Path] | None = None,
    phrases: Sequence[Path] | None = None,
    correlation: Sequence[Path] | None = None,
    graph: Sequence[Path] | None = None,
    aliases: Sequence[Path] | None = None,
    terms: int | None = None,
) -> list[Source]:
    """Return the sources that a command line names: the sources file's, each --source, then entities and so on."""
    import infuser.sources  # noqa: F401  # enters the classes into the registry

    if aliases and not graph:
        raise InputError("--aliases names the entities of a graph, but there is no --graph FILE.")
    if terms and not correlation:
        raise InputError("--terms takes its terms from a correlation table, but there is no --correlation.")
    read = [] if sources is None else _from_file(sources)
    read += [source for given in named or () for source in read_named(given)]
    read += [_from_path("entities", path, {}) for path in entities or ()]
    read += [_from_path("phrases", path, {}) for path in phrases or ()]
    read += [_from_path("correlation", path, {"n_terms": terms or 0}) for path in correlation or ()]
    names = {"aliases": read_aliases(aliases)} if aliases else {}
    read += [_from_path("graph", path, names) for path in graph or ()]
    return read


def read_named(given: str) -> list[Source]:
    """Return what one --source names."""
    import infuser.sources  # noqa: F401  # enters the classes into the registry

    first, settings = _split(given)
    kind, equals, place = first.partition("=")
    if equals and kind in SOURCES:
        return [_from_path(kind, Path(place), check_settings(kind, settings, f"--source {given}"))]
    path = Path(first)
    if path.is_dir():
        return [_from_folder(path, settings, given)]
    if path.suffix.lower() in (".toml", ".json"):
        if settings:
            raise InputError(f"--source {given}: the settings of a sources file's sources stand in the file.")
        return _from_file(path)
    if equals:
        SOURCES[kind]  # says which kinds there are
    if "/" in first or "\\" in first:
        raise InputError(f"--source {given}: there is no folder {first!r}. A file needs its kind, as in graph={first}.")
    return [_from_entry({"kind": first, **settings}, f"--source {given}", Path())]


def _split(given: str) -> tuple[str, dict[str, Any]]:
    """Return what stands before the settings, and the settings."""
    first, *parts = _SETTING.split(given)
    settings: dict[str, Any] = {}
    while parts:
        name, _, written = parts.pop(0).partition("=")
        value = _value(written)
        while value is None and written[:1] in _OPENING and parts:  # a comma inside quotes or brackets
            written = f"{written},{parts.pop(0)}"
            value = _value(written)
        settings[name] = written if value is None else value
    return first, settings


def _value(written: str) -> Any:
    """Return a value as TOML reads it; None for what is no TOML: a word or a path without quotes."""
    try:
        return tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return None


def _from_folder(path: Path, settings: Mapping[str, Any], given: str) -> Source:
    from infuser.knowledge.artifact import kind_of

    built = kind_of(path)
    if built not in _KIND_OF_FOLDER:
        what = "is no folder that infuser built" if built is None else f"holds {built}, which is no source"
        raise InputError(f"--source {given}: {str(path)!r} {what}. Name its kind, as in KIND={path}.")
    kind = _KIND_OF_FOLDER[built]
    return _from_path(kind, path, check_settings(kind, settings, f"--source {given}"))


def _from_path(kind: str, path: Path, settings: Mapping[str, Any]) -> Source:
    """Return the source of a list file, or of any other place that its first setting names."""
    settings = _with_aliases(settings)
    if kind in LISTED and not path.is_dir():
        return read_list(kind, path, settings)
    if kind in LISTED:
        from infuser.knowledge.artifact import kind_of

        if kind_of(path) is None:
            raise InputError(f"{str(path)!r} is a folder, but none that infuser built. Give a file, or a built folder.")
    return _made(kind, {_first_setting(kind): str(path), **settings}, str(path))


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
    kind = entry["kind"]
    # some kinds have a setting of their own called file, which is then the first one
    given = {name: value for name, value in entry.items() if name not in ("kind", "file")}
    settings = check_settings(kind, given, where)
    if isinstance(settings.get("aliases"), str):
        settings["aliases"] = str(folder / settings["aliases"])
    if "file" in entry:
        return _from_path(kind, _found(folder, str(entry["file"])), settings)
    return _made(kind, _with_aliases(settings), where)


def _with_aliases(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings with the names of a graph's entities themselves where a file of them was given."""
    given = settings.get("aliases")
    return {**settings, "aliases": read_aliases([Path(given)])} if isinstance(given, str) else settings


def _found(folder: Path, written: str) -> Path:
    """Return a path that starts from a folder; what is no path there, such as a pipeline's name, stays as it is."""
    return folder / written if (folder / written).exists() or Path(written).suffix else Path(written)


def _made(kind: str, settings: Mapping[str, Any], where: str) -> Source:
    check_complete(kind, settings, where)
    try:
        source: Source = SOURCES[kind](**settings)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}") from error
    return source


def _first_setting(kind: str) -> str:
    for field in fields_of(kind):
        if not field.kw_only:
            return field.name
    raise InputError(f"A {kind} source takes no path. Give its settings: {kind},setting=value.")
