"""One reader per format; each hands over triples and entities as Arrow batches (`knowledge.facts`).

| format       | files                                                     | read by          |
|--------------|-----------------------------------------------------------|------------------|
| table        | .tsv .txt .csv .jsonl .ndjson .json .parquet              | `tables`         |
| rdf          | .nt .nq .ttl .trig                                        | `rdf`            |
| conceptnet   | an assertion dump, conceptnet-assertions-5.7.0.csv        | `conceptnet`     |
| wordnet      | a folder with data.noun, data.verb, data.adj, data.adv    | `wordnet`        |

Text files may be packed as .gz or .zst. `READY` lists knowledge that is fetched by name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from infuser import assets
from infuser.errors import InputError, UnknownNameError, did_you_mean
from infuser.knowledge.facts import Facts
from infuser.knowledge.readers.biomedical import read_biomedical
from infuser.knowledge.readers.conceptnet import find_subset, read_conceptnet, read_conceptnet_subset
from infuser.knowledge.readers.rdf import SUFFIXES as RDF_SUFFIXES
from infuser.knowledge.readers.rdf import read_rdf
from infuser.knowledge.readers.tables import SUFFIXES as TABLE_SUFFIXES
from infuser.knowledge.readers.tables import read_table
from infuser.knowledge.readers.wikidata_small import read_wikidata_small
from infuser.knowledge.readers.wordnet import read_wordnet
from infuser.tables.blocks import unpacked_name
from infuser.tables.skipped import Skipped


def _read_wordnet(path: str | Path, skipped: Skipped) -> Facts:  # WordNet is whole or it is an error
    return read_wordnet(path)


FORMATS: dict[str, Callable[..., Facts]] = {
    "table": read_table,
    "rdf": read_rdf,
    "conceptnet": read_conceptnet,
    "wordnet": _read_wordnet,
}
"""Readers by the name of their format; each takes a path, a `Skipped` and its own settings."""


class Ready(NamedTuple):
    """Knowledge that is fetched by name."""

    asset: str
    """Name of the asset that holds it."""
    read: Callable[[Path, Skipped], Facts]
    description: str


READY: dict[str, Ready] = {
    "wordnet": Ready("wordnet", _read_wordnet, "WordNet 3.0: meanings of English words, with glosses"),
    "conceptnet": Ready(
        "conceptnet",
        lambda folder, skipped: read_conceptnet_subset(find_subset(folder), skipped),
        "ConceptNet 5.6: what everybody knows about everyday things, in English",
    ),
    "biomedical": Ready(
        "biomedical",
        lambda folder, skipped: read_biomedical(folder),
        "ChEBI, GO, MONDO, HP, DOID, EFO, MeSH, HGNC ...: chemicals, drugs, roles, diseases, genes",
    ),
    "wikidata-small": Ready(
        "wikidata-small",
        lambda folder, skipped: read_wikidata_small(folder),
        "names, types and relations of Wikidata entities that are linked in tables",
    ),
}


def guess_format(path: str | Path) -> str:
    """Return the name of the format that a file's name stands for."""
    path = Path(path)
    if path.is_dir():
        if (path / "data.noun").exists():
            return "wordnet"
        raise InputError(f"{path} is a folder, but not WordNet's (it has no data.noun). Name a file.")
    name = unpacked_name(path)
    if name.startswith("conceptnet-assertions") and name.endswith(".csv"):
        return "conceptnet"
    if name.endswith(RDF_SUFFIXES):
        return "rdf"
    if name.endswith(TABLE_SUFFIXES):
        return "table"
    known = ", ".join((*TABLE_SUFFIXES, *RDF_SUFFIXES))
    raise InputError(f"Cannot tell the format of {path} from its name. Known endings: {known} (and .gz, .zst of text).")


def read_facts(path: str | Path, skipped: Skipped, *, format: str | None = None, **settings: Any) -> Facts:
    """Yield the triples and entities of a file; `format` is guessed from its name, `settings` go to its reader."""
    name = format or guess_format(path)
    if name not in FORMATS:
        raise UnknownNameError(
            f"No format is called {name!r}.{did_you_mean(name, FORMATS)} Known: {', '.join(FORMATS)}."
        )
    if not Path(path).exists():
        raise InputError(f"No file at {path}. Check the name.")
    try:
        return FORMATS[name](path, skipped, **settings)
    except TypeError as error:  # raised before the first row is read: a setting that this reader does not have
        raise InputError(f"The reader of {name} files does not take these settings: {error}.") from error


def read_ready(name: str, skipped: Skipped, *, progress: assets.Progress | None = None) -> Facts:
    """Yield the triples and entities of knowledge known by name, fetching it first when it is not here yet."""
    if name not in READY:
        known = ", ".join(READY)
        raise UnknownNameError(
            f"No ready-made knowledge is called {name!r}.{did_you_mean(name, READY)} Known: {known}."
        )
    ready = READY[name]
    return ready.read(assets.fetch(ready.asset, progress=progress), skipped)
