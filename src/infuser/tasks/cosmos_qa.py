"""CosmosQA: what stands between the lines of a story; a question and four answers (Huang et al., 2019).

Official files with 25,262 / 2,985 / 6,963 rows and the columns id, context, question, answer0 to answer3 and label:

    train.csv, valid.csv, test.csv or test.jsonl

The hub's version (`datasets:allenai/cosmos_qa`) has the same columns. The answers of the test part are hidden: its
label is missing, empty or -1. The story is the text and "question answer" its pair; where both are too long for the
encoder, the tokenizer cuts the longer one, which is the story.
"""

from __future__ import annotations

from typing import Any, ClassVar

from infuser.registry import TASKS
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Example, Split, Task
from infuser.tasks.official import official_records

_FILES: dict[Split, tuple[str, ...]] = {
    "train": ("train.csv",),
    "dev": ("valid.csv", "dev.csv"),
    "test": ("test.csv", "test.jsonl"),
}
_CHOICES = ("answer0", "answer1", "answer2", "answer3")
_LABELS = {str(label): label for label in range(len(_CHOICES))}
_HIDDEN = ("", "None", "-1")


@TASKS.register("cosmos-qa")
class CosmosQa(Task):
    """Which of four answers to a question about a story is right."""

    head: ClassVar[str] = "multiple-choice"

    def read(self, split: Split) -> list[Example]:
        """Return the questions of a split, each with its four choices; those of the test part have no label."""
        records = official_records(self.data, split, *_FILES[split])
        return [_example(place, record, hidden=split == "test") for place, record in records]


def _example(place: Place, record: dict[str, Any], *, hidden: bool) -> Example:
    for column in ("context", "question", *_CHOICES):
        if not isinstance(record.get(column), str):
            why = f"has no text in the column {column!r}; its columns are {', '.join(map(str, record))}"
            raise BadRow(place, why, record, advice="Compare it with the official files.")
    example: Example = {
        "text": record["context"],
        "pair": [f"{record['question']} {record[choice]}" for choice in _CHOICES],
        "id": str(record.get("id", place.number)),
    }
    label = str(record.get("label")).strip()
    if label in _LABELS:
        example["label"] = _LABELS[label]
    elif not hidden or label not in _HIDDEN:
        raise BadRow(place, f"has the label {record.get('label')!r}", record, advice="It is one of 0, 1, 2 and 3.")
    return example
