"""As much of JSON Schema 2020-12 as the schema of route tables uses; anything else is an error."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": lambda value: _is_number(value),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_ABOUT = {"$schema", "$defs", "title", "description", "default", "discriminator"}
_CHECKED = {
    "$ref", "type", "const", "enum", "anyOf", "oneOf", "exclusiveMinimum", "properties", "required",
    "additionalProperties", "items", "prefixItems", "minItems", "maxItems",
}  # fmt: skip


def faults(value: object, schema: Schema, root: Schema, place: str = "$") -> Iterator[str]:
    """Yield where and how ``value`` breaks ``schema``."""
    unknown = set(schema) - _ABOUT - _CHECKED
    assert not unknown, f"{place}: this check does not know {unknown}"
    if "$ref" in schema:
        yield from faults(value, _named(schema["$ref"], root), root, place)
    if "type" in schema and not _TYPES[schema["type"]](value):
        yield f"{place}: no {schema['type']}"
        return
    yield from _by_itself(value, schema, place)
    yield from _choices(value, schema, root, place)
    if isinstance(value, dict):
        yield from _in_object(value, schema, root, place)
    if isinstance(value, list):
        yield from _in_list(value, schema, root, place)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _named(reference: str, root: Schema) -> Schema:
    found = root
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def _by_itself(value: Any, schema: Schema, place: str) -> Iterator[str]:
    if "const" in schema and value != schema["const"]:
        yield f"{place}: not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: none of {schema['enum']}"
    if "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
        yield f"{place}: not above {schema['exclusiveMinimum']}"


def _choices(value: object, schema: Schema, root: Schema, place: str) -> Iterator[str]:
    for word, most in (("anyOf", len(schema.get("anyOf", ()))), ("oneOf", 1)):
        if word in schema:
            tried = [list(faults(value, choice, root, place)) for choice in schema[word]]
            if not 1 <= sum(not found for found in tried) <= most:
                yield f"{place}: {word} {tried}"


def _in_object(
    value: Mapping[str, object], schema: Schema, root: Schema, place: str
) -> Iterator[str]:
    properties: Schema = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place}: no {name}"
    for name, held in value.items():
        within = f"{place}.{name}"
        if name in properties:
            yield from faults(held, properties[name], root, within)
        elif isinstance(others, Mapping):
            yield from faults(held, others, root, within)
        elif not others:
            yield f"{within}: not known"


def _in_list(value: list[object], schema: Schema, root: Schema, place: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{place}: {len(value)} items"
    first: list[Schema] = schema.get("prefixItems", [])
    for number, held in enumerate(value):
        inner = first[number] if number < len(first) else schema.get("items", {})
        yield from faults(held, inner, root, f"{place}.{number}")
