"""A knowledge graph of 5 million entities and 20 million edges: what it costs to build, to open and to ask.

The graph is generated: every entity has an edge, the other ends follow a power law, so that a few hubs have hundreds
of thousands of edges and half of all entities have three or less. It is written as files (edges .tsv, entities
.parquet) and built from them, as a user would. Building and asking run in processes of their own.

A text stands for ten of its entities, and the question is which two of them are within six hops of each other:

    random               any entities
    hubs                 from the thousand best connected ones
    leaves behind hubs   entities with one edge, which leads to one of the hundred best connected
    far out              from the ten thousand farthest from every landmark

"Cold" is the first time after the operating system has forgotten the files (where it can be asked to) in a fresh
process; "warm" the second time. What a user would pick instead, networkx and SciPy, answers the same texts on a graph
that they can hold in memory, and the answers are compared.

    python benchmarks/graph_scale.py                                            # all of it, some minutes, 3 GB of disk
    python benchmarks/graph_scale.py --entities 100000 --edges 400000 --out ""  # a quick look
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from support.generated_graph import draw_edges, write_files
from support.measuring import RESULTS, about, in_new_process, write_result

from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import GraphStore, save_graph
from infuser.knowledge.readers import read_facts
from infuser.tables.skipped import Skipped

TARGETS = {"build_seconds": 300, "build_peak_gb": 8, "open_ms": 200, "median_ms": 10}
N_ASKED, HOPS = 10, 6
Numbers = NDArray[np.int64]


def build(folder: Path, n_landmarks: int) -> dict[str, Any]:
    """Build the graph of the files in a folder and tell how long each phase took."""
    phases: dict[str, float] = {}
    begin = last = time.perf_counter()
    phase = "reading"

    def progress(now: str, done: int, total: int | None) -> None:
        nonlocal phase, last
        if now != phase:
            phases[phase], phase, last = time.perf_counter() - last, now, time.perf_counter()

    def facts() -> Iterator[pa.RecordBatch]:
        for file in ("entities.parquet", "edges.tsv"):
            yield from read_facts(folder / file, skipped)

    skipped = Skipped()
    store = build_graph(facts(), n_landmarks=n_landmarks, progress=progress)
    progress("writing", 0, None)
    save_graph(store, folder / "graph")
    progress("", 0, None)
    degrees = np.sort(np.diff(store.parts["edges.begins"]))
    return {
        "seconds": time.perf_counter() - begin,
        "phases": phases,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "disk_gb": sum(file.stat().st_size for file in (folder / "graph").iterdir()) / 2**30,
        "input_gb": sum((folder / file).stat().st_size for file in ("entities.parquet", "edges.tsv")) / 2**30,
        "skipped": skipped.n,
        "entities": store.n_entities,
        "edges": store.n_edges,
        "names": store.about["n_names"],
        "degree_median": int(np.median(degrees)),
        "degree_99th": int(np.quantile(degrees, 0.99)),
        "degree_of_hubs": degrees[::-1][[0, 10, 100, 1000]].tolist(),
    }


def texts(store: GraphStore, kind: str, n_texts: int) -> list[Numbers]:
    """Return the entities of some texts of one kind."""
    chance = np.random.default_rng(2)
    everyone = np.arange(store.n_entities)
    degrees = store.degrees(everyone)
    best = np.argsort(-degrees, kind="stable")
    if kind == "random":
        pool = everyone
    elif kind == "hubs":
        pool = best[:1000]
    elif kind == "far out":
        nearest = store.parts["landmarks.near"][:].min(axis=1)
        pool = np.argsort(-np.where(nearest < 255, nearest, 0).astype(int), kind="stable")[:10_000]
    else:
        leaves = np.flatnonzero(degrees == 1)
        hub = store.parts["edges.neighbours"][store.parts["edges.begins"][leaves]]
        pool = leaves[np.isin(hub, best[:100])]
    return [chance.choice(pool, N_ASKED, replace=False) for _ in range(n_texts)]


KINDS = ("random", "hubs", "leaves behind hubs", "far out")


def answered(ask: Callable[[Numbers, int], Any], asked: list[Numbers]) -> tuple[list[Any], list[float]]:
    """Return the answers, and how many milliseconds each of them took."""
    answers, times = [], []
    for numbers in asked:
        begin = time.perf_counter()
        answers.append(ask(numbers, HOPS))
        times.append((time.perf_counter() - begin) * 1e3)
    return answers, times


def told(times: list[float]) -> dict[str, float]:
    """Return the figures that are told of some times."""
    return {"median": float(np.median(times)), "p95": float(np.quantile(times, 0.95)), "max": max(times)}


def forget(folder: Path) -> None:
    """Ask the operating system to forget the files of a folder (Linux)."""
    if hasattr(os, "posix_fadvise"):
        for file in folder.iterdir():
            handle = os.open(file, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def query(folder: Path, asked_file: Path) -> dict[str, Any]:
    """Open the graph in this fresh process and ask: each text cold, then warm."""
    asked = {kind: [np.array(one) for one in listed] for kind, listed in json.loads(asked_file.read_text()).items()}
    begin = time.perf_counter()
    store = GraphStore.open(folder / "graph")
    opened = time.perf_counter()
    store.within(asked["random"][0], HOPS)
    first = time.perf_counter()
    answers: dict[str, Any] = {"open_ms": (opened - begin) * 1e3, "first_answer_ms": (first - begin) * 1e3}
    for what, ask in (("within", store.within), ("distances", store.distances)):
        for kind, of_kind in asked.items():
            cold, warm = answered(ask, of_kind)[1], answered(ask, of_kind)[1]
            answers[f"{what}: {kind}"] = {"cold_ms": told(cold), "warm_ms": told(warm)}
    mixed = [numbers for same in zip(*asked.values(), strict=True) for numbers in same]
    answers["within: all kinds"] = {"warm_ms": told(answered(store.within, mixed)[1])}
    begin = time.perf_counter()
    n_names = len(store.names)
    answers["open_names_ms"] = (time.perf_counter() - begin) * 1e3
    answers["names"] = n_names
    answers["resident_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return answers


def compare(n: int, n_edges: int, n_landmarks: int, n_texts: int) -> dict[str, Any]:
    """Ask networkx, SciPy and the graph the same on a graph that all can hold; the answers must be the same."""
    import networkx
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), n, n_edges, seed=0)
        build(Path(name), n_landmarks)
        store = GraphStore.open(Path(name) / "graph")
        heads, tails = (store.numbers_of([f"Q{end}" for end in ends]) for ends in draw_edges(n, n_edges, 0))
        asked = {kind: texts(store, kind, n_texts) for kind in KINDS}
        every = [numbers for of_kind in asked.values() for numbers in of_kind]
        plain = networkx.Graph(zip(heads.tolist(), tails.tolist(), strict=True))
        matrix = coo_array((np.ones(len(heads), np.int8), (heads, tails)), shape=(n, n)).tocsr()

        def by_networkx(numbers: Numbers, hops: int) -> NDArray[np.bool_]:
            reached = [networkx.single_source_shortest_path_length(plain, one, hops) for one in numbers.tolist()]
            return np.array([[other in near for other in numbers.tolist()] for near in reached])

        def by_networkx_pairs(numbers: Numbers, hops: int) -> NDArray[np.bool_]:
            near = np.eye(len(numbers), dtype=bool)
            for i, j in zip(*np.triu_indices(len(numbers), 1), strict=True):
                try:
                    length = networkx.bidirectional_shortest_path(plain, int(numbers[i]), int(numbers[j]))
                except networkx.NetworkXNoPath:
                    continue
                near[i, j] = near[j, i] = len(length) - 1 <= hops
            return near

        def by_scipy(numbers: Numbers, hops: int) -> NDArray[np.bool_]:
            found = dijkstra(matrix, directed=False, unweighted=True, indices=numbers, limit=hops)
            near: NDArray[np.bool_] = found[:, numbers] <= hops
            return near

        rivals = {"networkx, from each": by_networkx, "networkx, pair by pair": by_networkx_pairs, "scipy": by_scipy}
        expected, _ = answered(store.within, every)
        times = {"infuser": answered(store.within, every)[1]}
        for rival, ask in rivals.items():
            answers, times[rival] = answered(ask, every)
            for numbers, answer, ours in zip(every, answers, expected, strict=True):
                assert (answer == ours).all(), (rival, numbers)
    fastest = float(np.median(times["infuser"]))
    return {
        "entities": n,
        "edges": n_edges,
        "texts": len(every),
        "same_answers": True,
        "ms": {name: told(listed) for name, listed in times.items()},
        "times_slower_by_median": {name: float(np.median(times[name])) / fastest for name in rivals},
    }


def child(*arguments: object) -> Any:
    """Run a step in a process of its own and return what it says."""
    return in_new_process(__file__, "--child", json.dumps([str(argument) for argument in arguments]))


def run_child(step: str, *arguments: str) -> Any:
    """Do one step, in the process that `child` started."""
    if step == "write":
        write_files(Path(arguments[0]), int(arguments[1]), int(arguments[2]), seed=0)
        return None
    if step == "build":
        return build(Path(arguments[0]), int(arguments[1]))
    if step == "texts":
        store = GraphStore.open(Path(arguments[0]) / "graph")
        asked = {kind: [one.tolist() for one in texts(store, kind, int(arguments[2]))] for kind in KINDS}
        Path(arguments[1]).write_text(json.dumps(asked))
        forget(Path(arguments[0]) / "graph")
        return None
    if step == "query":
        return query(Path(arguments[0]), Path(arguments[1]))
    return compare(*(int(argument) for argument in arguments))


def tell_build(built: dict[str, Any]) -> None:
    """Print what building cost."""
    print(f"{built['entities']:,} entities, {built['edges']:,} edges, {built['names']:,} names")
    print(
        f"degree: median {built['degree_median']}, 99th percentile {built['degree_99th']}, first, 11th, 101st and "
        f"1001st hub {built['degree_of_hubs']}"
    )
    print(
        f"build   {built['seconds']:.0f} s (target < {TARGETS['build_seconds']}), peak {built['peak_gb']:.1f} GB "
        f"(target < {TARGETS['build_peak_gb']}), {built['disk_gb']:.2f} GB on disk"
    )
    phases = (f"{phase} {seconds:.0f} s" for phase, seconds in built["phases"].items())
    print("        " + ", ".join(phases), flush=True)


def tell_queries(asked: dict[str, Any]) -> None:
    """Print what opening and asking cost."""
    print(
        f"open    {asked['open_ms']:.1f} ms (target < {TARGETS['open_ms']}), first answer after "
        f"{asked['first_answer_ms']:.1f} ms; names ready in another {asked['open_names_ms']:.0f} ms"
    )
    print(f"\n{HOPS} hops, {N_ASKED} entities, ms:{'':<19}cold: median    p95     max   warm: median    p95     max")
    for what, row in asked.items():
        if not isinstance(row, dict):
            continue
        cold, warm = (
            "".join(f"{one:>8.2f}" for one in row[key].values()) if key in row else f"{'':>24}"
            for key in ("cold_ms", "warm_ms")
        )
        print(f"{what:<38}{cold}     {warm}")


def tell_compared(compared: dict[str, Any]) -> None:
    """Print what others cost."""
    print(f"\n{compared['entities']:,} entities, {compared['edges']:,} edges, {compared['texts']} texts, same answers:")
    for who, row in compared["ms"].items():
        slower = compared["times_slower_by_median"].get(who)
        ratio = "" if slower is None else f"   {slower:,.0f} times slower"
        print(f"{who:<38}" + "".join(f"{one:>10.2f}" for one in row.values()) + ratio)


def main() -> None:
    """Run all steps and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--landmarks", type=int, default=32)
    parser.add_argument("--texts", type=int, default=200, help="of each kind")
    parser.add_argument("--compared-entities", type=int, default=200_000)
    parser.add_argument("--compared-texts", type=int, default=2, help="of each kind")
    parser.add_argument("--folder", type=Path, help="keep the files here instead of in a temporary folder")
    parser.add_argument("--out", default=str(RESULTS / "graph_scale.json"))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run_child(*json.loads(options.child))))
        return

    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        child("write", folder, options.entities, options.edges)
        built = child("build", folder, options.landmarks)
        tell_build(built)
        child("texts", folder, Path(name) / "texts.json", options.texts)
        asked = child("query", folder, Path(name) / "texts.json")
    tell_queries(asked)
    compared = child(
        "compare", options.compared_entities, 4 * options.compared_entities, options.landmarks, options.compared_texts
    )
    tell_compared(compared)
    if options.out:
        facts = about("numpy", targets=TARGETS, landmarks=options.landmarks)
        content = {"about": facts, "build": built, "queries": asked, "compared": compared}
        write_result(Path(options.out), content)


if __name__ == "__main__":
    main()
