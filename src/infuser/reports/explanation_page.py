"""An explanation on a page: answer, what was found, decisions, maps, attention and the largest changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infuser.analysis.explanation import ROUNDING, Explanation
from infuser.errors import InputError
from infuser.files import write_whole
from infuser.reports.decisions import answer_table, mentions_table, triples_as_found, triples_table
from infuser.reports.entity_lines import entity_lines
from infuser.reports.figures import COLOURS
from infuser.reports.grids import Panel, attention_panels, heat_map, map_panel
from infuser.reports.marked_text import marked_figure, ties_in_words
from infuser.reports.page import caution, document, escaped, panels, section, shown, soft, table
from infuser.types import join_pair

_PLACES = {"bottom": "before the first block", "top": "behind the last block"}


def write_explanation(explanations: Explanation | Sequence[Explanation], path: str | Path) -> Path:
    """Write one self-contained page that shows what knowledge changed in one text or in several."""
    several = [explanations] if isinstance(explanations, Explanation) else list(explanations)
    if not several:
        raise InputError("Nothing to write: the list of explanations is empty. Explain at least one text.")
    if len(several) == 1:
        title, parts = several[0].title, [explanation_section(several[0])]
    else:
        title = f"What knowledge changed in {len(several)} texts"
        parts = [section(one.title, explanation_section(one)) for one in several]
    return write_whole(path, document(title, parts))


def explanation_section(explanation: Explanation) -> str:
    """Return one explanation for a page, without its title."""
    sides = [side for side in (explanation.text, explanation.pair) if side]
    quotes = "".join(f"<blockquote>{escaped(side)}</blockquote>" for side in sides)
    return f"<section>{quotes}{''.join(explanation_parts(explanation).values())}</section>"


def explanation_parts(explanation: Explanation) -> dict[str, str]:
    """Return the pieces of one explanation, each with its heading; "" where there is nothing to show.

    Every piece is well-formed XML and escaped.
    """
    return {
        "warning": _warning(explanation),
        "answer": _answer(explanation),
        "entities": entity_lines(explanation),
        "found": _found(explanation),
        "triples": _triples(explanation),
        "mentions": _mentions(explanation),
        "gates": _gates(explanation),
        "maps": _maps(explanation),
        "heads": _heads(explanation),
        "attention": _attention(explanation),
        "changes": _changes(explanation),
    }


def _warning(explanation: Explanation) -> str:
    return f"<h3>Heads that ran away</h3>{caution(explanation.warning)}" if explanation.warning else ""


def _answer(explanation: Explanation) -> str:
    without, infused = explanation.answer_plain or {}, explanation.answer_infused or {}
    if not without and not infused:
        return ""
    if _all_off(explanation):
        note = soft("Every source is off. What still differs is the method's own: its weights read any text.")
    elif explanation.answers_without:
        note = "Without knowledge: this model, its method switched off; not an encoder that was trained without it. "
        note += "Without a source: the method, and what the others found."
        if explanation.answers_without.keys() - explanation.found.keys():
            note += " Without a method: the others, and all that was found."
        note = soft(note)
    else:
        note = ""
    if methods := [name for name in explanation.off if name not in explanation.found]:
        note += soft(f"Switched off: {', '.join(methods)}.")
    return f"<h3>Answer</h3>{answer_table(without, infused, explanation.answers_without)}{note}"


def _found(explanation: Explanation) -> str:
    """Return what each source found: the text with its marks and arcs, and the same in words."""
    border = None if explanation.pair is None else len(explanation.text)
    figures = [
        "<div>"
        + marked_figure(name, found, colour=COLOURS[at % len(COLOURS)], border=border, off=name in explanation.off)
        + ties_in_words(found)
        + "</div>"
        for at, (name, found) in enumerate(explanation.found.items())
    ]
    written = soft(f"Written behind the text: {explanation.written}") if explanation.written else ""
    return f"<h3>What was found</h3>{panels(figures)}{written}" if figures else ""


def _triples(explanation: Explanation) -> str:
    if explanation.triples is None:
        return ""
    heading = "<h3>Relations read from attention</h3>"
    if not explanation.triples:
        return heading + soft("None: no two spans of this text are related according to this model.")
    drawn = triples_as_found(join_pair(explanation.text, explanation.pair), explanation.triples)
    border = None if explanation.pair is None else len(explanation.text)
    colour = COLOURS[len(explanation.found) % len(COLOURS)]  # one that no source has
    figure = marked_figure("relations", drawn, colour=colour, border=border)
    return heading + figure + triples_table(explanation.triples)


def _mentions(explanation: Explanation) -> str:
    if not explanation.mentions:
        return ""
    return f"<h3>What names may mean</h3>{mentions_table(explanation.mentions)}"


def _gates(explanation: Explanation) -> str:
    """Return how much of its types each token takes; nothing for a model without `Types`."""
    rows = [
        (_numbered(explanation.words, at), *("" if share is None else f"{share:.2f}" for share in shares))
        for at, shares in enumerate(zip(*explanation.gates.values(), strict=True))
        if any(share is not None for share in shares)
    ]
    if not rows:
        return ""
    how = soft("What a token takes of its types: 1 as at the start of training, 0 with a shut gate, 2 at most.")
    head = ["", *(_PLACES.get(place, place) for place in explanation.gates)]
    return f"<h3>Gates of types</h3>{how}{table(head, rows)}"


def _maps(explanation: Explanation) -> str:
    """Return one heat map per source that is on; one that found nothing has none, nor has one that offers choices."""
    columns = [*explanation.words, *explanation.terms]

    def offers_choices(name: str) -> bool:
        return name in explanation.found and bool(explanation.found[name].candidates)

    figures = [
        heat_map(map_panel(drawn), explanation.words, columns, title=name)
        if drawn.any()
        else f"<figure><figcaption>{escaped(name)} <small>ties no words of this text</small></figcaption></figure>"
        for name, drawn in explanation.maps.items()
        if drawn.any() or not offers_choices(name)
    ]
    if not figures:
        return ""
    last = "Columns in italics are auxiliary terms."
    terms = soft(last) if explanation.terms else ""
    return f"<h3>Maps of the sources</h3>{terms}{panels(figures)}"


def _heads(explanation: Explanation) -> str:
    """Return how much each head of each layer changed; the one that is looked at has a frame."""
    changes = explanation.changes
    if changes is None or not _is_compared(explanation):
        return ""
    n_layers, n_heads = changes.shape
    largest = float(changes.max())
    drawn = heat_map(
        Panel(changes, largest if largest > ROUNDING else 1.0),  # rounding is not blown up to full colour
        [f"layer {layer}" for layer in range(n_layers)],
        [f"head {head}" for head in range(n_heads)],
        title="share of attention moved elsewhere",
        n_words=n_heads,
        kind="heads",
        chosen=None if explanation.head is None else (explanation.layer, explanation.head),
    )
    return f"<h3>Heads that change</h3>{drawn}"


def _attention(explanation: Explanation) -> str:
    maps = dict(zip(("without knowledge", "with knowledge", "difference"), attention_panels(explanation), strict=True))
    how = "Row reads column. Attention is coloured on a square-root scale so that small weights show"
    if _is_compared(explanation):
        how += "; in the difference orange is more and purple is less."
    else:
        how, maps = f"{how}.", {"attention": maps["without knowledge"]}
    words, place = explanation.words, explanation.place
    figures = [heat_map(panel, words, words, title=title, about=place) for title, panel in maps.items()]
    return f"<h3>Attention of {escaped(place)}</h3>{soft(how)}{panels(figures)}"


def _changes(explanation: Explanation) -> str:
    if not _is_compared(explanation):
        return ""
    rows = []
    for row, column in explanation.largest_changes():
        before, after = explanation.plain[row, column], explanation.infused[row, column]
        pair = f"{_numbered(explanation.words, row)} → {_numbered(explanation.words, column)}"
        rows.append((pair, f"{before:.3f}", f"{after:.3f}", f"{after - before:+.3f}"))
    changed = table(["word → word", "without", "with", "change"], rows)
    return f"<h3>Largest changes</h3>{changed if rows else '<p>Knowledge did not change this attention.</p>'}"


def _numbered(words: Sequence[str], at: int) -> str:
    """Return a word fit to be read, with its number if the text has it more than once: "and (2)"."""
    number = f" ({words[: at + 1].count(words[at])})" if words.count(words[at]) > 1 else ""
    return shown(words[at]) + number


def _is_compared(explanation: Explanation) -> bool:
    """Return whether there is a reading with knowledge to compare with; a plain encoder has one attention only."""
    # every source of an infused model has a map unless it is off
    return bool(explanation.maps or explanation.mentions or _all_off(explanation) or explanation.difference.any())


def _all_off(explanation: Explanation) -> bool:
    """Return whether all knowledge of an infused model is off; a relation model only relates what its sources find."""
    is_infused = bool(explanation.found) and explanation.triples is None
    return is_infused and set(explanation.off) >= set(explanation.found)
