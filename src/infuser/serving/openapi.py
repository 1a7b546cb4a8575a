"""What the server's addresses take and give: as an OpenAPI document, and as a page that shows it without a network."""

from __future__ import annotations

import json
from collections.abc import Collection
from html import escape
from pathlib import Path
from typing import Any

from infuser.serving.limits import ServingLimits
from infuser.serving.model import EXPLAIN, TASKS
from infuser.serving.schemas import SCHEMAS, answers_of, refer
from infuser.versions import __version__

_STATIC = Path(__file__).parent / "static"
_SUMMARIES = {
    "predict": "Labels with probabilities, a score, or the entities of each text",
    "annotate": "What each source finds in each text",
    "explain": "The answer with knowledge, without it, and without each source",
    "link": "The entities that the mentions of each text mean",
}
_ERRORS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    408: "The request did not arrive in time.",
    413: "The request is too large.",
    415: "The request is not of type application/json.",
    422: "The request can be read, but not answered.",
    500: "The server failed; its log says why.",
    503: "Too many texts wait for the model (Retry-After says when to ask again), or it does not come back.",
    504: "There was no answer in time.",
}


def document(tasks: Collection[str], limits: ServingLimits, *, with_token: bool) -> dict[str, Any]:
    """Return the OpenAPI document of a server that can do these tasks."""
    paths: dict[str, Any] = {f"/{task}": {"post": _task(task, limits)} for task in TASKS if task in tasks}
    paths["/knowledge/reload"] = {
        "post": {
            "summary": "Exchange the knowledge, whole or not at all; {} opens the same folders again",
            "requestBody": _body(
                {
                    "type": "object",
                    "description": "By a source's name the path of a folder that infuser built; of a knowledge base, "
                    "paths by 'candidates', 'vectors' and 'graph'.",
                    "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "object"}]},
                },
                {},
            ),
            "responses": {"200": _json("What is known now", refer("Reloaded")), **_errors(400, 401, 413, 415, 422)},
        }
    }
    for path, summary, answer, statuses in (
        ("/health", "Whether the server answers, and the version of its knowledge", refer("Health"), (503,)),
        ("/model", "The model, its tasks and labels, and its knowledge", refer("Model"), (401,)),
        ("/metrics", "Requests, seconds, batches and queue, for Prometheus", None, (401,)),
        ("/openapi.json", "This document", {"type": "object"}, ()),
    ):
        ok = _json("OK", answer) if answer else {"description": "OK", "content": {"text/plain": {}}}
        paths[path] = {"get": {"summary": summary, "responses": {"200": ok, **_errors(*statuses)}}}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Infuser", "version": __version__, "description": "An encoder that reads knowledge."},
        "paths": paths,
        "components": {"schemas": dict(SCHEMAS)},
    }
    if with_token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _task(task: str, limits: ServingLimits) -> dict[str, Any]:
    text = {"type": "string", "maxLength": limits.most_characters}
    several = {"type": "array", "minItems": 1, "maxItems": limits.most_texts}
    pair = {"anyOf": [text, {"type": "null"}]}
    properties: dict[str, Any] = {
        "text": {**text, "description": "One text; or"},
        "pair": {**pair, "description": "the other side of a sentence pair."},
        "texts": {**several, "items": text, "description": "several texts, and"},
        "pairs": {**several, "items": pair, "description": "one other side for each of them, or null."},
    }
    if task == EXPLAIN:
        described = "Names of sources that are left out."
        properties["off"] = {"type": "array", "items": {"type": "string"}, "description": described}
    return {
        "summary": _SUMMARIES[task],
        "requestBody": _body(
            {"type": "object", "properties": properties, "additionalProperties": False},
            {"texts": ["Bern lies on the Aare.", "buy glipizide tablets"]},
        ),
        "responses": {"200": _json("Answers", answers_of(task)), **_errors(*_ERRORS)},
    }


def _body(schema: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema, "example": example}}}


def _json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _errors(*statuses: int) -> dict[str, Any]:
    return {str(status): _json(_ERRORS[status], refer("Error")) for status in statuses}


def page_files(openapi: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return content and type of the page's files, by their addresses."""
    sections = "\n".join(
        _section(path, verb, operation) for path, verbs in openapi["paths"].items() for verb, operation in verbs.items()
    )
    page = (_STATIC / "page.html").read_text(encoding="utf-8")
    token = "" if "security" in openapi else " hidden"
    return {
        "/": (page.replace("{{sections}}", sections).replace("{{no token}}", token), "text/html"),
        "/page.css": ((_STATIC / "page.css").read_text(encoding="utf-8"), "text/css"),
        "/page.js": ((_STATIC / "page.js").read_text(encoding="utf-8"), "text/javascript"),
    }


def _section(path: str, verb: str, operation: dict[str, Any]) -> str:
    """Return one address of the page, with a form that asks it."""
    body = operation.get("requestBody")
    asked = ""
    if body is not None:
        content = body["content"]["application/json"]
        rows = "".join(
            f"<tr><td><code>{escape(name)}</code></td><td>{escape(value.get('description', ''))}</td></tr>"
            for name, value in content["schema"].get("properties", {}).items()
        )
        label = f"Body of {escape(path)}"
        written = escape(json.dumps(content["example"], indent=1))
        asked = (
            f"<p>{escape(content['schema'].get('description', ''))}</p><table>{rows}</table>"
            f'<textarea rows="4" spellcheck="false" aria-label="{label}">{written}</textarea>'
        )
    return (
        f'<section data-path="{escape(path)}" data-verb="{verb.upper()}">'
        f"<h2><b>{verb.upper()}</b> {escape(path)}</h2><p>{escape(operation['summary'])}.</p>{asked}"
        f'<button type="button">Ask</button><pre aria-live="polite" hidden></pre></section>'
    )
