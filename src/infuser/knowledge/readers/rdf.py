"""RDF files, read as a stream by pyoxigraph: N-Triples, N-Quads, Turtle, TriG, also as .gz or .zst.

Statements between two things become triples. Labels, other names, descriptions and types become entities; other
statements about literals (dates, numbers ...) are left out and counted in the log. What is said about one thing in
consecutive statements is one row, in which the wanted language comes before text without a language.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infuser.errors import InputError, MissingExtraError
from infuser.knowledge.facts import EntityRow, Facts, TripleRow, pack_entities, pack_triples
from infuser.tables.blocks import Block, open_stream, read_blocks, suffix_of
from infuser.tables.skipped import BATCH, Skipped
from infuser.words import one_line

_log = logging.getLogger(__name__)

_BLOCK = 1 << 20  # a megabyte of lines is some 10,000 statements, each an object while it waits

SUFFIXES = (".nt", ".nq", ".ttl", ".trig")

_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_SCHEMA = ("http://schema.org/", "https://schema.org/")
_ROLES = {
    "http://www.w3.org/2000/01/rdf-schema#label": "label",
    f"{_SKOS}prefLabel": "label",
    f"{_SKOS}altLabel": "aliases",
    "http://www.w3.org/2000/01/rdf-schema#comment": "description",
    f"{_SKOS}definition": "description",
    "http://purl.org/dc/terms/description": "description",
    **{f"{schema}alternateName": "aliases" for schema in _SCHEMA},
    **{f"{schema}description": "description" for schema in _SCHEMA},
}


def read_rdf(path: str | Path, skipped: Skipped, *, language: str = "en", shorten: bool = False) -> Facts:
    """Yield the triples and entities of an RDF file.

    `language` is that of labels and descriptions; text without a language is the second choice, other languages are
    left out. `shorten` makes ids of what follows the last / or # of an address. A broken line of N-Triples or N-Quads
    is counted by `skipped`; in Turtle and TriG, where nobody can say what a broken statement breaks, it is an error.
    """
    gathered = _Gathered(language.casefold(), shorten)
    for number, statement in enumerate(_statements(path, skipped), start=1):
        if not gathered.take(statement.subject, statement.predicate.value, statement.object):
            skipped.add(path, number, "holds a null character", str(statement), unit="statement")
        if max(len(gathered.triples), len(gathered.entities)) >= BATCH:
            yield from gathered.pack()
    gathered.close()
    yield from gathered.pack()
    if gathered.n_literals:
        _log.info(
            "%s: %d statements about literals other than names and descriptions left out", path, gathered.n_literals
        )


def _statements(path: str | Path, skipped: Skipped) -> Iterator[Any]:
    """Yield the statements of a file."""
    try:
        import pyoxigraph
    except ImportError as error:
        raise MissingExtraError("Reading RDF needs pyoxigraph: pip install 'infuser[rdf]'") from error
    formats = {
        ".nt": pyoxigraph.RdfFormat.N_TRIPLES,
        ".nq": pyoxigraph.RdfFormat.N_QUADS,
        ".ttl": pyoxigraph.RdfFormat.TURTLE,
        ".trig": pyoxigraph.RdfFormat.TRIG,
    }
    suffix = suffix_of(path)
    if suffix not in formats:
        raise InputError(f"{path} does not end in one of {', '.join(SUFFIXES)} (or these with .gz, .zst). Rename it.")

    def parse(source: Any) -> Iterator[Any]:
        parsed: Iterator[Any] = pyoxigraph.parse(input=source, format=formats[suffix], lenient=True)
        return parsed

    if suffix in (".nt", ".nq"):
        for block in read_blocks(path, _BLOCK):
            yield from _lines(block, parse, path, skipped)
        return
    with open_stream(path) as stream:
        try:
            yield from parse(stream)
        except SyntaxError as error:
            raise InputError(
                f"{path}, line {error.lineno}: {_why(error)}. Mend the file; what follows was not read."
            ) from error


def _lines(block: Block, parse: Callable[[bytes], Iterator[Any]], path: str | Path, skipped: Skipped) -> list[Any]:
    """Return the statements of a block in which each line is one; broken lines are counted."""
    try:
        return list(parse(block.data))
    except SyntaxError:  # the parser may lose more than the broken line, so lines are read one by one
        pass
    found: list[Any] = []
    for number, line in enumerate(block.lines(), block.first):
        try:
            found += list(parse(line))  # a line that is broken at its end gives nothing
        except SyntaxError as error:
            skipped.add(path, number, _why(error), line.decode("utf-8", "backslashreplace"))
    return found


def _why(error: SyntaxError) -> str:
    return one_line(re.sub(r"^Parser error at .*?: ", "", str(error.msg)))


@dataclass
class _Gathered:
    """Statements on their way into batches."""

    language: str
    shorten: bool
    triples: list[TripleRow] = field(default_factory=list)
    entities: list[EntityRow] = field(default_factory=list)
    n_literals: int = 0
    _subject: Any = None
    _subject_id: str = ""
    _texts: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Texts about the subject: (how well its language fits, text) by role."""

    def take(self, subject: Any, predicate: str, value: Any) -> bool:
        """Sort one statement in; False if it holds a null character, which no table of names can keep."""
        if subject != self._subject:
            self.close()
            self._subject, self._subject_id = subject, self._id(subject)
        kind = type(value).__name__
        text = value.value if kind == "Literal" else self._id(value)
        if "\0" in text or "\0" in self._subject_id:
            return False
        if kind != "Literal":
            if predicate == _TYPE:
                self._texts.setdefault("types", []).append((0, text))
            elif kind != "Triple" and self._subject_id:  # a statement about a statement has no place in a graph
                relation = _local_name(predicate) if self.shorten else predicate
                self.triples.append(TripleRow(self._subject_id, relation, text))
        elif (role := _ROLES.get(predicate)) is None:
            self.n_literals += 1
        elif (fit := self._fit(value.language)) is not None and text:
            self._texts.setdefault(role, []).append((fit, text))
        return True

    def close(self) -> None:
        """Make a row of the texts about the subject so far."""
        texts, self._texts = self._texts, {}
        if not texts or not self._subject_id:
            return
        labels, names, described, types = (
            _best_first(texts.get(role, ())) for role in ("label", "aliases", "description", "types")
        )
        label = labels[0] if labels else None
        aliases = [name for name in dict.fromkeys([*labels, *names]) if name != label]
        description = described[0] if described else None
        self.entities.append(EntityRow(self._subject_id, label, aliases or None, description, types or None))

    def pack(self) -> Facts:
        """Yield what was gathered so far and forget it."""
        triples, self.triples, entities, self.entities = self.triples, [], self.entities, []
        yield from pack_triples(triples)
        yield from pack_entities(entities)

    def _id(self, node: Any) -> str:
        kind = type(node).__name__
        if kind == "NamedNode":
            return _local_name(node.value) if self.shorten else str(node.value)
        return f"_:{node.value}" if kind == "BlankNode" else ""

    def _fit(self, language: str | None) -> int | None:
        """Return 0 for the wanted language, 1 for a variety of it, 2 for text without one; None for any other."""
        if language is None:
            return 2
        tag = language.casefold()
        if tag == self.language:
            return 0
        return 1 if tag.startswith(f"{self.language}-") else None


def _best_first(texts: Any) -> list[str]:
    return list(dict.fromkeys(text for _, text in sorted(texts, key=lambda pair: pair[0])))


def _local_name(iri: str) -> str:
    """Return what follows the last / or # of an address."""
    bare = iri.rstrip("/#")
    return bare[max(bare.rfind("/"), bare.rfind("#")) + 1 :] or iri
