"""Figures on a page: the same every time, without style, ids or links, names as they are, colours of the page."""

from __future__ import annotations

import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from infuser.errors import InputError
from infuser.reports.figures import drawing, new_figure, to_svg, write_figure


def sample(name: str) -> Figure:
    with drawing():
        figure = new_figure(100)
        axes = figure.subplots()
        axes.plot([1, 2], [3, 4], "o-", label="line", gid=name)
        axes.set_title(name)
    return figure


def test_a_figure_is_the_same_svg_every_time_and_needs_nothing_else() -> None:
    drawn = to_svg(sample("a"), "About it")
    assert drawn == to_svg(sample("a"), "About it")
    svg = ElementTree.fromstring(drawn)
    names = {name for one in svg.iter() for name in one.attrib}
    assert not names & {"style", "id", "href", "clip-path"} and not [n for n in names if n.endswith("}href")]
    assert {one.tag.rpartition("}")[2] for one in svg.iter()} == {"svg", "g", "path", "text", "title"}
    assert svg.get("aria-label") == "About it" and svg.get("role") == "img"


def test_names_are_text_and_do_no_harm(evil: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = ElementTree.fromstring(to_svg(sample(f"$x_{{ {evil} 🌍"), evil))
    assert f"$x_{{ {evil} 🌍" in [text.text for text in svg.iterfind(".//{*}text")]
    assert f"$x_{{ {evil} 🌍" in [title.text for title in svg.iterfind(".//{*}title")]
    assert not list(svg.iterfind(".//{*}script")) and not list(svg.iterfind(".//{*}img"))


def test_ink_and_grid_have_the_colours_of_the_page() -> None:
    svg = ElementTree.fromstring(to_svg(sample("a"), "x"))
    grid = [path for path in svg.iterfind(".//{*}path") if path.get("class") == "grid"]
    assert len(grid) > 4 and all("stroke" not in path.attrib for path in grid)
    assert all("fill" not in text.attrib for text in svg.iterfind(".//{*}text"))


def test_files_are_written_by_their_ending(tmp_path: Path) -> None:
    assert imread(write_figure(sample("a"), tmp_path / "a.png")).shape[1] > 900
    assert write_figure(sample("a"), tmp_path / "a.svg", endings=(".png", ".svg")).read_text().startswith("<?xml")
    with pytest.raises(InputError, match=r"let it end in \.png"):
        write_figure(sample("a"), tmp_path / "a.gif")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]
