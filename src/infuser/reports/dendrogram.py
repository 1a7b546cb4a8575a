"""A tree of what is near to what, as inline SVG: names on the left, joined further right the less alike they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from infuser.analysis.explanation import shown
from infuser.reports.charts import COLOURS, ticks
from infuser.reports.grids import SVG, columns_taken
from infuser.reports.parts import escaped

Linkage = Sequence[Sequence[float]]
"""Rows of scipy.cluster.hierarchy.linkage: two things joined, their distance, how many leaves are below."""

_ROW, _TREE, _EDGE, _LETTER = 17, 420, 26, 6.6
"""Pixels: height of a leaf, width of the tree, room above and below for the axis, width of a letter."""
_LONGEST = 52
"""Longer names are cut; the whole name shows under the pointer."""


class Merge(NamedTuple):
    """Where two branches meet: the one starts at (x, y), the other at (other_x, other_y), both end at `distance`."""

    x: float
    y: float
    other_x: float
    other_y: float
    distance: float
    group: int | None
    """The group of all leaves below, if it is one and the same."""


def leaf_order(linkage: Linkage) -> list[int]:
    """Return the leaves from top to bottom so that no two branches cross; the same order as scipy's dendrogram."""
    n_leaves = len(linkage) + 1
    order, waiting = [], [2 * n_leaves - 2]
    while waiting:  # no recursion: a chain of merges is as deep as there are leaves
        node = waiting.pop()
        if node < n_leaves:
            order.append(node)
            continue
        one, other = linkage[node - n_leaves][:2]
        waiting += [int(other), int(one)]
    return order


def lay_out(linkage: Linkage, groups: Sequence[int | None] = ()) -> list[Merge]:
    """Return all merges; x and distance are distances, y counts leaves from the top."""
    order = leaf_order(linkage)
    below: dict[int, tuple[float, float, int | None]] = {
        leaf: (0.0, float(row), groups[leaf] if groups else None) for row, leaf in enumerate(order)
    }
    merges = []
    for number, (one, other, distance, *_) in enumerate(linkage, start=len(order)):
        (x, y, group), (other_x, other_y, other_group) = below[int(one)], below[int(other)]
        common = group if group == other_group else None
        merges.append(Merge(x, y, other_x, other_y, distance, common))
        below[number] = distance, (y + other_y) / 2, common
    return merges


def draw_dendrogram(linkage: Linkage, names: Sequence[str], groups: Sequence[int | None] = ()) -> str:
    """Return the tree of `names`, in the order in which `linkage` counts them; "" with fewer than two.

    `groups` numbers the group of every name; branches within one group have its colour.
    """
    if len(names) < 2 or len(linkage) != len(names) - 1 or not all(math.isfinite(row[2]) for row in linkage):
        return ""
    labels = [shown(name, _LONGEST) for name in names]
    left = math.ceil(_LETTER * max(map(columns_taken, labels))) + 14
    furthest = max(row[2] for row in linkage) or 1.0
    bottom, width = _EDGE + _ROW * len(names), left + _TREE + 16

    def across(distance: float) -> float:
        return left + _TREE * max(distance, 0.0) / furthest

    def down(row: float) -> float:
        return _EDGE + _ROW * (row + 0.5)

    parts = []
    for tick in ticks(0.0, furthest):
        x = f"{across(tick):.1f}"
        parts.append(f'<path class="grid" d="M{x} {_EDGE}V{bottom}"/>')
        parts += [f'<text class="tick m" x="{x}" y="{y}">{tick:g}</text>' for y in (_EDGE - 12, bottom + 12)]
    order = leaf_order(linkage)
    # numbered from top to bottom, so that neighbours never have the same colour
    number_of = {group: number for number, group in enumerate(dict.fromkeys(groups[leaf] for leaf in order if groups))}
    for row, leaf in enumerate(order):
        name = f"{escaped(labels[leaf])}<title>{escaped(names[leaf])}</title>"
        parts.append(f'<text class="r" x="{left - 6}" y="{down(row):.1f}">{name}</text>')
    for merge in lay_out(linkage, groups):
        colour = "" if merge.group is None else f' stroke="{COLOURS[number_of[merge.group] % len(COLOURS)]}"'
        path = (
            f"M{across(merge.x):.1f} {down(merge.y):.1f}H{across(merge.distance):.1f}"
            f"V{down(merge.other_y):.1f}H{across(merge.other_x):.1f}"
        )
        parts.append(
            f'<path class="merge{"" if colour else " mixed"}" fill="none"{colour} stroke-width="1.6" d="{path}">'
            f"<title>joined at {merge.distance:.3f}</title></path>"
        )
    height = bottom + _EDGE
    return (
        f'<div class="wide"><svg {SVG} class="tree" role="img" '
        f'aria-label="Tree of {len(names)} names by how alike they are" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-size="12">{"".join(parts)}</svg></div>'
    )
