"""Where knowledge helps, by how frequent entities are: plain, KAM and KAR, with and without selective injection (SI)
and spectral regularisation (SR), on a real task.

The task is relation classification on T-REx (shared/data/relations/trex-95): a sentence, "head ; tail", which of 8
relations holds. Head and tail are names that both stand in the sentence as whole words, no pronouns; a sentence has at
most 60 word pieces and is used once, and no pair of head and tail that is trained on is asked again. The relations are
chosen by a rule and not by results: of those with enough sentences for 40 / 20 / 50 (train / dev / test) the 8 with
most different pairs in train.csv. Dev is the first 20 of valid.csv; what is left of it fills up the test sentences.

    kam   a graph of Wikidata, names tied over at most 2 edges: the asset wikidata-small and CoDEx-M (shared/data/kg).
          It may hold the very fact that is asked for: it ties head and tail, without saying by which relation
    kar   names, link counts and descriptions of Wikidata as benchmarks/linking.py has them, 5 candidates per mention

Names are found in their own case only, as "Of" is a district and "of" is not. SI has the paper's constants. Document
frequencies are over the 89,299 sentences of shared/data/corpora/trex_evidence_sentences.txt, read by both sources; a
test example lies in the bucket of its rarest entity. These are Wikipedia's, too, so test sentences may be among them;
they are counted, nothing else. Beside the arms each method's placebo: the same knowledge, of another example.

    python benchmarks/frequency_buckets.py           # 21 trainings; goes on where it stopped
    python benchmarks/frequency_buckets.py --pilot   # dev scores of step sizes, seed 100
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import candidate_recall as wikidata
import numpy as np
import pyarrow as pa
import torch
from linking import described_wikidata, encode, met_in
from support.cells import run_cells
from support.measuring import about, write_result

from infuser import (
    Candidates,
    Collator,
    Graph,
    Kam,
    Kar,
    KnowledgeBase,
    Spectral,
    TrainSettings,
    assets,
    evaluate,
    infuse,
    train,
)
from infuser.analysis.diagnose.buckets import buckets, entity_frequency
from infuser.analysis.select import explain_selection
from infuser.experiments.placebo import shuffle
from infuser.files import write_whole
from infuser.hosts.loading import load_model, load_tokenizer, longest_input
from infuser.knowledge.candidates.store import build_candidates
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import save_graph
from infuser.knowledge.names.name_rule import STOP_WORDS
from infuser.knowledge.readers import read_facts
from infuser.knowledge.readers.wikidata_small import read_wikidata_small
from infuser.progress import track
from infuser.sources import Sampling, Selective
from infuser.sources.entity_statistics import count_entities
from infuser.stats.comparison import ArmScores, compare_arms, signed_range
from infuser.stats.metrics import mean_metric
from infuser.tables.skipped import Skipped
from infuser.types import Annotations, join_pair

SHARED = wikidata.SHARED
TASK = SHARED / "relations" / "trex-95"
CODEX = SHARED / "kg" / "CoDEx" / "triples" / "codex-m" / "train.txt"
CORPUS = SHARED / "corpora" / "trex_evidence_sentences.txt"
RESULT = Path(__file__).parent / "results" / "frequency_buckets.json"
WORK = Path(__file__).resolve().parents[1] / "runs" / "frequency_buckets"
ARMS = ("plain", "kam", "kam+SI+SR", "kam placebo", "kar", "kar+SI+SR", "kar placebo")
NEW_RATE = {"plain": None, "kam": 1e-3, "kar": 1e-3}
"""Step sizes of the new weights; not tuned, nor is the plain encoder's. --pilot compares two on the dev set."""
AT_ONCE = 2_000

