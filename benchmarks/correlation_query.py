"""Asking a table of 100,000 words: maps and the 20 best terms for 32 texts of 64 words, ours against plain SciPy.

    python benchmarks/correlation_query.py                     as in the docs: a corpus of 24 M words (some minutes)
    python benchmarks/correlation_query.py --millions 3        smaller

The corpus is generated from a real one's statistics (see generated_corpus.py), counted and scored by ours with the
usual settings (sentences, normalised PMI) and the 100,000 most frequent words. Texts are stretches of it, so their
words are as frequent as there. Twice: each word holds its 100 strongest ties, as usual; and it holds all, where "the"
is tied to much of the vocabulary.

SciPy's way slices the same matrix per text, W[rows] and W[rows][:, rows], adds the rows up and takes the 20 largest
sums with argpartition. Its maps and sums must be ours. Every round asks another batch, all sides the same one in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from support.generated_corpus import real_sentences, write_corpus
from support.measuring import about, in_new_process, timed, write_result

from infuser import Correlation
from infuser.knowledge.artifact import whole
from infuser.knowledge.correlation.scores import Scoring
from infuser.knowledge.correlation.store import CorrelationStore
from infuser.knowledge.counting import Counting
from infuser.knowledge.counting.build import build_correlation
from infuser.words import find_words

RESULTS = Path(__file__).parent / "results"
N_TEXTS, N_WORDS, N_TERMS = 32, 64, 20


class Plain:
    """The same questions, asked of a SciPy matrix text by text."""

    def __init__(self, store: CorrelationStore) -> None:
        parts, n_words = store._parts, store.n_words
        begins = whole(parts["ties.begins"]).astype(np.int32)
        arrays = (whole(parts["ties.weights"]), whole(parts["ties.columns"]), begins)
        self._matrix = csr_array(tuple(np.array(array) for array in arrays), shape=(n_words, n_words))
        self._number = {store.table.word(number): number for number in range(n_words)}

    def ask(self, texts: list[list[str]]) -> list[tuple[Any, Any, Any]]:
        answers = []
        for words in texts:
            rows = sorted({self._number[word] for word in words if word in self._number})
            chosen = self._matrix[rows]
            sums = chosen.sum(axis=0)
            sums[rows] = 0
            best = np.argpartition(sums, -N_TERMS)[-N_TERMS:]
            among = chosen[:, rows].toarray()
            answers.append((np.maximum(among, among.T), best, sums[best]))
        return answers


def batches_of(corpus: Path, n_batches: int) -> list[list[str]]:
    """Return batches of texts: stretches of so many words, from all over the corpus."""
    with corpus.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        texts = []
        for place in np.linspace(0, size - 100_000, n_batches * N_TEXTS).astype(int).tolist():
            file.seek(place)
            words = file.read(N_WORDS * 20).decode("utf-8", "ignore").split()[1 : N_WORDS + 1]
            texts.append(" ".join(words))
    return [texts[start::n_batches] for start in range(n_batches)]


def time_batches(sides: dict[str, Callable[[Any], Any]], batches: list[Any]) -> dict[str, dict[str, float]]:
    """Return milliseconds per batch of each side, the sides in turn."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for batch in batches:
        for name, ask in sides.items():
            began = time.perf_counter()
            ask(batch)
            taken[name].append(1e3 * (time.perf_counter() - began))
    return {name: {"median": statistics.median(all_), "fastest": min(all_)} for name, all_ in taken.items()}


def folded(batch: list[str]) -> list[list[str]]:
    """Return the words of texts."""
    return [[word.folded for word in find_words(text)] for text in batch]


def agree(store: CorrelationStore, plain: Plain, batch: list[str]) -> bool:
    """Return whether both ways find the same maps and the same largest sums."""
    texts = folded(batch)
    for ours, (weights, _, sums) in zip(
        store.correlate([[text] for text in texts], N_TERMS), plain.ask(texts), strict=True
    ):
        if not np.array_equal(ours.weights, weights):
            return False
        if not np.allclose(np.sort(ours.ties.sum(axis=0)), np.sort(sums)[-len(ours.terms) :], rtol=1e-5):
            return False
    return True


