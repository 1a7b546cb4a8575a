"""Does knowledge help to find diseases and chemicals? BC5CDR with few labelled sentences, MiniLM, five paired seeds.

Knowledge: the biomedical graph (ChEBI, DOID, MONDO, HP, MeSH, ...), its chemicals, diseases and phenotypes, without the
names that the training sentences refute. Arms: plain, knowledge as text, `Types`, KAM in several forms, both together,
and the placebo of `Types`; the dictionary alone and joined with the plain encoder stand below each table. KAM reads the
same names as a list, which ties the words of a mention; a graph ties mentions. All arms keep their last epoch: whoever
has 100 labelled sentences has none to choose epochs by. Settings were chosen on dev sentences (`--pilot`); the test
sentences are read once per cell. All train in 16 bits (bf16), which takes less than half the time on processors that
have it. Finished cells are kept, so a stopped run resumes.

    python benchmarks/ner_knowledge.py                     # needs shared/data; hours on two cores
    python benchmarks/ner_knowledge.py --sizes 100 300 --arms plain text types placebo
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from support.measuring import about, write_result

from infuser import TrainSettings, assets
from infuser.comparing import Comparison, compare
from infuser.experiments.arm import Arm
from infuser.experiments.cell import Cell
from infuser.experiments.data import Data
from infuser.files import write_whole
from infuser.knowledge.graph.kinds import EntityLabels
from infuser.knowledge.graph.store import GraphStore
from infuser.methods import Kam, Text, Types
from infuser.sources import Entities, Graph
from infuser.tasks.base import Example, Split
from infuser.tasks.ner import Ner
from infuser.tasks.splitting import subset

ROOT = Path(__file__).resolve().parents[1]
BC5CDR = ROOT.parent / "shared" / "data" / "ner" / "BioNER" / "BC5CDR-IOB"
RUN = ROOT / "runs" / "ner_knowledge"
RESULT = Path(__file__).parent / "results" / "ner_knowledge.json"
TYPES = ("chemical", "disease", "phenotype")
N_SCORED = 2000
EPOCHS = {100: 20, 300: 16, 1000: 8, None: 3}
"""How often each sentence is seen, by the number of training sentences; None is all."""


def arms(graph: Path, names: Path) -> dict[str, Arm]:
    """Return the arms that are compared, by name."""
    typed, listed = [Graph(graph, types=TYPES)], [Entities(names)]
    named = [Graph(graph, types=TYPES, n_terms=3, terms=("neighbours",))]
    best = Arm(Types(vectors="both"), named, name="types names")
    return {
        "plain": Arm(),
        "types": Arm(Types(), typed, name="types"),
        "types names": best,
        "text": Arm(Text(), named, name="text"),
        "placebo": best.placebo(),
        "kam links": Arm(Kam(), listed, name="kam links"),
        "kam types": Arm(Kam(channels="types"), listed, name="kam types"),
        "kam terms": Arm(Kam(channels="types"), [Entities(names, n_terms=1)], name="kam terms"),
        "types list": Arm(Types(), listed, name="types list"),
        "types+kam": Arm([Types(), Kam(channels="types")], listed, name="types+kam"),
    }


def build_knowledge(graph: Path, names: Path) -> None:
    """Build the graph, and a list of the names of its chemicals, diseases and phenotypes, where they are missing."""
    if not graph.exists():
        _infuser("graph", "build", "--asset", "biomedical", "--out", graph)
    if not names.exists():
        table = write_whole(names.with_suffix(".tsv"), "".join(_names(GraphStore.open(graph))))
        _infuser("gazetteer", "build", table, "--out", names)


def _names(graph: GraphStore) -> Iterator[str]:
    labels = EntityLabels(graph, "entity", TYPES)
    for number in range(graph.n_entities):
        if labels[number]:
            entity = graph.entity(number)
            for name in dict.fromkeys((entity.label, *entity.aliases)):
                if name.strip():
                    yield f"{' '.join(name.split())}\t{labels[number]}\t{entity.id}\n"


def _infuser(*command: object) -> None:
    subprocess.run([sys.executable, "-m", "infuser", *map(str, command)], check=True)


def read_data(n_train: int | None, *, pilot: bool) -> Data:
    """Return so many training sentences, and those that are scored."""
    task = Ner(str(BC5CDR), train="train.tsv", dev="devel.tsv", test="test.tsv")
    split: Split = "dev" if pilot else "test"
    return Data(task, some(task.read("train"), n_train), [], some(task.read(split), N_SCORED), scored=split)


def some(examples: list[Example], n: int | None) -> list[Example]:
    """Return so many of the examples, always the same ones."""
    return [examples[place] for place in subset(len(examples), n)]


def summed_up(found: Comparison, settings: TrainSettings) -> dict[str, Any]:
    """Return what is kept of a comparison."""
    return {
        "about": about("torch"),
        "training": {**asdict(settings), "metric": found.data.metric},
        "table": found.table(),
        "scores": {name: [one["scores"] for one in results] for name, results in found.results.items()},
        "rules": {
            name: {rule: of_rule["scores"] for rule, of_rule in results[0]["rules"].items()}
            for name, results in found.results.items()
            if "rules" in results[0]
        },
        "seconds": {name: [one["seconds"] for one in results] for name, results in found.results.items()},
    }


def main() -> None:
    """Train what is asked for and keep the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", nargs="+", default=["100", "300", "1000", "all"])
    options.add_argument("--arms", nargs="+")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--rate", type=float, default=2e-4)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--graph", type=Path, default=RUN / "graph", help="built when missing")
    options.add_argument("--pilot", action="store_true")
    options.add_argument("--title", default="", help="keep the results beside earlier ones of the same size")
    chosen = options.parse_args()
    names = chosen.graph.with_name("names")
    build_knowledge(chosen.graph, names)
    every = arms(chosen.graph, names)
    kept: dict[str, Any] = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
    for size in chosen.sizes:
        n_train = None if size == "all" else int(size)
        settings = TrainSettings(
            epochs=EPOCHS.get(n_train, 8),
            batch_size=16,
            learning_rate=chosen.rate,
            mixed_precision="bf16",
        )

        def report(cell: Cell, step: Any, size: str = size) -> None:
            if step is None:
                print(f"{size} sentences: {cell}", flush=True)

        found = compare(
            str(assets.fetch("minilm")),
            [every[name] for name in chosen.arms or every],
            read_data(n_train, pilot=chosen.pilot),
            seeds=chosen.seeds,
            settings=settings,
            text=False,
            placebo=False,
            out=RUN / ("pilot" if chosen.pilot else "cells") / size,
            workers=chosen.workers,
            cache=RUN / "annotations",
            progress=report,
        )
        print(f"\n{size} sentences, {found.data.scored}\n\n{found.table()}", flush=True)
        kept[f"{size}, {chosen.title}" if chosen.title else size] = summed_up(found, settings)
        if not chosen.pilot:
            write_result(RESULT, kept)


if __name__ == "__main__":
    main()
