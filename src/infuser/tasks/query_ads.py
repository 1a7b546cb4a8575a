"""Query-to-ad relevance where the query's key word is rare: "buy glipizide" / "Fletcher Drug Shop Near Me".

Built from WordNet at run time. A *topic* is a common noun with many rare words below it (drug, bird, fabric); a *term*
is one of those rare words; an ad names a topic; a pair is relevant when the query's term is a kind of the ad's topic.
The graph says which term belongs to which topic, but it is incomplete and partly wrong, like real ones.

What keeps the task honest:
- no test term occurs in training or dev, neither by itself nor within another term;
- no term contains the word of any topic, nor starts like one ("dogfish" is a fish by its spelling alone);
- each term stands in one relevant and one irrelevant pair, and each topic is as often irrelevant as relevant (nearly),
  so neither side alone gives the label away;
- links are dropped and added per (term, topic): `recall` of the relevant and `false_rate` of the irrelevant pairs of
  every split are linked in the graph.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, zip_longest
from pathlib import Path
from statistics import fmean, median
from typing import Any

from infuser.errors import InputError
from infuser.knowledge.readers.wordnet import Synset, read_counts, read_synsets
from infuser.tasks.rare_terms import Pieces, Topic, choose_terms, choose_topics, rare_lemmas

Example = dict[str, Any]
"""{"text": query, "pair": ad, "label": 0 or 1, "term": the query's rare word, "topic": the ad's topic}"""

_N_SIBLINGS = 4

# fmt: off
_QUERIES = (
    "buy {}", "{} price", "best {} near me", "where to find {} online", "cheap {} deals", "{} for sale",
    "order {} today", "how much is {}", "{} reviews", "looking for {} this weekend", "is {} available near me",
    "compare {} offers",
)
_ADS = (
    "{brand} {topic} Shop Near Me", "{brand} {topic} Store", "{topic} Outlet by {brand}",
    "Official {brand} {topic} Site", "{brand}: Your {topic} Experts", "The {topic} Corner at {brand}",
    "{brand} {topic} Center Downtown", "All About {topic} at {brand}", "{brand} {topic} Supply",
    "Visit {brand} for {topic}",
)
_EXTRAS = (
    "Free Delivery", "Open Sunday", "Top Rated", "Save Up to 20%", "Since 1987", "Call Now", "Huge Selection",
    "Book Online",
)
_SURNAMES = (
    "Adams", "Baker", "Carter", "Collins", "Cooper", "Davis", "Evans", "Fletcher", "Foster", "Graham", "Harris",
    "Hughes", "Jones", "Keller", "Lewis", "Martin", "Morgan", "Murphy", "Parker", "Reynolds", "Roberts", "Russell",
    "Scott", "Taylor", "Turner", "Walker", "Watson", "Wilson", "Wright", "Yates",
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Links:
    """What the knowledge graph says, as plain data for `infuser.Graph(triples, aliases)`."""

    triples: list[tuple[str, str, str]]
    aliases: dict[str, list[str]]
    """The words by which each term and topic may stand in a text, in lower case."""


@dataclass(frozen=True, slots=True)
class QueryAds:
    """The task: three lists of pairs, the graph, and what was measured on them."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]
    graph: Links
    facts: dict[str, str] = field(default_factory=dict)
    """What a report should say about the task: sizes, shares and realised link rates."""


