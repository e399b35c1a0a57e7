"""JSON out of a model's text: strictly where possible, repaired where not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import regex

_FENCE = regex.compile(r"^\s*```(?:json)?\s*\n(.*?)\n?```\s*$", regex.DOTALL)

_LONGEST = 400_000


class Unreadable(ValueError):
    """There is no JSON of the right kind in a text."""


def read_json(text: str, schema: Mapping[str, Any]) -> Any:
    """The JSON object in `text`; what stands around it is left out, small faults are repaired.

    A bare list counts as the object whose only list it is. Raises Unreadable where nothing of the kind
    is found.
    """
    if len(text) > _LONGEST:
        raise Unreadable(f"The answer has {len(text)} characters.")
    body = fenced[1] if (fenced := _FENCE.match(text)) else text
    try:
        value = json.loads(body)
    except (json.JSONDecodeError, RecursionError):
        value = _repaired(body)
    if isinstance(value, list):
        lists = [name for name, kind in schema.get("properties", {}).items() if kind.get("type") == "array"]
        if len(lists) == 1:
            # Text around JSON makes the repair library return a list of what it found.
            objects = [part for part in value if isinstance(part, dict) and lists[0] in part]
            return objects[0] if objects else {lists[0]: value}
    if not isinstance(value, dict):
        raise Unreadable("There is no JSON object in the answer.")
    return value


def _repaired(text: str) -> Any:
    from json_repair import repair_json

    try:
        return repair_json(text, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError, IndexError) as error:
        raise Unreadable("The answer is not JSON and cannot be repaired into it.") from error
