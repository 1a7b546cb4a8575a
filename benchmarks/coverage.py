"""How many of the labelled mentions of biomedical texts does a graph know? BC5CDR, NCBI-disease, BioRED, DDI, ChemProt.

For each label of a set, the share of its mentions

    listed   whose text is a name in the graph, of any type
    any      that the source finds in its text with exactly these borders, whatever their type
    typed    that it finds so when it looks only for entities of the coarse types that this label stands for
    right    of what it then finds: the share that has this label (precision)

and for ChemProt the share of rows in whose two marked places a chemical, a gene or both are found, and a role of the
chemical; the marks do not say which place is the chemical. The sources are not fitted. Below, strict F1 of the
dictionary alone on BC5CDR's dev part, fitted to 300 training sentences. `--split dev` reads the training part of DDI,
which has no dev part.

    python benchmarks/coverage.py new=kg                   # needs shared/data; some minutes
    python benchmarks/coverage.py old=kg-before new=kg --split test
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from evidence import BENCHES, read_data
from support.measuring import RESULTS, about, write_result

from infuser.experiments.arm import Arm
from infuser.experiments.data import Annotator
from infuser.experiments.rules import score_rule
from infuser.knowledge.graph.kinds import EntityLabels
from infuser.knowledge.graph.neighbours import neighbours_of
from infuser.knowledge.graph.store import GraphStore
from infuser.methods import Types
from infuser.sources import Graph
from infuser.tables.pubtator import read_pubtator
from infuser.tasks.base import Split
from infuser.tasks.chemprot import ChemProt
from infuser.tasks.ner import Ner

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RESULT = RESULTS / "coverage.json"
ILLNESS, GENE, DRUG = ("disease", "phenotype"), ("gene", "protein"), ("chemical", "protein", "drug", "role")
MEANT: dict[str, dict[str, tuple[str, ...]]] = {
    "BC5CDR": {"Chemical": ("chemical",), "Disease": ILLNESS},
    "NCBI-disease": {"Disease": ILLNESS},
    "BioRED": {
        "GeneOrGeneProduct": GENE,
        "DiseaseOrPhenotypicFeature": ILLNESS,
        "ChemicalEntity": ("chemical", "role"),
        "OrganismTaxon": ("organism", "person", "named group"),
        "CellLine": ("cell",),
    },
    "DDI": dict.fromkeys(("drug", "brand", "group", "drug_n"), DRUG),
}
"""The coarse types of the graph that each label stands for."""
INDEPENDENT = {
    "DDI drugs": 0.785,
    "BioRED genes": 0.68,
    "BioRED diseases": 0.71,
    "BioRED chemicals": 0.67,
    "ChemProt test rows with a role": 0.445,
}
"""An independent count, by equal names."""
N_TRAIN = 300


class Labelled(NamedTuple):
    """A text with its labelled mentions."""

    text: str
    mentions: list[tuple[int, int, str]]


def read_bioner(name: str, split: Split) -> list[Labelled]:
    """Return the sentences of a set in IOB columns."""
    task = Ner(str(DATA / "ner" / "BioNER" / f"{name}-IOB"), train="train.tsv", dev="devel.tsv", test="test.tsv")
    return [
        Labelled(one["text"], [(start, end, label) for start, end, label in one["entities"]])
        for one in task.read(split)
    ]


def read_biored(split: Split) -> list[Labelled]:
    """Return the titles with abstracts of BioRED."""
    documents = read_pubtator(DATA / "bio" / "BioRED" / f"{split.title()}.PubTator")
    return [Labelled(one.text, [(span.start, span.end, span.label) for span in one.spans]) for one in documents]


def read_ddi(split: Split) -> list[Labelled]:
    """Return the sentences of DDI with their drugs; those in several pieces are left out."""
    folder = DATA / "bio" / "DDI2013" / ("Test/Test for DDI Extraction task" if split == "test" else "Train")
    found = []
    for path in sorted(folder.rglob("*.xml")):
        for sentence in ElementTree.parse(path).getroot().iter("sentence"):
            mentions = []
            for entity in sentence.iter("entity"):
                start, _, last = entity.get("charOffset", "").partition("-")
                if last.isdigit():
                    mentions.append((int(start), int(last) + 1, entity.get("type", "")))
            found.append(Labelled(sentence.get("text", ""), mentions))
    return found


def read_chemprot(split: Split) -> list[Labelled]:
    """Return the rows of ChemProt without their marks: a chemical and a gene, in any order."""
    found = []
    for row in ChemProt(str(DATA / "bio" / "ChemProt")).texts(split):
        [triple] = row.triples
        found.append(Labelled(row.text, sorted((span.start, span.end, "") for span in (triple.head, triple.tail))))
    return found


def count(rows: Sequence[Labelled], meant: dict[str, tuple[str, ...]], graph: Path) -> dict[str, dict[str, float]]:
    """Return by label how many mentions there are and which share of them is known."""
    texts = [row.text for row in rows]
    every = [{(span.start, span.end) for span in found.spans} for found in Graph(graph).annotate(texts)]
    names, known = GraphStore.open(graph).names, set(EntityLabels(GraphStore.open(graph), "entity").by_count())
    table = {}
    for label, types in meant.items():
        source = Graph(graph, types=[type for type in types if type in known])
        typed = [{(span.start, span.end) for span in found.spans} for found in source.annotate(texts)]
        gold = [{(start, end) for start, end, name in row.mentions if name == label} for row in rows]
        same = [{(start, end) for start, end, name in row.mentions if meant.get(name) == types} for row in rows]
        n, n_found = sum(map(len, gold)), sum(map(len, typed))
        listed = sum(
            bool(names.lookup(row.text[start:end])) for row, one in zip(rows, gold, strict=True) for start, end in one
        )
        table[label] = {
            "n": n,
            "listed": listed / n,
            "any": _both(gold, every) / n,
            "typed": _both(gold, typed) / n,
            "right": _both(same, typed) / n_found if n_found else 0.0,
        }
    return table


def _both(one: Sequence[set[Any]], other: Sequence[set[Any]]) -> int:
    return sum(len(first & second) for first, second in zip(one, other, strict=True))


def count_rows(rows: Sequence[Labelled], graph: Path) -> dict[str, float]:
    """Return for how many rows of ChemProt the graph knows a chemical, a gene, and a role, in the two marked places."""
    store = GraphStore.open(graph)
    known = set(EntityLabels(store, "entity").by_count())
    texts = [row.text for row in rows]
    found = []
    for types in (("chemical", "role"), GENE):
        source = Graph(graph, types=[type for type in types if type in known])
        found.append([{(span.start, span.end): span.id for span in one.spans} for one in source.annotate(texts)])
    totals: dict[str, int] = defaultdict(int)
    for row, chemicals, genes in zip(rows, *found, strict=True):
        places = [(start, end) for start, end, _ in row.mentions]
        ids = [chemicals[place] for place in places if place in chemicals]
        listed = [store.owners[list(store.names.lookup(row.text[start:end]))].tolist() for start, end in places]
        one, other = ((place in chemicals, place in genes) for place in places)
        totals["a chemical"] += bool(ids)
        totals["a gene"] += one[1] or other[1]
        totals["one of them"] += any(one) or any(other)
        totals["both"] += (one[0] and other[1]) or (one[1] and other[0])
        totals["a role"] += _has_role(store, [store.number_of(id) for id in ids])
        totals["a role, listed"] += _has_role(store, [entity for one in listed for entity in one])
    return {"n": len(rows), **{name: total / len(rows) for name, total in totals.items()}}


def _has_role(store: GraphStore, entities: Sequence[int | None]) -> bool:
    return any(True for one in entities if one is not None for _ in neighbours_of(store, one, "has_role"))


def dictionary_f1(graph: Path) -> dict[str, float]:
    """Return the scores of the dictionary alone on BC5CDR's dev part."""
    bench = BENCHES["bc5cdr"]
    known_types = set(EntityLabels(GraphStore.open(graph), "entity").by_count())
    types = [one for one in bench.types or () if one in known_types]
    data = read_data(bench, N_TRAIN, pilot=True)
    _, known = Annotator().annotate(data, Arm(Types(), [Graph(graph, types=types)], name="dictionary"))
    [answers] = data.task.rules(known.train, known.test).values()
    scores: dict[str, float] = score_rule(data.task, known.golds() or [], answers)["scores"]
    return scores