Example = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How large each training is."""

    n_relations: int = 8
    n_examples: tuple[tuple[str, int], ...] = (("train", 40), ("dev", 20), ("test", 50))
    """Of each relation in each part."""
    max_pieces: int = 60
    """Longest text, in word pieces."""
    epochs: int = 3
    every: int = 1
    """Use only every n-th example; 1 is the benchmark, more is a trial."""


def is_name(name: str) -> bool:
    """Return whether this may name an entity; country codes ("in", "is") and pronouns do not."""
    return len(name.strip()) > 2 and name.strip().lower() not in STOP_WORDS


def stands(name: str, text: str) -> bool:
    """Return whether a name is in a text as whole words."""
    return is_name(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def read_part(part: str, max_pieces: int) -> Iterator[tuple[str, str, list[tuple[str, str, str]]]]:
    """Yield relation, sentence and those (head, tail, predicate) of the relation that stand in it."""
    tokenizer = load_tokenizer(str(assets.fetch("minilm")))
    with (TASK / f"{part}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            text, relation = row["text"], row["rel"]
            told = [
                (head, tail, predicate)
                for head, tail, predicate, named in ast.literal_eval(row["target"])
                if named == relation and head != tail and stands(head, text) and stands(tail, text)
            ]
            if told and len(tokenizer.tokenize(text)) <= max_pieces:
                yield relation, text, told


def choose(size: Size) -> dict[str, Any]:
    """Return the relations with their predicates, and the examples of train, dev and test."""
    examples: dict[str, dict[str, list[Example]]] = defaultdict(lambda: {"train": [], "dev": [], "test": []})
    pairs: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    predicates: dict[str, Counter[str]] = defaultdict(Counter)
    seen: set[str] = set()
    trained: set[frozenset[str]] = set()
    least = dict(size.n_examples)
    for part in ("train", "valid", "test"):
        for relation, text, told in read_part(part, size.max_pieces):
            if part == "train":
                pairs[relation].update(one[:2] for one in told)
                predicates[relation].update(one[2] for one in told)
            fresh = [
                (head, tail) for head, tail, _ in told if part == "train" or frozenset((head, tail)) not in trained
            ]
            if text in seen or not fresh:
                continue
            seen.add(text)
            head, tail = fresh[0]
            if part == "train":
                trained.add(frozenset((head, tail)))
            of = examples[relation]
            place = (
                "train" if part == "train" else "dev" if part == "valid" and len(of["dev"]) < least["dev"] else "test"
            )
            of[place].append({"text": text, "pair": f"{head} ; {tail}", "head": head, "tail": tail})
    # what is left of valid.csv stands before test.csv, so that it only fills up
    wanted = {"train": slice(least["train"]), "dev": slice(least["dev"]), "test": slice(-least["test"], None)}
    enough = [one for one, of in examples.items() if all(len(of[part]) >= n for part, n in least.items())]
    chosen = sorted(enough, key=lambda one: (-len(pairs[one]), one))[: size.n_relations]
    parts = {
        part: [{**one, "label": label} for label, name in enumerate(chosen) for one in examples[name][part][some]]
        for part, some in wanted.items()
    }
    return {"relations": {one: predicates[one].most_common(1)[0][0] for one in chosen}, **parts}


@cache
def task(size: Size, work: Path) -> dict[str, Any]:
    """Return the task in this size; chosen once and kept."""
    path = work / "task.json"
    if not path.exists():
        write_whole(path, json.dumps(choose(size), indent=1, ensure_ascii=False))
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {**data, **{part: data[part][:: size.every] for part in ("train", "dev", "test")}}


def joined(examples: list[Example]) -> list[str]:
    """Return what sources read."""
    return [join_pair(one["text"], one["pair"]) for one in examples]


def facts() -> Iterator[pa.RecordBatch]:
    """Yield triples and names of Wikidata entities, without names that are none."""
    for batch in chain(read_wikidata_small(assets.fetch("wikidata-small")), wikidata.names()):
        rows = batch.to_pylist()
        for row in rows if "label" in batch.schema.names else ():
            row["label"] = row["label"] if is_name(row["label"] or "") else None
            row["aliases"] = [name for name in row["aliases"] or () if is_name(name)]
        yield pa.RecordBatch.from_pylist(rows, schema=batch.schema)
    yield from read_facts(CODEX, Skipped(strict=True), format="table")


def graph(work: Path) -> Graph:
    """Return the graph, with names in their own case."""
    folder = work / "graph"
    if not folder.exists():
        save_graph(build_graph(facts(), fold_case=False), folder)
    return Graph(folder, hops=2)


def base(work: Path) -> KnowledgeBase:
    """Return Wikidata as far as the task's texts mention it."""
    folder = work / "base-vectors"
    if not folder.exists():
        data = task(Size(), work)
        texts = joined([one for part in ("train", "dev", "test") for one in data[part]])
        knowledge = wikidata.gather(None)
        store = met_in(texts, build_candidates(batch for of_kind in knowledge.values() for batch in of_kind))
        store.save(work / "base-candidates")
        offered = {one.id for found in candidates(work).annotate(texts) for of in found.candidates for one in of}
        encode([one for one in described_wikidata(store) if one.id in offered], folder)
    return KnowledgeBase(candidates(work), folder, "wikidata", missing="skip")


def candidates(work: Path) -> Candidates:
    """Return what the base has for mentions: few candidates, names as they are written, none inside another."""
    return Candidates(work / "base-candidates", n_candidates=5, fold_case=False, overlaps="longest")


