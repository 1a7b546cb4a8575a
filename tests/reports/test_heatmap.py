from __future__ import annotations

import io
import subprocess
import sys
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from infuser.analysis.explanation import Explanation
from infuser.errors import InputError
from infuser.reports import draw_explanation, write_png
from infuser.reports.heatmap import MOST_LABELS, caption_lines

Explain = Callable[..., Explanation]


def panels(figure: Figure) -> list:
    return [axes for axes in figure.axes if axes.get_title(loc="left")]


def test_picture_has_a_panel_per_map_and_three_of_attention(explain: Explain) -> None:
    told = explain(n_terms=3, maps={"graph": np.zeros((10, 13)), "entities": np.ones((10, 13))})
    titles = [axes.get_title(loc="left") for axes in panels(draw_explanation(told))]
    assert titles[:2] == ["knowledge: graph", "knowledge: entities"]
    assert titles[2:] == ["attention without knowledge", "attention with knowledge", "with minus without"]


def test_words_stand_on_both_axes_and_terms_in_italics(explain: Explain) -> None:
    told = explain(n_terms=2)
    graph = panels(draw_explanation(told))[0]
    assert [tick.get_text() for tick in graph.get_yticklabels()] == told.words
    assert [tick.get_text() for tick in graph.get_xticklabels()] == [*told.words, "term0", "term1"]
    assert [tick.get_fontstyle() for tick in graph.get_xticklabels()][-3:] == ["normal", "italic", "italic"]


def test_attention_without_and_with_share_one_colour_scale(explain: Explain) -> None:
    told = explain()
    without, infused, change = panels(draw_explanation(told))[1:]
    assert without.images[0].get_clim() == infused.images[0].get_clim()
    assert without.images[0].get_clim()[1] == max(told.plain.max(), told.infused.max())
    low, high = change.images[0].get_clim()
    assert low == -high == pytest.approx(-np.abs(told.difference).max())
    np.testing.assert_array_equal(change.images[0].get_array(), told.difference)


@pytest.mark.parametrize("n_words", [2, 10, MOST_LABELS])
def test_labels_do_not_overlap(explain: Explain, n_words: int) -> None:
    figure = draw_explanation(explain(n_words=n_words))
    figure.draw_without_rendering()
    for axes in panels(figure)[-1:] + panels(figure)[:1]:
        rows = [tick.get_window_extent() for tick in axes.get_yticklabels()]
        columns = [tick.get_window_extent() for tick in axes.get_xticklabels()]
        assert all(upper.y0 >= lower.y1 - 1 for upper, lower in pairwise(rows))
        assert all(left.x1 <= right.x0 + 1 for left, right in pairwise(columns))
        assert min(label.x0 for label in rows) >= 0 and min(label.y0 for label in columns) >= 0


def test_many_tokens_thin_the_labels_and_keep_the_picture_small(explain: Explain) -> None:
    figure = draw_explanation(explain(n_words=200))
    labels = panels(figure)[0].get_yticklabels()
    assert 40 <= len(labels) <= MOST_LABELS
    assert max(figure.get_size_inches()) < 40


def test_png_is_a_picture_and_not_blank(explain: Explain, tmp_path: Path) -> None:
    path = write_png(explain(), tmp_path / "deep" / "picture.png")
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = imread(io.BytesIO(path.read_bytes()))
    assert pixels.shape[0] > 400 and pixels.shape[1] > 400
    assert pixels[..., :3].std() > 0.02
    assert [file.name for file in path.parent.iterdir()] == ["picture.png"]


def test_one_token_and_no_change_are_drawn(explain: Explain, tmp_path: Path) -> None:
    told = explain(n_words=1, maps={}, plain=np.ones((1, 1)), infused=np.ones((1, 1)))
    assert write_png(told, tmp_path / "one.png").stat().st_size > 1000
    assert panels(draw_explanation(told))[-1].images[0].get_clim() == (-1.0, 1.0)


def test_emoji_money_and_control_characters_are_drawn_without_a_warning(explain: Explain, tmp_path: Path) -> None:
    words = ["🌍", "$5", "x$_{", "\\frac", "中文", "\x00", "", " ", "é", "%s"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = write_png(explain(words=words, title="$a 🌍 $b", text="$1 \\bad$"), tmp_path / "odd.png")
    assert path.stat().st_size > 1000


def test_folder_in_the_way_is_refused_and_leaves_nothing_behind(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "taken.png").mkdir()
    with pytest.raises(InputError, match=r"Cannot write .*taken\.png"):
        write_png(explain(), tmp_path / "taken.png")
    assert [file.name for file in tmp_path.iterdir()] == ["taken.png"]


def test_room_opens_without_torch_matplotlib_or_rich() -> None:
    code = (
        "import sys, infuser.reports; "
        "print({'torch', 'matplotlib', 'rich', 'scipy', 'sklearn', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_long_texts_are_cut_in_captions(explain: Explain) -> None:
    lines = caption_lines(explain(text="word " * 20_000, pair=None), 80)
    assert len(lines) == 2 and max(map(len, lines)) <= 80 and lines[-1].endswith("…")
