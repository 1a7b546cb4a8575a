"""The JSON schemas of all answers, by the names under which the OpenAPI document holds them.

Whoever adds a field to an answer adds it here: schemas allow no others, and a test compares them with real answers.
"""

from __future__ import annotations

from typing import Any

from infuser.serving.model import ANNOTATE, ANSWERS, EXPLAIN, LINK, PREDICT

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}


def _object(optional: dict[str, Schema] | None = None, /, **fields: Schema) -> Schema:
    """Return the schema of an object that has these fields, perhaps the optional ones, and no others."""
    properties = {**fields, **(optional or {})}
    return {"type": "object", "required": list(fields), "properties": properties, "additionalProperties": False}


def _list(items: Schema, about: str = "") -> Schema:
    return {"type": "array", "items": items, **({"description": about} if about else {})}


def _by_name(values: Schema, about: str) -> Schema:
    return {"type": "object", "additionalProperties": values, "description": about}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _about(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def refer(name: str) -> Schema:
    """Return a reference to one of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


_VERSION = _about(_WHOLE, "Version of the knowledge that answered.")
_PLACE = {
    "start": _about(_WHOLE, "The first character of the text."),
    "end": _about(_WHOLE, "The character behind the last one."),
}
_SHARES = _by_name(_NUMBER, "Probability of each label.")
_ENTITIES = _list(refer("Entity"))
_CANDIDATE = {"id": _TEXT, "prior": _about(_NUMBER, "How probable it is before the text is read.")}
_SCORE = _about(_or_null(_NUMBER), "Score of the best candidate; null if there is none.")
_MENTION = {**_PLACE, "text": _TEXT, "id": _about(_or_null(_TEXT), "The entity; null if none."), "base": _TEXT}

_PREDICTIONS = {
    "Label": _object(label=_TEXT, probabilities=_SHARES),
    "Labels": _object(labels=_list(_TEXT, "All that are likelier than not."), probabilities=_SHARES),
    "Score": _object(score=_NUMBER),
    "Entities": _object(entities=_ENTITIES),
    "Passage": _object(
        answer=_about(_TEXT, "Words of the pair."),
        start=_about(_WHOLE, "Their first character in the pair."),
        end=_PLACE["end"],
        score=_about(_or_null(_NUMBER), "How much better this is than no answer; null if nothing could be read."),
    ),
}
_SHOWN = {
    "anyOf": [_SHARES, _ENTITIES, refer("Passage"), {"type": "null"}],
    "description": "Probability of each label, or the score; entities; the answer to a question; null without a head.",
}

SCHEMAS: dict[str, Schema] = {
    "Error": _object(error=_object(status=_WHOLE, message=_about(_TEXT, "What happened, and what to do."))),
    "Entity": _object(**_PLACE, label=_TEXT, text=_TEXT, probability=_NUMBER),
    **_PREDICTIONS,
    "Prediction": {"oneOf": [refer(name) for name in _PREDICTIONS], "description": "By the model's head."},
    "Found": _object(
        spans=_list(
            _object(**_PLACE, label=_about(_TEXT, "Its type."), id=_about(_TEXT, "Its entity."), text=_TEXT),
            "Places in the text; of a pair, in both sides with an empty line between them.",
        ),
        links=_list(
            _object(source=_WHOLE, target=_WHOLE, weight=_NUMBER, relation=_TEXT),
            "Ties between two spans, by their places among the spans.",
        ),
        terms=_list(
            _object(text=_TEXT, relation=_TEXT, ties=_list({"type": "array", "prefixItems": [_WHOLE, _NUMBER]})),
            "Words that are not in the text, tied to spans: the place of the span, and a weight.",
        ),
        candidates=_list(_list(_object(**_CANDIDATE)), "For each span what it may mean; empty without a choice."),
    ),
    "Annotation": _object(found=_by_name(refer("Found"), "By the source's name.")),
    "Explanation": _object(
        {
            "written": _about(_TEXT, "What the method appended to the text; of saved models."),
            "mentions": _list(
                _object(
                    **_MENTION,
                    score=_SCORE,
                    candidates=_list(_object(**_CANDIDATE, score=_or_null(_NUMBER), weight=_NUMBER)),
                ),
                "What names may mean, and what the model made of it; of saved models.",
            ),
        },
        with_knowledge=_SHOWN,
        without_knowledge=_SHOWN,
        without_source=_by_name(_SHOWN, "Without one source, or one of several methods, by its name."),
        off=_list(_TEXT, "Sources that were left out."),
        found=_by_name(refer("Found"), "By the source's name."),
    ),
    "Links": _object(
        mentions=_list(
            _object(
                **_MENTION, score=_SCORE, candidates=_list(_object(**_CANDIDATE, score=_NUMBER), "The best, at most 5.")
            )
        )
    ),
    "Knowledge": _object(
        version=_about(_WHOLE, "1 at the start, one more with each exchange."),
        sources=_list(
            _object(name=_TEXT, folders=_list(_object(path=_TEXT, digest=_about(_TEXT, "Of all files, shortened."))))
        ),
    ),
    "Reloaded": _object(knowledge=refer("Knowledge"), seconds=_NUMBER),
    "Health": _object(
        {"batching_failures": _about(_WHOLE, "How often batching failed and was started again.")},
        status={"const": "ok"},
        knowledge=_VERSION,
    ),
    "Model": _object(
        model=_about(_TEXT, "Its kind."),
        method=_or_null(_TEXT),
        labels=_list(_TEXT),
        tasks=_list(_TEXT, "What it can do."),
        knowledge=refer("Knowledge"),
    ),
}

_OF_TASK = {PREDICT: "Prediction", ANNOTATE: "Annotation", EXPLAIN: "Explanation", LINK: "Links"}


def answers_of(task: str) -> Schema:
    """Return the schema of what a task answers."""
    return _object(**{ANSWERS[task]: _list(refer(_OF_TASK[task]), "One per text, in order.")}, knowledge=_VERSION)
