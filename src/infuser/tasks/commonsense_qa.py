"""CommonsenseQA: a question about everyday things and five answers (Talmor et al., 2019).

Official files of the random split, one JSON object per line, 9,741 / 1,221 / 1,140 of them:

    train_rand_split.jsonl, dev_rand_split.jsonl, test_rand_split_no_answers.jsonl
    {"answerKey": "A", "id": "...", "question": {"question_concept": "punishing", "stem": "The sanctions ...",
     "choices": [{"label": "A", "text": "ignore"}, ...]}}

The hub's version (`datasets:tau/commonsense_qa`) has the columns id, question, question_concept, answerKey and choices,
the latter as {"label": ["A", ...], "text": ["ignore", ...]}. The answers of the test part are hidden.
"""

from __future__ import annotations

from typing import Any, ClassVar

from infuser.registry import TASKS
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Example, Split, Task
from infuser.tasks.official import official_records

_FILES: dict[Split, str] = {
    "train": "train_rand_split.jsonl",
    "dev": "dev_rand_split.jsonl",
    "test": "test_rand_split_no_answers.jsonl",
}
_LETTERS = ["A", "B", "C", "D", "E"]
_ADVICE = "Compare it with the official files: a question, five choices A to E and answerKey."


@TASKS.register("commonsense-qa")
class CommonsenseQa(Task):
    """Which of five answers to a question about everyday things is right."""

    head: ClassVar[str] = "multiple-choice"

    def read(self, split: Split) -> list[Example]:
        """Return the questions of a split, each with its five choices; those of the test part have no label."""
        records = official_records(self.data, split, _FILES[split])
        return [_example(place, record, hidden=split == "test") for place, record in records]


def _example(place: Place, record: dict[str, Any], *, hidden: bool) -> Example:
    asked: Any = record.get("question")
    if not isinstance(asked, dict):  # the official files have the choices inside
        asked = {"stem": asked, "choices": record.get("choices")}
    if not isinstance(asked.get("stem"), str):
        raise BadRow(place, "has no question that is a text", record, advice=_ADVICE)
    choices = _texts(place, asked.get("choices"))
    example: Example = {"text": asked["stem"], "pair": choices, "id": str(record.get("id", place.number))}
    key = record.get("answerKey")
    if key in _LETTERS:
        example["label"] = _LETTERS.index(key)
    elif key or not hidden:
        raise BadRow(place, f"has the answerKey {key!r}", record, advice="It is one of A, B, C, D and E.")
    return example


def _texts(place: Place, choices: object) -> list[str]:
    """Return the texts of the choices, which are a list of objects or an object of lists."""
    if isinstance(choices, dict):
        letters, texts = choices.get("label"), choices.get("text")
    elif isinstance(choices, list) and all(isinstance(choice, dict) for choice in choices):
        letters, texts = ([choice.get(name) for choice in choices] for name in ("label", "text"))
    else:
        raise BadRow(place, f"has no choices but {choices!r}", advice=_ADVICE)
    if letters != _LETTERS or not isinstance(texts, list) or len(texts) != len(_LETTERS):
        raise BadRow(place, f"has the choices {letters!r}", choices, advice=_ADVICE)
    for letter, text in zip(_LETTERS, texts, strict=True):
        if not isinstance(text, str):
            raise BadRow(place, f"has a choice {letter} that is no text but {text!r}", choices, advice=_ADVICE)
    return texts
