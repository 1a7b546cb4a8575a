"""Finds the names of a list in a text: whole words, longest match, in time that grows with the text only.

The names are kept as a tree of words. Between two words of a name the text may have any white space with at most
one line break; a paragraph break, and so the break of a pair, is never crossed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from infuser.errors import SourceError
from infuser.words import Word, find_tokens

_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_END = ""  # no folded token is empty, so this key is free for the names that end at a node
_CLOSED = "\n\n"  # the edge over a paragraph break; no name has it

_Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mention:
    """A place in a text and the names, by their number in the list, that are written there."""

    start: int
    end: int
    names: tuple[int, ...]


class Matcher:
    """A list of names, ready to be found in texts."""

    def __init__(self, names: Sequence[str], *, fold_case: bool = True, fold_accents: bool = False) -> None:
        self._folding = {"case": fold_case, "accents": fold_accents}
        self._root: _Node = {}
        for number, name in enumerate(names):
            node = self._root
            for edge in self._edges(name, find_tokens(name, **self._folding), closed=" "):
                node = node.setdefault(edge, {})
            node[_END] = (*node.get(_END, ()), number)

    def find(self, text: str, *, overlaps: bool = False) -> list[Mention]:
        """Return the mentions in a text: leftmost-longest and apart, or all of them with `overlaps`."""
        tokens = find_tokens(text, **self._folding)
        edges = self._edges(text, tokens, closed=_CLOSED)
        found: list[Mention] = []
        place = 0
        while place < len(tokens):
            mentions = self._mentions_from(place, tokens, edges)
            if overlaps:
                found.extend(mention for _, mention in mentions)
                place += 1
            elif mentions:
                place, longest = mentions[-1]
                found.append(longest)
            else:
                place += 1
        return found

    def _mentions_from(self, place: int, tokens: list[Word], edges: list[str]) -> list[tuple[int, Mention]]:
        """Return the mentions that begin with one token, shortest first, each after the place where it ends."""
        found: list[tuple[int, Mention]] = []
        node: _Node | None = self._root.get(tokens[place].folded)
        end = place
        while node is not None:
            end += 1
            if _END in node:
                found.append((end, Mention(tokens[place].start, tokens[end - 1].end, node[_END])))
            node = node.get(edges[end]) if end < len(edges) else None
        return found

    @staticmethod
    def _edges(text: str, tokens: list[Word], *, closed: str) -> list[str]:
        """Return for each token the edge that leads to it: the token after its gap, if it has one."""
        edges: list[str] = []
        before = tokens[0].start if tokens else 0
        for token in tokens:
            gap = text[before : token.start]
            if not gap:
                edges.append(token.folded)
            elif len(gap) == 1 or len(_LINE_BREAK.findall(gap)) < 2:
                edges.append(" " + token.folded)
            else:
                edges.append(closed + token.folded)
            before = token.end
        return edges


def clean_names(names: Iterable[object], *, what: str) -> list[str]:
    """Return names without white space around them; refuse anything that is not a name."""
    if isinstance(names, str):
        raise SourceError(f"{what} were given as one string, {_short(names)}. Give a list: [{_short(names)}].")
    listed = list(names)
    wrong = [name for name in listed if not isinstance(name, str)]
    if wrong:
        raise SourceError(
            f"{len(wrong)} of {len(listed)} {what} are no text, for example {_short(wrong[0])}. Leave them out or "
            "write them as text."
        )
    cleaned = [str(name).strip() for name in listed]
    n_blank = sum(not name for name in cleaned)
    if n_blank:
        raise SourceError(
            f"{n_blank} of {len(listed)} {what} are empty or blank, the first is number {cleaned.index('') + 1}. Leave "
            "them out: [name for name in names if name.strip()]."
        )
    return cleaned


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
