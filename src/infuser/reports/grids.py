"""A heat map for a web page: one picture of a pixel per cell, words as text; look.js reads the values out."""

from __future__ import annotations

import base64
import json
import math
import struct
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from infuser.analysis.explanation import ROUNDING, Explanation, Matrix
from infuser.reports.page import SVG, escaped, shown

Hue: TypeAlias = tuple[int, int, int]
Scale: TypeAlias = Literal["straight", "root"]
# Middling colours whose opacity is the value: the page shines through, so they work on light and dark alike.
BLUE: Hue = (38, 110, 190)
ORANGE: Hue = (217, 98, 14)
PURPLE: Hue = (110, 80, 180)

_LABEL_WIDTH = 14
_SIZES = ((430, "small"), (800, "medium"))
"""Maps that are no wider, in pixels, may shrink: then three small or two medium ones share a row of a laptop."""
_DIGITS = 10_000
"""Values travel as whole numbers of 1/10,000."""


@dataclass(frozen=True)
class Panel:
    """A matrix and how it is coloured, the same on a page and in a picture."""

    values: Matrix
    top: float
    """What has full colour."""
    scale: Scale = "straight"
    """By square roots small values show beside large ones."""
    signed: bool = False


def map_panel(drawn: Matrix) -> Panel:
    """Return how the map of a source is coloured."""
    return Panel(drawn, max(1.0, float(drawn.max())))


def attention_panels(explanation: Explanation) -> tuple[Panel, Panel, Panel]:
    """Return attention without knowledge and with it, which share a scale, and their difference.

    Attention to [CLS] and [SEP] is so strong that all words would look alike on a straight scale.
    """
    top = float(max(explanation.plain.max(), explanation.infused.max())) or 1.0
    change = float(np.abs(explanation.difference).max())
    # a difference of rounding size stays blank instead of being blown up to full colour
    difference = explanation.difference if change > ROUNDING else np.zeros_like(explanation.plain)
    return (
        Panel(explanation.plain, top, "root"),
        Panel(explanation.infused, top, "root"),
        Panel(difference, change if change > ROUNDING else 1.0, "root", signed=True),
    )


def heat_map(
    panel: Panel,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    about: str = "",
    n_words: int | None = None,
    label_width: int = _LABEL_WIDTH,
    kind: str = "",
    chosen: tuple[int, int] | None = None,
) -> str:
    """Return a panel (rows, columns) as a figure for a page; columns from `n_words` on are terms.

    `about` is what distinguishes a picture when it is copied and stands alone, such as a layer and a head.
    By default there are as many words as rows. Labels are cut to `label_width` signs. `kind` is a name by which a
    script and the look find maps of one kind; `chosen` is a cell that gets a frame.
    """
    n_rows, n_columns = panel.values.shape
    n_words = n_rows if n_words is None else n_words
    cell = next(size for size, most in ((24, 12), (17, 24), (12, 60), (6, 120), (5, math.inf)) if n_rows <= most)
    font = min(12, cell - 1) if cell >= 11 else 13  # where only some words are written, they can be larger
    step = math.ceil((font + 1) / cell)
    row_labels, column_labels = ([shown(word, label_width) for word in words] for words in (rows, columns))
    left = 8 + math.ceil(0.65 * font * max(map(columns_taken, row_labels)))
    above = 8 + math.ceil(0.65 * font * max(map(columns_taken, column_labels)))
    width, height = left + cell * n_columns + 2, above + cell * n_rows + 2

    labels = [
        f'<text class="r" x="{left - 4}" y="{above + cell * at + cell / 2:g}">{escaped(row_labels[at])}</text>'
        for at in range(0, n_rows, step)
    ]
    for at in [*range(0, min(n_words, n_columns), step), *range(n_words, n_columns, step)]:
        x, y = f"{left + cell * at + cell / 2:g}", above - 4
        style = ' class="term"' if at >= n_words else ""
        labels.append(f'<text{style} transform="translate({x} {y}) rotate(-90)">{escaped(column_labels[at])}</text>')
    if n_columns > n_words:
        border = left + cell * n_words
        labels.append(f'<path class="line" d="M{border} {above}V{height - 2}"/>')

    frames = ""
    if chosen is not None:
        row, column = chosen
        at_cell = f'x="{left + cell * column}" y="{above + cell * row}" width="{cell}" height="{cell}"'
        # paper below the frame: on a cell of full colour only its hue would show it
        frames = f'<rect class="chosen paper" {at_cell}/><rect class="chosen" {at_cell}/>'

    size = next((name for widest, name in _SIZES if width <= widest), "")
    packed = _packed(panel.values)
    limit = f"-{panel.top:.2g} to +{panel.top:.2g}" if panel.signed else f"0 to {panel.top:.2g}"
    label = f"{title}, {about}" if about else title
    place = f'x="{left}" y="{above}" width="{cell * n_columns}" height="{cell * n_rows}"'
    return (
        f'<figure class="{escaped(" ".join(filter(None, ("heat", size, kind))))}" data-kind="{escaped(kind)}">'
        f'<figcaption>{escaped(title)} <small>{limit}</small></figcaption><div class="wide">'
        f'<svg xmlns="{SVG}" role="img" aria-label="{escaped(label)}" tabindex="0" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-size="{font}" data-cell="{cell}" data-range="{limit}" '
        f'data-signed="{"1" if panel.signed else ""}" '
        f'data-rows="{_as_attribute(rows)}" data-columns="{_as_attribute(columns)}" '
        f'data-bytes="{packed.itemsize}" data-values="{base64.b64encode(packed.tobytes()).decode("ascii")}">'
        f'<rect class="frame" {place}/>'
        f'<image {place} preserveAspectRatio="none" href="{_picture(panel)}"/>'
        f'{"".join(labels)}{frames}<rect class="box" width="{cell}" height="{cell}" visibility="hidden"/>'
        "</svg></div></figure>"
    )


def opacity(values: Matrix, top: float, scale: Scale) -> Matrix:
    """Return how strongly each value is coloured, 0 to 1."""
    share = np.clip(np.abs(values) / top, 0.0, 1.0)
    return np.sqrt(share) if scale == "root" else share


def _packed(values: Matrix) -> NDArray[np.signedinteger[Any]]:
    """Return values as whole numbers of 1/10,000, in two bytes each where that is enough, else in four."""
    whole = np.rint(values * _DIGITS)
    size = "<i2" if np.abs(whole).max(initial=0.0) < 2**15 else "<i4"  # browsers read the lowest byte first
    return np.clip(whole, -(2**31), 2**31 - 1).astype(size)


def _picture(panel: Panel) -> str:
    """Return the cells as a data address of a PNG, one pixel each."""
    pixels = np.empty((*panel.values.shape, 4), np.uint8)
    pixels[..., :3] = BLUE
    if panel.signed:
        pixels[panel.values > 0, :3] = ORANGE
        pixels[panel.values < 0, :3] = PURPLE
    pixels[..., 3] = np.rint(255 * opacity(panel.values, panel.top, panel.scale))
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode("ascii")


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return a PNG file of (height, width, 4) red, green, blue, opacity."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 4 * width), np.uint8)  # every line starts with its filter: 0, none
    lines[:, 1:] = pixels.reshape(height, 4 * width)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 1)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def columns_taken(label: str) -> int:
    """Return the width of a label in letters; Chinese signs and emoji take two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in label)


def _as_attribute(words: Sequence[str]) -> str:
    return escaped(json.dumps([shown(word) for word in words], ensure_ascii=False))
