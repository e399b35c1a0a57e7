"""SQL that databases write differently, as SQLite has it: JSON in texts, days, rows put in place of others, words.

The plugin of another database adds its forms with `sqlalchemy.ext.compiler.compiles`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Table, Text, literal_column, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from server.store.schema import TEXTS

TRIGRAM = 3
"""Shorter words have no trigram and are looked for in every text."""


class json_text(GenericFunction[str]):  # noqa: N801 (functions of SQL are lower case)
    """`json_text(column, name)`: a field of the JSON object in a text; NULL where there is none."""

    type = Text()
    inherit_cache = True


class json_count(GenericFunction[int]):  # noqa: N801
    """`json_count(column, name[, flag])`: items of a list of the JSON object, or those of them whose flag is false."""

    type = Integer()
    inherit_cache = True


class day_of(GenericFunction[str]):  # noqa: N801
    """The day (UTC, `2026-11-22`) of a time."""

    type = Text()
    inherit_cache = True


def _render(element: GenericFunction[Any], compiler: SQLCompiler, form: str, how: dict[str, Any]) -> str:
    return form.format(*(compiler.process(part, **how) for part in element.clauses))


@compiles(json_text)
def _json_text(element: json_text, compiler: SQLCompiler, **how: Any) -> str:
    return _render(element, compiler, "json_extract({0}, '$.' || {1})", how)


@compiles(json_count)
def _json_count(element: json_count, compiler: SQLCompiler, **how: Any) -> str:
    wrong = " WHERE NOT json_extract(one.value, '$.' || {2})" if len(element.clauses) > 2 else ""
    return _render(element, compiler, f"(SELECT count(*) FROM json_each({{0}}, '$.' || {{1}}) one{wrong})", how)


@compiles(day_of)
def _day_of(element: day_of, compiler: SQLCompiler, **how: Any) -> str:
    return _render(element, compiler, "date({0}, 'unixepoch')", how)


def put(connection: Connection, table: Table, *rows: dict[str, object], keep: bool = False) -> None:
    """Insert rows in place of those with the same primary key; with `keep` a row that is there stays."""
    # Loading the one that is not needed takes its time.
    statement = import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)
    if keep:
        connection.execute(statement.on_conflict_do_nothing(), rows)
    else:
        new = {name: statement.excluded[name] for name in rows[0]}
        connection.execute(statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=new), rows)


def holds_words(connection: Connection, words: list[str]) -> list[ColumnElement[bool]]:
    """The conditions that a text holds every word, in any case and as part of longer words."""
    long = [word for word in words if len(word) >= TRIGRAM]
    if connection.dialect.name != "sqlite" or not long:
        return [TEXTS.c.text.icontains(word, autoescape=True) for word in words]
    short = [word for word in words if word not in long]
    phrases = " ".join('"' + word.replace('"', '""') + '"' for word in long)
    return [literal_column("texts").bool_op("MATCH")(phrases), *holds_words(connection, short)]


def forget_deleted(connection: Connection) -> None:
    """Let the index of texts forget what was deleted, which it otherwise does at some later time."""
    if connection.dialect.name == "sqlite":
        connection.execute(text("INSERT INTO texts (texts) VALUES ('optimize')"))
