"""BioRED: entities of abstracts, and the relations between them that a whole abstract states.

Train.PubTator, Dev.PubTator and Test.PubTator, see `tables.pubtator`: 400 / 100 / 100 documents with 13,351 / 3,533 /
3,535 mentions and 4,178 / 1,162 / 1,163 relations. For linking, `linking.readers` reads the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from infuser.registry import TASKS
from infuser.relations.examples import RelationText, Triple
from infuser.tables.documents import MarkedDocument
from infuser.tables.pubtator import read_pubtator
from infuser.tables.skipped import BadRow
from infuser.tasks.base import Split
from infuser.tasks.document_pairs import DocumentPairs
from infuser.tasks.ner import Ner
from infuser.tasks.official import find_file
from infuser.types import Span

_NONE = "None"
# fmt: off
_RELATIONS = (
    "Association", "Bind", "Comparison", "Conversion", "Cotreatment", "Drug_Interaction", "Negative_Correlation",
    "Positive_Correlation",
)
# fmt: on
_KINDS = {
    "GeneOrGeneProduct": "gene",
    "DiseaseOrPhenotypicFeature": "disease",
    "ChemicalEntity": "chemical",
    "SequenceVariant": "variant",
    "OrganismTaxon": "species",
    "CellLine": "cell line",
}
"""Types as marks say them: one or two words instead of eight word pieces."""
_RELATED = {
    frozenset(pair.split("-"))
    for pair in (
        "disease-gene",
        "disease-variant",
        "chemical-disease",
        "chemical-gene",
        "chemical-variant",
        "chemical-chemical",
        "gene-gene",
        "variant-variant",
    )
}
"""Between which types the authors looked for relations."""


@TASKS.register("biored-ner")
@dataclass(frozen=True)
class BioredNer(Ner):
    """The entities of BioRED, of six types; documents are split into windows of 200 words.

    Of the 3,535 test mentions none is split between two windows, of 3,533 dev mentions three are.
    """

    train: str = "Train.PubTator"
    """The file of the training part."""
    dev: str | None = "Dev.PubTator"
    """The file of the dev part."""
    test: str | None = "Test.PubTator"
    """The file of the test part."""


@TASKS.register("biored-relations")
class BioredRelations(DocumentPairs):
    """Which of eight relations two entities of a document have, or none.

    Every pair of entities (ids) of one document whose types BioRED relates is an example: the document with marks
    around all mentions of the two, the one that is mentioned first as the head. Pairs have no direction. A relation
    outside these pairs (three of an entity with itself and one of a gene with a variant in Train, one in Dev, none in
    Test) is an example too, so that every relation counts. Mentions without an id are in no pair. A document that is
    longer than the encoder reads is cut at its end: with 512 word pieces, 52 of 1,163 test relations lose an entity.

    "relation-f1" is micro-F1 of pairs with their type, "detection-f1" of pairs alone; both without "None".
    """

    labels = (_NONE, *_RELATIONS)

    def texts(self, split: Split) -> Iterable[RelationText]:
        """Return the pairs of a split."""
        file = find_file(self.data, f"{split.capitalize()}.PubTator")
        return (pair for document in read_pubtator(file) for pair in _pairs(document))

    def sides(self, text: RelationText) -> tuple[Sequence[Span], Sequence[Span]]:
        """Return all mentions of the head, and all of the tail."""
        [triple] = text.triples
        head, tail = ([span for span in text.spans if span.id == end.id] for end in (triple.head, triple.tail))
        return head, tail

    def document_of(self, name: str) -> str:
        """Return the document of a pair, whose name begins with it."""
        return name.split(" ")[0]


def _pairs(document: MarkedDocument) -> Iterator[RelationText]:
    """Yield a document for each pair of its entities, in the order of their first mentions."""
    mentions: dict[str, list[Span]] = {}
    for span in sorted(document.spans, key=lambda one: (one.start, one.end)):
        for id in span.ids:
            mentions.setdefault(id, []).append(Span(span.start, span.end, _KINDS.get(span.label, span.label), id))
    stated = _stated(document, mentions)
    themselves = [(id, id) for id in mentions if frozenset([id]) in stated]
    for one, other in (*combinations(mentions, 2), *themselves):
        pair, (head, *_), (tail, *_) = frozenset((one, other)), mentions[one], mentions[other]
        if pair not in stated and frozenset((head.label, tail.label)) not in _RELATED:
            continue
        spans = mentions[one] if one == other else (*mentions[one], *mentions[other])
        triple = Triple(head, tail, stated.get(pair, _NONE))
        yield RelationText(document.text, (triple,), tuple(spans), f"{document.name} {one} {other}")


def _stated(document: MarkedDocument, mentions: dict[str, list[Span]]) -> dict[frozenset[str], str]:
    """Return the relation of each pair that has one."""
    stated: dict[frozenset[str], str] = {}
    for relation in document.relations:
        for id in (relation.head, relation.tail):
            if id not in mentions:
                why = f"has a relation of {id!r}, which no mention of the document means"
                raise BadRow(relation.place, why, advice="Mark a mention with this id, or remove the line.")
        known = stated.setdefault(frozenset((relation.head, relation.tail)), relation.label)
        if known != relation.label:
            why = f"has the relation {relation.label!r} of a pair that has {known!r} already"
            raise BadRow(relation.place, why, advice="A pair has one relation: keep one of the two lines.")
    return stated
