"""WordNet's database files, read as plain text: synsets, their glosses, what points to what, what is rare.

The format is WordNet's own (wndb(5WN)): one synset per line in `data.noun`, `data.verb`, `data.adj`, `data.adv`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from infuser.errors import SourceError
from infuser.knowledge.facts import EntityRow, Facts, TripleRow, pack_entities, pack_triples

_FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_SENSE_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "s"}
_ADJECTIVE_PLACE = re.compile(r"\((?:a|p|ip)\)$")  # "galore(ip)": where an adjective may stand, not part of the word
RELATIONS = {
    "!": "antonym",
    "@": "hypernym",
    "@i": "instance hypernym",
    "~": "hyponym",
    "~i": "instance hyponym",
    "#m": "member holonym",
    "#s": "substance holonym",
    "#p": "part holonym",
    "%m": "member meronym",
    "%s": "substance meronym",
    "%p": "part meronym",
    "=": "attribute",
    "+": "derivationally related",
    ";c": "topic domain",
    "-c": "member of topic domain",
    ";r": "region domain",
    "-r": "member of region domain",
    ";u": "usage domain",
    "-u": "member of usage domain",
    "*": "entailment",
    ">": "cause",
    "^": "also see",
    "$": "verb group",
    "&": "similar to",
    "<": "participle of verb",
    "\\": "pertainym",
}
"""WordNet's pointer symbols (wninput(5WN)) and the relations they stand for: head is the synset that points."""

SUBJECTS = (
    *("adj.all", "adj.pert", "adv.all"),
    *("noun.Tops", "noun.act", "noun.animal", "noun.artifact", "noun.attribute", "noun.body", "noun.cognition"),
    *("noun.communication", "noun.event", "noun.feeling", "noun.food", "noun.group", "noun.location", "noun.motive"),
    *("noun.object", "noun.person", "noun.phenomenon", "noun.plant", "noun.possession", "noun.process"),
    *("noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance", "noun.time"),
    *("verb.body", "verb.change", "verb.cognition", "verb.communication", "verb.competition", "verb.consumption"),
    *("verb.contact", "verb.creation", "verb.emotion", "verb.motion", "verb.perception", "verb.possession"),
    *("verb.social", "verb.stative", "verb.weather", "adj.ppl"),
)
"""Names of the lexicographer's files by number (lexnames(5WN)), a coarse subject."""


class Pointer(NamedTuple):
    """A relation from one synset to another, such as "@" (is a kind of)."""

    symbol: str
    target: str
    words: str
    """Which word points to which word, as four hex digits; "0000" when whole synsets are meant."""


@dataclass(frozen=True, slots=True)
class Synset:
    """One meaning and the words for it."""

    id: str
    """Part of speech and place in its file, "n01503061"; unique within one WordNet."""
    lemmas: tuple[str, ...]
    """The words, most usual first, with spaces instead of WordNet's underscores."""
    gloss: str
    lex_file: int
    """Number of the lexicographer's file, a coarse subject: 5 animal, 6 artifact, 13 food, 20 plant ..."""
    pointers: tuple[Pointer, ...] = ()
    counts: tuple[int, ...] = ()
    """How often each lemma was met in this meaning in WordNet's tagged texts; 0 says rare."""

    @property
    def hypernyms(self) -> tuple[str, ...]:
        """Ids of the meanings that this one is a kind of."""
        return tuple(pointer.target for pointer in self.pointers if pointer.symbol == "@")


def read_wordnet(folder: str | Path) -> Facts:
    """Yield the entities and triples of a WordNet folder, all four parts of speech.

    An entity's id is its synset's ("n01503061"), its label the first lemma, its type the lexicographer's file
    ("noun.animal"), its count how often its lemmas were met in WordNet's tagged texts. A pointer between words of two
    synsets counts as one between the synsets.
    """
    for pos in "nvar":
        synsets = read_synsets(folder, pos)
        yield from pack_entities(_entity(synset) for synset in synsets.values())
        yield from pack_triples(triple for synset in synsets.values() for triple in _triples(synset))


def read_synsets(folder: str | Path, pos: str = "n") -> dict[str, Synset]:
    """Return all synsets of one part of speech ("n", "v", "a" or "r") by id, in the order of the file."""
    if pos not in _FILES:
        raise SourceError(f"No part of speech is called {pos!r}. Known: n (noun), v (verb), a (adjective), r (adverb).")
    folder = Path(folder)
    path = folder / f"data.{_FILES[pos]}"
    counts = read_counts(folder)
    met = {id for id, _ in counts}
    synsets: dict[str, Synset] = {}
    for number, line in _lines(path):
        if line.startswith("  "):  # the licence at the top of the file
            continue
        try:
            synset = parse_line(line)
        except ValueError as error:
            raise SourceError(
                f"{path}, line {number}: not a WordNet synset ({error}): {line[:80]!r}. The file may be cut off or "
                "edited; fetch it again with `infuser assets remove wordnet` and `infuser assets fetch wordnet`."
            ) from error
        if synset.id in met:
            found = tuple([counts.get((synset.id, lemma.lower()), 0) for lemma in synset.lemmas])
            synset = replace(synset, counts=found)
        synsets[synset.id] = synset
    return synsets


