from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from infuser.errors import InputError, SourceError
from infuser.knowledge.correlation import build as correlation_build
from infuser.knowledge.correlation import table as correlation_table
from infuser.knowledge.correlation.build import make_table
from infuser.knowledge.correlation.scores import Scorer, Scoring
from infuser.knowledge.correlation.store import CorrelationStore, save_correlation
from infuser.knowledge.correlation.table import Correlated, TieTable
from infuser.knowledge.counting import CorpusCounts, Counting, count_texts

UNITS = ["sentence", "document", "window", "pair"]
SCORES = ["npmi", "pmi", "ppmi"]
TEXTS = [
    "The cat saw a mouse. The mouse ran, and the cat ran too.",
    "A dog saw the cat! The cat ran.",
    "The mouse ate cheese; cheese is food for a mouse.",
    "A dog is no mouse. A cat is no dog.",
    "Food, food, food: cheese and bread.",
    "Bread and cheese for the dog, said the cat to the mouse.",
]


def counted(unit: str, min_count: int = 1) -> CorpusCounts:
    texts: Any = list(zip(TEXTS, TEXTS[::-1], strict=True)) if unit == "pair" else TEXTS
    return count_texts(texts, Counting(unit=unit, min_count=min_count, min_pairs=1))  # type: ignore[arg-type]


def by_chance(n_words: int, n_pairs: int, unit: str = "sentence", seed: int = 0) -> CorpusCounts:
    """Counts such as a corpus may have, many of the pairs with the first words."""
    chance = np.random.default_rng(seed)
    one, other = (chance.random((2, 3 * n_pairs)) ** 2 * n_words).astype(np.int64)
    if unit != "pair":
        one, other = np.minimum(one, other), np.maximum(one, other)
        one, other = one[one != other], other[one != other]
    keys = np.unique(one * n_words + other)
    keys = np.sort(chance.permutation(keys)[:n_pairs])
    pairs = chance.integers(1, 20, len(keys))
    side = 20 + np.bincount(np.concatenate(np.divmod(keys, n_words)), minlength=n_words) * 20
    words = pa.array([f"w{number:06d}" for number in chance.permutation(n_words)])
    settings = Counting(unit=unit)  # type: ignore[arg-type]
    return CorpusCounts(
        settings, words, side, side[::1], int(side.max() * 20), keys, pairs, {"n_texts": 7, "n_tokens": 99}
    )


def dense(counts: CorpusCounts, scoring: Scoring) -> np.ndarray[Any, Any]:
    """(left words, right words) the weights of all ties, of one pair after the other; symmetric but for pairs."""
    n_words = len(counts.words)
    weights = np.zeros((n_words, n_words))
    numbers = [divmod(int(key), n_words) for key in np.asarray(counts.keys)]
    scores = [
        float(
            Scorer(scoring, counts.settings, counts.left, counts.right, counts.n_units)(
                np.array([one]), np.array([other]), np.array([n])
            )[0]
        )
        for (one, other), n in zip(numbers, np.asarray(counts.pair_counts).tolist(), strict=True)
    ]
    largest = max([*scores, 0.0])
    for (one, other), score in zip(numbers, scores, strict=True):
        weight = (score if scoring.score == "npmi" else score / largest) if score > 1e-12 else 0.0
        weights[one, other] = np.float32(weight)
        if counts.settings.unit != "pair":
            weights[other, one] = np.float32(weight)
    return weights


