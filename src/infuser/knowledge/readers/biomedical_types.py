"""Coarse types of biomedical entities, the classes that people ask for, from MeSH's trees and the ontologies' roots.

| type                              | from                                                                            |
|-----------------------------------|---------------------------------------------------------------------------------|
| chemical                          | ChEBI; MeSH D, peptides too                                                     |
| protein                           | ChEBI's proteins; MeSH's enzymes, proteins and signalling peptides; FamPlex      |
| drug                              | DrugBank, beside chemical or protein where another vocabulary says so           |
| role                              | ChEBI's roles; MeSH D26 and D27, chemical actions and uses                      |
| gene                              | HGNC                                                                            |
| disease                           | MONDO, DOID; EFO's diseases; MeSH C and F03, mental disorders                   |
| phenotype                         | HP's abnormalities; MeSH C23, signs and symptoms                                |
| process, function, cell component | GO; MeSH G and A11.284                                                          |
| anatomy, cell, organism, person   | MeSH A, A11, B, M; EFO's cell lines                                             |
| behaviour, procedure, place       | MeSH F01 and F02, E, Z                                                          |
| concept                           | the rest of MeSH: disciplines, society, health care; words like "severe" in HP   |
| measurement, experimental factor  | EFO                                                                             |
"""

from __future__ import annotations

from collections.abc import Iterable

CHEMICAL, PROTEIN, ROLE, DISEASE, PHENOTYPE = "chemical", "protein", "role", "disease", "phenotype"
EXPERIMENTAL = "experimental factor"
"""The type of what EFO says no more about."""

_MESH = {
    "A": "anatomy",
    "A11": "cell",
    "A11.284": "cell component",
    "B": "organism",
    "C": DISEASE,
    "C23": PHENOTYPE,
    "D": CHEMICAL,
    "D08.244": PROTEIN,  # cytochromes
    "D08.622": PROTEIN,  # enzyme precursors
    "D08.811": PROTEIN,  # enzymes
    "D12.644.276": PROTEIN,  # growth factors, cytokines
    "D12.776": PROTEIN,
    "D26": ROLE,  # drugs by how they are made and given
    "D27": ROLE,
    "E": "procedure",
    "F01": "behaviour",
    "F02": "behaviour",
    "F03": DISEASE,
    "F04": "concept",
    "G": "process",
    "H": "concept",
    "I": "concept",
    "J": "concept",
    "K": "concept",
    "L": "concept",
    "M": "person",
    "N": "concept",
    "V": "concept",
    "Z": "place",
}
"""Places in MeSH's trees; the longest that a heading's own place begins with counts."""
_PEPTIDES = "D12.644"
_OF_SUPPLEMENTS = (CHEMICAL, PROTEIN, DISEASE, PHENOTYPE, "organism")

GO_TYPES = {
    "biological_process": "process",
    "molecular_function": "function",
    "cellular_component": "cell component",
}
"""GO's namespaces."""
ROOTS = {
    "chebi": {"CHEBI:50906": ROLE, "CHEBI:36080": PROTEIN},
    "mondo": {"MONDO:0021125": "concept"},  # rare, inherited ...
    "hp": {"HP:0000118": PHENOTYPE},
    "efo": {"EFO:0000408": DISEASE, "EFO:0000322": "cell", "EFO:0001639": "cell", "EFO:0001444": "measurement"},
}
"""Terms whose kinds have another type than the rest of their ontology."""


def types_of_places(places: Iterable[str]) -> list[str]:
    """Return the types of a MeSH heading by its places in the trees.

    A protein is no chemical, although MeSH lists all proteins below D: those who ask for chemicals rarely mean them.
    Peptides are both, as many of them are drugs.
    """
    found = dict.fromkeys(type for place in places if (type := _type_of(place)))
    if PROTEIN in found and not any(_is_peptide(place) for place in places):
        found.pop(CHEMICAL, None)
    for main, lesser in ((DISEASE, PHENOTYPE), (CHEMICAL, ROLE), (PROTEIN, ROLE)):
        if main in found and lesser in found:
            found = {main: None, **found}  # signs are listed among diseases, too
    return list(found)


def types_of_supplement(headings: Iterable[list[str]]) -> list[str]:
    """Return the types of a supplementary concept by those of the headings it belongs to; chemicals are the most."""
    found = dict.fromkeys(type for types in headings for type in types if type in _OF_SUPPLEMENTS)
    illness = [type for type in found if type in (DISEASE, PHENOTYPE)]
    if PROTEIN in found:
        found.pop(CHEMICAL, None)
    return illness or list(found) or [CHEMICAL]  # "protein C deficiency" stands below its protein, but is a disease


def _type_of(place: str) -> str | None:
    while place:
        if place in _MESH:
            return _MESH[place]
        place = place.rpartition(".")[0] or (place[0] if len(place) > 1 else "")
    return None


def _is_peptide(place: str) -> bool:
    return place.startswith(_PEPTIDES) and _type_of(place) == CHEMICAL