def opened(folder: Path) -> dict[str, float]:
    """Return what opening and the first batch take in a process of its own, in milliseconds."""
    answer: dict[str, float] = in_new_process(__file__, "--open", folder)
    return answer


def tell_opening(folder: Path) -> None:
    """Open a folder, ask it for the first time, and print what that took."""
    Correlation({("a", "b"): 1.0}, n_terms=1).annotate(["a"])  # first use of the libraries is not the folder's cost
    began = time.perf_counter()
    store = CorrelationStore.open(folder)
    ready = time.perf_counter()
    store.correlate([[[store.table.word(number) for number in range(0, 6400, 100)]]] * N_TEXTS, N_TERMS)
    print(json.dumps({"open_ms": 1e3 * (ready - began), "first_batch_ms": 1e3 * (time.perf_counter() - ready)}))


def compare(corpus: Path, folder: Path, max_ties: int, rounds: int) -> dict[str, Any]:
    """Build one table and return its figures."""
    settings = Counting(max_words=100_000), Scoring(max_ties=max_ties)
    built, store = timed(lambda: build_correlation([corpus], folder, *settings))
    batches, plain = batches_of(corpus, rounds), Plain(store)
    source = Correlation.load(folder, n_terms=N_TERMS)
    for batch in batches[:3]:
        if not agree(store, plain, batch):
            raise SystemExit("the two ways do not agree")
    words = [folded(batch) for batch in batches]
    milliseconds = time_batches(
        {
            "ours": lambda batch: store.correlate([[text] for text in batch[1]], N_TERMS),
            "ours, from strings": lambda batch: store.correlate([[text] for text in folded(batch[0])], N_TERMS),
            "ours, the map alone": lambda batch: store.correlate([[text] for text in batch[1]]),
            "ours, as annotations": lambda batch: source.annotate(batch[0]),
            "scipy": lambda batch: plain.ask(batch[1]),
        },
        list(zip(batches, words, strict=True)),
    )
    known = [[store.table.nodes_of(text) for text in batch] for batch in words]
    distinct = [len({node for node in text if node >= 0}) for batch in known for text in batch]
    n_held = len(store.table.columns)
    print(f"{store.n_words:,} words that hold {n_held:,} ties, {statistics.mean(distinct):.0f} known words per text")
    for name, one in milliseconds.items():
        print(f"  {name:22s}{one['median']:8.1f} ms median {one['fastest']:8.1f} ms fastest", flush=True)
    return {
        "words": store.n_words,
        "ties": store.n_ties,
        "ties_held_per_word": n_held / store.n_words,
        "distinct_known_words_per_text": statistics.mean(distinct),
        "build_seconds": built,
        "folder_mb": sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        **{name: [one[name] for one in [opened(folder) for _ in range(5)]] for name in ("open_ms", "first_batch_ms")},
        "milliseconds_per_batch": milliseconds,
        "scipy_takes_times_ours": milliseconds["scipy"]["median"] / milliseconds["ours"]["median"],
    }


def main() -> None:
    """Run the comparison and write its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=float, default=24)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path, default=RESULTS / "correlation_query.json")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.open:
        tell_opening(chosen.open)
        return
    name, sentences = real_sentences()
    with tempfile.TemporaryDirectory() as workshop:
        corpus = Path(workshop) / "corpus.txt"
        n_tokens = write_corpus(corpus, sentences, int(chosen.millions * 1e6))
        report = {
            "corpus": {"like": name, "words": n_tokens},
            "batch": {"texts": N_TEXTS, "words": N_WORDS, "terms": N_TERMS},
            "100 ties": compare(corpus, Path(workshop) / "some", 100, chosen.rounds),
            "all ties": compare(corpus, Path(workshop) / "all", 0, chosen.rounds),
            "machine": about(load=os.getloadavg()),
        }
    write_result(chosen.out, report)


if __name__ == "__main__":
    main()
