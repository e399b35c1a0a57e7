"""An OpenAPI description, JSON or YAML: one document in which each operation is a section."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plugins.sources.fetcher import Fetcher
from plugins.sources.source import Guard, Item, Known, Pause, Source, SourceError
from text.sanitize import sanitize_line

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_DEPTH, _FIELDS = 3, 60
"""Schemas within schemas, and fields of one, that are told."""


class OpenApiConnector:
    """Names the description by its address."""

    lists_all = True

    def __init__(self, source: Source, cache: Path, guard: Guard, max_bytes: int) -> None:
        self._source = source
        self._fetcher = Fetcher(guard, max_bytes)

    def close(self) -> None:
        self._fetcher.close()

    def items(self, previous: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """See `Connector`."""
        pause(0)
        location, token = self._source.location, self._source.secret("TOKEN")
        answer = self._fetcher.get(location, {"Authorization": f"Bearer {token}"} if token else {}, redirects=0)
        if answer.status != 200:
            raise SourceError(f"{location} is answered with HTTP {answer.status}: check the address")
        version = hashlib.sha256(answer.body).hexdigest()[:32]
        before, content = previous.get(location), None
        description = _parsed(answer.body, location)
        if before is None or before.version != version:
            content = markdown(description).encode()
        title = sanitize_line(str(_table(description.get("info")).get("title") or "API"))
        yield Item(location, version, content, self._source.link or location, title, suffix=".md")


def _parsed(body: bytes, location: str) -> Mapping[str, Any]:
    import yaml

    try:
        description = yaml.load(body, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SourceError(f"{location} is neither JSON nor YAML: {str(error)[:200]}") from error
    if not _table(_table(description).get("paths")):
        raise SourceError(f"{location} is no OpenAPI description: it has no paths")
    return _table(description)


def markdown(description: Mapping[str, Any]) -> str:
    """Return a description as Markdown: a section for each operation, with what it takes and answers."""
    info = _table(description.get("info"))
    lines = [f"# {sanitize_line(str(info.get('title') or 'API'))}", "", _words(info), ""]
    for path, place in _table(description.get("paths")).items():
        shared = _list(_table(place).get("parameters"))
        for method in _METHODS:
            operation = _table(_table(place).get(method))
            if not operation:
                continue
            name = sanitize_line(str(operation.get("summary") or operation.get("operationId") or ""))
            lines += [f"## {method.upper()} {sanitize_line(str(path))}{f': {name}' if name else ''}", ""]
            lines += [
                _words(operation),
                *(["This operation is deprecated.", ""] if operation.get("deprecated") else []),
            ]
            lines += _parameters(description, [*shared, *_list(operation.get("parameters"))])
            body = _resolved(description, operation.get("requestBody"))
            lines += _content(description, "Request body", body)
            for status, answer in _table(operation.get("responses")).items():
                resolved = _resolved(description, answer)
                lines += [f"Answer {sanitize_line(str(status))}: {_words(resolved).strip() or '–'}", ""]
                lines += _content(description, f"Body of {sanitize_line(str(status))}", resolved)
    return "\n".join(lines)


def _parameters(description: Mapping[str, Any], parameters: list[Any]) -> list[str]:
    rows = []
    for one in parameters:
        parameter = _resolved(description, one)
        schema = _resolved(description, parameter.get("schema")) or parameter
        needed = ", required" if parameter.get("required") else ""
        place, kind = (sanitize_line(str(value)) for value in (parameter.get("in"), _kind(schema)))
        rows.append(f"- `{_code(parameter.get('name'))}` ({place}, {kind}{needed}): {_line(parameter)}")
    return ["Parameters:", "", *rows, ""] if rows else []


def _content(description: Mapping[str, Any], title: str, body: Mapping[str, Any]) -> list[str]:
    lines = list[str]()
    for kind, media in list(_table(body.get("content")).items())[:3]:
        rows = list(_fields(description, _table(media).get("schema"), 0))
        if rows:
            lines += [f"{title} (`{_code(kind)}`):", "", *rows, ""]
    return lines


def _fields(description: Mapping[str, Any], schema: Any, depth: int) -> Iterator[str]:
    schema = _resolved(description, schema)
    parts = [_resolved(description, part) for part in _list(schema.get("allOf"))]
    for part in (schema, *parts):
        if part.get("type") == "array" or "items" in part:
            yield from _fields(description, part.get("items"), depth)
        required = set(map(str, _list(part.get("required"))))
        for name, value in list(_table(part.get("properties")).items())[:_FIELDS]:
            field = _resolved(description, value)
            needed = ", required" if str(name) in required else ""
            yield f"{'  ' * depth}- `{_code(name)}` ({sanitize_line(str(_kind(field)))}{needed}): {_line(field)}"
            if depth + 1 < _DEPTH:
                yield from _fields(description, field, depth + 1)


def _resolved(description: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    """Return a table, or the one that it refers to within the description."""
    table = _table(value)
    for _ in range(_DEPTH):
        reference = str(table.get("$ref") or "")
        if not reference.startswith("#/"):
            return {} if reference else table
        target: Any = description
        for part in reference[2:].split("/"):
            target = _table(target).get(part.replace("~1", "/").replace("~0", "~"))
        table = _table(target)
    return {}


def _kind(schema: Mapping[str, Any]) -> object:
    kind = schema.get("type") or ("object" if "properties" in schema else "any")
    choices = ", ".join(map(str, _list(schema.get("enum"))[:20]))
    return f"{kind}: one of {choices}" if choices else kind


def _words(table: Mapping[str, Any]) -> str:
    return f"{str(table.get('description') or table.get('summary') or '').strip()}\n"


def _line(table: Mapping[str, Any]) -> str:
    return sanitize_line(" ".join(str(table.get("description") or table.get("title") or "").split())) or "–"


def _code(value: object) -> str:
    return sanitize_line(str(value)).replace("`", "'")


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
