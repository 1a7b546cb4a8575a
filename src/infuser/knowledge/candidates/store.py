"""What a mention may mean, and how probable that is: spellings, the entities met under each, and how often.

Spellings are kept as they were written and found by a gazetteer that folds case and accents; `MentionRule` decides
which of the spellings found at a place count there. The entities of spelling i are entities[begins[i] : begins[i + 1]]
with `counts` beside them, the most frequent first. Entities are numbered by the length of their id and then by the
alphabet, so that of equals Q90 comes before Q830149: where ids are numbers given in turn, the older is better known.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from infuser.errors import InputError, SourceError
from infuser.knowledge.arrays import Strings, begins_of
from infuser.knowledge.artifact import Folder, Parts, whole, write_folder
from infuser.knowledge.candidates.mention_rule import MentionRule
from infuser.knowledge.facts import MENTIONS, pack_mentions
from infuser.knowledge.names.gazetteer import Gazetteer
from infuser.knowledge.names.name_rule import spelling_of
from infuser.knowledge.names.short_forms import add_short_forms
from infuser.types import Candidate

KIND = "candidates"

_FOLDED = {"fold_case": True, "fold_accents": True}  # the index folds all; the rule sorts out afterwards
_MOST_REMEMBERED = 200_000


class FoundMention(NamedTuple):
    """A mention in a text and what it may mean, most probable first."""

    start: int
    end: int
    candidates: tuple[Candidate, ...]

    def to_json(self, text: str) -> dict[str, Any]:
        """Return it as plain values, with the words of its text."""
        listed = [{"id": candidate.id, "prior": candidate.prior} for candidate in self.candidates]
        return {"start": self.start, "end": self.end, "mention": text[self.start : self.end], "candidates": listed}


class CandidateStore:
    """Mentions and what they may mean, in memory or mapped from a folder."""

    def __init__(self, parts: Parts, digest: str = "") -> None:
        self.digest = digest
        """Of the folder it was opened from; empty for one in memory."""
        self.gazetteer = Gazetteer.open(parts, "names", _FOLDED)
        self.spellings, self.ids = Strings.open(parts, "spellings"), Strings.open(parts, "ids")
        self._begins, self._entities, self._counts = (parts[name] for name in ("begins", "entities", "counts"))
        self._parts = parts

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open a folder that `save` wrote."""
        parts = Folder(folder, KIND)
        return cls(parts, parts.digest)

    def save(self, folder: str | Path) -> Path:
        """Write everything into a folder."""
        return write_folder(
            folder, KIND, self._parts, n_mentions=len(self), n_entities=len(self.ids), n_rows=self.n_rows
        )

    def __len__(self) -> int:
        return len(self.spellings)

    @property
    def n_rows(self) -> int:
        """How many pairs of mention and entity there are."""
        return len(self._counts)

    def totals(self) -> NDArray[np.float64]:
        """Return how often each entity, by number, is meant by any mention."""
        sums = np.bincount(whole(self._entities), weights=whole(self._counts), minlength=len(self.ids))
        return sums.astype(np.float64)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield everything as batches of mention, entity and count, as `build_candidates` takes them."""
        return pack_mentions(
            (self.spellings[spelling], self.ids[entity], count)
            for spelling in range(len(self))
            for entity, count in zip(*(part.tolist() for part in self.counts(spelling)), strict=True)
        )

    def counts(self, spelling: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the entities, by number, and the counts of one spelling."""
        start, end = self._begins[spelling : spelling + 2].tolist()
        return self._entities[start:end], self._counts[start:end]


