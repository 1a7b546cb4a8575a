"""DDI 2013: whether and how two drugs in a sentence interact."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.relations.examples import RelationText, Triple
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Split
from infuser.tasks.document_pairs import DocumentPairs
from infuser.tasks.splitting import hold_out
from infuser.types import Span

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_NONE = "none"
_TYPES = ("mechanism", "effect", "advise", "int")
_UNNAMED = "int"
_FOLDERS = {"train": ("Train",), "test": ("Test/Test for DDI Extraction task", "Test")}
_ADVICE = "Correct it or download the file again."


@TASKS.register("ddi")
class Ddi(DocumentPairs):
    """DDI 2013, task 9.2 of SemEval-2013: which of four kinds of interaction a pair of drugs has, or none.

    The XML files of DrugBank and MedLine under Train and "Test/Test for DDI Extraction task" (or Test). Every <pair> of
    a sentence is one example with typed marks (drug, brand, group, drug_n). There is no dev part: a tenth of the
    training documents, drawn with a fixed seed, is held out for it.

    charOffset counts characters, its end included. A drug in pieces ("1-5;10-15") is marked from its first to its last
    character. Offsets are taken as they are: one of the official ones is a character off. A pair that interacts without
    a type, the official files have one, is an "int": an interaction of which nothing more is said.

    Published sizes: 27,792 pairs for training, 4,021 of which interact, and 5,716 for testing, 979 of which do. The
    first score is micro-F1 over the four types. Macro-F1 is the mean of F1 of the types. "detection-f1" only asks
    whether there is an interaction.
    """

    labels = (_NONE, *_TYPES)

    def texts(self, split: Split) -> Iterable[RelationText]:
        """Return the pairs of a split."""
        if split == "test":
            return self._of_folder("test")
        return [text for text in self._training if (self.document_of(text.name) in self._held_out) == (split == "dev")]

    def document_of(self, name: str) -> str:
        """Return "DDI-DrugBank.d519" of "DDI-DrugBank.d519.s3.p0"."""
        return name.rsplit(".s", 1)[0]

    @cached_property
    def _training(self) -> list[RelationText]:
        return list(self._of_folder("train"))

    @cached_property
    def _held_out(self) -> set[str]:
        """The documents of the dev part."""
        documents = [self.document_of(text.name) for text in self._training]
        strata = [text.triples[0].relation for text in self._training]
        return {documents[place] for place in hold_out(len(documents), share=0.1, strata=strata, groups=documents)}

    def _of_folder(self, part: str) -> Iterator[RelationText]:
        folders = [Path(self.data) / name for name in _FOLDERS[part]]
        files = next((found for folder in folders if (found := sorted(folder.rglob("*.xml")))), None)
        if files is None:
            raise InputError(
                f"{self.data!r} holds no .xml file under {' or '.join(_FOLDERS[part])}. Give the folder of the DDI "
                "corpus that holds Train and Test."
            )
        for file in files:
            yield from read_ddi(file)


def read_ddi(path: Path) -> Iterator[RelationText]:
    """Yield the pairs of a file, each with its sentence; one that cannot be read is an error."""
    from xml.etree import ElementTree

    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        line, column = error.position
        raise BadRow(Place(path, line), f"is no XML at character {column + 1}", advice=_ADVICE) from error
    for number, sentence in enumerate(root.iter("sentence"), start=1):
        place, text = Place(path, number, "sentence"), sentence.get("text", "")
        drugs = {drug.get("id", ""): _drug(place, text, drug) for drug in sentence.iter("entity")}
        for pair in sentence.iter("pair"):
            name, ends = pair.get("id", ""), [pair.get(end, "") for end in ("e1", "e2")]
            for end in ends:
                if end not in drugs:
                    raise BadRow(place, f"has the pair {name!r} with {end!r}, which is no entity", advice=_ADVICE)
            triple = Triple(drugs[ends[0]], drugs[ends[1]], _interaction(place, pair))
            yield RelationText(text, (triple,), tuple(drugs.values()), name)


def _drug(place: Place, text: str, drug: Element) -> Span:
    written = drug.get("charOffset", "")
    if not re.fullmatch(r"\d+-\d+(;\d+-\d+)*", written):
        why = f"has the charOffset {written!r}"
        raise BadRow(place, why, advice="Write the first and the last character, 0-4 or 0-4;10-15.")
    ends = [int(end) for end in re.split("[-;]", written)]
    start, end = ends[0], ends[-1] + 1
    if not start < end <= len(text) or not text[start:end].strip():
        why = f"has the charOffset {written!r}, which holds no words of its {len(text)} characters"
        raise BadRow(place, why, advice=_ADVICE)
    return Span(start, end, label=drug.get("type", ""), id=drug.get("id", ""))


def _interaction(place: Place, pair: Element) -> str:
    interacts, kind = pair.get("ddi"), pair.get("type") or _UNNAMED
    if interacts not in ("true", "false") or (interacts == "true" and kind not in _TYPES):
        why = f"has the pair {pair.get('id')!r} with ddi {interacts!r} and type {kind!r}"
        raise BadRow(place, why, advice=f"Give true or false and one of {', '.join(_TYPES)}.")
    return kind if interacts == "true" else _NONE
