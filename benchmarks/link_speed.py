"""How fast texts are linked end to end, and what candidates and KAR cost on top of the encoder alone.

The same windows of real text go through, in turn and several rounds,

    plain        the tokenizer and the whole encoder, nothing else
    infused      the same with a knowledge base: candidates are found, their vectors read, KAR runs behind its block
    link         `find_mentions`: candidates, vectors, the encoder as far as its linker stands, mentions with all scores

"on top" is infused / plain - 1. A second table says where the time of `infused` goes: finding candidates, making
tensors (tokens, spans, vectors), the encoder, KAR. Machines are noisy: the fastest round of each counts.

    python benchmarks/link_speed.py     # with the knowledge base of benchmarks/linking.py, built if need be
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import linking
import torch
from support.measuring import about, fastest, write_result

from infuser import Collator, EntityVectors, Kar, KnowledgeBase, assets, infuse
from infuser.linking.inference import find_mentions
from infuser.signals.windows import cut_windows

RESULT = Path(__file__).parent / "results" / "link_speed.json"


def texts(n: int) -> list[str]:
    """Return paragraphs of news and Wikipedia as people would link them."""
    files = sorted((linking.SHARED / "linking").glob("*fair*.benchmark.jsonl"))
    documents = [json.loads(line)["text"] for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    parts = [text[start:end] for text in documents for start, end in cut_windows(text, 100)]
    random.Random(0).shuffle(parts)
    return parts[:n]


def shorter(vectors: EntityVectors, dim: int) -> EntityVectors:
    """Return vectors with so many numbers each; for speed it does not matter which."""
    import numpy as np

    rows = np.arange(len(vectors))
    return EntityVectors.of([vectors.id_of(row) for row in rows.tolist()], vectors.take(rows)[:, :dim])


class Parts:
    """Adds up the seconds of parts of the work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call with its time taken."""

        def take_time(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - start

        return take_time


def run_encoder(model: Any, collate: Collator, batches: Sequence[Sequence[str]]) -> None:
    """Read batches of texts with an encoder, with whatever knowledge the collator brings."""
    encoder = model.base_model
    with torch.inference_mode():
        for some in batches:
            encoder(**collate.encode(some))


def measure(base: KnowledgeBase, parts: list[str], rounds: int, batch_size: int) -> dict[str, Any]:
    """Return the fastest of several rounds of each way, and the share of each part."""
    checkpoint = str(assets.fetch("minilm"))
    infused = infuse(checkpoint, Kar(), sources=[base])
    infused.model.eval()
    ordered = sorted(parts, key=len)
    batches = [ordered[first : first + batch_size] for first in range(0, len(ordered), batch_size)]
    bare, knowing = Collator(infused.tokenizer, max_length=512), infused.collator()
    ways: dict[str, Callable[[], Any]] = {
        "plain": lambda: run_encoder(infused.model, bare, batches),
        "infused": lambda: run_encoder(infused.model, knowing, batches),
        "link": lambda: find_mentions(infused, parts, batch_size=batch_size),
    }
    best = fastest(ways, rounds, warm_up=1)  # what is cached is cached for all rounds, as in a long run
    n_words = sum(len(text.split()) for text in parts)
    found = find_mentions(infused, parts)
    return {
        "dim": base.dim,
        "texts": len(parts),
        "words": n_words,
        "mentions": sum(map(len, found)),
        "candidates": sum(len(mention.candidates) for of_text in found for mention in of_text),
        "seconds": {name: round(seconds, 3) for name, seconds in best.items()},
        "words_per_second": {name: round(n_words / seconds) for name, seconds in best.items()},
        "on_top": round(best["infused"] / best["plain"] - 1, 3),
        "link_against_plain": round(best["link"] / best["plain"], 3),
        "shares": shares(infused, knowing, base, batches),
    }


def shares(infused: Any, knowing: Collator, base: KnowledgeBase, batches: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return which share of one infused round each part takes."""
    told = Parts()
    [layer] = [layer for _, layer in infused.model.base_model.knowledge.items()]
    layer_call, annotate = layer.forward, base.candidates.annotate
    layer.forward = told.timed("KAR", layer_call)
    object.__setattr__(base.candidates, "annotate", told.timed("candidates", annotate))
    start = time.perf_counter()
    encode = told.timed("collate", knowing.encode)
    with torch.inference_mode():
        for some in batches:
            batch = encode(some)
            infused.model.base_model(**batch)
    total = time.perf_counter() - start
    layer.forward = layer_call
    object.__delattr__(base.candidates, "annotate")
    seconds = told.seconds
    tensors = seconds["collate"] - seconds["candidates"]
    encoder = total - seconds["collate"] - seconds["KAR"]
    named = {"encoder": encoder, "KAR": seconds["KAR"], "candidates": seconds["candidates"], "tensors": tensors}
    return {name: round(value / total, 3) for name, value in named.items()}


def main() -> None:
    """Print and store the tables for long and for short vectors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=linking.WORK, help="folder of benchmarks/linking.py")
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args()
    torch.set_num_threads(2)
    options.work.mkdir(parents=True, exist_ok=True)
    known = linking.wikidata_set(options.work, 6_000).base
    candidates, whole = known.candidates, known.store
    parts = texts(options.texts)
    results = []
    for vectors in (shorter(whole, 100), whole):
        base = KnowledgeBase(candidates, vectors)
        results.append(measure(base, parts, options.rounds, options.batch_size))
        print(json.dumps(results[-1], indent=1), flush=True)
    write_result(RESULT, about(threads=2, runs=results))


if __name__ == "__main__":
    main()
