"""Options that name knowledge: sources, their cache, entities and their names, and where large inputs are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from infuser.cli.options import Paths, option
from infuser.errors import InputError
from infuser.types import Source

KNOWLEDGE = "Knowledge"
"""The panel of the help that these options stand in."""


def _knowledge(help: str, metavar: str = "FILE") -> Any:
    return option(f"{help} Repeatable.", metavar=metavar, panel=KNOWLEDGE)


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
            "Any source: KIND, KIND=PATH, KIND=PATH,setting=value, a folder that infuser built, or a .toml or .json "
            "file.",
            metavar="SOURCE",
        ),
    ] = None
    sources: Annotated[
        Path | None,
        option(
            "All sources in one .toml or .json file, with their settings: \\[\\[source]] kind = 'graph', "
            "file = 'g.tsv', hops = 2. Its sources come before those of flags.",
            metavar="FILE",
            panel=KNOWLEDGE,
        ),
    ] = None
    entities: Annotated[Paths, _knowledge("Names by line: name, or name<TAB>label; or a folder.", "FILE|DIR")] = None
    phrases: Annotated[Paths, _knowledge("Phrases, one per line.")] = None
    correlation: Annotated[Paths, _knowledge("Correlations: word<TAB>word<TAB>score; or a folder.", "FILE|DIR")] = None
    graph: Annotated[Paths, _knowledge("Triples: head<TAB>relation<TAB>tail; or a built folder.", "FILE|DIR")] = None
    aliases: Annotated[Paths, _knowledge("Names of the graph's entities: id<TAB>alias.")] = None
    terms: Annotated[
        int | None,
        option(
            "Add terms that are not in the text: N correlated words, from --correlation; at most N of each mention, "
            "its type and neighbours, from --graph and --entities.",
            metavar="N",
            min=0,
            panel=KNOWLEDGE,
        ),
    ] = None

    def read(self, *, needed: bool = False) -> list[Source]:
        """Return the sources in this order: the sources file, each --source, entities, phrases, correlation, graph."""
        from infuser.sources.lists import read_aliases
        from infuser.sources.naming import from_file, from_path, read_named

        if self.aliases and not self.graph:
            raise InputError("--aliases names the entities of a graph, but there is no --graph FILE.")
        if self.terms and not (self.correlation or self.graph or self.entities):
            raise InputError("--terms needs --correlation, --graph or --entities; with --source give n_terms=N.")
        found = [] if self.sources is None else from_file(self.sources)
        found += [source for given in self.source or () for source in read_named(given)]
        terms = {"n_terms": self.terms or 0}
        found += [from_path("entities", path, terms) for path in self.entities or ()]
        found += [from_path("phrases", path, {}) for path in self.phrases or ()]
        found += [from_path("correlation", path, terms) for path in self.correlation or ()]
        names = {"aliases": read_aliases(self.aliases)} if self.aliases else {}
        found += [from_path("graph", path, {**names, **terms}) for path in self.graph or ()]
        if needed and not found:
            raise InputError("No knowledge was named. Give --source, --entities, --phrases, --correlation or --graph.")
        return found


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """Where the sources' annotations are cached."""

    cache: Annotated[
        Path | None, option("Folder of cached annotations.", metavar="DIR", panel=KNOWLEDGE, default="the user's cache")
    ] = None
    no_cache: Annotated[bool, option("Annotate every text, without cache.", "--no-cache", panel=KNOWLEDGE)] = False

    def folder(self) -> Path | None:
        """Return the cache's folder; None if annotations are not cached."""
        if self.no_cache and self.cache is not None:
            raise InputError("--cache and --no-cache exclude each other. Give one of them.")
        from infuser.sources.annotating.cache import default_cache

        return None if self.no_cache else self.cache or default_cache()


@dataclass(frozen=True, slots=True)
class NameOptions:
    """Entities of tables and of ready-made knowledge, and how their names are compared with texts."""

    entities: Annotated[
        Paths, option("Table of entities: id, label, aliases, description, types, count. Repeatable.", metavar="FILE")
    ] = None
    asset: Annotated[
        list[str] | None,
        option("Ready-made: wordnet, conceptnet, biomedical, wikidata-small. Repeatable.", metavar="NAME"),
    ] = None
    fold_case: Annotated[bool, option("Find names in any case.")] = True
    fold_accents: Annotated[bool, option("Find names without their accents too.")] = False

    def settings(self) -> dict[str, Any]:
        """Return them as `infuser.knowledge.builders` takes them."""
        fold = {"fold_case": self.fold_case, "fold_accents": self.fold_accents}
        return {"entities": self.entities or (), "ready": self.asset or (), **fold}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Where a large input is worked on, and whether an earlier run is resumed."""

    engine: Annotated[Literal["local", "spark"], option("Work on this machine or on a Spark cluster.")] = "local"
    master: Annotated[
        str | None,
        option(
            "Where Spark runs: spark://HOST:7077, yarn, k8s://..., sc://HOST or local[4]. Else what Spark's own "
            "settings say, or all cores of this machine.",
            metavar="URL",
        ),
    ] = None
    restart: Annotated[bool, option("Start again instead of resuming a run that was stopped.", "--restart")] = False
