"""A linker learns without labels: names that can mean one thing only are right answers, hidden among wrong ones.

Where a name has a single meaning, what it means is known but there is nothing to choose. So its list of candidates is
corrupted: it is given the list of some ambiguous name (a donor), and its own entity takes the place of one of the
donor's, drawn by the donor's priors. Priors are then as informative as for names that are really ambiguous. Some
lists keep wrong candidates only, and some names are masked, so that the text around them must be read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from random import Random
from typing import Any

from infuser.errors import InputError, SourceError
from infuser.linking.examples import NOTHING
from infuser.progress import track
from infuser.sources import KnowledgeBase
from infuser.types import Annotations, Candidate, Source, Span, innermost

_AT_ONCE = 256
"""Texts that a knowledge base reads in one call."""

_Place = tuple[int, int]
_Candidates = tuple[Candidate, ...]
_Meanings = tuple[str | None, ...]
"""What each span of annotations means; None: unknown."""
_Read = dict[str, tuple[Annotations, _Meanings]]
"""What each knowledge base found in a text, and what its spans mean."""


@dataclass(frozen=True, slots=True)
class SelfSupervision:
    """Settings of how a linker is taught without labels."""

    min_prior: float = 1.0
    """A name counts as unambiguous if its first meaning has at least this prior; with 1 it has no other meaning."""
    capitals: bool = False
    """Whether only names with a capital letter are taken: "made" or "well" may be known as the name of an album."""
    nothing: float = 0.2
    """How often all candidates are wrong, so that "none of these" is learned too."""
    mask: float = 0.5
    """How often the name itself is masked; it often stands in the entity's description, which would be too easy."""
    keep_ambiguous: bool = True
    """Whether names with several meanings stay beside the others, without a label."""

    def __post_init__(self) -> None:
        for name in ("min_prior", "nothing", "mask"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise InputError(f"{name} is {value}; it is a share between 0 and 1.")
        if self.min_prior <= 0.5:
            raise InputError(f"min_prior is {self.min_prior}; above 0.5 the first meaning is the more probable one.")


class UnambiguousTexts:
    """Texts with unambiguous names, read once; `examples` hides the names among others, differently in every epoch."""

    def __init__(
        self,
        texts: Iterable[str],
        bases: Mapping[str, Source],
        settings: SelfSupervision | None = None,
        *,
        limit: int | None = None,
        progress: bool = False,
    ) -> None:
        """Read texts, up to `limit` of them; texts without an unambiguous name are passed over."""
        self.settings = settings or SelfSupervision()
        self.donors: dict[str, list[_Candidates]] = {name: [] for name in bases}
        """By knowledge base, the candidates of the ambiguous names that were met, as often as they were."""
        self._texts: list[_Read] = []
        n_texts, n_sure = 0, dict.fromkeys(bases, 0)
        stream = iter(track(islice(texts, limit), "finding unambiguous names", unit="texts", shown=progress))
        while some := list(islice(stream, _AT_ONCE)):
            n_texts += len(some)
            for read in _read(some, bases, self.settings):
                for name, (found, sure) in read.items():
                    self.donors[name] += [candidates for candidates in found.candidates if len(candidates) > 1]
                    n_sure[name] += sum(id is not None for id in sure)
                if any(id is not None for _, sure in read.values() for id in sure):
                    self._texts.append(read)
        if not any(n_sure[name] and self.donors[name] for name in bases):
            counts = "; ".join(f"{name}: {n_sure[name]} and {len(self.donors[name])}" for name in bases)
            raise SourceError(
                f"Nothing to learn from {n_texts} texts without labels: it takes names with a single meaning, and "
                f"names with several to hide them among. Found by knowledge base: {counts or 'there is none'}. Give "
                f"more texts, more aliases, or a min_prior below {self.settings.min_prior:g}."
            )

    def __len__(self) -> int:
        return len(self._texts)

    def examples(self, *, seed: int, epoch: int, mask_token: str | None = None) -> list[dict[str, Any]]:
        """Return examples as `link_examples` does, one per text; the same for the same seed and epoch.

        `mask_token` is the tokenizer's, such as "[MASK]"; without one no name is masked. Links and terms that a
        knowledge base may have found are left out.
        """
        return [
            self._example(read, Random(f"{seed} {epoch} {place}"), mask_token) for place, read in enumerate(self._texts)
        ]

    def _example(self, read: _Read, random: Random, mask_token: str | None) -> dict[str, Any]:
        places = {
            (span.start, span.end)
            for name, (found, sure) in read.items()
            for span, id in zip(found.spans, sure, strict=True)
            if id is not None and self.donors[name]
        }
        masked = [place for place in sorted(places) if random.random() < self.settings.mask] if mask_token else []
        first, _ = next(iter(read.values()))
        text = _Masked(first.text, masked, mask_token or "")
        taught = {name: self._teach(name, found, sure, text, random) for name, (found, sure) in read.items()}
        return {
            "text": text.text,
            "annotations": tuple(found for found, _ in taught.values()),
            "gold": {name: gold for name, (_, gold) in taught.items()},
        }

    def _teach(
        self, name: str, found: Annotations, sure: _Meanings, text: _Masked, random: Random
    ) -> tuple[Annotations, _Meanings]:
        spans: list[Span] = []
        lists: list[_Candidates] = []
        gold: list[str | None] = []
        odds: list[float] = []
        for number, (span, candidates, id) in enumerate(zip(found.spans, found.candidates, sure, strict=True)):
            meant: str | None = None
            if id is not None and self.donors[name]:
                candidates, meant = _hide(id, random.choice(self.donors[name]), self.settings.nothing, random)
            elif len(candidates) > 1 and not self.settings.keep_ambiguous:
                continue
            place = text.place_of(span.start, span.end)
            if place is None or not candidates:
                continue
            spans.append(Span(*place, span.label, candidates[0].id))
            lists.append(candidates)
            gold.append(meant)
            odds += found.odds[number : number + 1]
        return Annotations(text.text, tuple(spans), candidates=tuple(lists), odds=tuple(odds)), tuple(gold)


def _read(texts: Sequence[str], bases: Mapping[str, Source], settings: SelfSupervision) -> list[_Read]:
    read: list[_Read] = [{} for _ in texts]
    for name, base in bases.items():
        found = base.annotate(texts)
        # a knowledge base leaves out meanings that have no vector; whether a name has others, its candidates say
        inside = innermost(base)
        offered = inside.candidates.annotate(texts) if isinstance(inside, KnowledgeBase) else found
        for of_text, kept, everything in zip(read, found, offered, strict=True):
            of_text[name] = kept, _sure(kept, _unambiguous(everything, settings))
    return read


def _unambiguous(found: Annotations, settings: SelfSupervision) -> dict[_Place, str]:
    """Return the entities of unambiguous names by their place; a name inside a longer one may mean nothing there."""
    places = [(span.start, span.end) for span in found.spans]
    return {
        (start, end): candidates[0].id
        for (start, end), candidates in zip(places, found.candidates, strict=True)
        if candidates
        and (len(candidates) == 1 or candidates[0].prior >= settings.min_prior)
        and (not settings.capitals or found.text[start:end] != found.text[start:end].lower())
        and not any(
            other != (start, end) and other[0] < end and start < other[1] and other[1] - other[0] >= end - start
            for other in places
        )
    }


def _sure(found: Annotations, meant: Mapping[_Place, str]) -> _Meanings:
    ids = [meant.get((span.start, span.end)) for span in found.spans]
    offered = [{candidate.id for candidate in candidates} for candidates in found.candidates]
    return tuple(id if id in of_span else None for id, of_span in zip(ids, offered, strict=True))


def _hide(id: str, donor: _Candidates, nothing: float, random: Random) -> tuple[_Candidates, str]:
    """Return the donor's candidates with this entity in the place of one of them, or in none, and what is right."""
    if random.random() < nothing:
        wrong = [candidate for candidate in donor if candidate.id != id]
        total = sum(candidate.prior for candidate in wrong) or 1.0
        return tuple(Candidate(candidate.id, candidate.prior / total) for candidate in wrong), NOTHING
    priors, ids = [candidate.prior for candidate in donor], [candidate.id for candidate in donor]
    [place] = random.choices(range(len(ids)), priors)
    if id in ids:
        ids[ids.index(id)] = ids[place]  # they change places
    ids[place] = id
    return tuple(Candidate(one, prior) for one, prior in zip(ids, priors, strict=True)), id


class _Masked:
    """A text in which some places are masked, and where the others then stand."""

    def __init__(self, text: str, places: Sequence[_Place], token: str) -> None:
        self._places: list[_Place] = []
        parts: list[str] = []
        done = 0
        for start, end in places:  # in order; of two that overlap, in different knowledge bases, the first is masked
            if start >= done:
                self._places.append((start, end))
                parts += (text[done:start], token)
                done = end
        self.text = "".join((*parts, text[done:]))
        self._starts = [start for start, _ in self._places]
        self._shifts = [0, *accumulate(len(token) - (end - start) for start, end in self._places)]

    def place_of(self, start: int, end: int) -> _Place | None:
        """Return where a span now stands; None if part of it, or more than it, was masked."""
        before = bisect_right(self._starts, start)
        by = self._shifts[before]
        if before and self._places[before - 1] == (start, end):
            return start + self._shifts[before - 1], end + by
        if bisect_right(self._starts, end - 1) != before or (before and self._places[before - 1][1] > start):
            return None
        return start + by, end + by