@cache
def frequencies(work: Path) -> dict[str, int]:
    """Return in how many sentences of the corpus each entity is found, by the graph or the base."""
    path = work / "frequencies.json"
    if not path.exists():
        sources = (graph(work), base(work))
        lines = CORPUS.read_text(encoding="utf-8").splitlines()
        found = (
            of_text
            for start in track(range(0, len(lines), AT_ONCE), "counting entities")
            for of_text in zip(*(one.annotate(lines[start : start + AT_ONCE]) for one in sources), strict=True)
        )
        write_whole(path, json.dumps(count_entities(found)))
    counts: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    return counts


@cache
def prepared(size: Size, kind: str, placebo: bool, work: Path) -> tuple[Graph | KnowledgeBase, list[list[Example]]]:
    """Return the source and train, dev and test with what it says about them, or about others."""
    data = task(size, work)
    source = graph(work) if kind == "kam" else base(work)
    parts = [data[part] for part in ("train", "dev", "test")]
    everything = [one for part in parts for one in part]
    found: list[tuple[Annotations, ...]] = [(one,) for one in source.annotate(joined(everything))]
    if placebo:
        found = shuffle(found, breaks=[len(one["text"]) for one in everything])
    told = iter(found)
    return source, [[{**one, "annotations": next(told)} for one in part] for part in parts]


def selection(source: Graph | KnowledgeBase, work: Path) -> Selective:
    """Return SI with the paper's constants; hops are counted in the same graph for both sources."""
    return Selective(source, Sampling(frequencies=frequencies(work), graph=work / "graph"))


def kind_of(arm: str) -> str:
    """Return plain, kam or kar."""
    return arm.split("+")[0].split()[0]


def run(size: Size, arm: str, seed: int, rate: float | None, work: Path) -> dict[str, Any]:
    """Train once and return the scores, and which test examples were right."""
    kind, folder = kind_of(arm), str(assets.fetch("minilm"))
    torch.manual_seed(seed)
    settings = TrainSettings(size.epochs, 16, learning_rate=7e-5, new_learning_rate=rate, metric="accuracy", seed=seed)
    n_labels = len(task(size, work)["relations"])
    source, (learn, dev, test) = prepared(size, "kam" if kind == "plain" else kind, "placebo" in arm, work)
    if kind == "plain":
        model = load_model(folder, "sequence-classification", num_labels=n_labels)
        tokenizer = load_tokenizer(folder)
        collate, n_new = Collator(tokenizer, max_length=longest_input(model, tokenizer)), 0
    else:
        given: Any = source
        if "+SI" in arm:
            given = selection(source, work)
            learn = [{**one, "annotations": tuple(given.strategy.select(one["annotations"], source))} for one in learn]
        method = Kam() if kind == "kam" else Kar(threshold=-100.0)
        infused = infuse(folder, method, sources=[given], task="sequence-classification", num_labels=n_labels)
        model, collate, n_new = infused.model, infused.collator(), infused.n_new_weights()
    spectral = Spectral() if "+SR" in arm else None
    result = train(model, learn, collate, dev=dev, settings=settings, progress=False, spectral=spectral)
    scores = evaluate(model, test, collate, metric="accuracy")
    right = scores.logits.argmax(axis=1) == scores.labels
    return {
        "arm": arm,
        "seed": seed,
        "rate": rate,
        "score": scores.metrics["accuracy"],
        "dev": result.best,
        "right": right.astype(int).tolist(),
        "new_weights": n_new,
        "seconds": result.seconds,
    }


ACCURACY = mean_metric("accuracy", lambda right, labels: right)
"""The share of right answers; what is right was decided before."""


def summary(size: Size, found: dict[str, dict[str, Any]], work: Path) -> dict[str, Any]:
    """Return every arm, all differences, the table of buckets, and what the sources and SI do."""
    runs = {arm: [one for one in found.values() if one["arm"] == arm] for arm in ARMS}
    arms = [
        ArmScores(arm, [np.array(one["right"]) for one in of], of[0]["new_weights"], [one["seconds"] for one in of])
        for arm, of in runs.items()
    ]
    labels = [one["label"] for one in task(size, work)["test"]]
    kinds = ("kam", "kar")
    also = [(f"{kind}+SI+SR", kind) for kind in kinds] + [(kind, f"{kind} placebo") for kind in kinds]
    compared = compare_arms(arms, labels, metric=ACCURACY, also=also)
    parts = {kind: prepared(size, kind, False, work) for kind in kinds}
    tests = zip(*(parts[kind][1][2] for kind in kinds), strict=True)
    rarest = entity_frequency([tuple(one["annotations"][0] for one in of) for of in tests], frequencies(work))
    told: dict[str, Any] = {
        "verdicts": compared.verdicts,
        **{name: value for name, value in asdict(compared).items() if name in ("arms", "differences", "n_examples")},
        "buckets against plain": [asdict(one) for one in buckets(arms, labels, rarest, metric=ACCURACY)],
    }
    for kind in kinds:
        two = [arm for arm in arms if arm.name in (kind, f"{kind}+SI+SR")]
        told[f"buckets against {kind}"] = [asdict(one) for one in buckets(two, labels, rarest, metric=ACCURACY)]
    for kind, (source, (learn, _, _)) in parts.items():
        told[f"knowledge of {kind}"] = coverage(learn)
        report = explain_selection(selection(source, work), [one["annotations"][0] for one in learn])
        told[f"SI keeps of {kind}"] = {"kept": report.kept, "buckets": [asdict(one) for one in report.buckets]}
    return told


