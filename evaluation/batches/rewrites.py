"""Rewrites of many questions: made side by side, and kept as one JSON object a line.

`anaphora rewrite` writes them and `anaphora search` reads them. The rewriter is handed in.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, get_args

from evaluation.errors import BadRow, EvaluationError, RewriterUnusable
from evaluation.metrics.ranking import run_lines
from evaluation.systems import KnownRewrites
from rewriter.protocol import Conversation, Decision, Message, Rewrite, Rewriter, Role, Term
from server.turn.search import rewrite_within

if TYPE_CHECKING:
    from index.query import Hit
    from server.turn.search import TurnSearch


T = TypeVar("T")
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InputLine(Generic[T]):
    """Request of one input line, under the id it came with."""

    id: str
    asked: T

    def fingerprint(self, label: str) -> str:
        """Equal for what is equal and made in the same way."""
        return hashlib.sha256(f"{label}\n{self.asked!r}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def finished_rows(partial: Path, lines: Sequence[InputLine[T]], label: str) -> dict[str, Row]:
    """The rows that an interrupted run kept and that still hold; torn lines do not count."""
    wanted = {line.id: line.fingerprint(label) for line in lines}
    rows: dict[str, Row] = {}
    if partial.is_file():
        # A line ends where a line feed is: texts may hold other characters that count as line breaks.
        for raw in partial.read_text("utf-8", errors="replace").split("\n"):
            try:
                row = json.loads(raw)
                if wanted.get(row["row"]["id"]) == row["input"]:
                    rows[row["row"]["id"]] = row["row"]
            except (ValueError, KeyError, TypeError):
                continue
    return rows


async def make_rows(
    lines: Sequence[InputLine[T]],
    done: Mapping[str, Row],
    partial: Path,
    label: str,
    make: Callable[[InputLine[T]], Awaitable[Row]],
    *,
    at_once: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Row]:
    """The rows of all lines: those that are `done`, and new ones, each added to `partial` as it comes.

    Raises what `make` raises; what was made until then is kept.
    """
    rows = dict(done)
    places = asyncio.Semaphore(at_once)
    partial.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("a", encoding="utf-8") as file:

        async def one(line: InputLine[T]) -> None:
            async with places:
                rows[line.id] = row = await make(line)
                file.write(json.dumps({"input": line.fingerprint(label), "row": row}, ensure_ascii=False) + "\n")
                file.flush()
                advance()

        try:
            async with asyncio.TaskGroup() as group:
                for line in lines:
                    if line.id not in done:
                        group.create_task(one(line))
        except ExceptionGroup as failed:
            # One line's failure ends the others; it is told alone.
            raise failed.exceptions[0] from None
    return rows


ROLES: Mapping[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "agent": "assistant"}
SHAPE = '{"id": "q1", "history": [{"role": "user", "text": "…"}, {"role": "assistant", "text": "…"}], "text": "…"}'
SHOWN = 10

QUERIES_T = TypeVar("QUERIES_T")


@dataclass(frozen=True, slots=True)
class QueryLine:
    """A question in its conversation."""

    id: str
    conversation: Conversation
    text: str


def read_queries(path: Path) -> list[QueryLine]:
    """The questions of `path` in its order. Raises as `checked_lines`."""
    return checked_lines(path, lambda line, _: parse(line), SHAPE, lambda line: line.id)


def checked_lines(
    path: Path, parse: Callable[[str, int], QUERIES_T], shape: str, name: Callable[[QUERIES_T], str], *, most: int = 0
) -> list[QUERIES_T]:
    """Parse each non-blank line with `parse(line, number)`, in file order.

    `parse` raises ValueError for a bad one. Raises BadRow naming up to ten bad lines by number, EvaluationError where
    there is nothing to read, or more than `most` lines.
    """
    parsed: list[QUERIES_T] = []
    problems: list[str] = []
    seen: dict[str, int] = {}
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            query = parse(line, number)
            if name(query) in seen:
                raise ValueError(f"its id {name(query)!r} stands in line {seen[name(query)]} already")
        except ValueError as error:
            problems.append(f"line {number}: {error}")
        else:
            seen[name(query)] = number
            parsed.append(query)
        if most and len(parsed) > most:
            raise EvaluationError(f"{path} holds more than {most} questions; split it.")
    if problems:
        count = "a bad line" if len(problems) == 1 else f"{len(problems)} bad lines"
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise BadRow(
            f"{path} has {count}: {'; '.join(problems[:SHOWN])}{more}. "
            f"Correct or remove them; a line looks like {shape}."
        )
    if not parsed:
        raise EvaluationError(f"{path} holds no question; a line looks like {shape}.")
    return parsed


def json_object(line: str) -> dict[str, Any]:
    """The object of one line; raises ValueError saying what is wrong with it."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    return row


