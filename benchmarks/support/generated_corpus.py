"""A generated corpus of any size with the statistics of a real one: its words, which word follows which, its sentences.

Every word is followed by what follows it somewhere in the real corpus, so frequencies and neighbours are those of the
real one. Some words are replaced by rare ones that the real corpus lacks, so that the vocabulary grows with the corpus
as it does in real text (Heaps' law).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from infuser import assets
from infuser.knowledge.readers.wordnet import read_synsets

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "corpora" / "trex_evidence_sentences.txt"
_WALKS = 20_000
_NEW_WORDS = 0.02


def real_sentences() -> tuple[str, list[str]]:
    """Return a name and the sentences of a real corpus: Wikipedia's of T-REx where they are, else WordNet's glosses."""
    if SHARED.is_file():
        return "T-REx sentences", SHARED.read_text(encoding="utf-8").splitlines()
    synsets = [synset for pos in "nvar" for synset in read_synsets(assets.fetch("wordnet"), pos).values()]
    return "WordNet glosses", [synset.gloss for synset in synsets]


def write_corpus(path: Path, sentences: list[str], n_tokens: int, seed: int = 0) -> int:
    """Write about so many words, a sentence per line, and return how many they are."""
    chance = np.random.default_rng(seed)
    words, followers, begins = _successors(sentences)
    written = 0
    with path.open("wb") as file:
        while written < n_tokens:
            n_walks = min(_WALKS, 1 + (n_tokens - written) // 20)
            lines = _walks(chance, followers, begins, n_walks)
            tokens = words.take(pa.array(lines[1]))
            new = chance.random(len(tokens)) < _NEW_WORDS
            # of ever more words, each of them rare: about the square root of what was written
            rare = (chance.random(int(new.sum())) ** 2 * (1000 + 30 * np.sqrt(written + 1))).astype(np.int64)
            tokens = pc.replace_with_mask(
                tokens, pa.array(new), pc.binary_join_element_wise("rare", pa.array(rare).cast(pa.string()), "")
            )
            texts = pc.binary_join(pa.ListArray.from_arrays(pa.array(lines[0], pa.int32()), tokens), " ")
            file.write("\n".join(texts.to_pylist()).encode() + b"\n")
            written += len(tokens)
    return written


def _successors(sentences: list[str]) -> tuple[pa.Array, NDArray[np.int32], NDArray[np.int64]]:
    """Return the words, what follows every occurrence of each, and where those of each word begin.

    Number 0 stands for the border between two sentences.
    """
    tokens = ["\n"]
    for sentence in sentences:
        tokens += [*re.findall(r"\w+", sentence), "\n"]
    coded = pa.array(tokens).dictionary_encode()
    numbers = coded.indices.to_numpy()
    order = np.argsort(numbers[:-1], kind="stable")
    begins = np.searchsorted(numbers[:-1][order], np.arange(len(coded.dictionary) + 1))
    return coded.dictionary, numbers[1:][order], begins


def _walks(
    chance: np.random.Generator, followers: NDArray[np.int32], begins: NDArray[np.int64], n_walks: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return where each sentence begins, and the numbers of the words of all."""
    at = np.zeros(n_walks, np.int64)
    walking = np.arange(n_walks)
    who, steps = [], []
    for _ in range(200):
        here = at[walking]
        sizes = begins[here + 1] - begins[here]
        at[walking] = followers[begins[here] + (chance.random(len(walking)) * sizes).astype(np.int64)]
        walking = walking[at[walking] != 0]
        if not len(walking):
            break
        who.append(walking)
        steps.append(at[walking].astype(np.int32))
    walks, numbers = np.concatenate(who), np.concatenate(steps)
    order = np.argsort(walks, kind="stable")
    return np.searchsorted(walks[order], np.arange(n_walks + 1)), numbers[order]
