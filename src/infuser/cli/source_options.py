"""The options by which commands take knowledge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from infuser.errors import InputError
from infuser.types import Source

KNOWLEDGE = "Knowledge"
"""The panel of the help that these options stand in."""


def _knowledge(flag: str, help: str, metavar: str = "FILE") -> Any:
    return typer.Option(
        flag, metavar=metavar, help=f"{help} Repeatable.", rich_help_panel=KNOWLEDGE, show_default=False
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
            rich_help_panel=KNOWLEDGE,
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
            rich_help_panel=KNOWLEDGE,
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
