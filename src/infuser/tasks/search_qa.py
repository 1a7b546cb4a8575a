"""SearchQA: questions of the Jeopardy! show and the snippets that a web search found for them (Dunn et al., 2017).

Two official forms, of which a folder holds one. In both, the dev part is called val.

    train.txt, val.txt, test.txt (packed by gzip or not): what the authors trained and tested on, 99,820 / 13,393 /
    27,248 lines in lower case, of questions with more than 40 snippets
        <s> a snippet </s>  <s> another one </s> ||| the question ||| the answer

    train/, val/, test/ or train.zip, val.zip, test.zip: all that was crawled, 151,295 / 21,613 / 43,228 JSON files of
    one question each
        {"question": "...", "answer": "...", "search_results": [{"snippet": "...", "title": "...", "url": ...}, ...]}

The hub's version (`datasets:kyunghyuncho/search_qa,train_test_val`) holds the second form; its search_results are
{"snippets": [...], "titles": [...], ...}. Rows without a question or an answer are left out, as usual.
"""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.tables.blocks import suffix_of
from infuser.tables.rows import filled_lines, json_object
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Example, Split
from infuser.tasks.official import dataset_records, find_file, is_datasets_name
from infuser.tasks.open_qa import OpenQa

logger = logging.getLogger(__name__)

_NAMES: dict[Split, tuple[str, ...]] = {"train": ("train",), "dev": ("val", "dev"), "test": ("test",)}
_SNIPPET = re.compile(r"<s>(.*?)</s>")
_Row = tuple[Place, Any, Any, list[Any]]
"""Where a row stands, its question, its answer, its snippets."""


@TASKS.register("search-qa")
@dataclass(frozen=True)
class SearchQa(OpenQa):
    """Jeopardy! questions, answered from the snippets of a web search."""

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

    def _rows(self, split: Split) -> Iterator[_Row]:
        if is_datasets_name(self.data):
            return (_crawled(place, record) for place, record in dataset_records(self.data, split))
        names = _NAMES[split]
        folder = next((path for name in names if (path := Path(self.data, name)).is_dir()), None)
        path = folder or find_file(self.data, *(f"{name}{ending}" for name in names for ending in (".txt", ".zip")))
        if suffix_of(path) == ".txt":
            return _lines(path)
        files = _unpacked(path) if path.is_file() else _json_files(path)
        return (_crawled(place, json_object(place, raw)) for place, raw in files)


def _lines(path: Path) -> Iterator[_Row]:
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
                    yield Place(path / name, 1), archive.read(name)
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} is damaged or no zip file: {error}. Download it again.") from error


def _crawled(place: Place, record: dict[str, Any]) -> _Row:
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
