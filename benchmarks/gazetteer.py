"""A gazetteer of a million names: ours against spaCy's PhraseMatcher and an Aho-Corasick automaton, in one run.

    python benchmarks/gazetteer.py                      a million names, as in the docs (some five minutes)
    python benchmarks/gazetteer.py --names 100000       smaller

The names are WordNet's, filled up with two to four random words of WordNet's glosses; the texts are the glosses. All
three find every mention, overlaps included, in any case. Each side is timed on the same texts in turn, several rounds,
the fastest counts. spaCy runs twice: with its own tokenizer, as people use it, and on words cut by our rule, where its
mentions must be ours exactly. The automaton knows no words, so its hits are checked for word borders in Python; its
mentions must be ours too.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.measuring import about, fastest, in_new_process, memory_mb, timed, write_result

from infuser import assets
from infuser.knowledge.names.store import NameStore
from infuser.knowledge.readers.wordnet import read_synsets
from infuser.words import find_tokens

RESULTS = Path(__file__).parent / "results"
Places = set[tuple[int, int]]


def wordnet() -> tuple[list[str], list[str]]:
    """Return WordNet's names and its glosses, those in plain ASCII that the automaton's lower case cannot shift."""
    folder = assets.fetch("wordnet")
    synsets = [synset for pos in "nvar" for synset in read_synsets(folder, pos).values()]
    names = dict.fromkeys(lemma.lower() for synset in synsets for lemma in synset.lemmas)
    words_only = re.compile(r"\w+(?: \w+)*")
    # a gap counts as one gap however wide; the others know single spaces only
    glosses = [" ".join(synset.gloss.split()) for synset in synsets if synset.gloss.isascii()]
    return [name for name in names if name.isascii() and words_only.fullmatch(name)], glosses


def fill_up(names: list[str], glosses: list[str], n_names: int, seed: int = 0) -> list[str]:
    """Return the names with random ones added, up to the number asked for."""
    words = sorted({word for gloss in glosses for word in re.findall(r"[a-z]+", gloss.lower())})
    chance = random.Random(seed)
    filled = dict.fromkeys(names[:n_names])
    while len(filled) < n_names:
        filled[" ".join(chance.choices(words, k=chance.choice((2, 2, 3, 4))))] = None
    return list(filled)


class Ours:
    """The gazetteer of this library, opened from its folder."""

    def __init__(self, names: list[str], folder: Path) -> None:
        NameStore.build(names).save(folder)
        self._gazetteer = NameStore.open(folder).gazetteer

    def find(self, texts: list[str]) -> list[Any]:
        return self._gazetteer.find(texts, overlaps=True)

    def places(self, texts: list[str]) -> list[Places]:
        return [{(mention.start, mention.end) for mention in found} for found in self.find(texts)]


class Spacy:
    """PhraseMatcher on lower case, with spaCy's own tokenizer or with words cut by our rule."""

    def __init__(self, names: list[str], *, own_words: bool) -> None:
        import spacy
        from spacy.matcher import PhraseMatcher

        self._nlp = spacy.blank("en")
        if not own_words:
            self._nlp.tokenizer = self._cut
        self._matcher = PhraseMatcher(self._nlp.vocab, attr="LOWER")
        self._matcher.add("name", [self._nlp.make_doc(name) for name in names])

    def _cut(self, text: str) -> Any:
        from spacy.tokens import Doc

        tokens = find_tokens(text)
        words = [text[token.start : token.end] for token in tokens]
        spaces = [token.end < after.start for token, after in pairwise(tokens)] + [False] * bool(tokens)
        return Doc(self._nlp.vocab, words=words, spaces=spaces)

    def find(self, texts: list[str]) -> list[Any]:
        return [self._matcher(self._nlp.make_doc(text)) for text in texts]

    def places(self, texts: list[str]) -> list[Places]:
        docs = [self._nlp.make_doc(text) for text in texts]
        found = [[doc[start:end] for _, start, end in self._matcher(doc)] for doc in docs]
        return [{(span.start_char, span.end_char) for span in spans} for spans in found]


