"""TACRED and Re-TACRED: which of 41 relations (or none) a subject and an object in a sentence have.

train.json, dev.json and test.json, each a list of

    {"id": "e7798fb926b9403cfcd2", "relation": "per:title", "token": ["Tom", "Thabane", "is", ...],
     "subj_start": 0, "subj_end": 1, "obj_start": 5, "obj_end": 5, "subj_type": "PERSON", "obj_type": "TITLE", ...}

Starts and ends are numbers of tokens, ends included. What Stanford's tools say about the tokens is not read. Brackets
are written as people write them ("(" for "-LRB-"). `datasets:FOLDER` with these columns is read as well.

Published sizes: TACRED 68,124 / 22,631 / 15,509 with 42 classes, Re-TACRED 58,465 / 19,584 / 13,418 with 40.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from infuser.registry import TASKS
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.readers.common import Tokens, Unreadable
from infuser.tables.skipped import Place
from infuser.tables.values import is_text
from infuser.tasks.base import Split
from infuser.tasks.official import official_records
from infuser.tasks.relation_classification import RelationClassification, read_texts
from infuser.types import Span

_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}


@TASKS.register("tacred")
class Tacred(RelationClassification):
    """Relations between the subject and the object of a sentence, judged without the class "no_relation"."""

    metrics = ("relation-f1", "relation-precision", "relation-recall")

    def texts(self, split: Split) -> Iterator[RelationText]:
        """Yield the texts of a split."""
        rows = official_records(self.data, split, f"{split}.json", f"data/json/{split}.json")
        return read_texts(rows, read_row)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The relations of the training part; "no_relation" is class 0, the one that is never a hit."""
        relations = {text.triples[0].relation for text in self.texts("train")}
        return (NO_RELATION, *sorted(relations - {NO_RELATION}))


def read_row(place: Place, row: dict[str, Any]) -> RelationText:
    """Return a row of TACRED as a text with one triple."""
    written, relation = row.get("token"), row.get("relation")
    if not isinstance(written, list):
        raise Unreadable(f"its 'token' is no list of words but {written!r:.40}")
    if not is_text(relation):
        raise Unreadable(f"its 'relation' is no text but {relation!r:.40}")
    tokens = Tokens([_BRACKETS.get(str(word).lower(), word) for word in written])
    triple = Triple(_span(row, "subj", tokens), _span(row, "obj", tokens), relation)
    return RelationText(tokens.text, (triple,), name=str(row.get("id") or ""))


def _span(row: dict[str, Any], side: str, tokens: Tokens) -> Span:
    first, last, kind = (row.get(f"{side}_{part}") for part in ("start", "end", "type"))
    n_tokens = len(tokens.starts)
    if not (type(first) is int and type(last) is int and 0 <= first <= last < n_tokens):
        raise Unreadable(f"{side}_start and {side}_end, {first!r} and {last!r}, are not inside its {n_tokens} tokens")
    if not isinstance(kind, str):
        raise Unreadable(f"its '{side}_type' is no text but {kind!r:.40}")
    return Span(*tokens.place(first, last), label=kind)
