"""Does KAM help MiniLM? CoLA, WNLI, SST-2, RTE, CommonsenseQA and LAMA: plain, KAM, placebo; three seeds, paired.

Counts the term correlation in open corpora, runs the benches of settings/minilm*.toml with two workers (finished cells
are never computed again), and keeps tables as results/tasks.json and pictures in docs/images. For LAMA it needs the
masked-word head of `python benchmarks/masked_head.py`. Hours on two cores; stop it at any time and go on later.

    python benchmarks/tasks.py                          # all; needs shared/data
    python benchmarks/tasks.py minilm minilm-parts
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

from support.measuring import write_result

from infuser import assets
from infuser.experiments.grid import read_results, run_bench
from infuser.experiments.settings import Bench, read_bench
from infuser.experiments.summary import summarise
from infuser.experiments.sweeps import Sweep, plots_of
from infuser.files import write_whole
from infuser.knowledge.candidates.mention_rule import STOP_WORDS
from infuser.knowledge.counting import Counting
from infuser.knowledge.counting.build import build_correlation
from infuser.reports.bench_plots import write_png
from infuser.reports.bench_table import markdown_table

ROOT = Path(__file__).resolve().parents[1]
CORPORA = ROOT.parent / "shared" / "data" / "corpora"
RESULT = Path(__file__).parent / "results" / "tasks.json"
RUN, PMI = ROOT / "runs" / "minilm", ROOT / "runs" / "knowledge" / "pmi"
BENCHES = ("minilm", "minilm-parts", "minilm-lama", "minilm-rates")


def count_company() -> None:
    """Count which words of open corpora keep each other's company; LAMA's evidence sentences are not among them."""
    if PMI.exists():
        return
    wikitext = PMI.parent / "wikitext-2.txt"
    wikitext.parent.mkdir(parents=True, exist_ok=True)
    wikitext.write_bytes(gzip.decompress((assets.fetch("wikitext-2") / "train.raw.gz").read_bytes()))
    others = [CORPORA / part for part in ("abc", "state_union", "inaugural", "webtext")]
    build_correlation([wikitext, *others], PMI, Counting(stop_words=STOP_WORDS), format="text")


def choose_masked_texts() -> None:
    """Write sentences of WikiText-2's validation part, which the masked-word head has not learned from."""
    raw = gzip.decompress((assets.fetch("wikitext-2") / "valid.raw.gz").read_bytes()).decode("utf-8")
    lines = re.sub(r" @([-,.])@ ", r"\1", raw).splitlines()
    paragraphs = [" ".join(line.split()) for line in lines if not line.startswith(" =")]
    sentences = [one for text in paragraphs for one in text.split(" . ") if 12 <= len(one.split()) <= 40]
    chosen = random.Random(0).sample(sentences, 400)
    write_whole(PMI.parent / "masked-texts.txt", "".join(f"{one} .\n" for one in chosen))


def kept(bench: Bench) -> dict[str, Any]:
    """Return the table of a bench and what is worth keeping of its cells: everything but the answers themselves."""
    results = read_results(RUN, bench)
    table = summarise(bench, results)
    print(markdown_table(table))
    for plot in plots_of(table):
        write_png(plot, ROOT / "docs" / "images" / f"bench_{'sweep' if isinstance(plot, Sweep) else 'ablation'}.png")
    cells = [{name: one[name] for name in one if name not in ("golds", "predictions", "settings")} for one in results]
    return {"table": json.loads(table.to_json()), "settings": {**bench.to_json(), "folder": "."}, "cells": cells}


def main() -> None:
    """Run what is missing, print the tables and keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benches", nargs="*", default=BENCHES, help="which of settings/*.toml")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tables", action="store_true", help="train nothing: tables of what is finished")
    given = parser.parse_args()
    if not given.tables:
        count_company()
        choose_masked_texts()
    done = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    for name in given.benches:
        bench = read_bench(Path(__file__).parent / "settings" / f"{name}.toml")
        if not given.tables:
            run_bench(
                bench,
                RUN,
                workers=given.workers,
                progress=lambda cell, report: None if report else print(f"{cell}: done", flush=True),
            )
        done[name] = kept(bench)
        write_result(RESULT, done)


if __name__ == "__main__":
    main()
