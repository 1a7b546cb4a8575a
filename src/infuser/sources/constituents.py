r"""Constituency trees: read from brackets, and the phrases at chosen levels of a tree.

Brackets are the Penn Treebank's: `(S (NP (DT the) (NN cat)) (VP (VBD slept)))`. Trees may share a line or take several,
but none goes on behind an empty line. An outer bracket without a label is taken off; -LRB-, -RRB- and the like are
brackets again, `\/` and `\*` lose their backslash; traces (-NONE-) go, and so does every phrase that is left without a
word; function tags and indices go, so that NP-SBJ-1 is an NP. Words may stand beside phrases and without a part of
speech, as some parsers write them.

The level of a node is the longest way from it down to a word: words are at level 0, parts of speech at level 1, a
phrase of tagged words only at level 2. KAM-BERT says "the distance of an internal node to the leaf node"; where leaves
lie at several distances, the longest one makes sure that no phrase holds a smaller one of its own level. The paper's
example, "the parents of leaf nodes", is level 2 here if its leaves are tagged words, level 1 in trees without tags.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

_TOKEN = re.compile(r"[()]|[^\s()]+")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_CATEGORY = re.compile(r"[^-=]+")
_TRACE = "-NONE-"
_LONGEST = 200_000
"""Characters of one tree at most: a bracket that is never closed must not swallow the rest of the file."""

Complaint = Callable[[int, str, str], None]
"""Called with the line on which a malformed tree begins, what is wrong with it, and the line's text."""


class Node(Protocol):
    """What a tree needs to have; a word is a node without children. Stanza's trees fit too."""

    @property
    def label(self) -> str | None: ...
    @property
    def children(self) -> Sequence[Node]: ...


@dataclass(frozen=True, slots=True)
class Tree:
    """A phrase and its parts, or a word, which has none."""

    label: str
    children: tuple[Tree, ...] = ()


class Constituent(NamedTuple):
    """A phrase of a tree: words `first` up to, not including, `end`."""

    label: str
    level: int
    first: int
    end: int


def words_of(tree: Node) -> list[str]:
    """Return the words of a tree, from left to right."""
    words, stack = [], [tree]
    while stack:
        node = stack.pop()
        stack.extend(reversed(node.children))
        if not node.children:
            words.append(node.label or "")
    return words


def constituents(tree: Node) -> list[Constituent]:
    """Return all nodes of a tree but its words, parts before wholes."""
    found: list[Constituent] = []
    n_words = 0
    stack: list[tuple[Node, int, list[int]]] = [(tree, 0, [])]  # with its first word and the levels of its parts so far
    while stack:
        node, first, levels = stack[-1]
        if len(levels) < len(node.children):
            stack.append((node.children[len(levels)], n_words, []))
            continue
        stack.pop()
        level = max(levels) + 1 if levels else 0
        if levels:
            found.append(Constituent(node.label or "", level, first, n_words))
        else:
            n_words += 1
        if stack:
            stack[-1][2].append(level)
    return found


def phrases_at(
    tree: Node, levels: Collection[int], labels: Collection[str] | None = None, *, n_words: int = 2
) -> list[Constituent]:
    """Return the phrases at these levels with at least `n_words` words; of equal stretches the lowest node only.

    What has no letter or digit is no word here: a word and a comma are no phrase of two words.
    """
    counted = [any(char.isalnum() for char in word) for word in words_of(tree)]
    chosen: dict[tuple[int, int], Constituent] = {}
    for phrase in constituents(tree):
        if phrase.level not in levels or (labels is not None and phrase.label not in labels):
            continue
        if sum(counted[phrase.first : phrase.end]) >= n_words:
            chosen.setdefault((phrase.first, phrase.end), phrase)
    return list(chosen.values())


def read_trees(lines: Iterable[str], complain: Complaint) -> Iterator[Tree]:
    """Yield the trees of bracketed lines; a malformed one is reported to `complain`, and reading goes on behind it.

    Behind a tree that does not end, that is at the next line that begins with a bracket.
    """
    coming, again = enumerate(lines, start=1), deque[tuple[int, str]]()
    block: list[tuple[int, str]] = []  # lines up to the one on which all brackets are closed
    depth = n_chars = 0
    while True:
        row = again.popleft() if again else next(coming, None)
        if row is not None:
            block.append(row)
            depth += row[1].count("(") - row[1].count(")")
            n_chars += len(row[1])
        if depth > 0 and (row is None or not row[1].strip() or n_chars > _LONGEST):
            complain(block[0][0], "a bracket is not closed", block[0][1].strip())
            places = [place for place, (_, line) in enumerate(block) if place > 0 and line.startswith("(")]
            again.extendleft(reversed(block[places[0] :] if places else []))
            block, depth, n_chars = [], 0, 0
        elif depth <= 0:
            yield from _trees_of(block, complain)
            block, depth, n_chars = [], 0, 0
        if row is None and not again:
            return


def _trees_of(block: Iterable[tuple[int, str]], complain: Complaint) -> Iterator[Tree]:
    """Yield the trees of lines whose brackets are all closed."""
    stack: list[_Open] = []
    for number, line in block:
        for token in _TOKEN.findall(line):
            if token == "(":
                stack.append(_Open(number, line.strip()))
            elif not stack:
                complain(number, f"{token!r} stands outside all brackets", line.strip())
                break
            elif token != ")":
                stack[-1].take(token)
            else:
                closed = stack.pop()
                node = closed.node(outermost=not stack)
                wrong = closed.wrong or ("" if node or stack else "it has no word")
                if stack:
                    stack[-1].add(node, wrong)
                elif wrong:
                    complain(closed.number, wrong, closed.line)
                elif node:
                    yield node


@dataclass(slots=True)
class _Open:
    """A bracket that is not closed yet."""

    number: int
    line: str
    label: str = ""
    children: list[Tree] = field(default_factory=list)
    n_parts: int = 0
    """Children and traces."""
    wrong: str = ""

    def take(self, token: str) -> None:
        """Read the label, or a word."""
        if not self.label and not self.n_parts:
            self.label = token
        else:
            word = _BRACKETS.get(token) or token.replace("\\/", "/").replace("\\*", "*")
            self.add(Tree(word), "")

    def add(self, node: Tree | None, wrong: str) -> None:
        """Take a part; None was a trace."""
        self.n_parts += 1
        self.wrong = self.wrong or wrong
        if node is not None:
            self.children.append(node)

    def node(self, *, outermost: bool) -> Tree | None:
        """Return the closed phrase, or None if nothing but traces is in it."""
        if not self.n_parts:
            self.wrong = self.wrong or f"the bracket {self.label!r} holds nothing"
        if not self.label and not outermost:
            self.wrong = self.wrong or "an inner bracket has no label"
        if not self.children or self.label == _TRACE:
            return None
        if not self.label and len(self.children) == 1:
            return self.children[0]
        category = _CATEGORY.match(self.label)
        return Tree(category[0] if category else self.label, tuple(self.children))
