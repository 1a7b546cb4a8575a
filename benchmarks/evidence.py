"""When does knowledge help? Real tasks with few and many labels, MiniLM, paired seeds, beside strong simple rivals.

Arms: plain, the same knowledge as text, `Types` (learned vectors and names), and the placebo of `Types`; for names in
text the dictionary alone and joined with plain stand below each table, for relations the scores of rows that the
knowledge covers. BC5CDR also has KAM in several forms, which reads the same names as a list. All arms keep their last
epoch: whoever has 100 labelled texts has none to choose epochs by. Settings were chosen on dev texts (`--pilot`); the
test texts are read once per cell. All train in 16 bits (bf16), or with `--precision no` in 32: without AVX512-BF16 or
AMX a processor takes three times as long for bf16 as for 32 bits. Finished cells are kept, so a stopped run resumes.

    python benchmarks/evidence.py bc5cdr ncbi-disease --sizes 100 300     # needs shared/data; hours on two cores
    python benchmarks/evidence.py --table      # the tables of docs/results and the learning curves, from the JSON
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from support.measuring import RESULTS, about, write_result

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
from infuser.tasks.base import Split, Task
from infuser.tasks.biored import BioredNer
from infuser.tasks.chemprot import ChemProt
from infuser.tasks.ddi import Ddi
from infuser.tasks.ner import Ner, split_texts
from infuser.tasks.splitting import subset

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
RUN = ROOT / "runs" / "evidence"
RESULT = RESULTS / "evidence.json"
EPOCHS = {200: 20, 500: 16, 2500: 8}
"""How often each text is seen with up to so many training texts; 3 times with more."""
MAIN = ("plain", "types", "text", "placebo")


@dataclass(frozen=True)
class Bench:
    """A data set, the knowledge for it, and how many training texts are tried."""

    task: Callable[[], Task]
    graph: str = "biomedical"
    types: tuple[str, ...] | None = None
    """Which types of the graph are read; None reads all."""
    terms: tuple[str, ...] = ("neighbours",)
    sizes: tuple[str, ...] = ("100", "300", "1000", "all")
    metric: str = "entity-f1-unseen"
    """The second score in tables."""
    n_scored: int = 2000
    """Test texts that are scored at most."""
    max_words: int | None = None
    """Documents with more words are split into windows of that many, after so many documents were taken."""


def _iob(folder: str, train: str = "train.tsv", dev: str = "devel.tsv", test: str = "test.tsv") -> Callable[[], Task]:
    return lambda: Ner(str(DATA / "ner" / folder), train=train, dev=dev, test=test)


def _wikidata(folder: str, *files: str, sizes: tuple[str, ...]) -> Bench:
    """Return a set whose knowledge are the names and types of a small part of Wikidata."""
    return Bench(_iob(folder, *files), "wikidata-small", terms=("type",), sizes=sizes)


BENCHES = {
    "bc5cdr": Bench(_iob("BioNER/BC5CDR-IOB"), types=("chemical", "drug", "disease", "phenotype")),
    "ncbi-disease": Bench(_iob("BioNER/NCBI-disease-IOB"), types=("disease", "phenotype")),
    "biored": Bench(
        lambda: BioredNer(str(DATA / "bio" / "BioRED"), max_words=None), sizes=("50", "100", "all"), max_words=100
    ),
    "politics": _wikidata("CrossNER/politics", "train.txt", "dev.txt", "test.txt", sizes=("all",)),
    "science": _wikidata("CrossNER/science", "train.txt", "dev.txt", "test.txt", sizes=("all",)),
    "wnut-17": _wikidata(
        "WNUT17", "wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated", sizes=("300", "all")
    ),
    "chemprot": Bench(
        lambda: ChemProt(str(DATA / "bio" / "ChemProt")),
        terms=("has_role", "neighbours"),
        sizes=("42", "417", "all"),
        metric="macro-f1",
        n_scored=1000,
    ),
    "ddi": Bench(
        lambda: Ddi(str(DATA / "bio" / "DDI2013")),
        terms=("has_role", "neighbours"),
        sizes=("2000", "all"),
        metric="detection-f1",
        n_scored=1000,
    ),
}


def arms(bench: Bench, wanted: Sequence[str]) -> list[Arm]:
    """Return the arms of these names."""
    graph = build_graph(bench.graph)
    named = [Graph(graph, types=bench.types, n_terms=3, terms=bench.terms)]
    best = Arm(Types(), named, name="types")
    known = {
        "plain": Arm(),
        "types": best,
        "text": Arm(Text(), named, name="text"),
        "placebo": best.placebo(),
        "types learned": Arm(Types(), [Graph(graph, types=bench.types)], name="types learned"),
        "kam graph": Arm(Kam(channels="types"), named, name="kam graph"),
    }
    if not known.keys() >= set(wanted):
        known |= _arms_of_lists(build_names(graph, bench.types))
    return [known[name] for name in wanted]


def _arms_of_lists(names: Path) -> dict[str, Arm]:
    """Return the arms that read the names of a graph as a list, which ties the words of a mention."""
    listed = [Entities(names)]
    return {
        "types list": Arm(Types(), listed, name="types list"),
        "kam links": Arm(Kam(), listed, name="kam links"),
        "kam types": Arm(Kam(channels="types"), listed, name="kam types"),
        "kam terms": Arm(Kam(channels="types"), [Entities(names, n_terms=1)], name="kam terms"),
        "types+kam": Arm([Types(), Kam(channels="types")], listed, name="types+kam"),
    }


def build_graph(asset: str) -> Path:
    """Return the graph of an asset, built where it is missing."""
    graph = RUN / asset
    if not graph.exists():
        _infuser("graph", "build", "--asset", asset, "--out", graph)
    return graph


def build_names(graph: Path, types: tuple[str, ...] | None) -> Path:
    """Return a list of the names in a graph with their types, built where it is missing."""
    names = graph.with_name(f"{graph.name} names {' '.join(types or ('of all types',))}")
    if not names.exists():
        table = write_whole(names.with_suffix(".tsv"), "".join(_names(GraphStore.open(graph), types)))
        _infuser("gazetteer", "build", table, "--out", names)
    return names


def _names(graph: GraphStore, types: tuple[str, ...] | None) -> Iterator[str]:
    labels = EntityLabels(graph, "entity", types)
    for number in range(graph.n_entities):
        if labels[number]:
            entity = graph.entity(number)
            for name in dict.fromkeys((entity.label, *entity.aliases)):
                if name.strip():
                    yield f"{' '.join(name.split())}\t{labels[number]}\t{entity.id}\n"


def _infuser(*command: object) -> None:
    subprocess.run([sys.executable, "-m", "infuser", *map(str, command)], check=True)


@cache
def _read(bench: Bench, split: Split) -> tuple[Task, list[Any]]:
    task = bench.task()
    return task, task.read(split)


def read_data(bench: Bench, n_train: int | None, *, pilot: bool = False) -> Data:
    """Return so many training texts, labels in proportion, and those that are scored."""
    split: Split = "dev" if pilot else "test"
    (task, train), (_, scored) = _read(bench, "train"), _read(bench, split)
    few = [train[place] for place in subset(len(train), n_train, strata=task.strata(train))]
    if bench.max_words:
        few, scored = split_texts(few, bench.max_words, "train"), split_texts(scored, bench.max_words, split)
    return Data(task, few, [], [scored[place] for place in subset(len(scored), bench.n_scored)], scored=split)


def _rules(found: Comparison) -> Mapping[str, Any]:
    """Return what rules answer without an encoder, from the first arm that has any."""
    return next((one["rules"] for results in found.results.values() for one in results if "rules" in one), {})


def summed_up(found: Comparison, settings: TrainSettings) -> dict[str, Any]:
    """Return what is kept of a comparison."""
    return {
        "about": about("torch"),
        "training": {**asdict(settings), "metric": found.data.metric},
        "data": found.data.describe(),
        "statistics": json.loads(found.statistics.to_json()),
        "scores": {name: [one["scores"] for one in results] for name, results in found.results.items()},
        "notes": {name: [one["notes"] for one in results] for name, results in found.results.items()},
        "rules": {name: one["scores"] for name, one in _rules(found).items()},
        "sentences": found.rules,
        "seconds": {name: [one["seconds"] for one in results] for name, results in found.results.items()},
    }


def run(name: str, chosen: argparse.Namespace) -> None:
    """Train what is asked for on one data set and keep the results."""
    bench = BENCHES[name]
    compared = arms(bench, chosen.arms)
    for size in chosen.sizes or bench.sizes:
        data = read_data(bench, None if size == "all" else int(size), pilot=chosen.pilot)
        settings = TrainSettings(
            epochs=chosen.epochs or next((epochs for most, epochs in EPOCHS.items() if len(data.train) <= most), 3),
            batch_size=16,
            learning_rate=chosen.rate,
            mixed_precision=chosen.precision,
        )

        def report(cell: Cell, step: Any, size: str = size) -> None:
            if step is None:
                print(f"{name}, {size}: {cell.method}, seed {cell.seed}", flush=True)

        found = compare(
            str(assets.fetch("minilm")),
            compared,
            data,
            seeds=chosen.seeds,
            settings=settings,
            text=False,
            placebo=False,
            out=RUN / ("pilot" if chosen.pilot else "cells") / name / size,
            workers=chosen.workers,
            cache=RUN / "annotations",
            progress=report,
        )
        print(f"\n{name}, {size}, {found.data.scored}\n\n{found.table()}", flush=True)
        if not chosen.pilot:
            kept = read_results()
            kept.setdefault(name, {})[f"{size}, {chosen.title}" if chosen.title else size] = summed_up(found, settings)
            write_result(RESULT, kept)


def read_results() -> dict[str, Any]:
    """Return what earlier runs kept, by data set and size."""
    return json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}


def table(of_set: Mapping[str, Any], second: str) -> str:
    """Return the results of one data set as Markdown."""
    lines = ["| texts | arm | F1 per seed | mean ± 95 % | minus plain ± 95 % (over texts) | " + second + " |"]
    lines.append("|---|---|---|---|---|---|")
    for size, kept in of_set.items():
        statistics = kept["statistics"]
        against = {one["arm"]: one for one in statistics["differences"] if one["against"] == "plain"}
        for place, arm in enumerate(statistics["arms"]):
            per_seed = " / ".join(_short(one) for one in arm["per_seed"])
            others = [one.get(second) for one in kept["scores"][arm["name"]]]
            mean = "" if None in others else _short(sum(others) / len(others))
            difference = _difference(against[arm["name"]]) if arm["name"] in against else ""
            spread = _spread(arm["interval"], arm["mean"])
            first = size if place == 0 else ""
            lines.append(
                f"| {first} | {arm['name']} | {per_seed} | {_short(arm['mean'])}{spread} | {difference} | {mean} |"
            )
        for rule, scores in kept["rules"].items():
            lines.append(
                f"| | {rule} | | {_short(scores[statistics['metric']])} | | {_short(scores.get(second, 0.0))} |"
            )
    return "\n".join(lines)


def plot(kept: Mapping[str, Any], path: Path) -> None:
    """Draw the scores of each arm against the number of training texts, one panel per data set with several sizes.

    Intervals are drawn from three seeds on: with two they would be higher than the picture.
    """
    from infuser.reports.figures import COLOURS, drawing, new_figure, write_figure

    drawn = {name: of_set for name, of_set in kept.items() if len(_sizes(of_set)) > 1}
    with drawing():
        figure = new_figure(270, width=340 * len(drawn))
        for axes, (name, of_set) in zip(figure.subplots(1, len(drawn), squeeze=False)[0], drawn.items(), strict=True):
            sizes = _sizes(of_set)
            for arm, colour in zip(MAIN, COLOURS, strict=False):
                found = {
                    n: one
                    for size, n in sizes.items()
                    for one in of_set[size]["statistics"]["arms"]
                    if one["name"] == arm
                }
                if not found:
                    continue
                means = [one["mean"] for one in found.values()]
                spread = [one["interval"][1] - one["mean"] if len(one["per_seed"]) > 2 else 0 for one in found.values()]
                axes.errorbar(list(found), means, spread, color=colour, label=arm, marker="o", markersize=4, capsize=3)
            for rule in dict.fromkeys(rule for size in sizes for rule in of_set[size]["rules"]):
                scores = [of_set[size]["rules"][rule][of_set[size]["statistics"]["metric"]] for size in sizes]
                axes.plot(list(sizes.values()), scores, "--", color="#6e8898", label=rule)
            axes.set_xscale("log")
            axes.set_xticks(list(sizes.values()), [f"{n:,}" for n in sizes.values()], minor=False)
            axes.minorticks_off()
            axes.set(title=name, xlabel="labelled training texts", ylabel="test F1")
            axes.legend(fontsize=10)
        write_figure(figure, path)


def _sizes(of_set: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of training texts behind each size of the main comparison, in order."""
    sizes = {size: int(one["data"]["train"]["n"]) for size, one in of_set.items() if "," not in size}
    return dict(sorted(sizes.items(), key=lambda item: item[1]))


