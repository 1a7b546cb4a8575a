"""JSON values compared with those keywords of JSON Schema that the server's document uses."""

from __future__ import annotations

from typing import Any

_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": int | float,
    "null": type(None),
    "boolean": bool,
}
_DESCRIBES = {"description", "type"}


def errors_of(value: Any, schema: dict[str, Any], document: dict[str, Any], place: str = "") -> list[str]:
    """Return where a value is not what a schema says, and how."""
    if "$ref" in schema:
        assert schema.keys() <= {"$ref", "description"}
        found: Any = document
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return errors_of(value, found, document, place)
    errors = []
    if "type" in schema:
        known = isinstance(value, _TYPES[schema["type"]])
        if not known or (isinstance(value, bool) and schema["type"] != "boolean"):
            return [f"{place} is {value!r}, not of type {schema['type']}"]
    for keyword, told in schema.items():
        if keyword in ("anyOf", "oneOf"):
            fits = [not errors_of(value, one, document, place) for one in told]
            if not any(fits) or (keyword == "oneOf" and sum(fits) > 1):
                errors.append(f"{place} is {value!r}, which fits {sum(fits)} schemas of {keyword}")
        elif keyword == "const":
            errors += [f"{place} is {value!r}, not {told!r}"] * (value != told)
        elif keyword == "required":
            errors += [f"{place} has no {name!r}" for name in told if name not in value]
        elif keyword == "properties":
            for name in told.keys() & value.keys():
                errors += errors_of(value[name], told[name], document, f"{place}/{name}")
        elif keyword == "additionalProperties":
            for name in value.keys() - schema.get("properties", {}).keys():
                more = [f"{place}/{name} has no place in the schema"]
                errors += more if told is False else errors_of(value[name], told, document, f"{place}/{name}")
        elif keyword == "items":
            for at, one in enumerate(value):
                errors += errors_of(one, told, document, f"{place}/{at}")
        elif keyword == "prefixItems":
            for at, (one, of_one) in enumerate(zip(value, told, strict=True)):
                errors += errors_of(one, of_one, document, f"{place}/{at}")
        else:
            assert keyword in _DESCRIBES, f"this checker does not know {keyword!r}"
    return errors
