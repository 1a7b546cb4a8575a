"""What clients ask, read from a request's body or refused with one error that says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from infuser.errors import InputError
from infuser.serving.knowledge import Wanted
from infuser.serving.limits import ServingLimits
from infuser.serving.model import EXPLAIN, Question
from infuser.web.bodies import read_object, read_text, unfit

_EXAMPLE = "{'texts': ['Bern lies on the Aare.']}"


@dataclass(frozen=True, slots=True)
class Asked:
    """The texts of one request, and the sources that are left out."""

    questions: tuple[Question, ...]
    off: frozenset[str] = frozenset()


def read_questions(body: object, task: str, limits: ServingLimits) -> Asked:
    """Return the request of a parsed body: {"text": ..., "pair": ...} or {"texts": [...], "pairs": [...]}."""
    known = ("text", "pair", "texts", "pairs", *(["off"] if task == EXPLAIN else []))
    given = read_object(body, known, _EXAMPLE)
    if ("text" in given) == ("texts" in given):
        raise InputError(f"Send either a 'text' or a list of 'texts', as in {_EXAMPLE}.")
    if "text" in given:
        if "pairs" in given:
            raise InputError("The other side of one 'text' is its 'pair'; 'pairs' go with 'texts'.")
        pair = given.get("pair")
        questions = [_question("text", given["text"], "pair", pair, limits)]
    else:
        questions = _several(given, limits)
    off = given.get("off", [])
    if not isinstance(off, list):
        raise unfit("off", off, "a list of names of sources")
    return Asked(tuple(questions), frozenset(read_text("off", name) for name in off))


def _several(given: Mapping[str, object], limits: ServingLimits) -> list[Question]:
    texts, pairs = given["texts"], given.get("pairs")
    if "pair" in given:
        raise InputError("The other sides of 'texts' are 'pairs', a list as long.")
    if not isinstance(texts, list) or not texts:
        raise unfit("texts", texts, "a list of at least one text")
    if len(texts) > limits.most_texts:
        raise HTTPException(
            413, f"{len(texts):,} texts are too many: at most {limits.most_texts:,}. Send them in parts."
        )
    if pairs is None:
        pairs = [None] * len(texts)
    if not isinstance(pairs, list):
        raise unfit("pairs", pairs, "a list of texts, one for each of 'texts', or null where there is none")
    if len(pairs) != len(texts):
        raise InputError(f"There are {len(texts):,} texts and {len(pairs):,} pairs. Send one pair, or null, per text.")
    return [
        _question(f"texts[{place}]", text, f"pairs[{place}]", pair, limits)
        for place, (text, pair) in enumerate(zip(texts, pairs, strict=True))
    ]


def _question(name: str, text: object, name_of_pair: str, pair: object, limits: ServingLimits) -> Question:
    question = Question(read_text(name, text), None if pair is None else read_text(name_of_pair, pair))
    for called, side in ((name, question.text), (name_of_pair, question.pair or "")):
        if len(side) > limits.most_characters:
            raise HTTPException(
                413,
                f"{called!r} has {len(side):,} characters, which is too long: at most {limits.most_characters:,}. "
                "Shorten it, or send it in parts.",
            )
    return question


def read_wanted(body: object) -> Wanted:
    """Return which source is to read which folder; {} opens all folders again."""
    if not isinstance(body, Mapping):
        raise unfit("The request", body, "an object such as {'graph': '/data/kg'}, or {} for the same folders again")
    wanted: dict[str, str | dict[str, str]] = {}
    for name, place in body.items():
        if isinstance(place, Mapping):
            wanted[name] = {part: _path(f"{name}.{part}", inside) for part, inside in place.items()}
        else:
            wanted[name] = _path(name, place)
    return wanted


def _path(name: str, value: object) -> str:
    path = read_text(name, value)
    if not path or "\0" in path:
        raise unfit(name, value, "the path of a folder that infuser built")
    return path
