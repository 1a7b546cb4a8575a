"""The query-ad task keeps its promises: unseen terms, no give-aways, balance, the announced share of links."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from fetching import fetch_or_skip

from infuser.errors import InputError, SourceError
from infuser.sources import Graph
from infuser.tasks.query_ads import QueryAds, build_query_ads
from infuser.types import join_pair

SAMPLE = Path(__file__).parents[1] / "data" / "wordnet"
SMALL = {"n_train": 80, "n_dev": 40, "n_test": 80, "min_terms": 8}


@pytest.fixture(scope="module")
def task() -> QueryAds:
    return build_query_ads(SAMPLE, **SMALL)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def holds(text: str, phrase: str) -> bool:
    return f" {' '.join(words(phrase))} " in f" {' '.join(words(text))} "


def is_linked(task: QueryAds, example: dict) -> bool:
    """Look every alias up in both sides by brute force, knowing nothing of how the pair was made."""
    in_query, in_ad = (
        {name for name, aliases in task.graph.aliases.items() if any(holds(example[side], alias) for alias in aliases)}
        for side in ("text", "pair")
    )
    return any(
        (head in in_query and tail in in_ad) or (head in in_ad and tail in in_query)
        for head, _, tail in task.graph.triples
    )


def check_promises(task: QueryAds, n_train: int, n_dev: int, n_test: int) -> None:
    splits = {"train": task.train, "dev": task.dev, "test": task.test}
    assert [len(examples) for examples in splits.values()] == [n_train, n_dev, n_test]
    topics = {example["topic"] for examples in splits.values() for example in examples}
    own = {e["term"]: e["topic"] for examples in splits.values() for e in examples if e["label"] == 1}
    ad_words = {word for topic in topics for word in task.graph.aliases[topic]}

    for examples in splits.values():
        assert all(set(e) == {"text", "pair", "label", "term", "topic"} for e in examples)
        assert all(holds(e["text"], e["term"]) for e in examples)
        assert all(any(holds(e["pair"], word) for word in task.graph.aliases[e["topic"]]) for e in examples)
        # neither side alone tells the label
        assert Counter(e["term"] for e in examples if e["label"]) == Counter(
            e["term"] for e in examples if not e["label"]
        )
        balance = Counter(e["topic"] for e in examples if e["label"])
        balance.subtract(Counter(e["topic"] for e in examples if not e["label"]))
        assert max(map(abs, balance.values())) <= 2
        # labels tell the truth
        assert all((own[e["term"]] == e["topic"]) == bool(e["label"]) for e in examples)

    known = " | ".join(e["text"] for e in (*task.train, *task.dev))
    for term in {e["term"] for e in task.test}:
        assert not holds(known, term), f"{term} was seen in training or dev"
    inner = {word for term in own if " " in term for word in term.split()}
    assert not inner & own.keys(), "a term stands within another one"
    assert not [(term, word) for term in own for word in ad_words if len(word) > 3 and word in term]
    assert not [(term, word) for term in own for word in ad_words if word in term.split()]


def test_the_small_task_keeps_its_promises(task):
    check_promises(task, 80, 40, 80)


def test_terms_with_a_give_away_or_a_doubtful_topic_are_left_out(task):
    never = {
        "parrotfish": "holds the topic's word",
        "spiny dogfish": "holds the words of two topics",
        "water gum tree": "has three words",
        "drugget": "a fabric that starts like drug",
        "robin": "was met in texts",
        "mastiff": "has two meanings",
        "whitebeam": "belongs to two topics",
        "rollo": "is one dog, not a kind of dog",
        "larus canus": "is a scientific name",
        "robin accentor": "starts with another bird",
    }
    assert not {term for term in never if term in task.graph.aliases}
    assert {"glipizide", "capercaillie"} <= set(task.graph.aliases)


def test_terms_may_share_a_word_but_none_stands_within_another(task):
    assert {"gray dowitcher", "western dowitcher"} <= set(task.graph.aliases)
    assert "dowitcher" not in task.graph.aliases


def test_links_are_found_in_the_announced_share_of_pairs(task):
    for examples in (task.train, task.dev, task.test):
        right = [is_linked(task, e) for e in examples if e["label"] == 1]
        wrong = [is_linked(task, e) for e in examples if e["label"] == 0]
        assert sum(right) == round(0.8 * len(right))
        assert sum(wrong) == round(0.05 * len(wrong))
    assert task.facts["link recall"].startswith("80.0%")
    assert "(5.0% in test)" in task.facts["false links"]


def test_the_graph_source_finds_the_links_that_brute_force_finds(task):
    graph = Graph(task.graph.triples, task.graph.aliases)
    found = graph.annotate([join_pair(e["text"], e["pair"]) for e in task.test])
    assert [bool(annotations.links) for annotations in found] == [is_linked(task, e) for e in task.test]


def test_a_complete_graph_and_an_empty_one_can_be_asked_for():
    complete = build_query_ads(SAMPLE, **SMALL, recall=1.0, false_rate=0.0)
    assert [is_linked(complete, e) for e in complete.test] == [bool(e["label"]) for e in complete.test]
    assert build_query_ads(SAMPLE, **SMALL, recall=0.0, false_rate=0.0).graph.triples == []


def test_half_of_the_wrong_ads_are_about_a_sibling(task):
    families = ["bird dog fish", "flower tree", "fabric tool", "drug mineral"]  # as the sample has them
    family = {topic: place for place, names in enumerate(families) for topic in names.split()}

    def nearest(topic: str) -> list[str]:
        return sorted(family.keys() - {topic}, key=lambda other: (family[other] != family[topic], other))[:4]

    for examples in (task.train, task.dev, task.test):
        own = {e["term"]: e["topic"] for e in examples if e["label"]}
        hard = [e["topic"] in nearest(own[e["term"]]) for e in examples if not e["label"]]
        assert sum(hard) == len(hard) / 2
    assert task.facts["hard negatives"] == "50.0%"


def test_the_same_seed_gives_the_same_task_in_any_process(task):
    code = (
        "import sys, json; from infuser.tasks.query_ads import build_query_ads; "
        "task = build_query_ads(sys.argv[1], **json.loads(sys.argv[2])); "
        "print(json.dumps([task.train, task.dev, task.test, task.graph.triples, task.facts]))"
    )
    command = [sys.executable, "-c", code, str(SAMPLE), json.dumps(SMALL)]
    said = [
        subprocess.run(command, env={"PYTHONHASHSEED": salt}, capture_output=True, text=True, check=True).stdout
        for salt in ("1", "2")
    ]
    here = json.dumps([task.train, task.dev, task.test, task.graph.triples, task.facts]) + "\n"
    assert said == [here, here]
    assert build_query_ads(SAMPLE, **SMALL, seed=1).test != task.test


def test_with_a_tokenizer_only_terms_in_several_pieces_are_used():
    def pieces(word: str) -> list[str]:
        return [word[start : start + 7] for start in range(0, len(word), 7)]

    task = build_query_ads(SAMPLE, n_train=20, n_dev=10, n_test=20, min_terms=3, tokenizer_pieces=pieces)
    assert min(len(pieces(e["term"].split()[-1])) for e in (*task.train, *task.dev, *task.test)) == 2
    assert task.facts["word pieces per term"] == "2 (median)"


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"n_train": 81}, "n_train is 81; it must be even"),
        ({"n_dev": 0}, "n_dev is 0"),
        ({"recall": 1.2}, "recall is 1.2"),
        ({"false_rate": -0.1}, "false_rate is -0.1"),
        ({"n_train": 4000}, "rare terms in 9 topics, but 2060 terms"),
        ({"min_terms": 100}, "0 rare terms in 0 topics"),
    ],
)
def test_what_cannot_be_built_is_said_with_the_numbers(asked, complaint):
    with pytest.raises(InputError, match=re.escape(complaint)):
        build_query_ads(SAMPLE, **SMALL | asked)


def test_a_folder_without_wordnet_says_how_to_get_it(tmp_path):
    with pytest.raises(SourceError, match="infuser assets fetch wordnet"):
        build_query_ads(tmp_path)


@pytest.mark.slow
def test_the_task_from_the_real_wordnet_keeps_its_promises():
    folder = fetch_or_skip("wordnet")
    task = build_query_ads(folder)
    check_promises(task, 2400, 400, 800)
    topics = {example["topic"] for example in task.train}
    assert 30 <= len(topics) <= 60
    assert {"bird", "fish", "tree", "fabric", "dog", "tool"} <= topics
    graph = Graph(task.graph.triples, task.graph.aliases)
    found = graph.annotate([join_pair(e["text"], e["pair"]) for e in task.test])
    n_linked = Counter(e["label"] for e, annotations in zip(task.test, found, strict=True) if annotations.links)
    assert n_linked == {1: 320, 0: 20}  # of 400 relevant and 400 irrelevant pairs
    assert task.facts["link recall"] == "80.0% of relevant pairs (80.0% in test)"
    assert task.facts["false links"] == "5.0% of irrelevant pairs (5.0% in test)"
