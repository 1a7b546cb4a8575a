"""Which names say something."""

from __future__ import annotations

import pytest

from infuser.errors import SourceError
from infuser.knowledge.names.name_rule import NameRule


@pytest.mark.parametrize("name", ["a", "A", "a.", "é", "of the", "It", "1984", "3,5", "?!", "-", "_", "U"])
def test_stop_words_letters_digits_and_signs_are_no_mentions(name: str) -> None:
    assert not NameRule().says_something(name, known_so=False)
    assert NameRule(stop_words=()).says_something(name, known_so=False), "an empty list allows all"


@pytest.mark.parametrize(
    "name", ["Bern", "the cat", "U.S.", "B12", "2D", "\u6c34", "\U0001f30d", "E. coli", "vitamin C"]
)
def test_other_names_are_mentions(name: str) -> None:
    assert NameRule().says_something(name, known_so=False)


def test_stop_words_in_capitals_are_meant_where_they_are_listed_so() -> None:
    rule = NameRule()
    assert all(rule.says_something(name, known_so=True) for name in ("IT", "US", "The Who"))
    assert not any(rule.says_something(name, known_so=True) for name in ("It", "us", "The who", "A", "X"))


def test_a_short_name_that_is_listed_in_capitals_only_is_written_in_capitals() -> None:
    rule = NameRule()
    assert rule.mistakes_capitals("mg", ["MG"]) and rule.mistakes_capitals("mM", ["MM"])
    assert not rule.mistakes_capitals("MG", ["MG"])
    assert not rule.mistakes_capitals("mg", ["MG", "mg"])
    assert not rule.mistakes_capitals("influenza", ["INFLUENZA"]), "a heading, not an abbreviation"
    assert not NameRule(stop_words=()).mistakes_capitals("mg", ["MG"])


def test_lists_of_words_are_no_strings() -> None:
    with pytest.raises(SourceError, match="stop_words takes a list"):
        NameRule(stop_words="the")
    with pytest.raises(SourceError, match="ignored takes a list"):
        NameRule(ignored="mass")
