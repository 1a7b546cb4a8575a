"""Relation classification: two marked mentions of a text, whose relation is predicted.

See `entity_markers` for the marks, and each task for its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.readers.common import Tokens, Unreadable
from infuser.relations.readers.fewrel import fewrel_example, read_fewrel
from infuser.relations.readers.semeval import marked_sentence, read_semeval
from infuser.stats.metrics import METRICS, Array, Metric
from infuser.stats.weighted import ClassCounts, Floats, of_classes, ratio
from infuser.tables.rows import Record
from infuser.tables.skipped import BadRow, Place, Skipped
from infuser.tables.values import is_text
from infuser.tasks.base import Example, Split, Task, class_options
from infuser.tasks.entity_markers import Markers, mark_all
from infuser.tasks.official import dataset_records, find_file, is_datasets_name, official_records
from infuser.tasks.splitting import hold_out
from infuser.types import Span

_ADVICE = "Correct it or download the file again."


@dataclass(frozen=True)
class RelationClassification(Task):
    """Which relation two marked mentions have; a subclass reads its texts and lists its labels."""

    markers: Markers = "typed"
    """How the two mentions are marked: "typed" with their types, where the data have them, "plain", or "none"."""

    def texts(self, split: Split) -> Iterable[RelationText]:
        """Return the texts of a split, each with one triple; its relation is the label."""
        raise NotImplementedError

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes."""
        raise NotImplementedError

    def read(self, split: Split) -> list[Example]:
        """Return the examples of a split, with their marks."""
        places = {label: at for at, label in enumerate(self.labels)}
        return [self._example(text, places, split) for text in self.texts(split)]

    def head_options(self) -> dict[str, Any]:
        """Return the options of a head with one class per label."""
        return class_options(self.labels)

    def dev_beside(self, scored: Split) -> list[Example] | None:
        """Return the dev part, unless it is scored itself."""
        return None if scored == "dev" else self.read("dev")

    def covered(self, asked: Sequence[Example]) -> list[bool]:
        """Return in which annotated examples a source found something in one of the marked mentions."""
        return [_is_covered(example) for example in asked]

    def sides(self, text: RelationText) -> tuple[Sequence[Span], Sequence[Span]]:
        """Return the mentions that are marked as head and those that are marked as tail."""
        [triple] = text.triples
        return [triple.head], [triple.tail]

    def _example(self, text: RelationText, places: dict[str, int], split: Split) -> Example:
        [triple] = text.triples
        if triple.relation not in places:
            known = ", ".join(self.labels[:5])
            raise InputError(
                f"{self.data}: example {text.name or text.text[:60]!r} of the {split} part has the relation "
                f"{triple.relation!r}, not one of the {len(places)} known ones ({known}, ...). Correct it, or check "
                "that all parts are of the same release."
            )
        marked = mark_all(text.text, *self.sides(text), self.markers)
        mentions = [list(place) for place in marked.mentions]
        return {"text": marked.text, "label": places[triple.relation], "id": text.name, "mentions": mentions}


def _is_covered(example: Example) -> bool:
    found = [span for annotations in example["annotations"] for span in annotations.spans]
    return any(span.start < end and start < span.end for start, end in example["mentions"] for span in found)


