"""Open-domain questions: passages that a search engine found, and the answer as a stretch of one of them.

Training shows the encoder the passages that hold the answer (its first occurrence in each) and a few that do not, one
by one. There is no dev set while it trains, so it ends with its last weights. Asking reads every passage and takes the
best span of all, where spans of different passages are compared by how much better they are than no answer.
"""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from infuser.assets.archives import DAMAGE, read_member
from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.stats.answer_scores import exact_match, word_f1
from infuser.stats.metrics import Metric, mean_metric
from infuser.tables.blocks import suffix_of
from infuser.tables.rows import filled_lines, json_lines, json_object
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Example, Examples, Prediction, Split, Task, Training
from infuser.tasks.official import dataset_records, find_file, is_datasets_name
from infuser.tasks.span_windows import WindowCollator, read_windows, training_windows, windows_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.signals import Collator
    from infuser.training import TrainResult

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenQa(Task):
    """The base of tasks with passages; an example is a question: text, pair (its passages), answers, id."""

    max_passages: int = 10
    """How many passages of a question are read, in the order of the data."""
    max_answer_tokens: int = 16
    """How many tokens an answer may have."""
    n_negatives: int = 1
    """How many passages without the answer training shows per question; from them it learns to find none."""

    head: ClassVar[str] = "question-answering"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "exact-match")

    def __post_init__(self) -> None:
        for name, least in (("max_passages", 1), ("max_answer_tokens", 1), ("n_negatives", 0)):
            if getattr(self, name) < least:
                raise InputError(f"The setting {name} is {getattr(self, name)!r}; give at least {least}.")

    def gold(self, example: Example) -> list[str]:
        """Return the accepted answers."""
        return list(example["answers"])

    def fit(self, training: Training, examples: Examples, dev: Examples | None = None) -> TrainResult:
        """Fine-tune the model on the passages of these questions; `dev` and `patience` are ignored."""
        windows = [window for example in examples for window in training_windows(example, n_negatives=self.n_negatives)]
        if not windows:
            raise InputError(
                f"None of the {len(examples)} questions has its answer in one of its passages, so there is nothing to "
                f"learn from. Read more of them: max_passages is {self.max_passages}."
            )
        collate = WindowCollator(training.collator)
        return training.fit(windows, collate=collate, metric=self.metrics[0], patience=None)

    def answer(
        self, model: PreTrainedModel, collator: Collator, examples: Sequence[Example], *, batch_size: int = 64
    ) -> list[Prediction]:
        """Return the best span over all passages of each question, as it is written there."""
        windows = [window for example in examples for window in windows_of(example)]
        most = self.max_answer_tokens
        answers = iter(read_windows(model, collator, windows, max_answer_tokens=most, batch_size=batch_size))
        return [max((next(answers) for _ in example["pair"]), key=lambda one: one.score).text for example in examples]

    def get_metric(self, name: str) -> Metric:
        """Return F1 or exact match, as shares between 0 and 1."""
        value = word_f1 if name == "f1" else exact_match
        return mean_metric(name, lambda answers, golds: list(map(value, answers, golds)))

    def question(self, place: Place, asked: object, answer: object, passages: Sequence[object], *, id: str) -> Example:
        """Return the example of one row of data; raise BadRow if the row is malformed."""
        for name, value in (("question", asked), ("answer", answer)):
            if not isinstance(value, str) or not value.strip():
                raise BadRow(place, f"has no {name} that is a text but {value!r}", advice="Fill it in or drop the row.")
        for passage in passages:
            if not isinstance(passage, str):
                raise BadRow(place, f"has a passage that is no text but {passage!r}")
        # a question without passages still counts: its answer is empty
        return {"text": asked, "pair": list(passages[: self.max_passages]) or [""], "answers": [answer], "id": id}