def build_query_ads(
    wordnet_folder: str | Path,
    *,
    n_train: int = 2400,
    n_dev: int = 400,
    n_test: int = 800,
    seed: int = 0,
    recall: float = 0.8,
    false_rate: float = 0.05,
    tokenizer_pieces: Pieces | None = None,
    max_topics: int = 48,
    min_terms: int = 20,
) -> QueryAds:
    """Build the task from WordNet's files; the same seed gives the same task.

    With `tokenizer_pieces` (a tokenizer's `tokenize`), only terms that it breaks into several pieces are used. A topic
    needs `min_terms` rare terms of its own; of more than `max_topics` such topics those with the most terms are kept.
    """
    sizes = {"train": n_train, "dev": n_dev, "test": n_test}
    for split, size in sizes.items():
        if size < 2 or size % 2:
            raise InputError(
                f"n_{split} is {size}; it must be even and at least 2, since half of the pairs are relevant."
            )
    for name, share in (("recall", recall), ("false_rate", false_rate)):
        if not 0 <= share <= 1:
            raise InputError(f"{name} is {share}; a share lies between 0 and 1.")
    rng = random.Random(seed)
    synsets = read_synsets(wordnet_folder)
    seen = {word for _, lemma in read_counts(wordnet_folder) for word in lemma.replace("-", " ").split()}
    rare = rare_lemmas(synsets, seen, besides=_our_words(), pieces=tokenizer_pieces)
    topics = choose_topics(synsets, rare, min_terms=min_terms)
    n_terms = {name: len(own) for name, own in choose_terms(topics, rare).items() if len(own) >= min_terms}
    largest = sorted(n_terms, key=lambda name: (-n_terms[name], name))[:max_topics]
    topics = {name: topics[name] for name in sorted(largest)}
    terms = choose_terms(topics, rare)  # again: fewer topics rule out fewer terms
    splits = _deal(terms, [size // 2 for size in sizes.values()], rng)
    siblings = _siblings(topics, synsets)

    pairs, triples = [], []
    for cases in splits:
        examples = _write_pairs(cases, topics, siblings, rng)
        pairs.append(examples)
        triples += _write_links(examples, recall, false_rate, rng)
    train, dev, test, _ = pairs  # terms without a pair are in the graph all the same
    aliases = {term: [term] for own in terms.values() for term in own}
    aliases |= {topic.name: list(topic.words) for topic in topics.values()}
    task = QueryAds(train, dev, test, Links(sorted(triples), aliases))
    task.facts.update(_facts(task, topics, siblings, tokenizer_pieces))
    return task


def _our_words() -> set[str]:
    """Return the words that the templates use; a term must not be one of them."""
    return {word for text in (*_QUERIES, *_ADS, *_EXTRAS, *_SURNAMES) for word in re.findall(r"[a-z]+", text.lower())}


def _deal(terms: dict[str, list[str]], sizes: list[int], rng: random.Random) -> list[list[tuple[str, str]]]:
    """Return one list of (term, topic) per size, topics as even as their terms allow, and a last one with the rest."""
    decks = [[(term, topic) for term in rng.sample(own, len(own))] for topic, own in terms.items()]
    dealt = [card for row in zip_longest(*decks) for card in row if card]
    needed = sum(sizes)
    if len(dealt) < needed or len(terms) < _N_SIBLINGS + 2:
        raise InputError(
            f"This WordNet gives {len(dealt)} rare terms in {len(terms)} topics, but {needed} terms in at least "
            f"{_N_SIBLINGS + 2} topics are needed. Ask for fewer pairs or lower min_terms."
        )
    used = rng.sample(dealt[:needed], needed)
    ends = [0, *accumulate(sizes)]
    return [used[start:end] for start, end in pairwise(ends)] + [dealt[needed:]]


def _siblings(topics: dict[str, Topic], synsets: dict[str, Synset]) -> dict[str, list[str]]:
    """Return, for each topic, the others that are nearest to it over a common hypernym."""
    heights = {name: _heights(topic.synset, synsets) for name, topic in topics.items()}

    def distance(one: str, other: str) -> int:
        shared = heights[one].keys() & heights[other].keys()
        return min((heights[one][id] + heights[other][id] for id in shared), default=len(synsets))

    siblings = {}
    for one in topics:
        others = sorted((distance(one, other), other) for other in topics if other != one)
        siblings[one] = [other for _, other in others[:_N_SIBLINGS]]
    return siblings


def _heights(start: str, synsets: dict[str, Synset]) -> dict[str, int]:
    """Return how many steps up each hypernym is."""
    heights, layer = {start: 0}, [start]
    while layer:
        layer = [up for id in layer for up in synsets[id].hypernyms if up in synsets and up not in heights]
        heights |= dict.fromkeys(layer, max(heights.values()) + 1)
    return heights


def _write_pairs(
    cases: list[tuple[str, str]], topics: dict[str, Topic], siblings: dict[str, list[str]], rng: random.Random
) -> list[Example]:
    """Return two pairs for each term: its own topic, and another one that is a sibling every second time."""
    surplus = Counter({topic: -n for topic, n in Counter(topic for _, topic in cases).items()})
    examples = []
    for place, (term, topic) in enumerate(cases):
        far = [name for name in topics if name != topic and name not in siblings[topic]]
        pool = siblings[topic] if place % 2 else far
        # the topic that most lacks irrelevant pairs, so that a topic's name says nothing about the label
        other = min(pool, key=lambda name: (surplus[name], rng.random()))
        surplus[other] += 1
        examples += [_write_pair(term, topics[name], int(name == topic), rng) for name in (topic, other)]
    rng.shuffle(examples)
    return examples


def _write_pair(term: str, topic: Topic, label: int, rng: random.Random) -> Example:
    ad = rng.choice(_ADS).format(brand=rng.choice(_SURNAMES), topic=rng.choice(topic.words).title())
    if rng.random() < 0.25:
        ad += f" - {rng.choice(_EXTRAS)}"
    return {"text": rng.choice(_QUERIES).format(term), "pair": ad, "label": label, "term": term, "topic": topic.name}


def _write_links(
    examples: list[Example], recall: float, false_rate: float, rng: random.Random
) -> list[tuple[str, str, str]]:
    """Return the graph's edges for these pairs: a share of the relevant, and a share of the irrelevant by mistake."""
    triples = []
    for label, share in ((1, recall), (0, false_rate)):
        ties = [(example["term"], "is a", example["topic"]) for example in examples if example["label"] == label]
        triples += rng.sample(ties, round(share * len(ties)))
    return triples


def _facts(
    task: QueryAds, topics: dict[str, Topic], siblings: dict[str, list[str]], pieces: Pieces | None
) -> dict[str, str]:
    """Return what was really built, measured on the pairs themselves."""
    pairs = [*task.train, *task.dev, *task.test]
    linked = {(term, topic) for term, _, topic in task.graph.triples}
    own = {pair["term"]: pair["topic"] for pair in pairs if pair["label"]}
    known = [*task.train, *task.dev]
    known_terms = {pair["term"] for pair in known}
    known_words = {word for pair in known for word in pair["text"].split()}
    unseen = [pair["term"] not in known_terms for pair in task.test]
    all_new = [known_words.isdisjoint(pair["term"].split()) for pair in task.test]
    hard = [pair["topic"] in siblings[own[pair["term"]]] for pair in pairs if not pair["label"]]

    def link_rate(examples: list[Example], label: int) -> float:
        return fmean((pair["term"], pair["topic"]) in linked for pair in examples if pair["label"] == label)

    facts = {
        "topics": f"{len(topics)}: {', '.join(topics)}",
        "terms": f"{len(own)} in pairs, {len(task.graph.aliases) - len(topics)} in the graph",
        "pairs": f"{len(task.train)} train, {len(task.dev)} dev, {len(task.test)} test",
        "relevant pairs": f"{fmean(pair['label'] for pair in pairs):.1%}",
        "test pairs with an unseen term": f"{fmean(unseen):.1%} (no word of it seen: {fmean(all_new):.1%})",
        "hard negatives": f"{fmean(hard):.1%}",
        "link recall": f"{link_rate(pairs, 1):.1%} of relevant pairs ({link_rate(task.test, 1):.1%} in test)",
        "false links": f"{link_rate(pairs, 0):.1%} of irrelevant pairs ({link_rate(task.test, 0):.1%} in test)",
    }
    if pieces is not None:
        facts["word pieces per term"] = f"{median(len(pieces(term)) for term in own):g} (median)"
    return facts