class MentionFinder:
    """Finds mentions by one rule in one store; candidates are cached by spelling."""

    def __init__(self, store: CandidateStore, rule: MentionRule) -> None:
        self.store, self.rule = store, rule
        self._known: dict[str, tuple[Candidate, ...]] = {}
        self._ignored = frozenset(map(rule.form, rule.ignored))

    def find(self, texts: Sequence[str]) -> list[list[FoundMention]]:
        """Return the mentions in each text, by their beginning and then by their length."""
        found: list[list[FoundMention]] = []
        for text, places in zip(texts, self.store.gazetteer.find(texts, overlaps=True), strict=True):
            mentions: list[FoundMention] = []
            for start, end, spellings in places:
                candidates = self._meant(text[start:end], spellings)
                if candidates:
                    mentions.append(FoundMention(start, end, candidates))
            kept = _longest(mentions) if self.rule.overlaps == "longest" else mentions
            found.append(add_short_forms(text, kept).mentions if self.rule.abbreviations else kept)
        return found

    def find_whole(self, mention: str) -> list[FoundMention]:
        """Return this whole string as the one mention, or nothing if it is unknown."""
        candidates = self.lookup(mention)
        return [FoundMention(0, len(mention), candidates)] if candidates else []

    def lookup(self, mention: str) -> tuple[Candidate, ...]:
        """Return what this whole string may mean, be it long or a stop word."""
        return self._candidates(*self._spelled(mention, self.store.gazetteer.lookup(mention)))

    def _meant(self, written: str, spellings: tuple[int, ...]) -> tuple[Candidate, ...]:
        """Return the candidates of a place where these spellings were found; none if it is no mention."""
        if written not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[written] = self._decide(written, spellings)
        return self._known[written]

    def _decide(self, written: str, spellings: tuple[int, ...]) -> tuple[Candidate, ...]:
        if not self.rule.is_short_enough(written) or self.rule.form(written) in self._ignored:
            return ()
        same, exact = self._spelled(written, spellings)
        if not self.rule.says_something(written, known_so=bool(exact)):
            return ()
        return self._candidates(same, exact)

    def _spelled(self, written: str, spellings: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return which spellings are the same as what is written by the rule, and which of these are so exactly."""
        if len(spellings) == 1 and self.store.spellings[spellings[0]] == written:  # most often it is that simple
            return [spellings[0]], [spellings[0]]
        form, plain = self.rule.form(written), spelling_of(written)
        names = {number: self.store.spellings[number] for number in spellings}
        same = [number for number, name in names.items() if self.rule.form(name) == form]
        return same, [number for number in same if spelling_of(names[number]) == plain]

    def _candidates(self, same: list[int], exact: list[int]) -> tuple[Candidate, ...]:
        if not same:
            return ()
        entities, scores = _summed([self.store.counts(number) for number in same])
        if exact and len(exact) < len(same):
            near, counts = _summed([self.store.counts(number) for number in exact])
            scores *= self.rule.spelling / scores.sum()
            scores[np.searchsorted(entities, near)] += counts
            entities, scores = entities[scores > 0], scores[scores > 0]
        best = np.lexsort((entities, -scores))[: self.rule.n_candidates]
        priors = scores[best] / scores[best].sum()
        return tuple(
            Candidate(self.store.ids[number], prior)
            for number, prior in zip(entities[best].tolist(), priors.tolist(), strict=True)
        )


def build_candidates(rows: Iterable[pa.RecordBatch]) -> CandidateStore:
    """Make a store of batches with the columns mention, entity and count; `save` writes it into a folder.

    The same rows in any order make the same store, up to the rounding of sums of fractions.
    """
    mentions: dict[str, int] = {}
    ids: dict[str, int] = {}
    pairs, counts = array("Q"), array("d")
    for batch in rows:
        numbers = batch.column("count").cast(pa.float64()).to_numpy(zero_copy_only=False)
        if not (np.isfinite(numbers) & (numbers > 0)).all():
            wrong = int(np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0)))[0])
            row = {name: batch.column(name)[wrong].as_py() for name in MENTIONS.names}
            raise InputError(f"A mention cannot be counted: {row}. A count is a number above 0.")
        names = [" ".join(name.split()) for name in batch.column("mention").to_pylist()]
        entities = batch.column("entity").to_pylist()
        if not all(names) or not all(entities) or any("\0" in name for name in names):
            raise InputError("A mention or an entity is empty or holds a null character. Leave such rows out.")
        pairs.extend(
            mentions.setdefault(name, len(mentions)) << 32 | ids.setdefault(entity, len(ids))
            for name, entity in zip(names, entities, strict=True)
        )
        counts.extend(numbers)
    return CandidateStore(_index(mentions, ids, np.array(pairs, np.uint64), np.array(counts, np.float64)))


def mentions_of(known: Mapping[str, Mapping[str, float]]) -> Iterator[pa.RecordBatch]:
    """Yield {mention: {entity: count}} as batches for `build_candidates`."""
    if not all(isinstance(entities, Mapping) for entities in known.values()):
        raise SourceError("Mentions are given as {mention: {entity: count}}.")
    rows = [(mention, entity, count) for mention, entities in known.items() for entity, count in entities.items()]
    return pack_mentions(rows)


def _index(
    mentions: dict[str, int], ids: dict[str, int], pairs: NDArray[np.uint64], counts: NDArray[np.float64]
) -> dict[str, Any]:
    """Return the parts of a store: mentions by the alphabet, the entities of each by how often they were meant."""
    spellings = sorted(mentions)
    sorted_ids = sorted(ids, key=lambda id: (len(id), id))
    mention_at, entity_at = _places(spellings, mentions), _places(sorted_ids, ids)
    both, place = np.unique(pairs, return_inverse=True)
    sums = np.bincount(place, weights=counts, minlength=len(both))
    mention, entity = mention_at[both >> np.uint64(32)], entity_at[both & np.uint64(0xFFFFFFFF)]
    order = np.lexsort((entity, -sums, mention))
    return {
        **Gazetteer.build(spellings, **_FOLDED).parts("names"),
        **Strings.of(spellings).parts("spellings"),
        **Strings.of(sorted_ids).parts("ids"),
        "begins": begins_of(np.bincount(mention, minlength=len(spellings))),
        "entities": entity[order].astype(np.int32),
        "counts": sums[order],
    }


def _places(ordered: list[str], numbers: dict[str, int]) -> NDArray[np.int64]:
    """Return number in `numbers` to place in `ordered`."""
    places = np.zeros(len(ordered), np.int64)
    places[[numbers[name] for name in ordered]] = np.arange(len(ordered))
    return places


def _summed(
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return entities, ascending, and the sums of their counts."""
    entities, place = np.unique(np.concatenate([entities for entities, _ in parts]), return_inverse=True)
    counts = np.concatenate([counts for _, counts in parts])
    return entities, np.bincount(place, weights=counts, minlength=len(entities)).astype(np.float64)


def _longest(mentions: list[FoundMention]) -> list[FoundMention]:
    """Return the longest mention from each place, without those that begin inside an earlier one."""
    kept: list[FoundMention] = []
    for mention in sorted(mentions, key=lambda mention: (mention.start, -mention.end)):
        if not kept or mention.start >= kept[-1].end:
            kept.append(mention)
    return kept
