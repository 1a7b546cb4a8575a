from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from infuser.errors import InputError
from infuser.reports import Explanation, write_explanation
from infuser.reports.grids import heat_map, png

Explain = Callable[..., Explanation]
Write = Callable[..., Any]


@pytest.fixture
def write(tmp_path: Path, read_page: Callable[[Path], Any]) -> Write:
    return lambda told: read_page(write_explanation(told, tmp_path / "page.html"))


def test_page_fetches_nothing_and_runs_only_its_own_script(explain: Explain, write: Write) -> None:
    page = write(explain(n_terms=2))
    page.check_self_contained()
    policy = next(at["content"] for tag, at in page.elements if tag == "meta" and "http-equiv" in at)
    script = re.findall(r"<script>(.*?)</script>", page.source, re.DOTALL)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"'sha256-{digest}'" in policy


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


def test_words_that_knowledge_reaches_are_marked_whole(explain: Explain, write: Write) -> None:
    page = write(explain(n_terms=1))
    marked = re.findall(r"<mark[^>]*>([^<]*)</mark>", page.source)
    assert marked == ["glipizide", "pharmacy"]
    assert "glipizide · pharmacy 0.80" in page.text and "pharmacy · term0 0.50" in page.text


def test_ties_inside_one_word_are_not_told_as_ties_between_words(explain: Explain, write: Write) -> None:
    drawn = np.zeros((10, 10))
    drawn[2:5, 2:5] = 1.0
    page = write(explain(maps={"entities": drawn}))
    assert "ties no two words of this text" in page.text and "glipizide · glipizide" not in page.text


def test_hover_values_are_those_of_the_matrices(explain: Explain, write: Write) -> None:
    told = explain(n_terms=2)
    grids = write(told).grids()
    matrices = [told.maps["graph"], told.plain, told.infused, told.difference]
    assert len(grids) == len(matrices)
    for grid, matrix in zip(grids, matrices, strict=True):
        values = [int(number or 0) / 10_000 for number in grid["data-values"].split(",")]
        np.testing.assert_allclose(np.reshape(values, matrix.shape), matrix, atol=5.1e-5)
        assert json.loads(grid["data-rows"]) == told.words
    assert json.loads(grids[0]["data-columns"]) == [*told.words, "term0", "term1"]
    assert [grid["data-signed"] for grid in grids] == ["", "", "", "1"]


def test_cells_are_coloured_by_value_and_sign() -> None:
    values = np.array([[0.0, 0.25], [-1.0, 1.0]])
    drawn = heat_map(values, ["a", "b"], ["a", "b"], title="t", top=1.0, scale="root", signed=True)
    encoded = re.findall(r'href="data:image/png;base64,([^"]+)"', drawn)[0]
    pixels = imread(io.BytesIO(base64.b64decode(encoded)))  # (2, 2, 4), 0 to 1
    np.testing.assert_allclose(pixels[..., 3], [[0.0, 0.5], [1.0, 1.0]], atol=0.01)
    np.testing.assert_array_equal(pixels[0, 1, :3], pixels[1, 1, :3])
    assert pixels[1, 1, 0] > pixels[1, 1, 2] and pixels[1, 0, 2] > pixels[1, 0, 0]  # orange is more, purple less


def test_png_of_our_own_is_read_back_by_another_reader() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 4)).astype(np.uint8)
    np.testing.assert_array_equal(np.rint(imread(io.BytesIO(png(pixels))) * 255), pixels)


def test_unchanged_attention_is_said_to_be_unchanged(explain: Explain, write: Write) -> None:
    told = explain()
    page = write(explain(infused=told.plain + 1e-9))
    assert "did not change this attention" in page.text
    assert "Largest changes" in write(told).text


@pytest.mark.parametrize("n_words", [1, 2, 150])
def test_one_word_and_many_words_are_written(explain: Explain, write: Write, n_words: int) -> None:
    page = write(explain(n_words=n_words))
    page.check_self_contained()
    assert len(page.grids()[0]["data-values"].split(",")) == n_words**2
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
