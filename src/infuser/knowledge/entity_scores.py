"""One score per entity and perhaps per relation, between 0 and 1, and the file in which such scores are kept.

Any measure may write such a file: masked words, a probe, or one of your own. It is one JSON object,

    {"kind": "infuser scores", "version": 1,
     "about": {"measure": ..., "checkpoint": ..., "texts": ..., "versions": {...}},
     "scores": [
      {"key": "Q70", "score": 0.83, "n_mentions": 8, "how": "masked-probability"},
      ...],
     "relations": [
      {"relation": "P36", "score": 0.9, "n_triples": 50},
      ...]}

with one line per entity, sorted by key. 1 means that the encoder knows the entity, 0 that it does not. The key is what
`infuser.types.entity_key` gives: the entity's id or, where a source has none, its words in lower case; `Known`
looks for the words, too, where an id has no score. Relations are there if the measure scores them, too; they go by
what `Link.relation` says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from infuser.errors import InputError
from infuser.files import parse_json, whole_file

KIND = "infuser scores"
VERSION = 1


@dataclass(frozen=True, slots=True)
class EntityScore:
    """How well an encoder knows one entity."""

    key: str
    score: float
    """Between 0, not at all, and 1."""
    n_mentions: int
    """From so many mentions it was measured."""
    how: str
    """Which measure it is, such as "masked-probability"."""

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not isinstance(self.how, str):
            raise InputError(f"The key {self.key!r} and the measure {self.how!r} of a score must be strings.")
        check_score(self.key, self.score)
        _check_count(self.key, self.n_mentions, "mentions")


@dataclass(frozen=True, slots=True)
class ScoredRelation:
    """How well an encoder knows one relation."""

    relation: str
    score: float
    """Between 0, not at all, and 1."""
    n_triples: int
    """From so many triples it was measured."""

    def __post_init__(self) -> None:
        if not isinstance(self.relation, str):
            raise InputError(f"The relation {self.relation!r} of a score must be a string.")
        check_score(self.relation, self.score)
        _check_count(self.relation, self.n_triples, "triples")


@dataclass(frozen=True, slots=True)
class ScoreFile:
    """What a file of scores holds."""

    scores: list[EntityScore]
    about: dict[str, Any]
    """What they were measured with."""
    relations: list[ScoredRelation] = field(default_factory=list)
    """None, if the measure is one of entities alone."""


def write_scores(
    path: str | Path,
    scores: Iterable[EntityScore],
    about: Mapping[str, Any],
    relations: Iterable[ScoredRelation] = (),
) -> Path:
    """Write scores, and what they were measured with, as one file; the versions of all packages are added.

    `about` is JSON data: "checkpoint", "measure" and "texts" (see `digest_of_texts`), and whatever else decided them.
    """
    from importlib.metadata import version

    from infuser.versions import __version__, installed_versions

    rows = sorted(scores, key=lambda one: one.key)
    of_relations = sorted(relations, key=lambda one: one.relation)
    _check_once("entities", [one.key for one in rows])
    _check_once("relations", [one.relation for one in of_relations])
    versions = {"infuser": __version__, **installed_versions(), "scikit-learn": version("scikit-learn")}
    try:
        told = json.dumps({**about, "versions": versions}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"What the scores were measured with cannot be written as JSON: {error}. Got {about!r}."
        ) from error
    with whole_file(path) as file:
        file.write(f'{{"kind": "{KIND}", "version": {VERSION},\n "about": {told},\n "scores": [')
        _write_rows(file, rows)
        if of_relations:
            file.write('],\n "relations": [')
            _write_rows(file, of_relations)
        file.write("]}\n")
    return Path(path)


def _check_once(what: str, keys: Sequence[str]) -> None:
    twice = [one for one, after in pairwise(keys) if one == after]
    if twice:
        raise InputError(f"{len(twice)} {what} have two scores; the first is {twice[0]!r}. Give each one score.")


def _write_rows(file: IO[str], rows: Sequence[EntityScore | ScoredRelation]) -> None:
    for number, one in enumerate(rows):
        file.write(f"{',' if number else ''}\n  {json.dumps(asdict(one))}")


def read_scores(path: str | Path) -> dict[str, float]:
    """Return the score of each entity by its key, from a file that `write_scores` wrote."""
    return {one.key: one.score for one in open_scores(path).scores}


def read_relation_scores(path: str | Path) -> dict[str, float]:
    """Return the score of each relation, from a file that `write_scores` wrote; {} if it scores entities alone."""
    return {one.relation: one.score for one in open_scores(path).relations}


def open_scores(path: str | Path) -> ScoreFile:
    """Return everything that a file of scores holds; InputError if it is not whole."""
    path = Path(path)
    try:
        content = parse_json(path, "it")
    except OSError as error:
        raise InputError(
            f"The scores {str(path)!r} cannot be read: {error}. `infuser select` writes such a file."
        ) from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise InputError(f'{str(path)!r} is no file of scores: it lacks "kind": "{KIND}". `infuser select` writes one.')
    if content.get("version") != VERSION:
        raise InputError(
            f"The scores {str(path)!r} have version {content.get('version')!r}; this infuser reads version {VERSION}. "
            "Measure again, or install the infuser that wrote them."
        )
    try:
        scores = [EntityScore(**row) for row in content["scores"]]
        relations = [ScoredRelation(**row) for row in content.get("relations", [])]
        about = content["about"]
        if not isinstance(about, dict):
            raise TypeError("it does not say what they were measured with")
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    if len({one.key for one in scores}) < len(scores):
        raise _damaged(path, "an entity has two scores")
    if len({one.relation for one in relations}) < len(relations):
        raise _damaged(path, "a relation has two scores")
    return ScoreFile(scores, about, relations)


def check_score(key: object, score: object) -> float:
    """Return a score, or say that it is none: a number between 0 and 1."""
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:  # NaN is not either
        raise InputError(f"The score of {key!r} is {score!r}; scores are numbers between 0 and 1.")
    return float(score)


def _check_count(key: str, n: object, what: str) -> None:
    if not isinstance(n, int) or n < 0:
        raise InputError(f"{key!r} was measured from {n!r} {what}; give a count, 0 or more.")


def digest_of_texts(texts: Iterable[str]) -> str:
    """Return a digest of these texts that does not depend on their order."""
    each = sorted(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts)
    return hashlib.sha256(b"".join(each)).hexdigest()


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"The scores {str(path)!r} are damaged: {why}. Measure them again, or take your copy.")
