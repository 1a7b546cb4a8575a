"""Pictures by matplotlib: one look for all of them, as inline SVG for a page or as a file.

In a page the text of a picture stays text, and ink and grid take the page's colours, light or dark.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from infuser.errors import InputError
from infuser.files import write_whole
from infuser.reports.page import SVG, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#3b82c4", "#d9620e", "#4f9d69", "#b0629b", "#a08b2c", "#6e8898")
"""One per arm or curve; colour-blind readers can tell them apart, too."""
WIDTH = 460
"""Of a chart on a page, in points."""

_INK, _SOFT, _LINE = "#1b1f24", "#56606a", "#d5dae0"
_CLASSES = {_INK: "line", _SOFT: "mixed", _LINE: "grid"}
"""Colours of lines that a page replaces by its own: look.css has these classes."""
_LOOK: dict[Any, Any] = {
    "font.size": 13,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "axes.labelsize": 11,
    "text.color": _INK,
    "axes.labelcolor": _SOFT,
    "xtick.labelcolor": _SOFT,
    "ytick.labelcolor": _SOFT,
    "grid.color": _LINE,
    "grid.linewidth": 1.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.handlelength": 1.0,
    "text.parse_math": False,  # a name such as "$x$" is a name
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "infuser",
    **{f"axes.spines.{side}": False for side in ("left", "right", "top", "bottom")},
}
# used after DejaVu Sans for signs that it lacks, when installed
_MORE_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Devanagari", "Noto Emoji", "Arial Unicode MS")


@contextmanager
def drawing() -> Iterator[None]:
    """Give the figures that are made and written within it the look of all pictures."""
    import matplotlib

    with matplotlib.rc_context({**_LOOK, "font.family": fonts()}), warnings.catch_warnings():
        # an emoji that no installed font knows becomes a box; a picture needs no warning for that
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@cache
def fonts() -> list[str]:
    """Return the fonts that pictures use, as far as they are installed."""
    from matplotlib.font_manager import get_font_names

    return ["DejaVu Sans", *(name for name in _MORE_FONTS if name in set(get_font_names()))]


def new_figure(height: float, *, width: float = WIDTH) -> Figure:
    """Return an empty figure of that size in points."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72))


def to_svg(figure: Figure, label: str, kind: str = "chart") -> str:
    """Return a figure as inline SVG that needs no style, no script and nothing from elsewhere.

    The gid of an artist becomes its title, which shows under the pointer.
    """
    drawn = io.BytesIO()
    with drawing():
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(drawn.getvalue())
    shapes = {path.get("id"): path.get("d", "") for path in root.iter(f"{{{SVG}}}path") if path.get("id")}
    named = {artist.get_gid() for artist in figure.findobj(lambda one: one.get_gid() is not None)}
    inside = [_plain(child, shapes, named) for child in root if child.tag == f"{{{SVG}}}g"]
    _, _, width, height = root.get("viewBox", "").split()
    size = {} if kind == "chart" else {"width": width, "height": height}
    about = {"class": kind, "role": "img", "aria-label": visible(label), "viewBox": f"0 0 {width} {height}"}
    picture = ElementTree.Element("svg", {"xmlns": SVG, **about, **size, "font-size": "13"})
    picture.extend(inside)
    return ElementTree.tostring(picture, encoding="unicode")


def write_figure(figure: Figure, path: str | Path, *, endings: Sequence[str] = (".png",), dpi: int = 150) -> Path:
    """Write a figure as a file; the ending of its name says which kind."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        raise InputError(f"{str(path)!r} is no picture file; let it end in {', '.join(endings)}.")
    drawn = io.BytesIO()
    with drawing():
        figure.savefig(drawn, format=path.suffix[1:].lower(), dpi=dpi)
    return write_whole(path, drawn.getvalue())


def _plain(element: ElementTree.Element, shapes: dict[str | None, str], named: set[str | None]) -> ElementTree.Element:
    """Return an element without style, ids and links: markers are paths of their own, gids are titles."""
    attributes = {name: value for name, value in element.attrib.items() if name in ("d", "transform", "x", "y")}
    style = dict(part.split(": ", 1) for part in element.get("style", "").split("; ") if ": " in part)
    kind = element.tag.removeprefix(f"{{{SVG}}}")
    if kind == "text":
        size = re.search(r"([\d.]+)px", style.get("font", style.get("font-size", "")))
        soft = style.get("fill") == _SOFT
        attributes |= {"class": "tick"} if soft else {"font-size": size[1]} if size else {}
        attributes |= {name: style[name] for name in ("text-anchor", "font-style") if name in style}
    else:
        if style.get("stroke") in _CLASSES:
            attributes["class"] = _CLASSES[style.pop("stroke")]
        attributes |= {name: value for name, value in style.items() if name.startswith(("fill", "stroke", "opacity"))}
    if kind == "use":  # a marker
        kind, place = "path", f"translate({attributes.pop('x')} {attributes.pop('y')})"
        link = next(value for name, value in element.attrib.items() if name.endswith("href"))
        attributes |= {"d": shapes[link.removeprefix("#")], "transform": place}
    plain = ElementTree.Element(kind, attributes)
    plain.text = element.text if kind == "text" else None
    if element.get("id") in named:
        ElementTree.SubElement(plain, "title").text = element.get("id")
    plain.extend(_plain(child, shapes, named) for child in element if child.tag != f"{{{SVG}}}defs")
    return plain