@TASKS.register("quasar-t")
@dataclass(frozen=True)
class QuasarT(OpenQa):
    """Quasar-T: trivia questions and what a search engine found for them in ClueWeb09 (Dhingra et al., 2017).

    Official files, one JSON object per line, 37,012 / 3,000 / 3,000 questions, packed by gzip or not:

        questions/{train,dev,test}_questions.json.gz
            {"uid": "s3q1", "question": "...", "answer": "...", "tags": ["1tok", ...]}
        contexts/short/ and contexts/long/{train,dev,test}_contexts.json.gz
            {"uid": "s3q1", "contexts": [[0.87, "a passage"], ...]}

    Passages are read in the order of the file. A name of the datasets library needs the columns uid, question, answer
    and contexts, the latter a list of passages.
    """

    contexts: Literal["short", "long"] = "short"
    """Which passages are read: sentences or longer pieces of pages."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contexts not in ("short", "long"):
            raise InputError(f"The setting contexts is {self.contexts!r}; give 'short' or 'long'.")

    def read(self, split: Split) -> list[Example]:
        """Return the questions of a split, each with its passages."""
        return [
            self.question(place, row.get("question"), row.get("answer"), passages, id=str(row.get("uid", place.number)))
            for place, row, passages in self._rows(split)
        ]

    def _rows(self, split: Split) -> Iterator[tuple[Place, dict[str, Any], list[Any]]]:
        """Yield the place of each question, the question, and its passages."""
        if is_datasets_name(self.data):
            for place, row in dataset_records(self.data, split):
                yield place, row, self._passages(place, row)
            return
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


_SEARCH_PARTS: dict[Split, tuple[str, ...]] = {"train": ("train",), "dev": ("val", "dev"), "test": ("test",)}
_SNIPPET = re.compile(r"<s>(.*?)</s>")
_Crawled = tuple[Place, Any, Any, list[Any]]
"""Where a row stands, its question, its answer, its snippets."""


@TASKS.register("search-qa")
@dataclass(frozen=True)
class SearchQa(OpenQa):
    """SearchQA: questions of the Jeopardy! show and the snippets that a web search found for them (Dunn et al., 2017).

    Two official forms, of which a folder holds one. In both, the dev part is called val.

        train.txt, val.txt, test.txt (packed by gzip or not): what the authors trained and tested on, 99,820 / 13,393 /
        27,248 lines in lower case, of questions with more than 40 snippets
            <s> a snippet </s>  <s> another one </s> ||| the question ||| the answer

        train/, val/, test/ or train.zip, val.zip, test.zip: all that was crawled, 151,295 / 21,613 / 43,228 JSON files
        of one question each
            {"question": "...", "answer": "...", "search_results": [{"snippet": "...", "title": "...", ...}, ...]}

    The hub's version (`datasets:kyunghyuncho/search_qa,train_test_val`) holds the second form; its search_results are
    {"snippets": [...], "titles": [...], ...}. Rows without a question or an answer are left out, as usual.
    """

    def read(self, split: Split) -> list[Example]:
        """Return the questions of a split, each with its snippets."""
        examples: list[Example] = []
        n_empty = 0
        for place, asked, answer, snippets in self._rows(split):
            if any(isinstance(text, str) and not text.strip() for text in (asked, answer)):
                n_empty += 1
                continue
            examples.append(self.question(place, asked, answer, snippets, id=f"{split}-{len(examples) + n_empty + 1}"))
        if n_empty:
            logger.info("%d rows of %s, %s, have no question or no answer and are left out", n_empty, self.data, split)
        return examples

    def _rows(self, split: Split) -> Iterator[_Crawled]:
        if is_datasets_name(self.data):
            return (_crawled(place, record) for place, record in dataset_records(self.data, split))
        names = _SEARCH_PARTS[split]
        folder = next((path for name in names if (path := Path(self.data, name)).is_dir()), None)
        path = folder or find_file(self.data, *(f"{name}{ending}" for name in names for ending in (".txt", ".zip")))
        if suffix_of(path) == ".txt":
            return _lines(path)
        files = _unpacked(path) if path.is_file() else _json_files(path)
        return (_crawled(place, json_object(place, raw)) for place, raw in files)


def _lines(path: Path) -> Iterator[_Crawled]:
    for number, line in filled_lines(path):
        place, parts = Place(path, number), line.split("|||")
        if len(parts) != 3:
            advice = "Write '<s> snippet </s> ||| question ||| answer'."
            raise BadRow(place, f"has {len(parts)} parts between '|||'", line, advice=advice)
        snippets, asked, answer = (part.strip() for part in parts)
        found = [snippet.strip() for snippet in _SNIPPET.findall(snippets)]
        if snippets and not found:
            raise BadRow(place, "has snippets without <s> and </s> around them", line)
        yield place, asked, answer, found


def _json_files(folder: Path) -> Iterator[tuple[Place, bytes]]:
    for path in sorted(folder.glob("*.json")):
        yield Place(path, 1), path.read_bytes()


def _unpacked(path: Path) -> Iterator[tuple[Place, bytes]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".json") and not name.startswith("__MACOSX"):
                    yield Place(path / name, 1), read_member(archive, name)
    except DAMAGE as error:
        raise InputError(f"{path} is damaged or no zip file: {error}. Download it again.") from error


def _crawled(place: Place, record: dict[str, Any]) -> _Crawled:
    """Return a question as it was crawled; the results are a list of objects or, on the hub, an object of lists."""
    results = record.get("search_results")
    if isinstance(results, dict):
        snippets = results.get("snippets")
    elif isinstance(results, list) and all(isinstance(result, dict) for result in results):
        snippets = [result.get("snippet", result.get("snippets")) for result in results]
    else:
        snippets = None
    if not isinstance(snippets, list):
        raise BadRow(place, f"has no search_results with snippets but {str(results)[:60]!r}", record)
    kept = [snippet for snippet in snippets if snippet]  # some results have a title only
    return place, record.get("question"), record.get("answer"), kept
