"""WordNet's own examples of use as linked texts: "the dog barked all night" shows a meaning of "dog" or of "bark"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from infuser.knowledge.readers.wordnet import read_synsets
from infuser.linking.examples import LinkedText
from infuser.linking.wordnet_forms import inflected, read_irregular
from infuser.types import Span
from infuser.words import Word, find_tokens

_QUOTED = re.compile(r'(?:^|[;:,])\s*"([^"]*\w[^"]*)"')  # a quoted word inside a definition is no example
_EXAMPLES = re.compile(r'(?:^|[;:,])\s*"[^"]*(?:"|$)[^;]*')  # with what stands behind one, such as its author


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
