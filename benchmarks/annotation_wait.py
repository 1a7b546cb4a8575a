"""How long training waits for its next batch: annotations kept on disk, against sources asked in every epoch.

The encoder is MiniLM infused with KAM and three sources: entities and noun chunks of spaCy's small English pipeline,
and the WordNet graph. Texts are glosses of WordNet, three to a text. The loop is plain: a DataLoader with `Collator`,
forward, backward, AdamW, 32 texts per batch. Waiting is the time inside `next(batches)`: reading the folder, tokenising
and aligning included, the start of each epoch too. Both ways see the same texts in the same order.

    python benchmarks/annotation_wait.py                # some minutes
    python benchmarks/annotation_wait.py --steps 10     # a quick look
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from support.measuring import about, timed, write_result
from torch.utils.data import DataLoader

from infuser import Collator, Graph, Kam, assets, infuse
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import save_graph
from infuser.knowledge.readers.wordnet import read_synsets, read_wordnet
from infuser.registry import SOURCES
from infuser.sources.annotating import annotate
from infuser.types import Source

BATCH = 32
EPOCHS = 2
TARGET = 0.05
"""The share of waiting that we want to stay below, with annotations kept."""


def make_texts(n: int) -> list[str]:
    """Return texts of three glosses each, spread over WordNet."""
    glosses = [synset.gloss for synset in read_synsets(assets.fetch("wordnet")).values()]
    stride = len(glosses) // (3 * n)
    chosen = glosses[:: max(stride, 1)][: 3 * n]
    return [". ".join(chosen[at : at + 3]) for at in range(0, len(chosen), 3)]


def make_sources(folder: Path) -> list[Source]:
    """Return what is asked: two readings of a spaCy pipeline, and a graph of 117,659 meanings."""
    save_graph(build_graph(read_wordnet(assets.fetch("wordnet"))), folder / "wordnet")
    return [SOURCES["spacy-entities"](), SOURCES["spacy-phrases"](), Graph(folder / "wordnet")]


def train(model: Any, collator: Collator, examples: Sequence[Any], n_workers: int) -> dict[str, float]:
    """Train for some epochs and return the seconds of waiting and of everything."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    model.train()
    waited = 0.0
    began = time.perf_counter()
    for epoch in range(EPOCHS):
        order = torch.Generator().manual_seed(epoch)
        loader = DataLoader(
            examples,  # type: ignore[arg-type]
            batch_size=BATCH,
            shuffle=True,
            generator=order,
            collate_fn=collator,
            num_workers=n_workers,
        )
        asked = time.perf_counter()
        for batch in loader:
            waited += time.perf_counter() - asked
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            asked = time.perf_counter()
        waited += time.perf_counter() - asked
    return {"waited_s": waited, "seconds": time.perf_counter() - began}


def main() -> None:
    """Measure every way and print and write the shares of waiting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30, help="steps per epoch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "annotation_wait.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    load = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts, sources = make_texts(options.steps * BATCH), make_sources(folder)
        for source in sources:
            source.annotate(texts[:BATCH])  # load pipelines before any clock runs
        first_s, kept = timed(lambda: annotate(texts, sources, folder / "out", cache=folder / "cache"))
        again_s, _ = timed(lambda: annotate(texts, sources, folder / "again", cache=folder / "cache"))
        n_bytes = sum(path.stat().st_size for path in (folder / "out").iterdir())

        infused = infuse(
            str(assets.fetch("minilm")), Kam(), sources=sources, task="sequence-classification", num_labels=2
        )
        collator = infused.collator()
        n_tokens = float(collator.encode(texts[:256])["attention_mask"].sum(1).float().mean())
        labels = [number % 2 for number in range(len(texts))]
        ways: dict[str, Sequence[Any]] = {
            "kept": kept.with_labels(labels),
            "asked": [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)],
        }
        train(infused.model, collator, ways["kept"][: 2 * BATCH], 0)  # warm up
        print(f"{len(texts):,} texts of {n_tokens:.0f} tokens, {EPOCHS} epochs, batches of {BATCH}")
        size = f"{n_bytes / len(texts):.0f} bytes per text"
        print(f"annotated in {first_s:.1f} s, from the cache in {again_s:.1f} s; {size}")
        rows = []
        for way, examples in ways.items():
            for n_workers in (0, 1):
                row = {"way": way, "workers": n_workers, **train(infused.model, collator, examples, n_workers)}
                row["share"] = row["waited_s"] / row["seconds"]
                row["texts_per_s"] = EPOCHS * len(texts) / row["seconds"]
                rows.append(row)
                wanted = f"  target < {TARGET:.0%}" if way == "kept" else ""
                print(
                    f"{way:<6} workers={n_workers}  waits {row['share']:6.2%} of {row['seconds']:6.1f} s, "
                    f"{row['texts_per_s']:5.1f} texts/s{wanted}",
                    flush=True,
                )
    load.append(os.getloadavg()[0])
    facts = {
        "threads": options.threads,
        "load_before_and_after": load,
        "encoder": "minilm",
        "sources": ["spacy-entities", "spacy-phrases", "graph (WordNet)"],
        "texts": len(texts),
        "tokens_per_text": n_tokens,
        "epochs": EPOCHS,
        "batch": BATCH,
        "annotate_s": first_s,
        "annotate_again_s": again_s,
        "bytes_per_text": n_bytes / len(texts),
        "target_share": TARGET,
    }
    write_result(options.out, {"about": about("torch", **facts), "rows": rows})


if __name__ == "__main__":
    main()
