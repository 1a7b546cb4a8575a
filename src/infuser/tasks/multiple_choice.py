"""Multiple choice: which of a few answers to a question is right."""

from __future__ import annotations

from typing import Any, ClassVar

from infuser.registry import TASKS
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Example, Split, Task
from infuser.tasks.official import official_records
from infuser.words import listed

_HIDDEN = ("", "None", "-1")


class MultipleChoice(Task):
    """The base of tasks with choices; a subclass says which files it reads and what stands in a row."""

    head: ClassVar[str] = "multiple-choice"
    files: ClassVar[dict[Split, tuple[str, ...]]]
    """The names that the official file of each part may have."""
    label: ClassVar[str]
    """The column with the right answer; in the test part it may be missing, empty or -1."""
    labels: ClassVar[tuple[str, ...]]
    """How the files write the right answer."""

    def read(self, split: Split) -> list[Example]:
        """Return the questions of a split, each with its choices; those of the test part have no label."""
        records = official_records(self.data, split, *self.files[split])
        return [self._example(place, record, hidden=split == "test") for place, record in records]

    def _example(self, place: Place, record: dict[str, Any], *, hidden: bool) -> Example:
        text, choices = self.sides(place, record)
        example: Example = {"text": text, "pair": choices, "id": str(record.get("id", place.number))}
        written = str(record.get(self.label)).strip()
        if written in self.labels:
            example["label"] = self.labels.index(written)
        elif not hidden or written not in _HIDDEN:
            advice = f"It is one of {', '.join(self.labels)}."
            raise BadRow(place, f"has the {self.label} {record.get(self.label)!r}", record, advice=advice)
        return example

    def sides(self, place: Place, record: dict[str, Any]) -> tuple[str, list[str]]:
        """Return the text of a row and its choices; raise BadRow if the row is malformed."""
        raise NotImplementedError


@TASKS.register("cosmos-qa")
class CosmosQa(MultipleChoice):
    """CosmosQA: what stands between the lines of a story; a question and four answers (Huang et al., 2019).

    Official files with 25,262 / 2,985 / 6,963 rows and the columns id, context, question, answer0 to answer3 and label:

        train.csv, valid.csv, test.csv or test.jsonl

    The hub's version (`datasets:allenai/cosmos_qa`) has the same columns. The answers of the test part are hidden. The
    story is the text and "question answer" its pair; where both are too long for the encoder, the tokenizer cuts the
    longer one, which is the story.
    """

    files: ClassVar[dict[Split, tuple[str, ...]]] = {
        "train": ("train.csv",),
        "dev": ("valid.csv", "dev.csv"),
        "test": ("test.csv", "test.jsonl"),
    }
    label = "label"
    labels = ("0", "1", "2", "3")

    def sides(self, place: Place, record: dict[str, Any]) -> tuple[str, list[str]]:
        """Return the story, and the question with each of its answers."""
        answers = [f"answer{label}" for label in self.labels]
        for column in ("context", "question", *answers):
            if not isinstance(record.get(column), str):
                why = f"has no text in the column {column!r}; its columns are {listed(record)}"
                raise BadRow(place, why, record, advice="Compare it with the official files.")
        return record["context"], [f"{record['question']} {record[answer]}" for answer in answers]


@TASKS.register("commonsense-qa")
class CommonsenseQa(MultipleChoice):
    """CommonsenseQA: a question about everyday things and five answers (Talmor et al., 2019).

    Official files of the random split, one JSON object per line, 9,741 / 1,221 / 1,140 of them:

        train_rand_split.jsonl, dev_rand_split.jsonl, test_rand_split_no_answers.jsonl
        {"answerKey": "A", "id": "...", "question": {"question_concept": "punishing", "stem": "The sanctions ...",
         "choices": [{"label": "A", "text": "ignore"}, ...]}}

    The hub's version (`datasets:tau/commonsense_qa`) has the columns id, question, question_concept, answerKey and
    choices, the latter as {"label": ["A", ...], "text": ["ignore", ...]}. The answers of the test part are hidden.
    """

    files: ClassVar[dict[Split, tuple[str, ...]]] = {
        "train": ("train_rand_split.jsonl",),
        "dev": ("dev_rand_split.jsonl",),
        "test": ("test_rand_split_no_answers.jsonl",),
    }
    label = "answerKey"
    labels = ("A", "B", "C", "D", "E")

    def sides(self, place: Place, record: dict[str, Any]) -> tuple[str, list[str]]:
        """Return the question and the texts of its choices, which are a list of objects or an object of lists."""
        advice = "Compare it with the official files: a question, five choices A to E and answerKey."
        asked: Any = record.get("question")
        if not isinstance(asked, dict):  # the official files have the choices inside
            asked = {"stem": asked, "choices": record.get("choices")}
        if not isinstance(asked.get("stem"), str):
            raise BadRow(place, "has no question that is a text", record, advice=advice)
        choices = asked.get("choices")
        if isinstance(choices, dict):
            letters, texts = choices.get("label"), choices.get("text")
        elif isinstance(choices, list) and all(isinstance(choice, dict) for choice in choices):
            letters, texts = ([choice.get(name) for choice in choices] for name in ("label", "text"))
        else:
            raise BadRow(place, f"has no choices but {choices!r}", advice=advice)
        if letters != list(self.labels) or not isinstance(texts, list) or len(texts) != len(letters):
            raise BadRow(place, f"has the choices {letters!r}", choices, advice=advice)
        for letter, text in zip(letters, texts, strict=True):
            if not isinstance(text, str):
                raise BadRow(place, f"has a choice {letter} that is no text but {text!r}", choices, advice=advice)
        return asked["stem"], texts