def parse(line: str) -> QueryLine:
    """One line as a question; raises ValueError saying what is wrong with it."""
    row = json_object(line)
    identifier = row.get("id", row.get("_id"))
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        identifier = str(identifier)
    if not isinstance(identifier, str) or not identifier.strip():
        raise ValueError('no "id"')
    if identifier.split() != [identifier]:
        raise ValueError(f'white space in its "id" {identifier!r}, which a run file cannot hold')
    history = row.get("history") or []
    if not isinstance(history, list):
        raise ValueError('"history" is not a list')
    turns = tuple(_turn(item, place) for place, item in enumerate(history, 1))
    return QueryLine(identifier, Conversation(turns), _text(row, "question"))


def _turn(item: object, place: int) -> Message:
    if not isinstance(item, dict):
        raise ValueError(f'turn {place} of "history" is not an object')
    role = ROLES.get(item["role"]) if isinstance(item.get("role"), str) else None
    if role is None:
        raise ValueError(f'turn {place} of "history" has the "role" {item.get("role")!r}, not "user" or "assistant"')
    return Message(role, _text(item, f"turn {place}"))


def _text(row: Mapping[str, object], what: str) -> str:
    text = row.get("text")
    if not isinstance(text, str):
        raise ValueError(f'{what} has no "text"')
    if what == "question" and not text.strip():
        raise ValueError('its "text" is empty')
    return text


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file():
        raise EvaluationError(f"There is no file {path}; give the path of a file with one JSON object a line.")
    try:
        with path.open(encoding="utf-8-sig", newline=None) as file:
            yield from enumerate(file, 1)
    except UnicodeDecodeError as error:
        raise EvaluationError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from error


TAG = "anaphora"


def search_all(
    search: TurnSearch,
    queries: Sequence[QueryLine],
    file: IO[str],
    *,
    level: Literal["passage", "document"],
    k: int,
    where: Mapping[str, Any],
    advance: Callable[[], None] = lambda: None,
) -> bool:
    """Write the ranking of every question, of `k` ids at most; whether an id holds spaces, as a run's should not."""
    # Documents are found through their passages: as many of them as each ranking contributes.
    wanted = k if level == "passage" else max(k, search.settings.retrieval.depth)
    spaces = False
    for query in queries:
        searched = search.find(
            query.text,
            collection=search.settings.collection,
            conversation=query.conversation,
            k=wanted,
            where=where,
        )
        ranking = ranked(searched.hits, level)[:k]
        spaces = spaces or any(len(identifier.split()) != 1 for identifier, _ in ranking)
        file.writelines(run_lines(query.id, ranking, TAG))
        advance()
    return spaces


def ranked(hits: Sequence[Hit], level: Literal["passage", "document"]) -> list[tuple[str, float]]:
    """Ids and scores, best first, each id once; a document has the score of its best passage."""
    best: dict[str, float] = {}
    for hit in hits:
        best.setdefault(hit.passage.id if level == "passage" else hit.passage.document_id, hit.score)
    return list(best.items())


GIVE_UP_AFTER = 20
"""Failures in a row from the beginning of a run after which the language model is taken to be unusable."""
DECISIONS: tuple[Decision, ...] = get_args(Decision)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRecord(Rewrite):
    """One rewritten question. `input` is a hash of all that the rewrite depended on."""

    id: str
    question: str
    rewriter: str
    input: str

    @classmethod
    def of(cls, query: QueryLine, rewrite: Rewrite, rewriter: str) -> RewriteRecord:
        """Build the output line for `query` from a rewrite by `rewriter`."""
        fields = _as_made(replace(rewrite, seconds=round(rewrite.seconds, 4)))
        return cls(**fields, id=query.id, question=query.text, rewriter=rewriter, input=fingerprint(query, rewriter))

    def line(self) -> str:
        """The record as a line of a file."""
        return json.dumps({"id": self.id, **asdict(self)}, ensure_ascii=False) + "\n"

    def rewrite(self) -> Rewrite:
        """The record as a rewriter would have returned it."""
        return Rewrite(**_as_made(self))


def _as_made(rewrite: Rewrite) -> dict[str, Any]:
    return {field.name: getattr(rewrite, field.name) for field in fields(Rewrite)}


def fingerprint(query: QueryLine, rewriter: str) -> str:
    """Equal for equal questions in equal conversations before the same rewriter."""
    turns = [(turn.role, turn.text) for turn in query.conversation.messages]
    return hashlib.sha256(json.dumps([rewriter, turns, query.text]).encode()).hexdigest()[:16]


