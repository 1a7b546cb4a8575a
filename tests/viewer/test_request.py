from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.viewer.request import ViewRequest, request_of
from infuser.web.bodies import read_body

SIGNS = st.text(st.characters(codec=None), max_size=20)  # halves of signs too
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | SIGNS | st.just("strongest")
ANYTHING = st.recursive(
    SCALARS, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(SIGNS, inside, max_size=3), max_leaves=8
)
NEARLY = st.fixed_dictionaries(
    {"text": SIGNS},
    optional={
        "pair": SIGNS | st.none() | ANYTHING,
        "off": st.lists(SIGNS, max_size=3) | ANYTHING,
        "layer": st.integers() | st.just("strongest") | ANYTHING,
        "head": st.integers() | st.none() | ANYTHING,
    },
)


def test_only_the_text_must_be_given() -> None:
    assert request_of({"text": "Bern"}) == ViewRequest("Bern")


def test_everything_that_is_asked_is_passed_on() -> None:
    body = {"text": "Bern", "pair": "Aare", "off": ["graph", "graph", "entities"], "layer": "strongest", "head": 3}
    assert request_of(body) == ViewRequest("Bern", "Aare", frozenset({"graph", "entities"}), "strongest", 3)
    assert request_of({"text": "", "pair": None, "layer": -2, "head": None}) == ViewRequest("", layer=-2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], r"The request is \[\]"),
        ({}, "no 'text'"),
        ({"text": 3}, "'text' is 3"),
        ({"text": None}, "'text' is None"),
        ({"text": "a", "pair": ["b"]}, r"'pair' is \['b'\]"),
        ({"text": "a", "off": "graph"}, "'off' is 'graph'"),
        ({"text": "a", "off": [7]}, "'off' is 7"),
        ({"text": "a", "layer": "last"}, "'layer' is 'last'"),
        ({"text": "a", "layer": 1.0}, r"'layer' is 1\.0"),
        ({"text": "a", "layer": None}, "'layer' is None"),
        ({"text": "a", "head": True}, "'head' is True"),
        ({"text": "a", "head": "strongest"}, "'head' is 'strongest'"),
        ({"text": "a", "lyaer": 1}, "'lyaer', which has no meaning. Known: text, pair"),
    ],
)
def test_what_is_wrong_is_named_with_its_value(body: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        request_of(body)


def test_a_long_wrong_value_is_cut_in_the_error() -> None:
    with pytest.raises(InputError) as refused:
        request_of({"text": "a", "layer": "x" * 50_000})
    assert len(str(refused.value)) < 200


@given(ANYTHING | NEARLY)
def test_whatever_json_comes_it_is_a_question_or_one_error(body: Any) -> None:
    try:
        question = request_of(json.loads(json.dumps(body)))
    except InputError:
        return
    assert question.text.encode("utf-8").decode("utf-8") == question.text
    assert type(question.layer) is int or question.layer == "strongest"
    assert question.head is None or type(question.head) is int


@given(SIGNS)
def test_a_text_stays_what_it_was_but_for_halves_of_signs(text: str) -> None:
    read = request_of({"text": text}).text
    if any(0xD800 <= ord(sign) <= 0xDFFF for sign in text):
        assert "\ufffd" in read or len(read) < len(text)  # two halves may meet
    else:
        assert read == text


@given(st.binary(max_size=60) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_whatever_bytes_come_they_are_json_or_one_error(body: bytes) -> None:
    try:
        read = read_body(body)
    except InputError:
        return
    assert repr(read) == repr(json.loads(body))


@pytest.mark.parametrize("body", [b"", b"\xff\xfe{", b'{"text": ', b"[" * 100_000, b"1" * 10_000])
def test_bytes_that_break_parsers_are_one_error(body: bytes) -> None:
    with pytest.raises(InputError, match="not JSON that can be read"):
        read_body(body)
