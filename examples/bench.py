"""A bench: two methods and a placebo on your own table, as cells that are computed once, and one table of them.

python examples/bench.py [CHECKPOINT]
"""

from __future__ import annotations

import json
import sys

import miniature

from infuser.experiments.grid import read_results, run_bench
from infuser.experiments.settings import read_bench
from infuser.experiments.summary import summarise
from infuser.reports.bench_table import markdown_table

SETTINGS = """
title = "Query-to-ad relevance, a toy"
seeds = [0, 1]
baseline = "plain"

[host.mine]
checkpoint = "{checkpoint}"

[source.shops]
kind = "graph"
file = "triples.tsv"

[method.plain]

[method.kam]
kind = "kam"
sources = ["shops"]

[method.placebo]
like = "kam"
placebo = true

[task.ads]
kind = "table"
data = "."
train = "train.jsonl"
dev = "dev.jsonl"
pair = "pair"
hold_out = 40

[train]
epochs = 3
batch_size = 16
learning_rate = 3e-3
"""

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
folder = miniature.scratch()
parts = {"train": miniature.query_ads(240, seed=0), "dev": miniature.query_ads(100, seed=1)}
for part, (examples, _) in parts.items():
    (folder / f"{part}.jsonl").write_text("".join(json.dumps(example) + "\n" for example in examples))
triples = [triple for _, known in parts.values() for triple in known]
(folder / "triples.tsv").write_text("".join("\t".join(triple) + "\n" for triple in triples))
(folder / "bench.toml").write_text(SETTINGS.format(checkpoint=checkpoint))

bench = read_bench(folder / "bench.toml")
run_bench(bench, folder / "run")

table = summarise(bench, read_results(folder / "run", bench))
print(markdown_table(table))

# what is finished is known: a second run, after a kill or with one more seed, computes only what is new
computed: list[str] = []
run_bench(bench, folder / "run", progress=lambda cell, report: computed.append(str(cell)))
print("cells computed the second time:", len(computed))