def coverage(examples: list[Example]) -> dict[str, float]:
    """Return how much a source says about examples."""
    found = [one["annotations"][0] for one in examples]
    written = [[one.text[span.start : span.end] for span in one.spans] for one in found]
    ends = [{one["head"], one["tail"]} for one in examples]
    tied = [
        any({words[link.source], words[link.target]} == pair for link in one.links)
        for one, words, pair in zip(found, written, ends, strict=True)
    ]
    return {
        "mentions per text": float(np.mean([len(one.spans) for one in found])),
        "candidates per mention": float(np.mean([len(some) for one in found for some in one.candidates] or [0])),
        "texts with ties": float(np.mean([bool(one.links) for one in found])),
        "texts with head tied to tail": float(np.mean(tied)),
        "heads and tails found": float(
            np.mean([len(pair & {*words}) / 2 for words, pair in zip(written, ends, strict=True)])
        ),
    }


def show(told: dict[str, Any]) -> None:
    """Print the tables."""
    print(f"\n{'test accuracy':16}{'mean':>7}   95 % interval over seeds")
    for row in told["arms"]:
        low, high = row["interval"] or (float("nan"), float("nan"))
        print(f"{row['name']:16}{row['mean']:7.3f}   [{low:.3f}, {high:.3f}]")
    print(*["", *told["verdicts"]], sep="\n")
    for against in ("plain", "kam", "kar"):
        rows = told[f"buckets against {against}"]
        print(f"\n{'rarest entity':24}{'n':>5}" + "".join(f"{arm:>13}" for arm in rows[0]["values"]))
        for row in rows:
            print(f"{row['name']:24}{row['n_examples']:5}" + "".join(f"{one:13.3f}" for one in row["values"].values()))
        print(f"difference to {against}, 95 % bootstrap interval over test examples")
        for row in rows:
            spans = "   ".join(f"{arm} {signed_range(one)}" for arm, one in row["differences"].items())
            print(f"{row['name']:24}{spans}")
    for kind in ("kam", "kar"):
        kept = told[f"SI keeps of {kind}"]
        by = ", ".join(f"{row['name']} {row['kept']:.1%}" for row in kept["buckets"])
        print(f"\nSI keeps {kept['kept']:.1%} of what {kind} reads: {by}\n{told[f'knowledge of {kind}']}")


def main() -> None:
    """Train all cells and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--pilot", action="store_true", help="show dev scores of step sizes with seed 100, and stop")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)  # two steps per arm, writes no result
    given = parser.parse_args()
    if absent := [path for path in (TASK, CORPUS, CODEX) if not path.exists()]:
        print(f"Skipped: there is no {absent[0]}.")
        return
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    task(Size(), work)
    counts = frequencies(work)
    size = Size(epochs=2, every=48) if given.tiny else Size()
    cells = work / ("tiny" if given.tiny else "cells")
    if given.pilot:
        tried = {
            f"pilot-{kind}-{rate}": (size, kind, 100, rate, work) for kind in ("kam", "kar") for rate in (3e-4, 1e-3)
        }
        for name, one in run_cells(tried, run, cells, given.workers).items():
            print(f"{name:24} dev {one['dev']:.4f}  {one['seconds']:.0f} s")
        return
    asked = {
        f"{arm.replace(' ', '-')}-{seed}": (size, arm, seed, NEW_RATE[kind_of(arm)], work)
        for seed in range(given.seeds)
        for arm in ARMS
    }
    told = summary(size, run_cells(asked, run, cells, given.workers), work)
    show(told)
    if given.tiny:
        return
    result = {
        "what": "test accuracy of 8 relations of T-REx by the frequency of the rarest entity",
        "size": asdict(size),
        "relations": task(size, work)["relations"],
        "step size of new weights": NEW_RATE,
        "SI": {one.name: one.default for one in fields(Sampling) if one.name not in ("frequencies", "graph", "_known")},
        "SR": asdict(Spectral()),
        "document frequencies": {"texts": CORPUS.name, "entities": len(counts)},
        "entities with vectors": len(base(work).store),
        **told,
        "versions": about("torch"),
    }
    write_result(RESULT, result)


if __name__ == "__main__":
    main()
