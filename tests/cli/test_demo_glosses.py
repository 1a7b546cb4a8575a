from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infuser import Arm, Correlation, Kam, TrainSettings
from infuser.demo import Demo, count_glosses
from infuser.knowledge.correlation.store import CorrelationStore
from infuser.tasks.query_ads import Links, QueryAds

TIES = {("glipizide", "pharmacy"): 1.0}
WORDNET = Path(__file__).parents[1] / "data" / "wordnet"


@pytest.mark.parametrize(("n_terms", "n_arms"), [(0, 3), (1, 4)])
def test_the_demo_has_a_text_arm_where_its_source_provides_something_to_write(n_terms: int, n_arms: int) -> None:
    pairs = [{"text": "buy glipizide", "pair": "the old town", "term": "glipizide", "label": 1}]
    task = QueryAds(pairs, [], [], Links([], {}))
    arm = Arm(Kam(), [Correlation(TIES, n_terms=n_terms)])
    assert Demo(Path("host"), task, arm, TrainSettings(), Path("out")).n_arms == n_arms


def test_the_demo_can_count_its_correlation_in_glosses(tmp_path: Path) -> None:
    wordnet = tmp_path / "wordnet"
    shutil.copytree(WORDNET, wordnet)
    for part in ("verb", "adj", "adv"):  # the sample has nouns only
        (wordnet / f"data.{part}").touch()
    folder = count_glosses(wordnet, tmp_path)
    store = CorrelationStore.open(tmp_path / "correlation")
    assert folder == tmp_path / "correlation"
    assert store.n_ties > 100 and store.counting.unit == "document"
    word = store.table.word(store.n_words - 1)  # a rare one: what was seen once counts
    assert store.neighbours(word)
