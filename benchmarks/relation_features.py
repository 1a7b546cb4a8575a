"""Attention features: ours against the encoder's own eager forward and against a literal implementation.

    ours      SpanReader: spans placed, attention pooled by matrix products inside a hook, whole batches
    eager     the same batches through the encoder with attn_implementation="eager", and nothing but tokenising
    literal   one sentence at a time, loops over triples, layers, heads and subwords (literal_features.py in the tests)

The three are timed in turn within each round; ratios are of the fastest rounds. The literal way reads fewer sentences,
and its time is counted per sentence. Memory: the highest resident size of a process that streams N sentences to a file,
for growing N, with a miniature encoder, so that a million can be read.

    python benchmarks/relation_features.py                        # some minutes
    python benchmarks/relation_features.py --memory 10000 1000000
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from support.measuring import about, fastest, in_new_process, memory_mb, write_result

from infuser import assets
from infuser.hosts import answering
from infuser.hosts.loading import load_model, load_tokenizer
from infuser.relations.examples import RelationText, Triple
from infuser.relations.features import SpanReader, write_features
from infuser.types import Span

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "relations"))
from literal_features import literal_features
from miniatures import TEXTS, tiny_host, tiny_tokenizer

RESULT = Path(__file__).parent / "results" / "relation_features.json"
TARGETS = {"times the eager forward": 1.3, "times faster than literal": 20.0}


def sentences(n_texts: int, n_words: int, n_triples: int) -> list[RelationText]:
    """Return sentences of random known words and random triples in them.

    A sentence of T-REx has 36 tokens; 1.3 triples are known in it, and an extraction asks about some 250, made of 13
    spans and 4 triggers. Spans have 2.6 tokens there, triggers 1.4: here one to four words, and one or two.
    """
    rng = np.random.default_rng(0)
    known = sorted(word for word in load_tokenizer(_minilm()).get_vocab() if word.isalpha() and len(word) > 3)
    texts = []
    for _ in range(n_texts):
        words = rng.choice(known, n_words).tolist()
        starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
        spans, triggers = (
            [_span(starts, words, int(rng.integers(n_words - 4)), int(rng.integers(1, most + 1))) for _ in range(n)]
            for n, most in ((n_words * 13 // 34, 4), (n_words * 4 // 34, 2))
        )
        triples = [
            Triple(*(spans[at] for at in rng.choice(len(spans), 2, replace=False)), "R", triggers[at_trigger])
            for at_trigger in rng.integers(len(triggers), size=n_triples).tolist()
        ]
        texts.append(RelationText(" ".join(words), tuple(triples)))
    return texts


def _minilm() -> str:
    return str(assets.fetch("minilm"))


def _span(starts: Any, words: Sequence[str], at: int, n_words: int) -> Span:
    last = at + n_words - 1
    return Span(int(starts[at]), int(starts[last]) + len(words[last]))


def measure(n_words: int, n_triples: int, rounds: int, n_texts: int, n_literal: int) -> dict[str, float]:
    """Return the fastest seconds per sentence of the three ways."""
    model, tokenizer = load_model(_minilm(), "encoder").eval(), load_tokenizer(_minilm())
    model.set_attn_implementation("eager")
    texts = sentences(n_texts, n_words, n_triples)
    reader = SpanReader(model, tokenizer)
    order = sorted(texts, key=lambda text: -len(text.text))

    def eager() -> None:
        with answering(model):
            for first in range(0, len(order), reader.batch_size):
                some = [text.text for text in order[first : first + reader.batch_size]]
                model(**tokenizer(some, padding=True, truncation=True, return_tensors="pt"))

    some = texts[:n_literal]
    ways = {
        "ours": lambda: reader.read(texts),
        "eager": eager,
        "literal": lambda: literal_features(model, tokenizer, some),
    }
    n_read = {"ours": n_texts, "eager": n_texts, "literal": n_literal}
    each = {name: seconds / n_read[name] for name, seconds in fastest(ways, rounds).items()}
    apart = np.abs(reader.read(some).values - literal_features(model, tokenizer, some)[0]).max()
    return {
        "words": n_words,
        "triples": n_triples,
        **{f"{name}, ms": seconds * 1000 for name, seconds in each.items()},
        "times the eager forward": each["ours"] / each["eager"],
        "times faster than literal": each["literal"] / each["ours"],
        "largest difference": float(apart),
    }


def stream(n_texts: int) -> None:
    """Write the features of many sentences to a file, and print the highest resident size and the seconds."""
    torch.set_num_threads(1)
    reader = SpanReader(tiny_host("bert").eval(), tiny_tokenizer("bert"))

    def many() -> Iterator[RelationText]:
        for place in range(n_texts):
            text = TEXTS[place % len(TEXTS)]
            words = text.split()
            first, last = Span(0, len(words[0])), Span(len(text) - len(words[-1]), len(text))
            yield RelationText(text, (Triple(first, last, "R", first),))

    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = write_features(reader, many(), Path(folder) / "features.npy")
        assert len(found.readable) == n_texts
    print(json.dumps({"sentences": n_texts, "MB": memory_mb(), "seconds": time.perf_counter() - started}))


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--literal", type=int, default=16, help="sentences that the literal way reads in a round")
    parser.add_argument("--memory", type=int, nargs="*", default=[2_000, 20_000, 100_000])
    parser.add_argument("--stream", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stream:
        stream(given.stream)
        return
    shapes = [(34, 1), (34, 20), (34, 250), (128, 250)]
    rows = []
    for n_words, n_triples in shapes:
        n_texts = max(32, given.texts * 34 // n_words)
        n_literal = max(2, given.literal // max(1, n_triples // 16))
        row = measure(n_words, n_triples, given.rounds, n_texts, n_literal)
        rows.append(row)
        print("  ".join(f"{name} {value:.4g}" for name, value in row.items()), flush=True)
    memory = []
    for n_texts in given.memory:
        memory.append(in_new_process(__file__, "--stream", n_texts))
        print(memory[-1], flush=True)
    facts = about("torch", threads=torch.get_num_threads())
    write_result(RESULT, {"rows": rows, "memory": memory, "targets": TARGETS, "about": facts})


if __name__ == "__main__":
    main()