def check(found: Correlated, sides: list[list[str]], words: list[str], weights: Any, n_terms: int) -> None:
    """Compare an answer with what the whole matrix says."""
    number = {word: place for place, word in enumerate(words)}
    two = len(sides) == 2
    nodes = {(number[word], side) for side, some in enumerate(sides) for word in some if word in number}
    assert {(number[word], side) for word, side in zip(found.words, found.sides.tolist(), strict=True)} == nodes

    def tie(node: tuple[int, int], other: int) -> float:
        return float(weights[other, node[0]] if node[1] == 1 else weights[node[0], other])

    for i, (one, side) in enumerate(zip(found.words, found.sides.tolist(), strict=True)):
        for j, (other, its_side) in enumerate(zip(found.words, found.sides.tolist(), strict=True)):
            expected = 0.0 if two and side == its_side else tie((number[one], side), number[other])
            assert found.weights[i, j] == expected
    in_text = {node[0] for node in nodes}
    sums = {t: round(sum(tie(node, t) for node in sorted(nodes)), 12) for t in range(len(words)) if t not in in_text}
    best = sorted((t for t in sums if sums[t] > 0), key=lambda t: (-sums[t], words[t]))[:n_terms]
    assert found.terms == [words[t] for t in best]
    for j, term in enumerate(best):
        for i, (one, side) in enumerate(zip(found.words, found.sides.tolist(), strict=True)):
            assert found.ties[i, j] == tie((number[one], side), term)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("unit", UNITS)
def test_a_folder_holds_the_ties_of_its_counts(tmp_path: Path, unit: str, score: Any) -> None:
    counts, scoring = counted(unit), Scoring(score)
    store = CorrelationStore.open(save_correlation(counts, scoring, tmp_path / "c"))
    weights, words = dense(counts, scoring), counts.words.to_pylist()
    assert (weights > 0).any()
    texts = [
        [text.lower().replace(".", "").split() for text in TEXTS[:2]],
        [["cat", "unknown"], ["mouse", "mouse"]],
        [[], []],
    ]
    texts = texts if unit == "pair" else [[[*left, *right]] for left, right in texts]
    for n_terms in (0, 3, 100):
        for found, sides in zip(store.correlate(texts, n_terms), texts, strict=True):
            check(found, sides, words, weights, n_terms)
    assert store.n_ties == np.count_nonzero(weights if unit == "pair" else np.triu(weights))
    assert (store.n_words, store.n_pairs) == (len(words), len(counts.keys))
    assert store.about["n_texts"] == len(TEXTS)


@pytest.mark.parametrize("unit", ["sentence", "pair"])
@pytest.mark.parametrize(("n_words", "n_pairs"), [(3, 2), (9, 20), (10, 30), (40, 30), (40, 150), (60, 900)])
def test_ties_and_terms_are_those_of_trying_every_word(tmp_path: Path, unit: str, n_words: int, n_pairs: int) -> None:
    chance = random.Random(n_pairs)
    for seed in range(4):
        counts = by_chance(n_words, n_pairs, unit, seed)
        store = CorrelationStore.open(save_correlation(counts, Scoring("pmi"), tmp_path / "c"))
        weights, words = dense(counts, Scoring("pmi")), [*counts.words.to_pylist(), "unknown"]
        for n_terms in (0, 1, 2, 5, 9, 100):
            texts = [
                [chance.choices(words, k=chance.randrange(14)) for _ in range(chance.randint(1, store.table.n_sides))]
                for _ in range(6)
            ]
            for found, text in zip(store.correlate(texts, n_terms), texts, strict=True):
                check(found, [*text, []][: store.table.n_sides], words[:-1], weights, n_terms)


@pytest.mark.parametrize("unit", ["sentence", "pair"])
@pytest.mark.parametrize("most", [1, 3])
def test_a_word_holds_its_strongest_ties_and_two_are_tied_if_either_does(tmp_path: Path, unit: str, most: int) -> None:
    counts = by_chance(40, 300, unit)
    everything = CorrelationStore.open(save_correlation(counts, Scoring(max_ties=0), tmp_path / "all")).table
    store = CorrelationStore.open(save_correlation(counts, Scoring(max_ties=most), tmp_path / "few"))
    n_sides, held = store.table.n_sides, {}
    for node in range(store.n_words * n_sides):
        columns, weights = everything.row(node)
        strongest = sorted(zip((-weights).tolist(), columns.tolist(), strict=True))[:most]
        held[node] = {column: -weight for weight, column in strongest}
        assert dict(zip(*(part.tolist() for part in store.table.row(node)), strict=True)) == held[node]
    words = counts.words.to_pylist()
    [found] = store.correlate([[words[:20], words[10:30]][:n_sides]])
    for i, (one, side) in enumerate(zip(found.words, found.sides.tolist(), strict=True)):
        for j, (other, its_side) in enumerate(zip(found.words, found.sides.tolist(), strict=True)):
            a, b = words.index(one), words.index(other)
            either = max(held[a * n_sides + side].get(b, 0.0), held[b * n_sides + its_side].get(a, 0.0))
            assert found.weights[i, j] == (0.0 if n_sides == 2 and side == its_side else either)
            if side == 0 and its_side == n_sides - 1:
                assert store.pair(one, other).weight == either, "what is told about a pair is what maps show"


