from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuser.analysis.explanation import Explanation
from infuser.errors import InputError
from infuser.reports import write_explanation
from infuser.reports.page import shown

Explain = Callable[..., Explanation]
Write = Callable[..., Any]


@pytest.fixture
def write(tmp_path: Path, read_page: Callable[[Path], Any]) -> Write:
    return lambda told: read_page(write_explanation(told, tmp_path / "page.html"))


def test_page_fetches_nothing_and_runs_only_its_own_script(explain: Explain, write: Write) -> None:
    write(explain(n_terms=2)).check_self_contained()


def test_everything_a_user_wrote_is_escaped(explain: Explain, write: Write, evil: str) -> None:
    told = explain(
        n_terms=1,
        words=[evil] * 10,
        terms=[evil],
        maps={evil: np.ones((10, 11))},
        text=evil,
        pair=evil,
        title=evil,
        answer_plain={evil: 0.2},
        answer_infused={evil: 0.9},
    )
    page = write(told)
    page.check_self_contained()
    assert "<script>alert" not in page.source and page.text.count(evil) >= 5
    assert json.loads(page.grids()[0]["data-rows"]) == [evil] * 10


def test_page_says_layer_head_answers_and_texts(explain: Explain, write: Write) -> None:
    told = explain(head=7, answer_plain={"no": 0.69, "yes": 0.31}, answer_infused={"yes": 0.84, "no": 0.16})
    page = write(told)
    assert "layer 3, head 7" in page.text and "buy glipizide" in page.text and "pharmacy near me" in page.text
    assert [part for part in ("0.310", "0.840", "+0.530", "-0.530") if part not in page.text] == []
    without = write(explain())
    assert "Answer" not in without.text and "mean over heads" in without.text


def test_unchanged_attention_is_said_to_be_unchanged(explain: Explain, write: Write) -> None:
    told = explain()
    page = write(explain(infused=told.plain + 1e-9))
    assert "did not change this attention" in page.text
    assert "Largest changes" in write(told).text


@pytest.mark.parametrize("n_words", [1, 2, 150])
def test_one_word_and_many_words_are_written(explain: Explain, write: Write, values_of: Any, n_words: int) -> None:
    page = write(explain(n_words=n_words))
    page.check_self_contained()
    assert len(values_of(page.grids()[0])) == n_words**2
    assert not re.search(r"\bnan\b", page.source, re.IGNORECASE) and len(page.source) < 1_000_000


def test_emoji_and_broken_characters_do_not_stop_the_page(explain: Explain, write: Write) -> None:
    words = ["🌍", "👩‍👩‍👧", "é", "\ud800", "\x00", "", "中文", "עברית", "a\nb", "ﬁ"]
    page = write(explain(words=words, text="🌍 \ud800", maps={"🌍": np.ones((10, 10))}))
    assert "🌍" in page.text and "👩‍👩‍👧" in page.text
    page.check_self_contained()


def test_several_texts_share_a_page_under_their_own_titles(explain: Explain, write: Write) -> None:
    page = write([explain(title="first one"), explain(title="second one")])
    assert "first one" in page.text and "second one" in page.text and len(page.grids()) == 8
    with pytest.raises(InputError, match="list of explanations is empty"):
        write([])


def test_labels_are_visible_and_short() -> None:
    assert shown("   ") == "␣␣␣" and shown("") == "␣" and shown("a\nb\x00") == "a·b·"
    assert shown("incomprehensibilities", 8) == "incompr…" and shown("🌍", 8) == "🌍"
