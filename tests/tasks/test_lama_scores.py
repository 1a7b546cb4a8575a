from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infuser.errors import InputError
from infuser.tasks.cloze import NO_SINGLE_WORD
from infuser.tasks.lama import Lama


def official_scores(ranks: list[int], relations: list[str]) -> dict[str, float]:
    """LAMA's definitions: per fact P@k is 1 if the rank is at most k, else 0, and the reciprocal rank is 1 / rank.

    A relation's figure is the mean over its facts; that of a set with several relations the mean over relations.
    """
    p1, p10, reciprocal = 0.0, 0.0, 0.0
    of_relation: dict[str, list[float]] = {}
    for rank, relation in zip(ranks, relations, strict=True):
        p1 += 1.0 if rank == 1 else 0.0
        p10 += 1.0 if rank <= 10 else 0.0
        reciprocal += 1 / rank
        of_relation.setdefault(relation, []).append(1.0 if rank == 1 else 0.0)
    n, means = len(ranks), [sum(hits) / len(hits) for hits in of_relation.values()]
    return {"p@1": p1 / n, "p@10": p10 / n, "mrr": reciprocal / n, "macro p@1": sum(means) / len(means)}


def test_scores_agree_with_the_official_definitions_on_random_ranks():
    chance, task = np.random.default_rng(0), Lama("data")
    for _ in range(20):
        ranks = chance.geometric(0.2, size=50).tolist()
        relations = [f"P{number}" for number in chance.integers(0, 5, size=50)]
        left_out = [{"rank": None, "left_out": NO_SINGLE_WORD}] * 3
        golds = [{"relation": relation} for relation in (*relations, "P0", "P7", "P7")]
        scores = task.score(golds, [*({"rank": rank} for rank in ranks), *left_out])
        assert scores == pytest.approx(official_scores(ranks, relations))
        assert tuple(scores) == task.metrics


def test_a_set_in_which_nothing_was_ranked_has_no_score():
    with pytest.raises(
        InputError, match=r"None of 1 facts could be asked \(the object is not one word of the list: 1\)"
    ):
        Lama("data").score([{"relation": "P1"}], [{"rank": None, "left_out": NO_SINGLE_WORD}])
    with pytest.raises(InputError, match="2 predictions for 1 examples"):
        Lama("data").score([{"relation": "P1"}], [{"rank": 1}, {"rank": 1}])


def test_notes_say_which_words_were_ranked_and_how_each_type_of_relation_went():
    facts = (("P1", "1-1"), ("P2", "N-M"), ("P2", "N-M"))
    golds = [{"relation": relation, "type": kind, "object": "red"} for relation, kind in facts]
    ranks = [{"rank": 1, "words": 9}, {"rank": 1, "words": 9}, {"rank": 4, "words": 9}]
    notes = Lama("data", vocabulary="words.txt").notes(golds, ranks)
    assert (notes["vocabulary"], notes["words"], notes["ranked"], notes["left out"]) == ("words.txt", 9, 3, {})
    assert (notes["p@1 of 1-1"], notes["p@1 of N-M"]) == (1.0, 0.5)
    assert Lama("data").notes(golds, ranks)["vocabulary"] == "every whole word of the tokenizer"


def test_notes_say_what_the_most_frequent_object_of_each_relation_reaches():
    objects = {"P1": ["red", "red", "red", "blue", "blue", "green"], "P2": ["old", "big"], "P3": ["glipizide"]}
    golds = [{"relation": relation, "object": name} for relation, names in objects.items() for name in names]
    ranks = [*([{"rank": 1, "words": 9}] * 8), {"rank": None, "left_out": NO_SINGLE_WORD, "words": 9}]
    assert Lama("data").notes(golds, ranks)["p@1 of the most frequent object"] == (3 + 1) / 8


@pytest.mark.parametrize("golds", [[], [{"relation": "P1", "object": "glipizide"}]])
def test_notes_are_written_also_where_nothing_was_ranked(golds: list[dict[str, Any]]):
    notes = Lama("data").notes(golds, [{"rank": None, "left_out": NO_SINGLE_WORD, "words": 9} for _ in golds])
    assert (notes["facts"], notes["ranked"], sum(notes["left out"].values())) == (len(golds), 0, len(golds))
    assert not any(name.startswith("p@1") for name in notes)


def test_the_files_that_it_names_are_told():
    assert Lama.paths == ("data", "corpus", "vocabulary")