@TASKS.register("tacred")
class Tacred(RelationClassification):
    """TACRED and Re-TACRED: which relation, or none, a subject and an object in a sentence have.

    train.json, dev.json and test.json, each a list of

        {"id": "e7798fb926b9403cfcd2", "relation": "per:title", "token": ["Tom", "Thabane", "is", ...],
         "subj_start": 0, "subj_end": 1, "obj_start": 5, "obj_end": 5, "subj_type": "PERSON", "obj_type": "TITLE", ...}

    Starts and ends are numbers of tokens, ends included. What Stanford's tools say about the tokens is not read.
    Brackets are written as people write them ("(" for "-LRB-"). `datasets:FOLDER` with these columns is read as well.

    Published sizes: TACRED 68,124 / 22,631 / 15,509 with 42 classes, Re-TACRED 58,465 / 19,584 / 13,418 with 40. Scores
    leave out the class "no_relation".
    """

    metrics = ("relation-f1", "relation-precision", "relation-recall")

    def texts(self, split: Split) -> Iterable[RelationText]:
        """Return the texts of a split."""
        rows = official_records(self.data, split, f"{split}.json", f"data/json/{split}.json")
        return read_texts(rows, _tacred_text)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The relations of the training part; "no_relation" is class 0, the one that is never a hit."""
        relations = {text.triples[0].relation for text in self.texts("train")}
        return (NO_RELATION, *sorted(relations - {NO_RELATION}))


_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}


def _tacred_text(place: Place, row: dict[str, Any]) -> RelationText:
    written, relation = row.get("token"), row.get("relation")
    if not isinstance(written, list):
        raise Unreadable(f"its 'token' is no list of words but {written!r:.40}")
    if not is_text(relation):
        raise Unreadable(f"its 'relation' is no text but {relation!r:.40}")
    tokens = Tokens([_BRACKETS.get(str(word).lower(), word) for word in written])
    triple = Triple(_tacred_span(row, "subj", tokens), _tacred_span(row, "obj", tokens), relation)
    return RelationText(tokens.text, (triple,), name=str(row.get("id") or ""))


def _tacred_span(row: dict[str, Any], side: str, tokens: Tokens) -> Span:
    first, last, kind = (row.get(f"{side}_{part}") for part in ("start", "end", "type"))
    n_tokens = len(tokens.starts)
    if not (type(first) is int and type(last) is int and 0 <= first <= last < n_tokens):
        raise Unreadable(f"{side}_start and {side}_end, {first!r} and {last!r}, are not inside its {n_tokens} tokens")
    if not isinstance(kind, str):
        raise Unreadable(f"its '{side}_type' is no text but {kind!r:.40}")
    return Span(*tokens.place(first, last), label=kind)


@TASKS.register("fewrel")
@dataclass(frozen=True)
class FewRel(RelationClassification):
    """FewRel as plain classification: which of the relations of one file two entities of a sentence have.

    train_wiki.json (64 relations, 44,800 sentences) or val_wiki.json (16, 11,200), see `relations.readers.fewrel`. The
    files have no relation in common and so cannot be training and test part of one classifier. We take one of them
    and hold out, by a fixed draw, a tenth of each relation's sentences for dev and a tenth for test. FewRel's own N-way
    K-shot episodes over unseen relations are another task, and the 80-relation split in ERNIE's release is another
    split: numbers published for either cannot be compared with these.

    `datasets:thunlp/few_rel` has the same parts with the columns relation, tokens, head and tail {text, type, indices}.
    The entities have no types, so "typed" marks are plain ones.
    """

    part: str = "train_wiki"
    """Which file, without its ending, or which split of the hub's version the examples of all three parts are from."""

    def texts(self, split: Split) -> Iterable[RelationText]:
        """Return the texts of a split."""
        return select_part(self._all(), split, ["dev", "test"])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The ids of the relations; there is no class "no relation"."""
        return tuple(sorted({text.triples[0].relation for text in self._all()}))

    def _all(self) -> Iterator[RelationText]:
        if is_datasets_name(self.data):
            advice = "Its columns: relation, tokens, head and tail {text, type, indices}."
            return read_texts(dataset_records(self.data, self.part), _fewrel_text, advice=advice)
        return read_fewrel(find_file(self.data, f"{self.part}.json"), _NoSkipping())


def _fewrel_text(place: Place, row: dict[str, Any]) -> RelationText:
    """Return a row of the hub, whose entities are objects and not lists as in the files."""
    if not is_text(row.get("relation")):
        raise Unreadable(f"its 'relation' is no text but {row.get('relation')!r:.40}")
    head, tail = (
        [entity.get(key) for key in ("text", "type", "indices")] if isinstance(entity, dict) else None
        for entity in (row.get("head"), row.get("tail"))
    )
    return fewrel_example({"tokens": row.get("tokens"), "h": head, "t": tail}, row["relation"], "")


# fmt: off
_SEMEVAL_RELATIONS = (
    "Cause-Effect", "Component-Whole", "Content-Container", "Entity-Destination", "Entity-Origin", "Instrument-Agency",
    "Member-Collection", "Message-Topic", "Product-Producer",
)
# fmt: on
_OTHER = "Other"
_DIRECTED = tuple(f"{relation}({ends})" for relation in _SEMEVAL_RELATIONS for ends in ("e1,e2", "e2,e1"))
_SEMEVAL_FILES = {
    "train": ("TRAIN_FILE.TXT", "SemEval2010_task8_training/TRAIN_FILE.TXT"),
    "test": ("TEST_FILE_FULL.TXT", "SemEval2010_task8_testing_keys/TEST_FILE_FULL.TXT"),
}


@TASKS.register("semeval-2010-8")
class SemEval2010Task8(RelationClassification):
    """SemEval-2010 task 8: which of nine relations two nominals have, and in which direction, or another one.

    TRAIN_FILE.TXT (8,000 sentences) and TEST_FILE_FULL.TXT (2,717), in the folder itself or where the release has them,
    see `relations.readers.semeval`. There is no dev part: a tenth of the training sentences of every label, drawn with
    a fixed seed, is held out for it. `datasets:SemEvalWorkshop/sem_eval_2010_task_8` has the columns sentence and
    relation, the number of its label. Nominals have no types, so "typed" marks are plain ones.
    """

    metrics = ("semeval-f1", "accuracy")

    def texts(self, split: Split) -> Iterable[RelationText]:
        """Return the texts of a split; e1 is always marked as the head, so the marks do not show the direction."""
        return self._of_file("test") if split == "test" else select_part(self._of_file("train"), split, ["dev"])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Class 0 is "Other", then come the two directions of each relation; "semeval-f1" counts on that order."""
        return (_OTHER, *_DIRECTED)

    def _of_file(self, part: str) -> Iterator[RelationText]:
        if is_datasets_name(self.data):
            rows = dataset_records(self.data, part)
            texts = read_texts(rows, _semeval_text, advice="Its columns: sentence, relation.")
        else:
            texts = read_semeval(find_file(self.data, *_SEMEVAL_FILES[part]), _NoSkipping())
        return map(_directed, texts)