def read_counts(folder: str | Path) -> dict[tuple[str, str], int]:
    """Return {(synset id, lemma in lower case): count} of the senses that were met, all parts of speech.

    Senses that were never met are left out; without the file `index.sense` nothing is known and the answer is empty.
    """
    path = Path(folder) / "index.sense"
    if not path.exists():
        return {}
    counts: dict[tuple[str, str], int] = {}
    for number, line in _lines(path):
        if line.endswith(" 0\n"):  # four of five senses
            continue
        try:
            key, offset, _, count = line.split()
            lemma, percent, rest = key.rpartition("%")
            if not percent:
                raise ValueError("no % in the sense key")
            counts[_id(_SENSE_TYPES[rest[:1]], offset), lemma.replace("_", " ")] = int(count)
        except (ValueError, KeyError) as error:
            raise SourceError(f"{path}, line {number}: not a WordNet sense ({error}): {line[:80]!r}.") from error
    return counts


def parse_line(line: str) -> Synset:
    """Return the synset that one line of a data file describes; ValueError says what is wrong with the line."""
    head, bar, gloss = line.partition(" | ")
    if not bar:
        raise ValueError("no ' | ' before the gloss")
    fields = head.split()
    try:
        offset, lex_file, ss_type, n_words = fields[0], int(fields[1]), fields[2], int(fields[3], 16)
        if ss_type not in _SENSE_TYPES.values():
            raise ValueError(f"unknown type {ss_type!r}")
        if len(offset) != 8 or not offset.isdigit():
            raise ValueError(f"{offset!r} is not an offset of eight digits")
        if n_words < 1:
            raise ValueError("no words")
        here = 4 + 2 * n_words
        words = fields[4:here:2]
        for number in fields[5:here:2]:
            int(number, 16)  # the lex id, needed by nobody here; a word in its place would mean a shifted line
        n_pointers = int(fields[here])
        here += 1
        end = here + 4 * n_pointers
        if len(fields) < end or (len(fields) > end and ss_type != "v"):  # verbs end in sentence frames
            raise ValueError(f"{n_pointers} pointers announced, {(len(fields) - here) / 4:g} found")
        pointers = tuple(
            [Pointer(fields[i], fields[i + 2] + fields[i + 1], fields[i + 3]) for i in range(here, end, 4)]
        )
    except IndexError:
        raise ValueError(f"only {len(fields)} fields") from None
    if ss_type in "as":
        words = [_ADJECTIVE_PLACE.sub("", word) for word in words]
    lemmas = tuple([word.replace("_", " ") for word in words])
    return Synset(_id(ss_type, offset), lemmas, gloss.strip(), lex_file, pointers, (0,) * n_words)


def _id(ss_type: str, offset: str) -> str:
    return ("a" if ss_type == "s" else ss_type) + offset  # satellites are adjectives too, and are pointed to as such


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from enumerate(file, start=1)
    except FileNotFoundError:
        raise SourceError(
            f"No WordNet file at {path}. `infuser assets fetch wordnet` brings one, `infuser assets path wordnet` "
            "says where it lies."
        ) from None
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{path} is not text ({error}). Fetch WordNet again: `infuser assets fetch wordnet`."
        ) from error


def _entity(synset: Synset) -> EntityRow:
    if synset.lex_file >= len(SUBJECTS):
        raise SourceError(
            f"Synset {synset.id} is of lexicographer's file {synset.lex_file}; WordNet has {len(SUBJECTS)}."
        )
    others = list(dict.fromkeys(lemma for lemma in synset.lemmas[1:] if lemma != synset.lemmas[0]))
    types = [SUBJECTS[synset.lex_file]]
    return EntityRow(synset.id, synset.lemmas[0], others or None, synset.gloss or None, types, sum(synset.counts))


def _triples(synset: Synset) -> list[TripleRow]:
    """Return what a synset points to, each once however many of its words do."""
    pointed = dict.fromkeys((pointer.symbol, _target(pointer.target)) for pointer in synset.pointers)
    try:
        return [TripleRow(synset.id, RELATIONS[symbol], target) for symbol, target in pointed]
    except KeyError as error:
        raise SourceError(f"Synset {synset.id} has a pointer {error} that WordNet does not know.") from error


def _target(id: str) -> str:
    return f"a{id[1:]}" if id.startswith("s") else id  # satellites are adjectives too