def _difference(one: Mapping[str, Any]) -> str:
    over = "" if one["over_examples"] is None else " ([{:+.3f}, {:+.3f}])".format(*one["over_examples"])
    return f"{one['mean']:+.3f}{_spread(one['over_seeds'], one['mean'])}{over}".replace("0.", ".")


def _spread(interval: list[float] | None, mean: float) -> str:
    return "" if interval is None else f" ± {_short(interval[1] - mean)}"


def _short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1)


def main() -> None:
    """Train what is asked for, or print the tables of what was kept."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sets", nargs="*", choices=[*BENCHES, []], metavar="SET", help=", ".join(BENCHES))
    options.add_argument("--sizes", nargs="+", help="training texts, or all")
    options.add_argument("--arms", nargs="+", default=list(MAIN))
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--rate", type=float, default=2e-4)
    options.add_argument("--epochs", type=int, help="instead of those that go with the number of training texts")
    options.add_argument("--precision", choices=("bf16", "no"), default="bf16")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--pilot", action="store_true", help="score dev texts, and keep nothing")
    options.add_argument("--title", default="", help="keep the results beside earlier ones of the same size")
    options.add_argument("--table", action="store_true", help="print and draw what was kept, and train nothing")
    chosen = options.parse_args()
    for name in chosen.sets or BENCHES:
        if not chosen.table:
            run(name, chosen)
        elif name in (kept := read_results()):
            print(f"\n{name}\n\n{table(kept[name], BENCHES[name].metric)}")
    if chosen.table:
        plot(read_results(), ROOT / "docs" / "images" / "learning_curves.png")


if __name__ == "__main__":
    main()