def test_many_texts_are_asked_in_batches_with_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CorrelationStore.open(save_correlation(by_chance(300, 9000), Scoring(), tmp_path / "c"))
    expected = ASK["map"](store)
    monkeypatch.setattr(correlation_table, "_N_ENTRIES", 100)
    assert ASK["map"](store) == expected


def test_terms_of_a_large_table_are_those_of_adding_up_everything() -> None:
    chance = np.random.default_rng(1)
    n_words, n_ties = 12_000, 250_000
    one, other = (chance.random((2, n_ties)) ** 3 * n_words).astype(np.int64)
    keys = np.unique(np.minimum(one, other) * n_words + np.maximum(one, other))
    first, second = np.divmod(keys, n_words)
    weights = chance.random(len(keys)).astype(np.float32) / 2
    weights[chance.random(len(keys)) < 0.3] = 0.25  # so that some sums are equal
    words = [f"w{number}" for number in range(n_words)]
    table = make_table(words, first, second, weights)
    texts = [(chance.random(60) ** power * n_words).astype(int).tolist() for power in (1, 2, 3, 4, 5, 6, 20)]
    for found, text in zip(table.correlate([[[words[i] for i in text]] for text in texts], 20), texts, strict=True):
        sums, distinct = np.zeros(n_words), set(text)
        for number in distinct:
            mine = first == number
            np.add.at(sums, second[mine], weights[mine].astype(float))
            mine = (second == number) & (first != number)
            np.add.at(sums, first[mine], weights[mine].astype(float))
        candidates = [t for t in np.argsort(-sums)[:500].tolist() if t not in distinct and sums[t] > 0]
        best = sorted(candidates, key=lambda t: (-round(sums[t], 12), words[t]))[:20]
        assert found.terms == [words[t] for t in best]
        assert found.ties.sum(axis=0) == pytest.approx(sums[best], rel=1e-5)


def test_a_text_of_two_sides_needs_a_table_of_pairs(tmp_path: Path) -> None:
    store = CorrelationStore.open(save_correlation(counted("document"), Scoring(), tmp_path / "c"))
    with pytest.raises(SourceError, match="2 sides"):
        store.correlate([[["cat"], ["dog"]]])


@pytest.mark.parametrize("unit", UNITS)
def test_counts_come_back_and_can_be_scored_again_without_the_corpus(tmp_path: Path, unit: str) -> None:
    counts = counted(unit)
    store = CorrelationStore.open(save_correlation(counts, Scoring("pmi", 0.5), tmp_path / "one"))
    again = store.counts()
    assert again.settings == counts.settings and again.words.equals(counts.words) and again.about == counts.about
    for name in ("left", "right", "n_units", "keys", "pair_counts"):
        assert np.array_equal(np.asarray(getattr(again, name)), np.asarray(getattr(counts, name)))
    save_correlation(again, Scoring(), tmp_path / "two")
    save_correlation(counts, Scoring(), tmp_path / "three")
    assert content(tmp_path / "two") == content(tmp_path / "three")
    assert content(tmp_path / "one") != content(tmp_path / "two")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("unit", ["sentence", "pair"])
