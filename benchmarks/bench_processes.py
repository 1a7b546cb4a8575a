"""What a second process is worth to `infuser bench run`: the same bench on one process and on two.

Query-to-ad relevance from WordNet (see `infuser demo`), MiniLM, plain and KAM, two seeds: four cells. Run as

    one         infuser bench run
    cells       torchrun --nproc-per-node 2 -m infuser bench run              each process computes cells
    together    torchrun --nproc-per-node 2 -m infuser bench run --together   both train every cell (accelerate, gloo)

each from the start, with one thread per process, in turn; the fastest of the rounds counts. Printed are wall times, the
speed-up, and how far each score is from that of one process: 0 where a cell is computed by one process alone, and
within what another seed changes where two train together, since their dropout differs.

    python benchmarks/bench_processes.py     # about eight minutes
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from support.measuring import about, write_result

from infuser import assets
from infuser.experiments.grid import all_cells
from infuser.experiments.run_folder import Results
from infuser.experiments.settings import read_bench
from infuser.tasks.query_ads import build_query_ads

RESULT = Path(__file__).parent / "results" / "bench_processes.json"
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
WAYS = {
    "one": ([sys.executable, "-m"], []),
    "cells": (LAUNCH, []),
    "together": (LAUNCH, ["--together"]),
}
SETTINGS = """\
title = "Query-to-ad relevance"
seeds = [0, 1]

host.minilm = { checkpoint = "minilm" }
source.graph = { kind = "graph", file = "triples.tsv" }
method = { plain = {}, kam = { kind = "kam", sources = ["graph"] } }
task.ads = { kind = "table", data = ".", dev = "dev.csv", pair = "pair", hold_out = 40 }

[train]
epochs = 2
batch_size = 16
learning_rate = 7e-5
"""


def write_task(folder: Path, n_train: int) -> Path:
    """Write the task as files, and return the settings."""
    task = build_query_ads(assets.fetch("wordnet"), n_train=n_train, n_dev=200, n_test=2, max_topics=16)
    for name, rows in (("train", task.train), ("dev", task.dev)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["text", "pair", "label"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
    lines = ["\t".join(triple) + "\n" for triple in task.graph.triples]
    (folder / "triples.tsv").write_text("".join(lines), encoding="utf-8")
    path = folder / "bench.toml"
    path.write_text(SETTINGS, encoding="utf-8")
    return path


def run(way: str, settings: Path, out: Path) -> float:
    """Run the bench in one way from the start, and return the seconds."""
    before, after = WAYS[way]
    command = [*before, "infuser", "bench", "run", str(settings), "--out", str(out), *after]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT})
    if done.returncode:
        raise SystemExit(f"{way} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return time.perf_counter() - started


def scores(settings: Path, out: Path) -> dict[str, float]:
    """Return the first score of every cell."""
    bench, results = read_bench(settings), Results(out)
    read = {str(cell): results.read(cell) for cell in all_cells(bench)}
    return {name: one["scores"][one["metrics"][0]] for name, one in read.items() if one}


def main() -> None:
    """Run all ways in turn, print and keep what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--examples", type=int, default=300)
    given = parser.parse_args()
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    reached: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        settings = write_task(Path(scratch), given.examples)
        for turn in range(given.rounds):
            for way in WAYS:
                out = Path(scratch) / f"{way}-{turn}"
                seconds[way].append(run(way, settings, out))
                reached[way] = scores(settings, out)
                print(f"round {turn + 1}, {way}: {seconds[way][-1]:.0f} s", flush=True)
    rows: dict[str, Any] = {}
    for way in WAYS:
        apart = {cell: abs(value - reached["one"][cell]) for cell, value in reached[way].items()}
        rows[way] = {
            "seconds": seconds[way],
            "speed-up": min(seconds["one"]) / min(seconds[way]),
            "scores": reached[way],
            "furthest from one process": max(apart.values()),
        }
        print(
            f"{way:9} {min(seconds[way]):6.1f} s  speed-up {rows[way]['speed-up']:.2f}  "
            f"furthest score {rows[way]['furthest from one process']:.4f}"
        )
    seeds = [
        abs(reached["one"][f"ads, minilm, {m}, seed 0"] - reached["one"][f"ads, minilm, {m}, seed 1"])
        for m in ("plain", "kam")
    ]
    print(f"two seeds of one process differ by up to {max(seeds):.4f}")
    result = {"about": about(), "examples": given.examples, "rows": rows, "between seeds": max(seeds)}
    write_result(RESULT, result)


if __name__ == "__main__":
    main()
