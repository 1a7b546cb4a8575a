"""WordNet for benchmarks: the forms in which its lemmas stand in texts, and its examples of use as linked texts.

Forms ("dogs" for "dog", "went" and "goes" for "go") come from the irregular forms that WordNet lists (noun.exc,
verb.exc ...) and from its rules for endings (morphy(7WN)), read backwards. The rules know no spelling, so that "walkes"
is made beside "walks"; texts do not have such words.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from infuser.errors import SourceError
from infuser.knowledge.facts import Facts, pack_mentions
from infuser.knowledge.readers.wordnet import read_synsets
from infuser.linking.examples import LinkedText
from infuser.types import Span
from infuser.words import Word, find_tokens

_QUOTED = re.compile(r'(?:^|[;:,])\s*"([^"]*\w[^"]*)"')  # a quoted word inside a definition is no example
_EXAMPLES = re.compile(r'(?:^|[;:,])\s*"[^"]*(?:"|$)[^;]*')  # with what stands behind one, such as its author
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
    return pack_mentions(_rows(folder))


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


def wordnet_examples(folder: str | Path) -> list[LinkedText]:
    """Return the examples of a WordNet folder that show one of their synset's lemmas, each with that one gold mention.

    Only the mention is labelled, since nobody says what the other words mean. Its entity is the synset's id as
    `read_wordnet` gives it. Of several lemmas the longest is taken, and of several places the first. An example that
    two synsets give for the same words shows neither and is left out.

    A gloss holds its examples: vectors of glosses that are tested on these texts are made of `definition_of(gloss)`.
    """
    linked: list[LinkedText] = []
    for pos in "nvar":
        irregular = read_irregular(folder, pos)
        for synset in read_synsets(folder, pos).values():
            examples = [example.strip() for example in _QUOTED.findall(synset.gloss)]
            if not examples or synset.gloss.count('"') % 2:  # a quote is missing, so nobody knows what is quoted
                continue
            written = [form for lemma in synset.lemmas for form in inflected(lemma, pos, irregular)]
            forms = [[word.folded for word in find_tokens(form)] for form in written]
            forms.sort(key=len, reverse=True)
            for example in examples:
                if place := _find(forms, find_tokens(example)):
                    linked.append(LinkedText(example, (Span(*place, id=synset.id),), place, synset.id))
    met = Counter((one.text, one.region) for one in linked)
    return [one for one in linked if met[one.text, one.region] == 1]


def definition_of(gloss: str) -> str:
    """Return a gloss without its examples; all of it if nothing else is there."""
    return _EXAMPLES.sub("", gloss).strip(" ;:,") or gloss


def _find(forms: Sequence[list[str]], words: Sequence[Word]) -> tuple[int, int] | None:
    """Return where the first of the longest forms stands that are among these words."""
    folded = [word.folded for word in words]
    longest, found = 0, len(words)
    for form in forms:
        if len(form) < longest:
            break
        for place in range(min(found, len(words) - len(form) + 1)):
            if folded[place : place + len(form)] == form:
                longest, found = len(form), place
                break
    return (words[found].start, words[found + longest - 1].end) if longest else None
