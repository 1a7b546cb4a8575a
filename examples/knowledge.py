"""Your own knowledge graph: from files to a folder that opens in milliseconds, to ties in a text."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from infuser import Graph
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import GraphStore, save_graph
from infuser.knowledge.readers import read_facts
from infuser.tables.skipped import Skipped

TRIPLES = """\
D1\ttreats\tC1
D2\ttreats\tC1
S1\tsells\tD1
this line is broken
"""
ENTITIES = """\
id\tlabel\taliases\tdescription\ttypes
D1\tglipizide\tGlucotrol\ta sulfonylurea\tmedicine
D2\tmetformin\t\ta biguanide\tmedicine
C1\ttype 2 diabetes\tT2D|adult-onset diabetes\t\tdisease
S1\tFred Meyer\t\t\tshop
"""


def main(out: Path) -> None:
    triples, names = out / "triples.tsv", out / "entities.tsv"
    triples.write_text(TRIPLES, encoding="utf-8")
    names.write_text(ENTITIES, encoding="utf-8")

    skipped = Skipped()  # Skipped(strict=True) stops at the first row that cannot be read
    facts = [*read_facts(triples, skipped), *read_facts(names, skipped)]
    save_graph(build_graph(facts), out / "kg")
    print(f"skipped {skipped.n}: {skipped.first[0].rpartition('/')[2]}")

    store = GraphStore.open(out / "kg")
    drug, shop = store.number_of("D2"), store.number_of("S1")
    print(
        store.entity(drug).label,
        "and",
        store.entity(shop).label,
        "are",
        store.distances([drug, shop], 6)[0, 1],
        "apart",
    )

    source = Graph(out / "kg", hops=2)
    [found] = source.annotate(["Fred Meyer sells Glucotrol and metformin for T2D."])
    for link in found.links:
        one, other = found.spans[link.source], found.spans[link.target]
        print(f"{one.label} {one.id} - {other.label} {other.id}  {link.weight:.2f}  {link.relation}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder))
