"""Facts of LAMA (Petroni et al., 2019) from its official files, or from the version of the datasets library.

    relations.jsonl                 {"relation": "P19", "template": "[X] was born in [Y] .", "type": "N-1", ...}
    TREx/P19.jsonl                  {"sub_label", "obj_label", "predicate_id", "evidences": [{"masked_sentence"}]}
    Google_RE/*_test.jsonl          {"sub_label", "obj_label", "pred", "masked_sentences": [...]}
    ConceptNet/test.jsonl           {"sub", "obj_label", "pred", "masked_sentences": [...]}
    Squad/test.jsonl                {"obj_label", "masked_sentences": [...]}

In the datasets library ("datasets:lama,trex") there is one row per sentence, with the column masked_sentence and, if
the part has templates, template. Rows of one fact follow each other and have the same uuid.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

from infuser.errors import InputError
from infuser.tables.blocks import packed_or_not, suffix_of
from infuser.tables.rows import Record, filled_lines, read_records
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.official import dataset_records, find_file, is_datasets_name
from infuser.words import counted

MASK = "[MASK]"
"""Stands for the gap in the texts of LAMA, whatever the tokenizer's own mask is."""
Part = Literal["trex", "google-re", "conceptnet", "squad"]

_GOOGLE_RE = {
    "place_of_birth": "[X] was born in [Y] .",
    "date_of_birth": "[X] (born [Y]).",
    "place_of_death": "[X] died in [Y] .",
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LamaFact:
    """One fact, and how the set words it."""

    place: Place
    """Where it stands, for errors."""
    relation: str
    subject: str
    """Empty where the set names none."""
    object: str
    template: str
    """With [X] for the subject and [Y] for the object; empty in parts without templates."""
    sentence: str
    """With the mask in the place of the object; empty where the set has none. Google-RE may have two, joined."""
    type: str = ""
    """Of the relation: "1-1", "N-1" or "N-M"; only T-REx says it."""

    def prompt(self, kind: Literal["template", "evidence"]) -> str:
        """Return the text with a mask that asks for the object; parts without templates ask with their sentence."""
        if kind == "template" and self.template:
            return self.template.replace("[X]", self.subject).replace("[Y]", MASK)
        if MASK not in self.sentence:
            raise BadRow(self.place, f"has no sentence with {MASK}", advice="Ask with prompt='template', or drop it.")
        return self.sentence


def read_facts(data: str, part: Part) -> Iterator[LamaFact]:
    """Yield the facts of one part of LAMA as they stand in its files; a malformed row is an error with its line."""
    if part not in get_args(Part):
        raise InputError(f"LAMA has no part {part!r}; it has {', '.join(get_args(Part))}.")
    if is_datasets_name(data):
        rows = _grouped(dataset_records(data, "test", "train"))  # the hub calls its only split train
    elif part == "trex":
        rows = _trex(data)
    elif part == "conceptnet":
        rows = _conceptnet(data)
    else:
        names = [f"Google_RE/{relation}_test" for relation in _GOOGLE_RE] if part == "google-re" else ["Squad/test"]
        rows = (record for name in names for record in read_records(find_file(data, f"{name}.jsonl")))
    for place, row in rows:
        yield _fact(place, row, part)


def _trex(data: str) -> Iterator[Record]:
    """Yield the rows of all relations that have a file, with what relations.jsonl says about each."""
    relations = find_file(data, "relations.jsonl")
    n_files = missing = 0
    for place, about in read_records(relations):
        relation = _text(place, about, "relation")
        path = packed_or_not(Path(data) / "TREx" / f"{relation}.jsonl")
        if path is None:
            missing += 1  # the official script passes over them, too
            continue
        n_files += 1
        about_relation = {"template": _text(place, about, "template"), "type": about.get("type", "")}
        for at, row in read_records(path):
            yield at, {**row, **about_relation}
    if not n_files:
        raise InputError(f"The folder {data!r} has no TREx/P*.jsonl for any of the {missing} relations of {relations}.")
    if missing:
        _log.info("%s of %s have no file in TREx.", counted(missing, "relation"), relations)


def _conceptnet(data: str) -> Iterator[Record]:
    """Yield the rows that name their subject, as the official script does; if none does, all."""
    path = find_file(data, "ConceptNet/test.jsonl")
    named = any("sub_label" in row for _, row in read_records(path))
    left_out = 0
    for place, row in read_records(path):
        if named and "sub_label" not in row:
            left_out += 1
        else:
            yield place, row
    if left_out:
        _log.info("%s of %s have no sub_label and are left out, as officially.", counted(left_out, "row"), path)


def _grouped(records: Iterator[Record]) -> Iterator[Record]:
    """Yield one row per fact, with the sentences of all its rows."""
    for _, of_fact in groupby(records, key=lambda record: record[1].get("uuid") or record[1].get("id") or record[0]):
        (place, first), *more = of_fact
        if "masked_sentence" not in first:
            yield place, first
            continue
        sentences = [row.get("masked_sentence") for row in (first, *(row for _, row in more))]
        if "predicate_id" in first:  # T-REx: each sentence is an evidence of its own
            yield place, {**first, "evidences": [{"masked_sentence": sentence} for sentence in sentences]}
        else:
            yield place, {**first, "masked_sentences": sentences}


def _fact(place: Place, row: dict[str, Any], part: Part) -> LamaFact:
    relation, subject, template = "squad", "", ""
    if part == "trex":
        relation, subject, template = (_text(place, row, name) for name in ("predicate_id", "sub_label", "template"))
    elif part == "google-re":
        relation, subject = _text(place, row, "pred").rsplit("/", 1)[-1], _text(place, row, "sub_label")
        if relation not in _GOOGLE_RE:
            raise BadRow(place, f"is about {relation!r}, not about {', '.join(_GOOGLE_RE)}", row)
        template = _GOOGLE_RE[relation]
    elif part == "conceptnet":
        relation, subject = _text(place, row, "pred"), str(row.get("sub_label") or row.get("sub") or "")
    fact = LamaFact(
        place,
        relation,
        subject,
        _text(place, row, "obj_label"),
        template,
        _evidence(place, row) if part == "trex" else _sentences(place, row),
        str(row.get("type") or ""),
    )
    if template and ("[X]" not in template or "[Y]" not in template):
        raise BadRow(place, f"has the template {template!r} without [X] or [Y]", row)
    if not template and MASK not in fact.sentence:
        raise BadRow(place, f"has no sentence with {MASK}", row)
    return fact


def _evidence(place: Place, row: dict[str, Any]) -> str:
    """Return the first evidence with a mask; facts from elsewhere may have none."""
    evidences = row.get("evidences") or []
    if not isinstance(evidences, list) or not all(isinstance(evidence, dict) for evidence in evidences):
        raise BadRow(place, "has 'evidences' that are no list of objects", row)
    sentences = (evidence.get("masked_sentence") for evidence in evidences)
    return next((one for one in sentences if isinstance(one, str) and MASK in one), "")


def _sentences(place: Place, row: dict[str, Any]) -> str:
    sentences = row.get("masked_sentences") or []
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise BadRow(place, "has 'masked_sentences' that are no list of texts", row)
    return " ".join(sentences)


def _text(place: Place, row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if isinstance(value, str) and value.strip():
        return value.strip()
    advice = "Give the official files of LAMA, or a set with its columns."
    raise BadRow(place, f"has no {name!r} but {', '.join(map(repr, row)) or 'nothing'}", row, advice=advice)


def read_texts(corpus: str) -> list[str]:
    """Return the lines of a text file, or of all .txt files of a folder, that are not empty."""
    path = Path(corpus)
    files = sorted(one for one in path.rglob("*") if suffix_of(one) == ".txt") if path.is_dir() else [path]
    texts = []
    for file in files:
        texts += [line.strip() for _, line in filled_lines(file)]
    if not texts:
        raise InputError(f"There are no texts in {corpus!r}. Give a file with one text per line, or a folder of .txt.")
    return texts
