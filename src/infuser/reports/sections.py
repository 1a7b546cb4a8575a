"""An explanation as a part of a page: the words, the answers, the maps and attention, what changed most."""

from __future__ import annotations

from html import escape

import numpy as np

from infuser.reports.explanation import Explanation, Matrix, shown, whole_words
from infuser.reports.grids import heat_map
from infuser.reports.heatmap import attention_limits

_MOST_TIES = 12


def explanation_section(explanation: Explanation) -> str:
    """Return the part of a page that tells one explanation, without its title."""
    sides = [side for side in (explanation.text, explanation.pair) if side is not None]
    parts = [f"<blockquote>{escape(side)}</blockquote>" for side in sides]
    parts += [_answers(explanation), _marked_words(explanation), _ties(explanation)]
    parts.append(f"<h3>Attention of {escape(explanation.place)}</h3>")
    parts.append(
        '<p class="soft">Row reads column. Point at a cell, or touch it, to read its value. Attention is coloured on a '
        "square-root scale so that small weights show; in the difference orange is more and purple is less.</p>"
    )
    parts += [_attention(explanation), _changes(explanation)]
    return f"<section>{''.join(parts)}</section>"


def _answers(explanation: Explanation) -> str:
    """Return a table of the answer without and with knowledge, as far as they are known."""
    without, infused = explanation.answer_plain or {}, explanation.answer_infused or {}
    if not without and not infused:
        return ""
    rows = []
    for label in dict.fromkeys([*without, *infused]):
        cells = [_probability(answer.get(label)) for answer in (without, infused)]
        both = label in without and label in infused
        change = f"{infused[label] - without[label]:+.3f}" if both else ""
        rows.append(f"<tr><td>{escape(str(label))}</td><td>{cells[0]}</td><td>{cells[1]}</td><td>{change}</td></tr>")
    return (
        '<h3>Answer</h3><div class="wide"><table><tr><th></th><th>without knowledge</th><th>with knowledge</th>'
        f"<th>change</th></tr>{''.join(rows)}</table></div>"
    )


def _probability(value: float | None) -> str:
    if value is None:
        return ""
    width = 4 * min(max(float(value), 0.0), 1.0)
    return f'<span class="bar" style="width:{width:.2f}rem"></span> {float(value):.3f}'


def _marked_words(explanation: Explanation) -> str:
    """Return the tokens in a row; those that knowledge reaches are marked, the stronger the more."""
    if not explanation.maps:
        return ""
    parts = []
    for word, tokens in whole_words(explanation.words):
        strongest = {name: float(drawn[tokens].max()) for name, drawn in explanation.maps.items()}
        reached = {name: value for name, value in strongest.items() if value > 0}
        label = escape(shown(word))
        if not reached:
            parts.append(f"<span>{label}</span>")
            continue
        told = escape(", ".join(f"{name} {value:.2f}" for name, value in reached.items()))
        share = 0.15 + 0.4 * min(max(reached.values()), 1.0)
        parts.append(f'<mark style="--share:{share:.2f}" title="{told}">{label}</mark>')
    return f'<h3>Words that knowledge reaches</h3><p class="words">{" ".join(parts)}</p>'


def _ties(explanation: Explanation) -> str:
    """Return the knowledge maps as heat maps, and their strongest ties in words for readers without a pointer."""
    n_words, columns = len(explanation.words), [*explanation.words, *explanation.terms]
    figures, lists = [], []
    for name, drawn in explanation.maps.items():
        figures.append(heat_map(drawn, explanation.words, columns, title=name, top=max(1.0, float(drawn.max()))))
        ties = _strongest_ties(explanation, drawn)
        told = [f"{shown(one)} · {shown(other)} {weight:.2f}" for one, other, weight in ties[:_MOST_TIES]]
        more = f" and {len(ties) - _MOST_TIES} more" if len(ties) > _MOST_TIES else ""
        found = "; ".join(told) + more if told else "ties no two words of this text"
        lists.append(f"<li><strong>{escape(name)}</strong>: {escape(found)}</li>")
    if not figures:
        return '<p class="soft">No knowledge map was given.</p>'
    terms = ""
    if explanation.terms:
        terms = f'<p class="soft">The last {len(columns) - n_words} columns, in italics, are auxiliary terms.</p>'
    return f'<h3>Knowledge</h3><ul>{"".join(lists)}</ul>{terms}<div class="panels">{"".join(figures)}</div>'


def _strongest_ties(explanation: Explanation, drawn: Matrix) -> list[tuple[str, str, float]]:
    """Return (word, other word or term, weight) of all ties between whole words, strongest first."""
    words, terms = whole_words(explanation.words), whole_words(explanation.terms)
    n_words = len(explanation.words)
    others = [*words, *((term, [n_words + at for at in tokens]) for term, tokens in terms)]
    tokens = [at for _, places in others for at in places[:1]]
    # the strongest cell of every pair of words, without a loop over pairs: first over rows, then over columns
    by_word = np.maximum.reduceat(drawn, [places[0] for _, places in words], axis=0)
    by_word = np.maximum.reduceat(by_word, tokens, axis=1)
    once = np.triu(by_word, k=1)  # a tie between words holds in both directions
    rows, columns = np.nonzero(once > 0)
    order = np.argsort(-once[rows, columns], kind="stable")
    return [(words[rows[at]][0], others[columns[at]][0], float(once[rows[at], columns[at]])) for at in order]


def _attention(explanation: Explanation) -> str:
    top, change = attention_limits(explanation)
    words = explanation.words
    figures = [
        heat_map(explanation.plain, words, words, title="without knowledge", top=top, scale="root"),
        heat_map(explanation.infused, words, words, title="with knowledge", top=top, scale="root"),
        heat_map(explanation.difference, words, words, title="difference", top=change, scale="root", signed=True),
    ]
    return f'<div class="panels">{"".join(figures)}</div>'


def _changes(explanation: Explanation) -> str:
    changes = explanation.largest_changes()
    if not changes:
        return "<p>Knowledge did not change this attention.</p>"
    words, rows = explanation.words, []
    for row, column in changes:
        before, after = explanation.plain[row, column], explanation.infused[row, column]
        pair = f"{escape(shown(words[row]))} → {escape(shown(words[column]))}"
        rows.append(f"<tr><td>{pair}</td><td>{before:.3f}</td><td>{after:.3f}</td><td>{after - before:+.3f}</td></tr>")
    return (
        '<h3>Largest changes</h3><div class="wide"><table><tr><th>word → word</th><th>without</th><th>with</th>'
        f"<th>change</th></tr>{''.join(rows)}</table></div>"
    )
