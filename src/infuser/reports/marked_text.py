"""What a source found in a text, drawn as one picture: spans marked, links as arcs, auxiliary terms behind the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infuser.reports.page import SVG, escaped, shown, soft
from infuser.reports.text_lines import CELL, LINE_WIDTH, MARGIN, MARK, Box, Piece, boxes, cells, lay_out, written
from infuser.reports.text_ties import drawn_relation, drawn_tie, labelled_ties, room_above, strongest_ties
from infuser.types import PAIR_BREAK, Annotations
from infuser.words import counted

_GAP, _SIDE_GAP = 12, 14
"""Room between two lines, and more of it between the sides of a pair and before the terms; in pixels."""
_FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_MOST_TIES, _MOST_LISTED, _MOST_NAMED = 60, 40, 6
_MOST_CHARACTERS = 4_000
"""Of each side of a pair; encoders read less of it."""
_TERM_WIDTH = 40
_DEEPEST = 2
"""Marks within marks get smaller so often."""


def marked_figure(name: str, found: Annotations, *, colour: str, border: int | None = None, off: bool = False) -> str:
    """Return a figure of what one source found; the first side of a pair ends at `border`, None: it is no pair.

    A source that is `off` is named so and drawn faded.
    """
    called, kind = (f"{name} (off)", "found off") if off else (name, "found")
    counts = _counts(found)
    caption = f"<figcaption>{escaped(called)} <small>{counts or 'found nothing in this text'}</small></figcaption>"
    if not counts:
        return f'<figure class="{kind}">{caption}</figure>'
    named = list(dict.fromkeys(written(found, place) for place in range(len(found.spans))))
    more = ", ..." if len(named) > _MOST_NAMED else ""
    label = f"{called} found {counts}: {', '.join(named[:_MOST_NAMED])}{more}"
    drawn, notes = _draw(found, _sides(found.text, border), colour, label)
    below = "".join(soft(note) for note in notes)
    return f'<figure class="{kind}">{caption}<div class="wide">{drawn}</div>{below}</figure>'


def ties_in_words(found: Annotations) -> str:
    """Return all that a source found as a folded list; nothing if it found nothing."""
    lines = list(ties_as_text(found))
    if len(lines) > _MOST_LISTED:
        lines[_MOST_LISTED:] = [f"and {len(lines) - _MOST_LISTED:,} more"]
    items = "".join(f"<li>{escaped(line)}</li>" for line in lines)
    return f'<details class="words"><summary>In words</summary><ul>{items}</ul></details>' if items else ""


def ties_as_text(found: Annotations) -> Iterator[str]:
    """Yield each link, each term and each span without either in words."""
    words = [written(found, place) for place in range(len(found.spans))]
    named = [f"{word}{f' ({span.label})' if span.label else ''}" for word, span in zip(words, found.spans, strict=True)]
    for link in found.links:
        if link.source == link.target:
            yield named[link.source]
        else:
            relation = f"{link.relation} -- " if link.relation else ""
            yield f"{words[link.source]} -- {relation}{words[link.target]}   {link.weight:.2f}"
    for term in found.terms:
        ties = ", ".join(f"{words[place]} {weight:.2f}" for place, weight in term.ties)
        yield f"+ {term.text}, not in the text: {ties}"
    tied = _tied(found)
    yield from (f"{name}, tied to nothing here" for place, name in enumerate(named) if place not in tied)


def _draw(found: Annotations, sides: Sequence[tuple[int, int]], colour: str, label: str) -> tuple[str, list[str]]:
    """Return the picture, and what it does not show."""
    pieces: list[Piece] = []
    first_lines = []
    for start, end in sides:
        line = pieces[-1].line + 1 if pieces else 0
        laid = lay_out(found.text, start, min(end, start + _MOST_CHARACTERS), first_line=line)
        first_lines += [line] if laid else []
        pieces += laid
    n_lines = pieces[-1].line + 1 if pieces else 0
    spans = [boxes(found.text, pieces, span) for span in found.spans]
    names = [shown(" ".join(term.text.split()), _TERM_WIDTH) for term in found.terms]
    terms = _places_of_terms(names, n_lines)
    ties, n_drawn, n_ties = strongest_ties(found, spans, terms, _MOST_TIES)
    labelled = labelled_ties(ties)

    n_all = terms[-1].line + 1 if terms else n_lines
    tops, y = [], float(MARGIN - _GAP)
    for line, room in enumerate(room_above(ties, labelled, n_all)):
        y += _GAP + room + (_SIDE_GAP if line and line in {*first_lines, n_lines} else 0)
        tops.append(y)
        y += MARK
    ends = [*(one.column + one.width for one in pieces), *(one.right for one in terms)]
    width = round(2 * MARGIN + CELL * max(ends, default=1))
    height = round(y + MARGIN)
    borders = (tops[line - 1] + MARK + _SIDE_GAP / 2 for line in first_lines[1:])
    rules = "".join(f'<path class="rule" stroke="#8a939c" d="M0 {border:.1f}H{width}"/>' for border in borders)
    picture = (
        f'<svg xmlns="{SVG}" class="marked" role="img" aria-label="{escaped(label)}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-size="14" font-family="{_FONT}">{rules}'
        f'<g fill="{colour}" stroke="{colour}" fill-opacity=".22" stroke-opacity=".55">{_marks(found, spans, tops)}</g>'
        f'<g fill="none" stroke="{colour}">{"".join(drawn_tie(tie, tops) for tie in ties)}</g>'
        # words let the pointer through to the mark behind them, which has a title
        f'<g pointer-events="none" dominant-baseline="central">{_words(found.text, pieces, tops)}'
        f"{_terms(names, terms, tops)}</g>"
        f'<g pointer-events="none" dominant-baseline="central" font-size="10" text-anchor="middle">'
        f"{''.join(drawn_relation(tie, tops) for tie in labelled)}</g></svg>"
    )
    notes = [f"The strongest {n_drawn} of {n_ties:,} ties are drawn."] if n_drawn < n_ties else []
    if any(end - start > _MOST_CHARACTERS for start, end in sides):
        notes.append(f"Only the first {_MOST_CHARACTERS:,} characters are drawn.")
    return picture, notes


def _sides(text: str, border: int | None) -> list[tuple[int, int]]:
    if border is None or not text.startswith(PAIR_BREAK, border):
        return [(0, len(text))]
    return [(0, border), (border + len(PAIR_BREAK), len(text))]


def _counts(found: Annotations) -> str:
    kinds = (("span", found.spans), ("link", found.links), ("term", found.terms))
    return ", ".join(counted(len(things), what) for what, things in kinds if things)


def _tied(found: Annotations) -> set[int]:
    """Return the places of spans that a link or a term ties to something."""
    ends = {place for link in found.links for place in (link.source, link.target)}
    return ends | {place for term in found.terms for place, _ in term.ties}


def _places_of_terms(names: Sequence[str], line: int) -> list[Box]:
    """Return the places of terms, from a line on."""
    places, column = [], 0
    for name in names:
        width = max(1, cells(name))
        if column and column + width > LINE_WIDTH:
            line, column = line + 1, 0
        places.append(Box(line, column, column + width))
        column += width + 2
    return places


def _marks(found: Annotations, spans: Sequence[Sequence[Box]], tops: Sequence[float]) -> str:
    """Return a mark behind each span, smaller within another; spans in the same place share one."""
    tied = _tied(found) or set(range(len(spans)))  # where nothing is tied at all, all marks look alike
    together: dict[tuple[int, int], list[int]] = {}
    for place, span in enumerate(found.spans):
        together.setdefault((span.start, -span.end), []).append(place)
    marks = []
    ends = [0] * (_DEEPEST + 1)  # of the last mark of each depth
    for (start, minus_end), places in sorted(together.items()):
        depth = next((depth for depth, end in enumerate(ends) if end <= start), _DEEPEST)
        ends[depth] = -minus_end
        about = "; ".join(filter(None, (_about(found, place) for place in places)))
        title = f"<title>{escaped(about)}</title>" if about else ""
        loose = "" if tied.intersection(places) else ' fill-opacity=".07" stroke-dasharray="2 2"'
        for box in spans[places[0]]:
            x, width = MARGIN + CELL * box.left - 2 + 1.5 * depth, CELL * (box.right - box.left) + 4 - 3 * depth
            marks.append(
                f'<rect class="mark"{loose} x="{x:.1f}" y="{tops[box.line] + 2.5 * depth:.1f}" width="{width:.1f}" '
                f'height="{MARK - 5 * depth}" rx="4">{title}</rect>'
            )
    return "".join(marks)


def _about(found: Annotations, place: int) -> str:
    span = found.spans[place]
    about = ", ".join(filter(None, (span.label, span.id)))
    return f"{written(found, place)}: {about}" if about else ""


def _words(text: str, pieces: Sequence[Piece], tops: Sequence[float]) -> str:
    return "".join(
        _word(text[one.start : one.end], one.line, one.column, one.width, tops, one.leftwards) for one in pieces
    )


def _terms(names: Sequence[str], places: Sequence[Box], tops: Sequence[float]) -> str:
    words = (
        _word(name, box.line, box.left, box.right - box.left, tops) for name, box in zip(names, places, strict=True)
    )
    return f'<g class="term" font-style="italic">{"".join(words)}</g>' if names else ""


def _word(word: str, line: int, column: int, width: int, tops: Sequence[float], leftwards: bool = False) -> str:
    """Return a word that takes its cells whatever font the reader has."""
    # letters may be moved apart, but what joins them or takes two cells has to be stretched as a whole
    stretch = "" if word.isascii() else ' lengthAdjust="spacingAndGlyphs"'
    x, direction = (column + width, ' direction="rtl"') if leftwards else (column, "")
    return (
        f'<text x="{MARGIN + CELL * x:.1f}" y="{tops[line] + MARK / 2:g}"{direction} '
        f'textLength="{CELL * width:.1f}"{stretch}>{escaped(word)}</text>'
    )