def _semeval_text(place: Place, row: dict[str, Any]) -> RelationText:
    """Return a row of the hub, which numbers the labels with "Other" last."""
    sentence, relation = row.get("sentence"), row.get("relation")
    label = (*_DIRECTED, _OTHER)[relation] if isinstance(relation, int) and relation in range(19) else relation
    if not isinstance(sentence, str) or not isinstance(label, str):
        raise Unreadable(f"no sentence with a relation from 0 to 18 but {sentence!r:.40} and {relation!r}")
    return marked_sentence(sentence.strip(), label, name=str(place.number))


def _directed(text: RelationText) -> RelationText:
    """Return a text whose triple goes from e1 to e2 and says the direction in its label."""
    [triple] = text.triples
    e1, e2 = sorted((triple.head, triple.tail), key=lambda span: span.id)
    ends = "e1,e2" if triple.head == e1 else "e2,e1"
    label = _OTHER if triple.relation == NO_RELATION else f"{triple.relation}({ends})"
    return replace(text, triples=(Triple(e1, e2, label),))


def _f1_of_relations(counts: ClassCounts) -> Floats:
    """Return the official score of every round: "(9+1)-way evaluation with directionality", macro-averaged F1.

    Directions of a relation are one class, but an answer in the wrong direction is wrong: it counts among the answers
    of the relation, not among the right ones. The mean is over the relations that the key holds, without "Other".
    Classes are in the order of `SemEval2010Task8.labels`.
    """
    right, predicted, gold = (side[:, 1::2] + side[:, 2::2] for side in (counts.right, counts.predicted, counts.gold))
    asked = gold > 0
    return ratio((ratio(2 * right, predicted + gold) * asked).sum(axis=1), asked.sum(axis=1))


def _semeval_f1(logits: Array, labels: Array) -> float:
    return float(of_classes(_f1_of_relations)(logits, labels, np.ones((1, len(labels))))[0])


METRICS["semeval-f1"] = Metric("semeval-f1", _semeval_f1, of_classes(_f1_of_relations))


class _NoSkipping(Skipped):
    """Makes a reader that skips bad rows stop at the first: a benchmark with rows left out is another one."""

    def add(self, path: str | Path, number: int, why: str, row: object, *, unit: str = "line") -> None:
        """Raise the row as an error."""
        raise BadRow(Place(Path(path), number, unit), f"cannot be read: {why}", row, advice=_ADVICE)


def read_texts(
    records: Iterable[Record], read: Callable[[Place, dict[str, Any]], RelationText], *, advice: str = _ADVICE
) -> Iterator[RelationText]:
    """Yield what `read` makes of each row; one that cannot be read is an error with its place."""
    for place, row in records:
        try:
            yield read(place, row)
        except Unreadable as error:
            raise BadRow(place, f"cannot be read: {error}", row, advice=advice) from error


def select_part(texts: Iterable[RelationText], split: Split, held_out: Sequence[Split]) -> list[RelationText]:
    """Return the texts of a split, where a tenth for each part in `held_out` is held out of the training part."""
    left = list(texts)
    for number, part in enumerate(held_out if len(left) > 1 else ()):
        share = 0.1 / (1 - 0.1 * number)  # parts of the same size
        held = hold_out(len(left), share=share, strata=[text.triples[0].relation for text in left])
        if part == split:
            return [left[place] for place in sorted(held)]
        left = [text for place, text in enumerate(left) if place not in held]
    return left if split == "train" else []