def measure(graph: Path, split: Split) -> Iterator[tuple[str, Any]]:
    """Yield the name of a set and its table, one after another."""
    for name in ("BC5CDR", "NCBI-disease"):
        yield name, count(read_bioner(name, split), MEANT[name], graph)
    yield "BioRED", count(read_biored(split), MEANT["BioRED"], graph)
    yield "DDI", count(read_ddi(split), MEANT["DDI"], graph)
    yield "ChemProt", count_rows(read_chemprot(split), graph)
    if split == "dev":
        yield "dictionary", dictionary_f1(graph)


def main() -> None:
    """Count, print and keep what was counted."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("graphs", nargs="+", metavar="NAME=FOLDER", help="graphs with the names of their results")
    options.add_argument("--split", choices=("dev", "test"), default="dev")
    options.add_argument("--dry", action="store_true", help="do not write the result")
    chosen = options.parse_args()
    if not DATA.is_dir():
        sys.exit(f"Skipped: there is no data at {DATA}.")
    kept: dict[str, Any] = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
    kept |= {"about": about(), "independent": INDEPENDENT}
    for given in chosen.graphs:
        name, _, folder = given.partition("=")
        store = GraphStore.open(folder)
        print(f"\n{name}: {store.n_entities:,} entities, {store.n_edges:,} edges, {store.about['n_names']:,} names")
        tables = kept.setdefault(name, {}).setdefault(chosen.split, {})
        for of_set, table in measure(Path(folder), chosen.split):
            tables[of_set] = table
            for label, row in table.items() if of_set in MEANT else [("", table)]:
                shown = "  ".join(
                    f"{one} {value:,}" if one == "n" else f"{one} {value:.3f}" for one, value in row.items()
                )
                print(f"{of_set:13} {label:27} {shown}", flush=True)
    if not chosen.dry:
        write_result(RESULT, kept)


if __name__ == "__main__":
    main()
