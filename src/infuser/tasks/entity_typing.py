"""Entity typing: which types, of several possible at once, a mention in a sentence has.

train.json, dev.json and test.json, for both sets as the ERNIE release (Zhang et al. 2019) has them, a list of

    {"sent": "He lives in Bern .", "start": 12, "end": 16, "labels": ["location", "place"], "ents": [...]}

with the mention in characters of the sentence. OpenEntity is read as well as it was published (Choi et al. 2018, the
folder crowd), one object per line; of its types the nine general ones are kept, as all who report nine types do:

    {"annot_id": "...", "left_context_token": ["He", "lives", "in"], "mention_span": "Bern",
     "right_context_token": ["."], "y_str": ["location", "city", "place"]}

`datasets:FOLDER` with either columns is read, too. Sizes: OpenEntity 1,998 each; FIGER 2,000,000 / 10,000 / 563 with
113 types. The mention is marked in the text, "@ Bern @". A type is predicted where its logit is above 0, in FIGER's
scores also the likeliest one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.stats.metrics import Metric
from infuser.tables.blocks import open_stream
from infuser.tables.rows import Record, json_lines, read_records
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Example, Split, Task, class_options
from infuser.tasks.entity_markers import mark_mention
from infuser.tasks.official import dataset_records, find_file, is_datasets_name
from infuser.types import Span

logger = logging.getLogger(__name__)

_GENERAL = frozenset(["entity", "event", "group", "location", "object", "organization", "person", "place", "time"])

_YES = 1.0  # a logit above 0 predicts the type

TypedMention = tuple[str, Span, tuple[str, ...]]
"""A text, where the mention stands in it, and its types in order."""


@dataclass(frozen=True)
class EntityTyping(Task):
    """Types of a marked mention, each a yes or no of its own."""

    metrics = ("typing-micro-f1", "typing-macro-f1", "typing-precision", "typing-recall")

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types of the training part, in order."""
        return tuple(sorted({name for _, (_, _, types) in self._mentions("train") for name in types}))

    def read(self, split: Split) -> list[Example]:
        """Return the examples of a split; those with the same types share one label, so that FIGER fits in memory."""
        known, labels = frozenset(self.types), dict[tuple[str, ...], list[float]]()
        examples: list[Example] = []
        for place, (text, mention, types) in self._mentions(split):
            if types not in labels:
                if not known.issuperset(types):
                    new = sorted({*types} - known)
                    raise BadRow(
                        place, f"has types that no training row has, {new}", advice="Take all parts from one release."
                    )
                labels[types] = [float(name in types) for name in self.types]
            examples.append({"text": mark_mention(text, mention), "label": labels[types]})
        return examples

    def head_options(self) -> dict[str, Any]:
        """Return the options of a head that says yes or no to every type."""
        if not self.types:
            raise InputError(f"No mention in the training part of {self.data!r} has a type. Check its 'labels'.")
        return {**class_options(self.types), "problem_type": "multi_label_classification"}

    def gold(self, example: Example) -> list[int]:
        """Return 1 for each type that the mention has and 0 for the others."""
        return [int(label) for label in example["label"]]

    def _mentions(self, split: Split) -> Iterator[tuple[Place, TypedMention]]:
        n_empty = 0
        for place, row in self._records(split):
            text, mention, types = _of_choi(place, row) if "mention_span" in row else _of_ernie(place, row)
            if mention.start == mention.end:
                n_empty += 1
            else:
                yield place, (text, mention, types)
        if n_empty:
            logger.warning("%s, %s: %d rows with an empty mention left out, as ERNIE does.", self.data, split, n_empty)

    def _records(self, split: Split) -> Iterator[Record]:
        if is_datasets_name(self.data):
            return dataset_records(self.data, split)
        path = find_file(self.data, f"{split}.json", f"crowd/{split}.json")
        with open_stream(path) as file:
            is_list = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
        return read_records(path) if is_list else json_lines(path)  # the release calls both .json


@TASKS.register("open-entity")
class OpenEntity(EntityTyping):
    """The nine general types of OpenEntity."""


@TASKS.register("figer")
class Figer(EntityTyping):
    """The fine types of FIGER, "/person/artist"; its training part is labelled by distant supervision."""

    def get_metric(self, name: str) -> Metric:
        """Return a metric where the likeliest type counts as predicted, too, as in the scores that are published.

        `fit` chooses the best epoch without that rule.
        """
        return (
            super().get_metric(name).after(lambda logits: [_with_likeliest(one) for one in logits], lambda golds: golds)
        )


def _with_likeliest(logits: Sequence[float]) -> list[float]:
    highest = max(logits)
    return [max(logit, _YES) if logit == highest else logit for logit in logits]


def _of_ernie(place: Place, row: dict[str, Any]) -> TypedMention:
    text, start, end = row.get("sent"), row.get("start"), row.get("end")
    if not isinstance(text, str) or not text.strip():
        raise BadRow(place, f"has no text as 'sent' but {text!r:.40}", advice="Its keys: sent, start, end, labels.")
    if not (type(start) is int and type(end) is int and 0 <= start <= end <= len(text)):
        raise BadRow(place, f"has a mention from {start!r} to {end!r}, not inside its {len(text)} characters")
    return text, Span(start, end), _types(place, row, "labels")


def _of_choi(place: Place, row: dict[str, Any]) -> TypedMention:
    left, mention, right = (row.get(key) for key in ("left_context_token", "mention_span", "right_context_token"))
    if not isinstance(mention, str) or not _are_words(left) or not _are_words(right):
        advice = "Its keys: left_context_token, mention_span, right_context_token, y_str."
        raise BadRow(place, "has no mention between two lists of words", advice=advice)
    before = " ".join([*left, ""])
    text = " ".join([before + mention, *right])
    types = tuple(name for name in _types(place, row, "y_str") if name in _GENERAL)
    return text, Span(len(before), len(before) + len(mention)), types


def _are_words(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _types(place: Place, row: dict[str, Any], key: str) -> tuple[str, ...]:
    if not _are_words(row.get(key)):
        raise BadRow(place, f"has no list of types as {key!r} but {row.get(key)!r:.40}", advice='Write ["person"].')
    return tuple(sorted(set(row[key])))
