"""How long it takes to weigh and draw the entities of 100,000 texts, and how that grows with the number of texts.

Real sentences (Wikipedia's of T-REx where they are, else WordNet's glosses, repeated if need be), with the graph
of WordNet as the source and the graph of hops. Texts are annotated first, which every training needs; then

    weigh     document frequencies and who of a text's entities is within 6 hops of whom (`Sampling.select`)
    instead   the same hops by `GraphStore.within` text by text, as for a single text, on a part of the texts
    draw      what one epoch injects (`Sampling.draw`)

Seconds are those of the processor, so that other work on the machine counts little; the wall clock stands beside them.

    python benchmarks/selection.py
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from support.generated_corpus import real_sentences
from support.measuring import about, memory_mb, write_result

from infuser import Graph, assets
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import save_graph
from infuser.knowledge.readers import read_facts
from infuser.sources import Sampling
from infuser.sources.entity_statistics import count_entities
from infuser.tables.skipped import Skipped
from infuser.types import Annotations, entity_key

RESULT = Path(__file__).parent / "results" / "selection.json"
WORK = Path(__file__).resolve().parents[1] / "runs" / "selection"
SIZES = (10_000, 100_000)
N_SLOW = 500


class Clock:
    """Seconds of the processor and of the wall since it was made."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def read(self) -> dict[str, float]:
        """Return both."""
        return {"cpu": time.process_time() - self._cpu, "wall": time.perf_counter() - self._wall}


def wordnet(work: Path) -> Graph:
    """Return WordNet's graph, built into a folder once."""
    folder = work / "wordnet"
    if not folder.exists():
        save_graph(build_graph(read_facts(assets.fetch("wordnet"), Skipped(), format="wordnet")), folder)
    return Graph(folder)


def by_text(graph: Graph, found: list[Annotations], hops: int) -> list[int]:
    """Return how many entities are near to each, asked for one text after another."""
    near = []
    for one in found:
        keys = list(dict.fromkeys(entity_key(one.text, span) for span in one.spans))
        numbers = graph.graph_store.numbers_of(keys)
        known = numbers[numbers >= 0]
        if len(known):
            near += (graph.graph_store.within(known, hops).sum(axis=1) - 1).tolist()
    return near


def measure(graph: Graph, texts: list[str]) -> dict[str, Any]:
    """Return the seconds of each part for these texts."""
    clock = Clock()
    found = graph.annotate(texts)
    told: dict[str, Any] = {"texts": len(texts), "annotate": clock.read()}
    counts = count_entities([one] for one in found)
    sampling = Sampling(frequencies=counts)
    clock = Clock()
    weighed = sampling.select(found, graph)
    told["weigh"] = clock.read()
    clock = Clock()
    drawn = [sampling.draw(one, epoch=0) for one in weighed]
    told["draw"] = clock.read()
    told["entities per text"] = float(np.mean([len(set(one.spans)) for one in found]))
    told["kept"] = sum(map(sum, drawn)) / sum(map(len, drawn))
    clock = Clock()
    by_text(graph, found[:N_SLOW], sampling.hops)
    told["instead, per text"] = clock.read()["cpu"] / N_SLOW
    told["weigh, per text"] = told["weigh"]["cpu"] / len(texts)
    told["peak MB"] = memory_mb()
    return told


def main() -> None:
    """Measure all sizes and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=WORK)
    given = parser.parse_args()
    name, sentences = real_sentences()
    graph = wordnet(given.work)
    rows = []
    for size in SIZES:
        texts = (sentences * (size // len(sentences) + 1))[:size]
        rows.append(measure(graph, texts))
        row = rows[-1]
        seconds = "  ".join(
            f"{part} {row[part]['cpu']:.1f} s ({row[part]['wall']:.1f})" for part in ("annotate", "weigh", "draw")
        )
        print(
            f"{size:,} texts of {row['entities per text']:.1f} entities: {seconds}; weighing takes "
            f"{1e3 * row['weigh, per text']:.2f} ms a text, text by text {1e3 * row['instead, per text']:.2f} ms "
            f"({row['instead, per text'] / row['weigh, per text']:.1f}x); peak {row['peak MB']:.0f} MB",
            flush=True,
        )
    largest = rows[-1]
    total = sum(largest[part]["cpu"] for part in ("weigh", "draw"))
    print(f"selection for {largest['texts']:,} texts: {total:.1f} s (target < 60 s)")
    result = {
        "what": "seconds to weigh and draw the entities of texts",
        "corpus": name,
        "graph": "WordNet, 117,659 entities",
        "rows": rows,
        "selection of 100,000 texts": total,
        "versions": about("numpy"),
    }
    write_result(RESULT, result)


if __name__ == "__main__":
    main()
