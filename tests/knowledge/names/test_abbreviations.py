"""Abbreviations by Schwartz and Hearst (2003), with examples of the paper and of its kind."""

from __future__ import annotations

import time

import pytest

from infuser.knowledge.names.abbreviations import find_abbreviations
from infuser.knowledge.names.gazetteer import Gazetteer, NameMatch
from infuser.knowledge.names.short_forms import add_short_forms
from infuser.types import PAIR_BREAK


def defined(text: str) -> list[tuple[str, str]]:
    return [(text[slice(*short)], text[slice(*long)]) for short, long in find_abbreviations(text)]


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        # of the paper
        ("binds heat shock transcription factor (HSF) in", "HSF", "heat shock transcription factor"),
        ("the Gcn5-related N-acetyltransferase (GNAT) family", "GNAT", "Gcn5-related N-acetyltransferase"),
        ("HSF (heat shock transcription factor) binds", "HSF", "heat shock transcription factor"),
        # letters inside words, two words, a list in the bracket, words apart from their brackets
        ("Ribonuclease P (RNase P) is", "RNase P", "Ribonuclease P"),
        ("after acute myocardial infarction (AMI, n = 5) we", "AMI", "acute myocardial infarction"),
        ("after acute myocardial infarction ( AMI ) we", "AMI", "acute myocardial infarction"),
        ("for 5 - fluorouracil ( 5 - FU )", "5 - FU", "5 - fluorouracil"),
    ],
)
def test_the_long_form_is_the_shortest_that_spells_the_short_one(text: str, short: str, long: str) -> None:
    assert defined(text) == [(short, long)]


def test_the_shortest_long_form_may_be_too_short() -> None:
    """A weakness of the algorithm: the second T is found inside a word, and the first at its beginning."""
    assert defined("by thyroid transcription factor 1 (TTF-1)") == [("TTF-1", "transcription factor 1")]


@pytest.mark.parametrize(
    "text",
    [
        "the first character must begin a word: neurofibrosis (FB)",
        "no letters match here (XYZ)",
        "a bracket (which is not an abbreviation at all)",
        "numbers only, one two (12)",
        "a long form of another sentence. It (LFAS)",
        f"heat shock{PAIR_BREAK}factor (HSF)",
        "the short form itself HSF and (HSF)",
        "(HSF)",
        "one letter (O)",
        "",
    ],
)
def test_what_spells_nothing_out_is_no_definition(text: str) -> None:
    assert defined(text) == []


def test_a_short_form_is_a_mention_where_it_is_defined_and_later() -> None:
    text = "An MI? Acute myocardial infarction (AMI) and AMI, not AMIs, in AMI patients."
    gazetteer = Gazetteer.build(["acute myocardial infarction", "AMI", "AMI patients"])
    [matches] = gazetteer.find([text])
    found = add_short_forms(text, matches)
    assert [(text[start:end], names) for start, end, names in found.mentions] == [
        ("Acute myocardial infarction", (0,)),
        ("AMI", (0,)),  # not the other meaning, which the list has for it
        ("AMI", (0,)),
        ("AMI patients", (2,)),  # longer, so it stays
    ]
    assert found.long_forms == {1: 0, 2: 0}


def test_a_short_form_of_what_is_no_mention_stays_what_it_is() -> None:
    text = "Acute myocardial infarction (AMI)"
    matches = [NameMatch(29, 32, (5,))]
    assert add_short_forms(text, matches) == (matches, {})


@pytest.mark.parametrize("text", ["acute myocardial infarction (AMI) ", "acute myocardial infarction (A{} MI) "])
def test_many_definitions_in_a_long_text_take_no_time(text: str) -> None:
    text = "".join(text.format(number) for number in range(3000))
    [matches] = Gazetteer.build(["acute myocardial infarction"]).find([text])
    start = time.process_time()
    found = add_short_forms(text, matches)
    assert time.process_time() - start < 10  # minutes when every definition was followed to the end of the text
    assert len(found.mentions) >= len(matches) == 3000
