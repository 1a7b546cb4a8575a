"""Counting a corpus: ours against NLTK, scikit-learn and gensim, in one run; and how ours grows with the corpus.

    python benchmarks/correlation.py                      as in the docs: up to 100 M words, some ten minutes
    python benchmarks/correlation.py --sizes 1 3          a quick look: 1 and 3 million words

Each side is a process of its own that reads the same file and counts the same thing, every word and every pair; sides
take turns, several rounds, the fastest counts. Ours works with all cores, its start included. It is timed twice: until
the counts are there, which is where the others end, and until the folder with the scores is. NLTK and gensim get words
cut by a regular expression, the fastest way there is in Python. Memory is the peak of what all processes of a side hold
themselves, without mapped files, looked at 50 times a second.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from support.measuring import about, write_result

RESULTS = Path(__file__).parent / "results"
WORD = re.compile(r"\w+")
ROUNDS = 3
MILLION = 1_000_000


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file in lower case."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield line.lower()


def ours(path: Path, unit: str, window: int, least: int) -> dict[str, Any]:
    """Build the whole folder."""
    from infuser.knowledge.counting import Counting
    from infuser.knowledge.counting.build import build_correlation

    phases: dict[str, float] = {}
    last = ["start", time.perf_counter()]

    def progress(what: str, done: int, total: int | None) -> None:
        if what != last[0]:
            phases[last[0]] = phases.get(last[0], 0.0) + time.perf_counter() - last[1]
            last[:] = [what, time.perf_counter()]

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        counting = Counting(unit=unit, window=window, min_count=least, min_pairs=least, max_words=10_000_000)
        store = build_correlation([path], Path(folder) / "out", counting, progress=progress)
        progress("end", 0, None)
        size = sum(file.stat().st_size for file in (Path(folder) / "out").iterdir())
    return {
        "tokens": store.about["n_tokens"],
        "words": store.n_words,
        "pairs": store.n_pairs,
        "seconds until the folder": sum(phases.values()),
        "seconds per phase": phases,
        "folder MB": size / 1e6,
    }


def nltk_windows(path: Path, unit: str, window: int, least: int) -> dict[str, Any]:
    """Count windows with NLTK; texts are kept apart as its from_documents does it."""
    from nltk.collocations import BigramCollocationFinder as Finder

    documents = (WORD.findall(line) for line in lines_of(path))
    finder = Finder.from_words(Finder._build_new_documents(documents, window, pad_right=True), window_size=window)
    pairs = {tuple(sorted(pair)) for pair in finder.ngram_fd}
    return {"tokens": finder.N, "words": len(finder.word_fd), "pairs": len(pairs)}


def sklearn_product(path: Path, unit: str, window: int, least: int) -> dict[str, Any]:
    """Count documents with CountVectorizer and the product of its matrix with itself."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectors = CountVectorizer(binary=True, token_pattern=r"\w+").fit_transform(lines_of(path))
    product = vectors.T @ vectors
    product.setdiag(0)
    product.eliminate_zeros()
    return {"tokens": 0, "words": vectors.shape[1], "pairs": product.nnz // 2}


def gensim_phrases(path: Path, unit: str, window: int, least: int) -> dict[str, Any]:
    """Count neighbours with gensim's Phrases, scored by NPMI."""
    from gensim.models.phrases import Phrases

    sentences = (WORD.findall(line) for line in lines_of(path))
    phrases = Phrases(sentences, min_count=1, threshold=-1.0, scoring="npmi", max_vocab_size=1 << 40)
    n_pairs = sum(1 for key in phrases.vocab if phrases.delimiter in key)
    return {"tokens": phrases.corpus_word_count, "words": len(phrases.vocab) - n_pairs, "pairs": n_pairs}


SIDES = {"infuser": ours, "NLTK": nltk_windows, "scikit-learn": sklearn_product, "gensim": gensim_phrases}


def held_by(process: psutil.Process) -> int:
    """Return how many bytes a process and its children hold themselves, without mapped files."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            memory = one.memory_info()
            total += memory.rss - memory.shared
        except psutil.Error:  # it has just ended
            continue
    return total


def measure(side: str, path: Path, unit: str, window: int, least: int = 1) -> dict[str, Any]:
    """Run one side in a process of its own; seconds without the start of Python."""
    command = [sys.executable, __file__, "--child", side, str(path), unit, str(window), str(least)]
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        watched = psutil.Process(child.pid)
        while child.poll() is None:
            peak = max(peak, held_by(watched))
            time.sleep(0.02)
        said = child.stdout.read() if child.stdout else ""
    if child.returncode:
        raise SystemExit(f"{side} failed")
    return {**json.loads(said.splitlines()[-1]), "peak MB": peak / 1e6}


def compare(path: Path, unit: str, window: int, other: str, rounds: int = ROUNDS) -> dict[str, Any]:
    """Let two sides count the same file in turn; the fastest round of each counts."""
    runs: dict[str, list[dict[str, Any]]] = {"infuser": [], other: []}
    for _ in range(rounds):
        for side, found in runs.items():
            found.append(measure(side, path, unit, window))
    best = {side: min(found, key=lambda one: one["seconds"]) for side, found in runs.items()}
    n_tokens = best["infuser"]["tokens"]
    for side, one in best.items():
        one["tokens/s"] = n_tokens / one["seconds"]
        one["peak MB"] = max(run["peak MB"] for run in runs[side])
    ratio = best[other]["seconds"] / best["infuser"]["seconds"]
    whole = best[other]["seconds"] / best["infuser"]["seconds until the folder"]
    what = f"windows of {window}" if unit == "window" else f"{unit}s"
    print(f"{what}, {n_tokens:,} words")
    for side, one in best.items():
        print(
            f"  {side:13s}{one['tokens/s']:>12,.0f} words/s {one['peak MB']:>8,.0f} MB   {one['words']:,} words, "
            f"{one['pairs']:,} pairs"
        )
    print(f"  ours is {ratio:.1f}x as fast as {other}, with its folder {whole:.1f}x", flush=True)
    return {"unit": unit, "window": window, "ratio": ratio, "ratio with the folder": whole, **best}


def grow(folder: Path, sentences: list[str], sizes: list[int]) -> list[dict[str, Any]]:
    """Count ever larger generated corpora, with a usual vocabulary."""
    from support.generated_corpus import write_corpus

    rows = []
    for millions in sizes:
        path = folder / "generated.txt"
        write_corpus(path, sentences, millions * MILLION)
        row = measure("infuser", path, "window", 5, least=5)
        cores = os.cpu_count() or 1
        seconds = row["seconds until the folder"]
        row |= {"tokens/s": row["tokens"] / seconds, "tokens/s per core": row["tokens"] / seconds / cores}
        print(
            f"{row['tokens']:>12,} words, {path.stat().st_size / 1e6:,.0f} MB: {seconds:.1f} s, "
            f"{row['tokens/s per core']:,.0f} words/s per core, peak {row['peak MB']:,.0f} MB; kept {row['words']:,} "
            f"words and {row['pairs']:,} pairs",
            flush=True,
        )
        rows.append(row)
        path.unlink()
    return rows


def child(side: str, path: str, unit: str, window: str, least: str) -> None:
    """Do one side's work, timed without what it imports."""
    warm_up = {"NLTK": "nltk.collocations", "scikit-learn": "sklearn.feature_extraction.text"}
    __import__({**warm_up, "gensim": "gensim.models.phrases"}.get(side, "infuser.knowledge.counting.build"))
    began = time.perf_counter()
    found = SIDES[side](Path(path), unit, int(window), int(least))
    seconds = time.perf_counter() - began - found.get("seconds per phase", {}).get("writing", 0.0)
    print(json.dumps({**found, "seconds": seconds}))


def main() -> None:
    """Compare, grow, print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 3, 10, 30, 100], help="millions of words")
    parser.add_argument("--larger", type=int, default=10, help="millions of words for a second look")
    parser.add_argument("--out", type=Path, default=RESULTS / "correlation.json")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    from support.generated_corpus import real_sentences, write_corpus

    load = [os.getloadavg()[0]]
    name, sentences = real_sentences()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "real.txt"
        path.write_text("\n".join(sentences) + "\n", encoding="utf-8")
        print(f"Real text: {name}")
        compared = [
            compare(path, "window", 5, "NLTK"),
            compare(path, "window", 2, "gensim"),
            compare(path, "document", 5, "scikit-learn"),
        ]
        print(f"Generated text, {options.larger} million words")
        larger = Path(folder) / "larger.txt"
        write_corpus(larger, sentences, options.larger * MILLION)
        compared.append(compare(larger, "document", 5, "scikit-learn"))
        compared.append(compare(larger, "window", 5, "NLTK", rounds=1))  # NLTK takes minutes
        larger.unlink()
        print("Generated text, windows of 5, words and pairs seen at least 5 times")
        grown = grow(Path(folder), sentences, options.sizes)
    load.append(os.getloadavg()[0])
    facts = {"load_before_and_after": load, "real text": name, "rounds": ROUNDS}
    write_result(options.out, {"about": about(**facts), "compared": compared, "grown": grown})


if __name__ == "__main__":
    main()
