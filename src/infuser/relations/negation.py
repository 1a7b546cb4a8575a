"""Whether a text denies a triple: "Lyon is not the capital of France", "Neither Paris nor Lyon is in Spain".

This is for English, and it reads words, not grammar. A cue (CUES) denies what follows it in its clause. A clause ends
with its sentence, at a semicolon or colon, and before words such as "but" (BREAKS). A cue between commas or brackets
denies nothing behind them. "Not" behind a comma, "and" or "but", or at the beginning of a sentence, is a contrast
("Paris, not Lyon, ..."): it denies nothing behind the next comma. A cue denies a triple if one of these holds:

- it stands behind the first of the triple's spans, and those that follow it are in its clause, as is the trigger or,
  where there is none, the first span;
- it stands before all of them in their clause, at most three words before the trigger;
- it is a contrast, "neither", "nor", "none of", "instead of", "rather than" or "no", right before head or tail;
- it denies a whole sentence that holds the triple ("denied that", "it is not true that");
- it stands inside the trigger, or is a "non-" right before one of the three spans.

Two cues cancel each other ("not without", "never failed to"), unless one continues the other ("is not and never was",
"neither ... nor"). NO_CUES are no cues ("not only"). A cue inside head, tail or another known name belongs to the name,
and so does a capitalised cue in the middle of a sentence ("Dr. No"), which costs us headlines.

Not understood: denial by meaning alone ("nobody", "hardly", "the alleged capital"), and a new verb behind "and" that
no auxiliary, pronoun or "-ed" shows ("did not marry Ann and left for Bern"), unless that verb is the trigger.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from infuser.relations.examples import Triple
from infuser.types import Span
from infuser.words import word_borders

_NOT = r"(?:(?<![\w-])not|(?<=n)['’]t)"  # noqa: RUF001

CUES = {
    "sentence": rf"(?<![\w-])(?:den(?:y|ies|ied|ying)|untrue|false)\s+that|{_NOT}\s+(?:true|the\s+case)\s+that",
    "verb": rf"{_NOT}|(?<![\w-])(?:never|cannot|no\s+longer|without|den(?:y|ies|ied|ying)(?=\s+\w+ing\b)|"
    r"(?:fail|refuse|decline)(?:s|d|ed)?\s+to)",
    "pair": r"(?<![\w-])(?:neither(?:\s+of)?|nor|none\s+of|instead\s+of|rather\s+than)",
    "no": r"(?<![\w-])no",
}
"""The words that deny, by how they do it; "non-", which stands before its word, apart from them."""

NO_CUES = (
    r"not\s+(?:only|just|merely|simply|solely|least|until|far|long|surprisingly|to\s+mention)",
    r"no\s+(?:doubt|matter|less|fewer|later|sooner|wonder|question)",
    r"no\.?\s*\d+",
    r"no(?=\s*[,.;:!?])",
    r"without\s+(?:a\s+)?(?:doubt|question)",
    r"(?:or|if|why)\s+not",
)
"""What holds a cue and denies nothing."""

BREAKS = (
    r"(?-i:[.!?]+[\"'”’)\]]*(?=\s+[^\sa-z]|\s*$))",  # noqa: RUF001
    r";|:(?=\s)|\n\s*\n",
    r"\b(?:but|although|though|however|whereas|while|because|unless|except)\b",
    r",\s*(?:where|when|who|whom|whose|which)\b",
    r"\band\s+(?:(?:also|later|then)\s+)?(?:am|are|is|was|were|has|have|had|did|does|do|will|would|can|could|became|"
    r"i|you|he|she|it|we|they)\b",
    r"(?-i:\band\s+[a-z]+ed\b)",
)
"""Where a clause ends."""

_ABBREVIATION = re.compile(
    r"\b(?:\w|mr|mrs|ms|dr|prof|st|jr|sr|gen|col|capt|lt|rev|inc|ltd|co|corp|vs|etc|ca|no|vol|mt)$", re.IGNORECASE
)
_FILLERS = frozenset(["a", "an", "the", "of", "in", "on", "at", "by", "to", "from", "with", "for", "as"])
_FAR = 3

_CUE = re.compile(
    rf"(?P<none>(?<![\w-])(?:{'|'.join(NO_CUES)})\b)|(?P<non>(?<![\w-])non-(?=\w))|"
    + "|".join(rf"(?P<{kind}>(?:{pattern})(?![\w-]))" for kind, pattern in CUES.items()),
    re.IGNORECASE,
)
_BREAK = re.compile("|".join(BREAKS), re.IGNORECASE)
_COMMA = re.compile(r"[,()—]|\s[-–]\s")  # noqa: RUF001
_CONTRAST = re.compile(r"(?:[,(—]|\s[-–]|\band|\bbut)\s*$", re.IGNORECASE)  # noqa: RUF001
_CONTINUED = re.compile(r"(?:,|\band|\bor)\s*(?:\w+\s+)?$", re.IGNORECASE)
_BEHIND_AND = re.compile(r"\band\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Cue:
    start: int
    end: int
    kind: str
    contrast: bool
    """Whether it denies what follows it, up to a comma, in contrast to what came before."""
    continues: bool
    """Whether it goes on with an earlier denial, so that the two do not cancel each other."""


class Denials:
    """What one text denies; the text is read once, however many triples are checked."""

    def __init__(self, text: str, names: Sequence[Span] = ()) -> None:
        self._text = text
        self._names = names

    def denies(self, triple: Triple) -> bool:
        """Return whether the words of the text deny the triple."""
        denying: list[_Cue] = []
        for cue in self._cues:
            if _hold((triple.head, triple.tail), cue.start):
                continue
            before_one = self._right_before(cue, triple)
            if before_one and cue.kind != "no":
                return True
            if before_one or self._reaches(cue, triple):
                denying.append(cue)
        return (len(denying) - sum(cue.continues for cue in denying[1:])) % 2 == 1

    def _right_before(self, cue: _Cue, triple: Triple) -> bool:
        """Return whether head or tail follows a cue of names at once; behind "no" one word more may stand between."""
        if not cue.contrast and cue.kind not in ("pair", "no"):
            return False
        allowed = 1 if cue.kind == "no" else 0
        for span in (triple.head, triple.tail):
            words = self._text[cue.end : span.start].casefold().split()
            if span.start >= cue.end and len(words) <= _FAR and sum(word not in _FILLERS for word in words) <= allowed:
                return True
        return False

    def _reaches(self, cue: _Cue, triple: Triple) -> bool:
        """Return whether the triple's spans that follow the cue are in its clause, and near enough."""
        trigger = triple.trigger
        spans = sorted((triple.head, triple.tail, *((trigger,) if trigger else ())), key=lambda span: span.start)
        first, last = spans[0], spans[-1]
        if trigger and _hold((trigger,), cue.start):
            return True
        if cue.kind == "non":
            return any(span.start == cue.end for span in spans)
        if cue.start > last.start or _count(self._breaks, cue.end, last.start, spans):
            return False
        target = trigger if trigger and trigger.start > cue.start else last
        n_commas = _count(self._commas, cue.end, target.start, spans)
        if target == trigger and _BEHIND_AND.search(self._text[cue.end : target.start]):
            return False
        if cue.start < first.start:
            near = target == trigger and not n_commas and self._n_words(cue.end, target.start) <= _FAR
            return near or cue.kind == "sentence"
        anchor = trigger or first
        if anchor.end <= cue.start and _count(self._breaks, anchor.end, cue.start, spans):
            return False
        aside = cue.contrast or _count(self._commas, first.end, cue.start, spans) % 2 == 1
        return not (aside and n_commas)

    def _n_words(self, start: int, end: int) -> int:
        return sum(1 for _ in word_borders(self._text[start:end]))

    @cached_property
    def _cues(self) -> list[_Cue]:
        found = []
        for match in _CUE.finditer(self._text):
            kind, before = match.lastgroup, self._text[: match.start()]
            if kind is None or kind == "none" or _hold(self._names, match.start()):
                continue
            begins = self._begins_sentence(match.start())
            if match[0].istitle() and not begins:
                continue
            contrast = match[0].casefold() == "not" and (begins or _CONTRAST.search(before) is not None)
            continues = match[0].casefold() == "nor" or _CONTINUED.search(before) is not None
            found.append(_Cue(match.start(), match.end(), kind, contrast, continues))
        return found

    @cached_property
    def _breaks(self) -> list[int]:
        asides = {cue.end for cue in self._cues}
        found = []
        for match in _BREAK.finditer(self._text):
            place = match.start()
            if _hold(self._names, place) or self._abbreviated(place):
                continue
            if match[0].casefold() == "however" and len(self._text[:place].rstrip(" ,")) in asides:
                continue  # "did not, however, marry"
            found.append(place)
        return found

    @cached_property
    def _commas(self) -> list[int]:
        found = [match.start() for match in _COMMA.finditer(self._text)]
        return [place for place in found if not _hold(self._names, place)]

    def _begins_sentence(self, place: int) -> bool:
        """Return whether a sentence begins there, quotation marks and the like before it aside."""
        before = self._text[:place].rstrip(" \t\"'“‘([—–-")  # noqa: RUF001
        return not before or (before[-1] in ".!?:;\n" and not self._abbreviated(len(before) - 1))

    def _abbreviated(self, place: int) -> bool:
        """Return whether the sign at a place is the full stop of an abbreviation or of an initial."""
        return self._text[place] == "." and _ABBREVIATION.search(self._text[max(0, place - 9) : place]) is not None


def _hold(spans: Iterable[Span], place: int) -> bool:
    return any(span.start <= place < span.end for span in spans)


def _count(places: Sequence[int], start: int, end: int, spans: Sequence[Span]) -> int:
    """Return how many of the places, which ascend, lie between two others and in none of the spans."""
    return sum(not _hold(spans, place) for place in places[bisect_left(places, start) : bisect_left(places, end)])
