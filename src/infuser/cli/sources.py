"""How people name knowledge on the command line: any source by --source, files by flags, or one sources file.

    --source spacy-entities                      a kind with its default settings
    --source graph=triples.tsv,hops=2            a kind, where its knowledge lies, and settings (values as in TOML)
    --source knowledge/wordnet                   a folder that infuser built; it says itself what it is
    --source sources.toml                        all sources of a TOML or JSON file

Each becomes one source and so one map; `sources/naming.py` makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from infuser.errors import InputError
from infuser.types import Source

_PANEL = "Knowledge"


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
    from infuser.sources.annotating.cache import default_cache

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
    from infuser.sources.lists import read_aliases
    from infuser.sources.naming import from_file, from_path, read_named

    if aliases and not graph:
        raise InputError("--aliases names the entities of a graph, but there is no --graph FILE.")
    if terms and not correlation:
        raise InputError("--terms takes its terms from a correlation table, but there is no --correlation.")
    read = [] if sources is None else from_file(sources)
    read += [source for given in named or () for source in read_named(given)]
    read += [from_path("entities", path, {}) for path in entities or ()]
    read += [from_path("phrases", path, {}) for path in phrases or ()]
    read += [from_path("correlation", path, {"n_terms": terms or 0}) for path in correlation or ()]
    names = {"aliases": read_aliases(aliases)} if aliases else {}
    read += [from_path("graph", path, names) for path in graph or ()]
    return read
