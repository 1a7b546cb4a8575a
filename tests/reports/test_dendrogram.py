"""The tree of relations: the same order as scipy's, branches that never go back, names that do no harm."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.cluster.hierarchy import dendrogram, linkage

from infuser.reports.charts import dendrogram as draw_dendrogram
from infuser.reports.charts import lay_out, leaf_order
from infuser.reports.figures import COLOURS


def tree_of(n_leaves: int, seed: int = 0) -> list[list[float]]:
    points = np.random.default_rng(seed).normal(size=(n_leaves, 8))
    rows: list[list[float]] = linkage(points, "average", metric="cosine").tolist()
    return rows


def drawn(n_leaves: int, names: list[str] | None = None, groups: list[int | None] | None = None) -> ElementTree.Element:
    names = names or [f"relation {at} · P{at}" for at in range(n_leaves)]
    return ElementTree.fromstring(draw_dendrogram(tree_of(n_leaves), names, groups or []))


def titled(svg: ElementTree.Element, start: str) -> list[ElementTree.Element]:
    """Return the groups whose title starts so; it shows under the pointer."""
    return [one for one in svg.iter() if (one.findtext("{*}title") or "").startswith(start)]


def merges(svg: ElementTree.Element) -> list[ElementTree.Element]:
    return [path for group in titled(svg, "joined at") for path in group.iterfind("{*}path")]


@pytest.mark.parametrize("n_leaves", [2, 3, 20, 95])
def test_leaves_and_merges_stand_where_scipy_puts_them(n_leaves: int) -> None:
    rows = tree_of(n_leaves, seed=n_leaves)
    expected = dendrogram(np.array(rows), no_plot=True)
    assert leaf_order(rows) == expected["leaves"]
    laid_out = lay_out(rows)
    # scipy has leaves at 5, 15, 25 ... and lists its merges in another order
    theirs = sorted(
        (y0 / 10 - 0.5, y1 / 10 - 0.5, x0, distance, x1)
        for (y0, _, y1, _), (x0, distance, _, x1) in (
            ((ys[0], ys[1], ys[2], ys[3]), xs) for ys, xs in zip(expected["icoord"], expected["dcoord"], strict=True)
        )
    )
    ours = sorted((merge.y, merge.other_y, merge.x, merge.distance, merge.other_x) for merge in laid_out)
    np.testing.assert_allclose(ours, theirs)


def test_every_merge_lies_further_right_than_what_it_joins() -> None:
    paths = [path.get("d", "") for path in merges(drawn(95))]
    assert len(paths) == 94
    for path in paths:
        start, across, _, end = (float(number) for number in re.findall(r"[ML] ([\d.]+)", path))
        assert across >= max(start, end)


def test_95_names_have_a_line_each_in_the_order_of_the_tree_and_stay_inside() -> None:
    svg = drawn(95)[0]
    labels = [text for group in titled(svg, "relation") for text in group.iterfind("{*}text")]
    assert [text.text for text in labels] == [f"relation {at} · P{at}" for at in leaf_order(tree_of(95))]
    heights = [float(text.get("y", 0)) for text in labels]
    assert min(np.diff(heights)) >= 16 and heights[-1] < float(svg.get("height", 0))  # a font of 12 pixels
    left = float(labels[0].get("x", 0))
    assert labels[0].get("text-anchor") == "end"
    assert left > 5 * len("relation 90 · P90")  # names end at x: there is room for them


def test_long_and_hostile_names_are_cut_and_escaped(evil: str) -> None:
    svg = drawn(3, [evil * 9, "a", "b" * 500])
    assert evil * 9 in [title.text for title in svg.iterfind(".//{*}title")]  # whole under the pointer
    assert all(len(text.text or "") <= 52 for text in svg.iterfind(".//{*}text"))
    assert not list(svg.iterfind(".//{*}script")) and float(svg[0].get("width", 0)) < 900


def test_branches_within_a_group_have_its_colour_and_neighbours_differ() -> None:
    rows = [[0, 1, 0.1, 2], [2, 3, 0.2, 2], [4, 5, 0.9, 4]]
    svg = ElementTree.fromstring(draw_dendrogram(rows, list("abcd"), [6, 6, 0, 0]))
    strokes = [path.get("stroke", path.get("class")) for path in merges(svg)]
    assert strokes == [COLOURS[0], COLOURS[1], "mixed"]  # the look has the colour of the last
    assert lay_out(rows, [6, 6, 0, 0])[-1].group is None


def test_what_cannot_be_drawn_is_left_out_and_equal_things_are_drawn() -> None:
    assert draw_dendrogram([], ["alone"]) == "" and draw_dendrogram([], []) == ""
    assert draw_dendrogram([[0, 1, float("nan"), 2]], ["a", "b"]) == ""
    assert draw_dendrogram([[0, 1, 0.5, 2]], ["a", "b", "c"]) == ""  # rows of another tree
    same = ElementTree.fromstring(draw_dendrogram([[0, 1, 0.0, 2]], ["a", "b"]))
    assert len(merges(same)) == 1


def test_a_chain_of_thousands_is_no_recursion() -> None:
    n = 3000
    rows = [[0.0, 1.0, 0.001, 2.0]] + [[n + at - 1.0, at + 1.0, 0.001 * (at + 1), at + 2.0] for at in range(1, n - 1)]
    assert leaf_order(rows) == list(range(n))
