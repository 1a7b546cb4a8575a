"""The forms in which WordNet's lemmas stand in texts: dogs for dog, went and goes for go.

By the irregular forms that WordNet lists (noun.exc, verb.exc ...) and by its rules for endings (morphy(7WN)), read
backwards. The rules know no spelling, so that "walkes" is made beside "walks"; texts do not have such words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from infuser.errors import SourceError
from infuser.knowledge.candidates.store import batches
from infuser.knowledge.facts import Facts
from infuser.knowledge.readers.wordnet import read_synsets

_FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_ENDINGS: dict[str, tuple[tuple[str, str], ...]] = {  # of the form, of the lemma
    "n": (("s", ""), ("men", "man"), ("ies", "y"), *((f"{end}es", end) for end in ("s", "x", "z", "ch", "sh"))),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}

Irregular = Mapping[str, tuple[str, ...]]
"""Lemma in lower case to its irregular forms."""


def wordnet_mentions(folder: str | Path) -> Facts:
    """Yield the lemmas of a WordNet folder and their forms as mentions of their synsets, for `build_candidates`.

    Each counts 1 + how often the lemma was met in that meaning in WordNet's tagged texts.
    """
    return batches(_rows(folder))


def _rows(folder: str | Path) -> Iterator[tuple[str, str, float]]:
    for pos in _FILES:
        irregular = read_irregular(folder, pos)
        for synset in read_synsets(folder, pos).values():
            for lemma, count in zip(synset.lemmas, synset.counts, strict=True):
                for form in inflected(lemma, pos, irregular):
                    yield form, synset.id, 1.0 + count


def inflected(lemma: str, pos: str, irregular: Irregular) -> list[str]:
    """Return a lemma and its forms; of several words, a verb's first and otherwise the last is inflected."""
    before, word, after = "", lemma, ""
    if pos == "v" and " " in lemma:
        word, after = lemma.split(" ", 1)
        after = f" {after}"
    elif " " in lemma:
        before, word = lemma.rsplit(" ", 1)
        before = f"{before} "
    changed = [word[: len(word) - len(old)] + new for new, old in _ENDINGS[pos] if word.endswith(old)]
    forms = [f"{before}{form}{after}" for form in (*irregular.get(word.lower(), ()), *changed)]
    return list(dict.fromkeys([lemma, *irregular.get(lemma.lower(), ()), *forms]))


def read_irregular(folder: str | Path, pos: str) -> Irregular:
    """Return the irregular forms of one part of speech; without the file none are known."""
    path = Path(folder) / f"{_FILES[pos]}.exc"
    forms: dict[str, list[str]] = defaultdict(list)
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{path} is not text ({error}). Fetch WordNet again: `infuser assets fetch wordnet`."
        ) from error
    for line in filter(str.strip, lines):
        form, *lemmas = (word.replace("_", " ") for word in line.split())
        for lemma in lemmas:
            forms[lemma].append(form)
    return {lemma: tuple(of_lemma) for lemma, of_lemma in forms.items()}
