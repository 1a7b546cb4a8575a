from __future__ import annotations

import shutil
from pathlib import Path

from infuser.demo import count_glosses
from infuser.knowledge.correlation.store import CorrelationStore

WORDNET = Path(__file__).parents[1] / "data" / "wordnet"


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
