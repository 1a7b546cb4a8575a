"""FewRel: a JSON object of relations, each with its examples.

    {"P177": [{"tokens": ["The", "bridge", ...], "h": ["bridge", "Q12570", [[1]]], "t": ["river", "Q4022", [[5, 6]]]}]}

Tokens are joined by single spaces. Head and tail are (name, id, mentions by the numbers of their tokens); of several
mentions the nearest make the triple. Names of relations come from pid2name.json beside the file, if there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.relations.examples import RelationText, Triple
from infuser.relations.readers.common import Tokens, Unreadable, names_beside, nearest_pair, relation_id
from infuser.tables.rows import read_json
from infuser.tables.skipped import Skipped
from infuser.types import Span


def read_fewrel(path: str | Path, skipped: Skipped) -> Iterator[RelationText]:
    """Yield the examples of all relations, in the order of the file."""
    relations = read_json(path)
    if not isinstance(relations, dict):
        raise InputError(f"{path} is no JSON object of relations, as FewRel's files are. Is it of another format?")
    names = names_beside(path, "pid2name.json")
    for relation, examples in relations.items():
        if not isinstance(examples, list):
            skipped.add(path, 1, "no list of examples", examples, unit=f"{relation}, example")
            continue
        for number, example in enumerate(examples, start=1):
            try:
                yield fewrel_example(example, relation_id(relation), names.get(relation, ""))
            except Unreadable as error:
                skipped.add(path, number, str(error), example, unit=f"{relation}, example")


def fewrel_example(value: Any, relation: str, label: str) -> RelationText:
    """Return one example of a relation: tokens, head and tail."""
    if not isinstance(value, dict) or not isinstance(value.get("tokens"), list):
        raise Unreadable("no tokens")
    tokens = Tokens(value["tokens"])
    heads, tails = (_mentions(value.get(part), tokens) for part in ("h", "t"))
    head, tail = nearest_pair(product(heads, tails))
    spans = sorted({*heads, *tails}, key=lambda span: (span.start, span.end, span.id))
    return RelationText(tokens.text, (Triple(head, tail, relation, label=label),), tuple(spans))


def _mentions(value: Any, tokens: Tokens) -> list[Span]:
    if not isinstance(value, list) or len(value) != 3 or not isinstance(value[2], list) or not value[2]:
        raise Unreadable("head and tail are not both [name, id, mentions]")
    id = next((name for name in (value[1], value[0]) if isinstance(name, str) and name), "")
    n_tokens = len(tokens.starts)
    for mention in value[2]:
        numbers = mention if isinstance(mention, list) else []
        if not numbers or not all(type(number) is int and 0 <= number < n_tokens for number in numbers):
            raise Unreadable(f"a mention is not inside the text of {n_tokens} tokens")
    return [Span(*tokens.place(min(mention), max(mention)), id=id) for mention in value[2]]
