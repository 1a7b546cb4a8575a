"""Mentions in texts: what a gazetteer finds, less what the rule refuses, and the abbreviations that a text defines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infuser.knowledge.names.gazetteer import Gazetteer, NameMatch
from infuser.knowledge.names.name_rule import NameRule, spelling_of
from infuser.knowledge.names.short_forms import WithShortForms, add_short_forms

TextMentions = WithShortForms[NameMatch]

ABBREVIATION = "abbreviation"
"""The relation of a long form and its short form."""
_MOST_KEPT = 500_000


class MentionFilter:
    """Finds the names of a gazetteer that are mentions by a rule; decisions are cached by spelling."""

    def __init__(
        self,
        gazetteer: Gazetteer,
        rule: NameRule,
        spellings: Callable[[tuple[int, ...]], Sequence[str]],
        is_wanted: Callable[[tuple[int, ...]], bool] | None = None,
    ) -> None:
        """Take the names' spellings as they are listed, by their numbers, and if not all of them are wanted, which."""
        self._gazetteer, self._rule = gazetteer, rule
        self._spellings, self._is_wanted = spellings, is_wanted
        self._ignored = frozenset(map(self.form, rule.ignored))
        self._known: dict[tuple[str, bool], bool] = {}

    def form(self, written: str) -> str:
        """Return a name in the form in which names are compared."""
        folding = self._gazetteer
        return spelling_of(written, fold_case=folding.fold_case, fold_accents=folding.fold_accents)

    def find(self, texts: Sequence[str], *, overlaps: bool = False) -> list[TextMentions]:
        """Return the mentions in each text, the leftmost longest or all of them with `overlaps`."""
        found = self._gazetteer.find(texts, overlaps=overlaps, loose=True)
        kept = [self._accepted(text, matches) for text, matches in zip(texts, found, strict=True)]
        if not overlaps:
            # a refused name of several words may have hidden one inside it
            hidden = [place for place, (_, hides) in enumerate(kept) if hides]
            if hidden:
                everything = self._gazetteer.find([texts[place] for place in hidden], overlaps=True, loose=True)
                for place, matches in zip(hidden, everything, strict=True):
                    kept[place] = (_longest(self._accepted(texts[place], matches)[0]), False)
        if not self._rule.abbreviations:
            return [WithShortForms(matches, {}) for matches, _ in kept]
        return [add_short_forms(text, matches) for text, (matches, _) in zip(texts, kept, strict=True)]

    def _accepted(self, text: str, matches: list[NameMatch]) -> tuple[list[NameMatch], bool]:
        """Return the matches that are mentions, and whether any of the others has several words."""
        accepted, hides = [], False
        has_capitals = text.lower() != text
        for match in matches:
            written = text[match.start : match.end]
            if self._is_mention(written, match.names, has_capitals):
                accepted.append(match)
            else:
                hides = hides or not written.isalnum()
        return accepted, hides

    def _is_mention(self, written: str, names: tuple[int, ...], has_capitals: bool) -> bool:
        known = self._known.get((written, has_capitals))
        if known is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            known = self._known[written, has_capitals] = self._decide(written, names, has_capitals)
        return known

    def _decide(self, written: str, names: tuple[int, ...], has_capitals: bool) -> bool:
        rule = self._rule
        if self._ignored and self.form(written) in self._ignored:
            return False
        if self._is_wanted is not None and not self._is_wanted(names):
            return False
        if not rule.says_something(written, known_so=False):
            return rule.says_something(written, known_so=True) and written in self._spelled(written, names)
        return not (has_capitals and rule.mistakes_capitals(written, self._spelled(written, names)))

    def _spelled(self, written: str, names: tuple[int, ...]) -> list[str]:
        form = self.form(written)
        return [name for name in self._spellings(names) if self.form(name) == form]


def _longest(matches: list[NameMatch]) -> list[NameMatch]:
    """Return the longest match from each place, without those that begin inside an earlier one."""
    kept: list[NameMatch] = []
    for match in sorted(matches, key=lambda match: (match.start, -match.end)):
        if not kept or match.start >= kept[-1].end:
            kept.append(match)
    return kept
