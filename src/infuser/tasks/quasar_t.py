"""Quasar-T: trivia questions and what a search engine found for them in ClueWeb09 (Dhingra et al., 2017).

Official files, one JSON object per line, 37,012 / 3,000 / 3,000 questions, packed by gzip or not:

    questions/{train,dev,test}_questions.json.gz
        {"uid": "s3q1", "question": "...", "answer": "...", "tags": ["1tok", ...]}
    contexts/short/ and contexts/long/{train,dev,test}_contexts.json.gz
        {"uid": "s3q1", "contexts": [[0.87, "a passage"], ...]}

Short passages are sentences, long ones pieces of a page. They are read in the order of the file. A name of the datasets
library needs the columns uid, question, answer and contexts, the latter a list of passages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.tables.rows import json_lines
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Example, Split
from infuser.tasks.official import dataset_records, find_file, is_datasets_name
from infuser.tasks.open_qa import OpenQa

_Row = tuple[Place, dict[str, Any], list[Any]]
"""Where a question stands, the question, its passages."""


@TASKS.register("quasar-t")
@dataclass(frozen=True)
class QuasarT(OpenQa):
    """Trivia questions, answered from passages of web pages."""

    contexts: Literal["short", "long"] = "short"
    """Which passages are read: sentences or longer pieces of pages."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contexts not in ("short", "long"):
            raise InputError(f"The setting contexts is {self.contexts!r}; give 'short' or 'long'.")

    def read(self, split: Split) -> list[Example]:
        """Return the questions of a split, each with its passages."""
        rows: Iterator[_Row]
        if is_datasets_name(self.data):
            rows = ((place, row, self._passages(place, row)) for place, row in dataset_records(self.data, split))
        else:
            rows = self._joined(split)
        return [
            self.question(place, row.get("question"), row.get("answer"), passages, id=str(row.get("uid", place.number)))
            for place, row, passages in rows
        ]

    def _joined(self, split: Split) -> Iterator[_Row]:
        """Yield the questions of the official files with their passages."""
        questions = find_file(self.data, f"questions/{split}_questions.json")
        contexts = find_file(self.data, f"contexts/{self.contexts}/{split}_contexts.json")
        found = {_uid(place, row): self._passages(place, row) for place, row in json_lines(contexts)}
        for place, row in json_lines(questions):
            uid = _uid(place, row)
            if uid not in found:
                raise BadRow(place, f"has the uid {uid!r}, for which {contexts} holds no passages")
            yield place, row, found[uid]

    def _passages(self, place: Place, row: dict[str, Any]) -> list[Any]:
        """Return the first passages of a row, which are texts or, in the official files, pairs of score and text."""
        contexts = row.get("contexts")
        if not isinstance(contexts, list):
            raise BadRow(place, f"has no list of contexts but {contexts!r}", row)
        first = contexts[: self.max_passages]
        return [one[1] if isinstance(one, list) and len(one) == 2 else one for one in first]


def _uid(place: Place, row: dict[str, Any]) -> str:
    if not isinstance(row.get("uid"), str):
        raise BadRow(place, f"has no uid that is a text but {row.get('uid')!r}", row)
    return str(row["uid"])
