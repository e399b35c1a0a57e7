"""An OpenAPI description, JSON or YAML: one document in which each operation is a section."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from plugins.sources.fetcher import FetchingConnector
from plugins.sources.source import Item, Known, Pause, SourceError, size_problem
from text.sanitize import sanitize_line

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_DEPTH, _FIELDS = 3, 60
"""Schemas within schemas, and fields of one, that are told."""
_REFERENCES, _REFERENCE_CHARS = 2_000_000, 500
_YAML_BYTES = 4 << 20
"""A description in YAML at most, of which each byte takes hundreds while it is read."""


class OpenApiConnector(FetchingConnector):
    """Names the description by its address."""

    def items(self, previous: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        pause(0)
        location, token = self.source.location, self.source.secret("TOKEN")
        answer = self.fetcher.get(location, {"Authorization": f"Bearer {token}"} if token else {}, redirects=0)
        if answer.status != 200:
            raise SourceError(f"{location} is answered with HTTP {answer.status}: check the address")
        version = hashlib.sha256(answer.body).hexdigest()[:32]
        before, content = previous.get(location), None
        description = _parsed(answer.body, location)
        if before is None or before.version != version:
            content = markdown(description, self.max_bytes).encode()
        title = _text(_table(description.get("info")).get("title")) or "API"
        yield Item(location, version, content, self.source.link or location, title, suffix=".md")


def _parsed(body: bytes, location: str) -> Mapping[str, Any]:
    try:
        description = json.loads(body)
    except (ValueError, RecursionError):
        description = _of_yaml(body, location)
    if not _table(_table(description).get("paths")):
        raise SourceError(f"{location} is no OpenAPI description: it has no paths")
    return _table(description)


def _of_yaml(body: bytes, location: str) -> Any:
    """Return the value of a document in YAML. Merge keys are refused, which can stand for endless tables."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
                raise ValueError("it has merge keys (<<), which are not read")

    if problem := size_problem(len(body), _YAML_BYTES):
        raise SourceError(f"{location} is YAML: {problem}; give it as JSON")
    try:
        return yaml.load(body, Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SourceError(f"{location} is neither JSON nor YAML: {str(error)[:200]}") from error


def markdown(table: Mapping[str, Any], most: int = 1 << 20) -> str:
    """Return a description as Markdown: a section for each operation, with what it takes and answers.

    Schemas that refer to each other can stand for endless ones: raises SourceError above `most` characters, and where
    it takes too long.
    """
    lines, length = list[str](), 0
    for line in _lines(_Description(table)):
        lines.append(line)
        length += len(line) + 1
        if problem := size_problem(length, most):
            raise SourceError(f"the description is too long as text: {problem}")
    return "\n".join(lines)


class _Description:
    """A description whose references are resolved, so many times at most."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = table
        self._left = _REFERENCES

    def resolved(self, value: Any) -> Mapping[str, Any]:
        """Return a table, or the one that it refers to within the description. Raises SourceError."""
        self._left -= 1
        if self._left < 0:
            raise SourceError("the schemas of the description refer to each other too often")
        table = _table(value)
        for _ in range(_DEPTH):
            reference = _text(table.get("$ref"))[:_REFERENCE_CHARS]
            if not reference.startswith("#/"):
                return {} if reference else table
            target: Any = self.table
            for part in reference[2:].split("/"):
                target = _table(target).get(part.replace("~1", "/").replace("~0", "~"))
            table = _table(target)
        return {}


def _lines(description: _Description) -> Iterator[str]:
    info = _table(description.table.get("info"))
    yield from (f"# {_text(info.get('title')) or 'API'}", "", _words(info), "")
    for path, place in _table(description.table.get("paths")).items():
        shared = _list(_table(place).get("parameters"))
        for method in _METHODS:
            operation = _table(_table(place).get(method))
            if not operation:
                continue
            name = _text(operation.get("summary")) or _text(operation.get("operationId"))
            yield from (f"## {method.upper()} {_text(path)}{f': {name}' if name else ''}", "", _words(operation))
            if operation.get("deprecated"):
                yield from ("This operation is deprecated.", "")
            yield from _parameters(description, [*shared, *_list(operation.get("parameters"))])
            yield from _content(description, "Request body", description.resolved(operation.get("requestBody")))
            for status, answer in _table(operation.get("responses")).items():
                resolved = description.resolved(answer)
                yield from (f"Answer {_text(status)}: {_words(resolved).strip() or '–'}", "")
                yield from _content(description, f"Body of {_text(status)}", resolved)


def _parameters(description: _Description, parameters: list[Any]) -> Iterator[str]:
    if parameters:
        yield from ("Parameters:", "")
        for row in parameters:
            parameter = description.resolved(row)
            schema = description.resolved(parameter.get("schema")) or parameter
            needed = ", required" if parameter.get("required") else ""
            about = f"{_text(parameter.get('in'))}, {_kind(schema)}{needed}"
            yield f"- `{_code(parameter.get('name'))}` ({about}): {_line(parameter)}"
        yield ""


def _content(description: _Description, title: str, body: Mapping[str, Any]) -> Iterator[str]:
    for kind, media in list(_table(body.get("content")).items())[:3]:
        rows = _fields(description, _table(media).get("schema"), 0)
        if (first := next(rows, None)) is not None:
            yield from (f"{title} (`{_code(kind)}`):", "", first)
            yield from rows
            yield ""


def _fields(description: _Description, schema: Any, depth: int, lists: int = 0) -> Iterator[str]:
    schema = description.resolved(schema)
    parts = [description.resolved(part) for part in _list(schema.get("allOf"))[:_FIELDS]]
    for part in (schema, *parts):
        if "items" in part and lists < _DEPTH:
            yield from _fields(description, part["items"], depth, lists + 1)
        required = set(map(_text, _list(part.get("required"))))
        for name, value in list(_table(part.get("properties")).items())[:_FIELDS]:
            field = description.resolved(value)
            needed = ", required" if _text(name) in required else ""
            yield f"{'  ' * depth}- `{_code(name)}` ({_kind(field)}{needed}): {_line(field)}"
            if depth + 1 < _DEPTH:
                yield from _fields(description, field, depth + 1)


def _kind(schema: Mapping[str, Any]) -> str:
    kinds = schema.get("type") or ("object" if "properties" in schema else "any")
    kind = " or ".join(map(_text, _list(kinds)[:5])) or _text(kinds)
    choices = ", ".join(map(_text, _list(schema.get("enum"))[:20]))
    return f"{kind}: one of {choices}" if choices else kind


def _words(table: Mapping[str, Any]) -> str:
    value = table.get("description") or table.get("summary")
    return f"{value.strip()}\n" if isinstance(value, str) else "\n"


def _line(table: Mapping[str, Any]) -> str:
    return _text(table.get("description")) or _text(table.get("title")) or "–"


def _code(value: object) -> str:
    return _text(value).replace("`", "'")


def _text(value: object) -> str:
    """Return a text, a number or a truth in one line; of what holds others, which may be endless, nothing."""
    return sanitize_line(str(value)) if isinstance(value, str | int | float | bool) else ""


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
