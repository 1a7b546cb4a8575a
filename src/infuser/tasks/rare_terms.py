"""Topics and their rare terms, chosen from WordNet by rule: drug and glipizide, bird and capercaillie."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from infuser.knowledge.readers.wordnet import Synset

Pieces = Callable[[str], Sequence[object]]
"""Breaks a word into word pieces, as a tokenizer's `tokenize` does."""

_SHOP_SUBJECTS = {5, 6, 13, 20, 27}
"""WordNet's files on animals, artifacts, food, plants, substances: things that ads are about."""
_VAGUE = {"device", "enclosure", "equipment", "facility", "fluid", "larva", "material", "mixture", "obstruction"}
_VAGUE |= {"apparatus", "structure", "surface", "waste"}


@dataclass(frozen=True, slots=True)
class Topic:
    """A common noun with many rare words below it."""

    name: str
    synset: str
    below: frozenset[str]
    """Ids of the synset and everything that is a kind of it."""
    words: tuple[str, ...]
    """How an ad may call it: fabric, cloth, textile."""
    kinds: frozenset[str]
    """The single words for what is below it: beef, ham and others for meat."""


def rare_lemmas(
    synsets: dict[str, Synset], seen: set[str], *, besides: set[str], pieces: Pieces | None
) -> dict[str, list[str]]:
    """Return, by synset, its one- or two-word lemmas with a single meaning and a word that was never met in texts.

    `seen` are the words of tagged texts, `besides` words that must not occur at all; with `pieces` such a word must
    also break into several word pieces.
    """
    n_senses = Counter(lemma.lower() for synset in synsets.values() for lemma in synset.lemmas)
    rare: dict[str, list[str]] = defaultdict(list)
    n_pieces: dict[str, int] = {}  # many lemmas end in the same word
    for synset in synsets.values():
        if synset.lex_file not in _SHOP_SUBJECTS:
            continue
        for lemma in synset.lemmas:
            words = lemma.lower().split()
            is_name_of_species = len(words) == 2 and lemma[0].isupper()  # "Canis niger" is no search word
            new = [word for word in words if word not in seen and len(word) > 4]
            if len(words) > 2 or is_name_of_species or not new:
                continue
            term = " ".join(words)
            if (
                n_senses[term] > 1
                or not all(word.isascii() and word.isalpha() for word in words)
                or besides & set(words)
            ):
                continue
            for word in new:
                if pieces is not None and word not in n_pieces:
                    n_pieces[word] = len(pieces(word))
            if all(n_pieces.get(word, 2) < 2 for word in new):
                continue
            rare[synset.id].append(term)
    return rare


def choose_topics(synsets: dict[str, Synset], rare: dict[str, list[str]], *, min_terms: int) -> dict[str, Topic]:
    """Return the topics by name: none nested in another, with words as common as possible.

    Going up from the smallest, a topic replaces those below it when its word is met more often in texts than theirs
    together: "bird" replaces "duck", while "dog" is not replaced by "mammal".
    """
    children: dict[str, list[str]] = defaultdict(list)
    total: Counter[str] = Counter()
    for synset in synsets.values():
        for parent in synset.hypernyms:
            children[parent].append(synset.id)
        for lemma, count in zip(synset.lemmas, synset.counts, strict=True):
            total[lemma] += count

    found: list[tuple[int, Topic]] = []
    for synset in synsets.values():
        name = synset.lemmas[0]
        # the usual meaning of a common word, such that an ad with the bare word is about this
        words = [
            lemma
            for lemma, count in zip(synset.lemmas, synset.counts, strict=True)
            if lemma.isalpha() and lemma.islower() and count >= 2 and 2 * count > total[lemma]
        ]
        if synset.lex_file not in _SHOP_SUBJECTS or name not in words or name in _VAGUE:
            continue
        below = _reach(synset.id, children)
        n_heads = len({term.split()[-1] for id in below for term in rare.get(id, ()) if not _gives_away(term, words)})
        if n_heads >= min_terms:
            kinds = frozenset(lemma.lower() for id in below for lemma in synsets[id].lemmas if " " not in lemma)
            found.append((n_heads, Topic(name, synset.id, frozenset(below), tuple(words), kinds)))

    chosen: dict[str, Topic] = {}
    for _, topic in sorted(found, key=lambda pair: (pair[0], pair[1].name)):
        inside = [name for name, other in chosen.items() if other.synset in topic.below]
        if total[topic.name] > sum(total[name] for name in inside):
            for name in inside:
                del chosen[name]
            chosen[topic.name] = topic
    return dict(sorted(chosen.items()))


def _reach(start: str, children: dict[str, list[str]]) -> set[str]:
    reached, waiting = {start}, [start]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in reached:
                reached.add(child)
                waiting.append(child)
    return reached


def _gives_away(term: str, words: Iterable[str]) -> bool:
    """Return whether the spelling alone ties a term to one of these words."""
    return any(
        part.startswith(word[:5]) or part.endswith(word) or (len(word) > 3 and word in part)
        for part in term.split()
        for word in words
    )


def choose_terms(topics: dict[str, Topic], rare: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return each topic's terms; a term that stands within another one is left out."""
    owners = Counter(id for topic in topics.values() for id in topic.below)
    ad_words = {word for topic in topics.values() for word in topic.words}
    by_topic = {
        topic.name: {
            term
            for id in topic.below
            if owners[id] == 1  # both tree and shrub: either ad could be right
            for term in rare.get(id, ())
            if not _gives_away(term, ad_words) and not topic.kinds.intersection(term.split()[:-1])  # as in "beef jerky"
        }
        for topic in topics.values()
    }
    inside = {word for terms in by_topic.values() for term in terms if " " in term for word in term.split()}
    return {name: sorted(terms - inside) for name, terms in by_topic.items()}