def test_the_bytes_do_not_depend_on_the_memory_given(
    tmp_path: Path, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = by_chance(300, 9000, unit)
    save_correlation(counts, Scoring(), tmp_path / "much")
    monkeypatch.setattr(correlation_build, "_MOST_WORDS", 7)
    save_correlation(counts, Scoring(), tmp_path / "little", memory=1)  # 1,024 pairs at a time
    ties = CorrelationStore.open(tmp_path / "little").table
    assert all((np.diff(ties.row(node)[0]) > 0).all() for node in range(ties.n_words * ties.n_sides)), "rows ascend"
    assert content(tmp_path / "much") == content(tmp_path / "little")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["little", "much"], "nothing is left lying around"


def test_mapped_counts_are_as_good_as_those_in_memory(tmp_path: Path) -> None:
    counts = by_chance(200, 3000)
    for name in ("keys", "pair_counts"):
        np.save(tmp_path / f"{name}.npy", getattr(counts, name))
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("keys", "pair_counts")}
    save_correlation(counts, Scoring(), tmp_path / "one")
    save_correlation(counts._replace(**mapped), Scoring(), tmp_path / "two")
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_corpus_without_pairs_gives_a_folder_without_ties(tmp_path: Path) -> None:
    for number, texts in enumerate([[], ["once"], ["a b", "c d"]]):
        counts = count_texts(texts, Counting(unit="document", min_count=1))
        store = CorrelationStore.open(save_correlation(counts, Scoring(), tmp_path / str(number)))
        [found] = store.correlate([[["once", "a"]]], 5)
        assert found.terms == [] and not found.weights.any()
        assert store.n_ties == 0 and len(store.points(5).scores) == 0


def test_what_is_known_about_two_words(tmp_path: Path) -> None:
    texts = ["cat mouse", "cat mouse", "cat", "dog", "dog fish", "cat fish", "owl", "owl"]
    counts = count_texts(texts, Counting(unit="document", min_count=1, min_pairs=1))
    store = CorrelationStore.open(save_correlation(counts, Scoring("pmi"), tmp_path / "c"))
    facts = store.pair("Mouse", "cat")  # 2 of 8 texts, 4 have "cat", 2 "mouse"
    assert facts == ("mouse", "cat", 2, 2, 4, 1.0, 1.0)
    assert (facts.together, facts.first_count, facts.second_count, facts.score) == (2, 2, 4, 1.0)
    facts = store.pair("cat", "fish")  # 1 of 8, 4 and 2: as often as by chance
    assert (facts.together, facts.score, facts.weight) == (1, 0.0, 0.0)
    assert store.pair("cat", "owl")[2:] == (0, 4, 2, None, 0.0)
    assert (store.count("cat"), store.n_units) == (4, 8)
    with pytest.raises(InputError, match="'wolf' is none of the 5 words of the table"):
        store.pair("cat", "wolf")
    with pytest.raises(InputError, match=r"'two words' is none of .* it is not one word"):
        store.neighbours("two words")


def test_neighbours_come_closest_first_and_equals_in_alphabetical_order(tmp_path: Path) -> None:
    texts = ["x b", "x a", "x c", "c c", "d e", "d e", "f g", "f g"]
    counts = count_texts(texts, Counting(unit="document", min_count=1, min_pairs=1))
    store = CorrelationStore.open(save_correlation(counts, Scoring("pmi"), tmp_path / "c"))
    assert [near.word for near in store.neighbours("X")] == ["a", "b", "c"]
    assert [near.word for near in store.neighbours("x", 2)] == ["a", "b"]
    nearest = store.neighbours("x")[0]  # 1 of 8 together, x in 3, a in 1
    assert nearest._asdict() == {"word": "a", "score": pytest.approx(np.log2(8 / 3)), "together": 1, "count": 1}


def test_neighbours_of_a_table_of_pairs_stand_on_the_other_side(tmp_path: Path) -> None:
    rows = [("buy pills", "pharmacy"), ("buy pills", "pharmacy pills"), ("read news", "paper"), ("read", "paper buy")]
    counts = count_texts(rows, Counting(unit="pair", min_count=1, min_pairs=1))
    store = CorrelationStore.open(save_correlation(counts, Scoring("pmi"), tmp_path / "c"))
    assert [near.word for near in store.neighbours("buy")] == ["pharmacy", "pills"]
    assert [near.word for near in store.neighbours("buy", side=1)] == ["read"]
    assert [near.word for near in store.neighbours("pharmacy")] == ["buy", "pills"], "it was never on the left"
    assert (store.count("buy"), store.count("buy", side=1)) == (2, 1)
    assert store.neighbours("pills", side=0)[0] == ("pharmacy", 1.0, 2, 2)
    assert store.pair("pharmacy", "buy").score is None, "a left and a right word, in this order"
    with pytest.raises(InputError, match="side is 2"):
        store.neighbours("buy", side=2)