def parse_record(line: str) -> RewriteRecord:
    """One line as a record; raises ValueError saying what is wrong with it."""
    row = json_object(line)
    if not all(isinstance(row.get(name), str) for name in ("id", "text", "decision")):
        raise ValueError('no object with "id", "text" and "decision"')
    decision = next((decision for decision in DECISIONS if decision == row["decision"]), None)
    if decision is None:
        raise ValueError(f'the "decision" {row["decision"]!r} is not one of {", ".join(DECISIONS)}')
    if not row["text"].strip():
        raise ValueError('its "text" is empty')
    expansion = row.get("expansion") or ()
    if not isinstance(expansion, list | tuple) or not all(isinstance(term, dict) for term in expansion):
        raise ValueError('its "expansion" is no list of terms')
    return RewriteRecord(
        id=row["id"],
        question=str(row.get("question", "")),
        text=row["text"],
        decision=decision,
        confidence=_number(row, "confidence"),
        alternatives=tuple(str(item) for item in row.get("alternatives") or ()),
        reason=str(row.get("reason", "")),
        seconds=_number(row, "seconds") or 0.0,
        rewriter=str(row.get("rewriter", "")),
        input=str(row.get("input", "")),
        expansion=tuple(Term(str(term.get("text", "")), _number(term, "score") or 0.0) for term in expansion),
        history_probability=_number(row, "history_probability"),
    )


def _number(row: Mapping[str, object], name: str) -> float | None:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else None


def read_records(path: Path) -> dict[str, RewriteRecord]:
    """Records by id. Raises BadRow naming the first bad line, EvaluationError where there is no file."""
    if not path.is_file():
        raise EvaluationError(f"There is no file {path}; `anaphora rewrite` writes one.")
    records: dict[str, RewriteRecord] = {}
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        if line.strip():
            try:
                record = parse_record(line)
            except ValueError as error:
                raise BadRow(f"{path}, line {number}: {error}; write the file again with `anaphora rewrite`.") from None
            records[record.id] = record
    return records


def finished(path: Path, queries: Sequence[QueryLine], rewriter: str) -> dict[str, RewriteRecord]:
    """The records of an earlier run that still hold for `queries`; failed ones and torn lines do not count."""
    wanted = {query.id: fingerprint(query, rewriter) for query in queries}
    records: dict[str, RewriteRecord] = {}
    if path.is_file():
        for line in path.read_text("utf-8", errors="replace").splitlines():
            try:
                record = parse_record(line)
            except ValueError:
                continue
            if record.decision != "failed" and wanted.get(record.id) == record.input:
                records[record.id] = record
    return records


def rewrite_all(
    rewriter: Rewriter,
    label: str,
    queries: Sequence[QueryLine],
    done: Mapping[str, RewriteRecord],
    path: Path,
    *,
    workers: int,
    seconds: float,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, RewriteRecord]:
    """The records of all `queries`: those that are `done`, and new ones, each added to `path` as it comes.

    Raises RewriterUnusable where nothing but failures comes.
    """
    records = dict(done)
    failures = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        unanswered = [query for query in queries if query.id not in done]
        for query, rewrite in in_parallel(rewriter, unanswered, workers, seconds):
            records[query.id] = record = RewriteRecord.of(query, rewrite, label)
            file.write(record.line())
            file.flush()
            failures += rewrite.decision == "failed"
            if failures == GIVE_UP_AFTER == len(records):
                raise RewriterUnusable(
                    f"The first {failures} questions all failed ({rewrite.reason}). "
                    "`anaphora doctor` checks the language model; the same command then goes on."
                )
            advance()
    return records


def in_parallel(
    rewriter: Rewriter, queries: Sequence[QueryLine], workers: int, seconds: float
) -> Iterator[tuple[QueryLine, Rewrite]]:
    """Each question with its rewrite as it comes; no more than `workers` are under way, each within a turn's limit."""

    def rewritten(line: QueryLine) -> Rewrite:
        return asyncio.run(rewrite_within(seconds, rewriter, line.conversation, line.text, blocking=True))

    with ThreadPoolExecutor(workers) as pool:
        running = {pool.submit(rewritten, line): line for line in queries}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


class WrittenRewrites(KnownRewrites):
    """A rewriter that looks its answers up among records; a question written in full is searched for as it stands."""

    def __init__(self, queries: Sequence[QueryLine], records: Mapping[str, RewriteRecord]) -> None:
        """Raises EvaluationError when a question has no record."""
        missing = [query.id for query in queries if query.id not in records]
        if missing:
            raise EvaluationError(
                f"{len(missing)} questions have no rewrite, the first is {missing[0]!r}; "
                "run `anaphora rewrite` with the same queries."
            )
        rewrites = {(query.conversation, query.text): records[query.id].rewrite() for query in queries}
        shortened = {
            key: replace(rewrite, expansion=()) if rewrite.decision == "rewrite" else rewrite
            for key, rewrite in rewrites.items()
        }
        super().__init__("written", shortened)