class Automaton:
    """pyahocorasick on lower-cased text, its hits checked for word borders."""

    def __init__(self, names: list[str]) -> None:
        import ahocorasick

        self._automaton = ahocorasick.Automaton()
        for name in names:
            self._automaton.add_word(name, len(name))
        self._automaton.make_automaton()

    def find(self, texts: list[str]) -> list[Any]:
        found = []
        for text in texts:
            lower, mentions = f" {text.lower()} ", []
            for last, length in self._automaton.iter(lower):
                start, end = last - length + 1, last + 1
                before, after = lower[start - 1], lower[end]
                if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
                    mentions.append((start - 1, end - 1))
            found.append(mentions)
        return found

    def places(self, texts: list[str]) -> list[Places]:
        return [set(found) for found in self.find(texts)]


def tell_readiness(side: str, names_file: Path, folder: Path) -> None:
    """Build a side, or open ours, and print what that took."""
    NameStore.build(["warm up"]).gazetteer.find(["warm"])  # first use of the libraries is not the folder's cost
    import spacy  # noqa: F401

    names = [] if side == "open" else names_file.read_text(encoding="utf-8").split("\n")
    gc.collect()
    before = memory_mb("VmRSS")
    seconds, made = timed(lambda: NameStore.open(folder).gazetteer if side == "open" else SIDES[side](names, folder))
    made.find(["a small domesticated animal"])
    gc.collect()
    print(json.dumps({"seconds": seconds, "memory_mb": memory_mb("VmRSS") - before}))


SIDES: dict[str, Callable[[list[str], Path], Any]] = {
    "ours": Ours,
    "PhraseMatcher": lambda names, _: Spacy(names, own_words=True),
    "PhraseMatcher on our words": lambda names, _: Spacy(names, own_words=False),
    "pyahocorasick": lambda names, _: Automaton(names),
}


def main() -> None:
    """Run the comparison and write its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "gazetteer.json")
    parser.add_argument("--ready", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.ready:
        side, names_file, folder = chosen.ready
        tell_readiness(side, Path(names_file), Path(folder))
        return
    lemmas, glosses = wordnet()
    names = fill_up(lemmas, glosses, chosen.names)
    texts = random.Random(1).sample(glosses, min(chosen.texts, len(glosses)))
    with tempfile.TemporaryDirectory() as workshop:
        folder, names_file = Path(workshop) / "gazetteer", Path(workshop) / "names.txt"
        names_file.write_text("\n".join(names), encoding="utf-8")
        sides, ready = {}, {}
        for side, build in SIDES.items():
            print(f"getting {side} ready ...", file=sys.stderr, flush=True)
            ready[side] = in_new_process(__file__, "--ready", side, names_file, folder)
            sides[side] = build(names, folder)
        opened = [in_new_process(__file__, "--ready", "open", names_file, folder) for _ in range(5)]
        disk = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        gc.collect()
        gc.freeze()  # what one side holds in memory must not slow down the collector while another one is timed
        ours = sides["ours"].places(texts)
        agree = {name: compare(ours, side.places(texts)) for name, side in sides.items()}
        seconds = fastest(
            {name: lambda side=side: side.find(texts) for name, side in sides.items()}, chosen.rounds, collect=True
        )
    report = {
        "names": len(names),
        "texts": len(texts),
        "words": sum(len(find_tokens(text)) for text in texts),
        "mentions": sum(map(len, ours)),
        "texts_per_second": {name: len(texts) / taken for name, taken in seconds.items()},
        "ours_is_faster_by": {name: taken / seconds["ours"] for name, taken in seconds.items()},
        "build_seconds": {name: one["seconds"] for name, one in ready.items()},
        "memory_mb": {name: one["memory_mb"] for name, one in ready.items()},
        "open_ms": [1e3 * one["seconds"] for one in opened],
        "open_memory_mb": [one["memory_mb"] for one in opened],
        "folder_mb": disk,
        "mentions_compared": agree,
        "machine": about(load=os.getloadavg()),
    }
    print(json.dumps(report, indent=1))
    write_result(chosen.out, report)


def compare(ours: list[Places], theirs: list[Places]) -> dict[str, int]:
    """Return how many mentions both found, and only one of the two."""
    return {
        "both": sum(len(one & other) for one, other in zip(ours, theirs, strict=True)),
        "only ours": sum(len(one - other) for one, other in zip(ours, theirs, strict=True)),
        "only theirs": sum(len(other - one) for one, other in zip(ours, theirs, strict=True)),
    }


if __name__ == "__main__":
    main()