def test_points_are_counted_pairs_spread_over_the_table(tmp_path: Path) -> None:
    counts = by_chance(200, 5000)
    store = CorrelationStore.open(save_correlation(counts, Scoring("pmi"), tmp_path / "c"))
    points = store.points(100)
    assert len(points.scores) == len(points.together) == len(points.rarer) == 100
    everything = store.points(10**6)
    assert everything.together.tolist() == counts.pair_counts.tolist()
    first, second = np.divmod(counts.keys, 200)
    assert everything.rarer.tolist() == np.minimum(counts.left[first], counts.left[second]).tolist()
    assert everything.scores[0] == store.pair(*(counts.words[int(one[0])].as_py() for one in (first, second))).score


ASK: dict[str, Callable[[CorrelationStore], object]] = {
    "about": lambda store: store.about,
    "map": lambda store: [(f.words, f.weights.tolist(), f.terms, f.ties.tolist()) for f in store.correlate(ASKED, 4)],
    "pairs": lambda store: [store.neighbours(word, 50) for word in ("w000001", "w000150", "w000299")],
    "points": lambda store: [column.tolist() for column in store.points(10**6)],
    "again": lambda store: np.asarray(store.counts().keys).tolist(),
}
ASKED = [[[f"w{number:06d}" for number in range(start, 300, 30)]] for start in range(30)]


def test_a_flipped_bit_is_an_error_that_names_the_file_and_never_a_wrong_answer(tmp_path: Path) -> None:
    save_correlation(by_chance(300, 9000), Scoring(), tmp_path / "c")
    assert all(ask(CorrelationStore.open(tmp_path / "c")) for ask in ASK.values())
    chance = random.Random(0)
    for path in sorted((tmp_path / "c").iterdir()):
        whole = path.read_bytes()
        for _ in range(4):
            place, bit = chance.randrange(len(whole)), 1 << chance.randrange(8)
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            with pytest.raises(SourceError, match=re.escape(path.name)):
                [ask(CorrelationStore.open(tmp_path / "c")) for ask in ASK.values()]
        path.write_bytes(whole)


def test_a_folder_of_another_kind_or_shape_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="no correlation folder at"):
        CorrelationStore.open(tmp_path / "nothing")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file.txt").write_text("precious")
    with pytest.raises(InputError, match="left alone"):
        save_correlation(counted("document"), Scoring(), tmp_path / "mine")
    assert (tmp_path / "mine" / "file.txt").read_text() == "precious"
    folder = save_correlation(counted("document"), Scoring(), tmp_path / "c")
    monkeypatch.setattr("infuser.knowledge.correlation.store.SHAPE", 1)
    with pytest.raises(SourceError, match="another version"):
        CorrelationStore.open(folder)


def test_ties_above_a_limit_are_a_table_of_their_own() -> None:
    words, first, second = ["a", "b", "c"], np.array([0, 0, 1]), np.array([1, 2, 2])
    table = make_table(words, first, second, np.array([1.0, 0.5, 0.25]))
    assert np.triu(table.correlate([[words]])[0].weights).sum() == 1.75
    [found] = table.above(0.25).correlate([[["a", "b"]]], 5)
    assert found.weights.tolist() == [[0, 1], [1, 0]]
    assert (found.terms, found.ties.tolist()) == (["c"], [[0.5], [0.0]])
    assert isinstance(table, TieTable) and len(table) == 3


def test_a_large_folder_opens_in_milliseconds(tmp_path: Path) -> None:
    folder = save_correlation(by_chance(20_000, 400_000), Scoring(), tmp_path / "c")
    CorrelationStore.open(folder)  # imports and such are not the folder's cost
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        CorrelationStore.open(folder)
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.02
