"""Questions in their conversations, with what answers them: read from files, and found in documents by their quotes.

A line of a file is a question, `{"id", "text", "history", "rewrite", "relevant", "documents", "answer", "quotes"}`, or
a whole dialog, `{"dialog_id", "turns": [{"role", "text", "rewrite", "relevant", "documents", "evidence", …}]}`, as in
MTRAG, in what `anaphora synth` writes, and in what was reviewed. Sets of questions with a corpus are `evaluation.sets`.

EvaluationError
├── MissingSet     a data set is not where it was looked for; says where to get it
├── BadRow         a line of a data set or of a run cannot be read; names the file and the line
└── BelowThreshold what was measured is below what `--fail-under` asks for
"""

from __future__ import annotations

import json
from collections.abc import Collection as Names
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import regex

from rewriter.examples import normalised
from rewriter.protocol import Conversation, Message, Role

if TYPE_CHECKING:
    from index.documents import Passage


class EvaluationError(Exception):
    """Base of every error of this package; the message says what happened, where, and what to do."""


class MissingSet(EvaluationError):
    """A data set, or a part of it, is not there."""


class BadRow(EvaluationError):
    """A line cannot be read."""


class BelowThreshold(EvaluationError):
    """A gate: quality is below what was asked for."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question in its conversation, and what people made of it; what is not known is empty.

    `dialog` names the conversation: questions of one are never taken for independent. `rewrite` is a person's
    stand-alone form, `answer` a reference answer, `answerability` one of `answerable`, `partial`, `unanswerable`,
    `underspecified`, `conversational`, `none`; `kind` how it refers to the conversation (`pronoun`, `ellipsis`, …).
    """

    id: str
    dialog: str
    text: str
    conversation: Conversation = field(default=Conversation())
    rewrite: str = ""
    domain: str = ""
    answer: str = ""
    answerability: str = ""
    kind: str = ""

    @property
    def depth(self) -> int:
        """The how-manieth question of its conversation it is, from 1."""
        return 1 + sum(turn.role == "user" for turn in self.conversation.messages)

    @property
    def needs_rewrite(self) -> bool | None:
        """Whether a person changed its words to make it stand alone; None where nobody said."""
        return normalised(self.rewrite) != normalised(self.text) if self.rewrite else None


@dataclass(frozen=True, slots=True)
class Quote:
    """A literal answer to a question, and the document that contains it; an empty document may be any."""

    document: str
    text: str


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question with the ids of the passages and documents that answer it, and the quotes that do."""

    question: Question
    relevant: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    quotes: tuple[Quote, ...] = ()


SHAPE = (
    '{"id": "q1", "text": "…", "history": [{"role": "user", "text": "…"}], "rewrite": "…", "relevant": ["passage id"], '
    '"documents": ["document id"], "answer": "…", "quotes": ["…"]}'
)
ROLES: dict[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "agent": "assistant"}
MOST_PROBLEMS = 10
"""Bad lines that one message names."""


def read_questions(path: Path) -> list[JudgedQuestion]:
    """The questions of a file, in its order. Raises BadRow naming up to ten bad lines, MissingSet for no question."""
    present(path, "A file of questions", f"A line looks like {SHAPE}.")
    questions: dict[str, JudgedQuestion] = {}
    problems: list[str] = []
    for number, line in _lines(path):
        try:
            row = json_row(line, f"line {number}")
            parsed = dialog_of_row(row, f"line {number}") if "turns" in row else [question_of_row(row, number)]
            for judged in parsed:
                if judged.question.id in questions:
                    raise BadRow(f"line {number}: the id {judged.question.id!r} was used before.")
                questions[judged.question.id] = judged
        except BadRow as error:
            problems.append(str(error).rstrip("."))
    if problems:
        more = f"; and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
        raise BadRow(
            f"{path} has {len(problems)} bad line{'s' * (len(problems) > 1)}: {'; '.join(problems[:MOST_PROBLEMS])}"
            f"{more}. Correct or remove them; a line looks like {SHAPE}."
        )
    if not questions:
        raise MissingSet(f"{path} holds no question; a line looks like {SHAPE}.")
    return list(questions.values())


def dialog_questions(path: Path, where: Mapping[str, str] | None = None) -> Iterator[JudgedQuestion]:
    """Every question of the dialogs in `path`, or of those whose fields equal `where`. Raises BadRow."""
    for place, row in json_rows(path):
        if all(row.get(key) == value for key, value in (where or {}).items()):
            yield from dialog_of_row(row, place)


def question_of_row(row: Mapping[str, Any], number: int) -> JudgedQuestion:
    """A line with one question, in `text` or `question`; what `metadata` says counts too. Raises BadRow."""
    where = f"line {number}"
    metadata = row.get("metadata")
    more: dict[str, Any] = {**(metadata if isinstance(metadata, dict) else {}), **row}
    name = row.get("_id", row.get("id", f"line-{number}"))
    name = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
    if not isinstance(name, str) or name.split() != [name]:
        raise BadRow(f'{where} needs an "id" without white space.')
    for key in ("answer", "rewrite"):
        if not isinstance(row.get(key, ""), str | list | None):
            raise BadRow(f'{where}: its "{key}" is not a text.')
    question = Question(
        id=name,
        dialog=optional(more, "dialog_id") or name,
        text=text(row, "question" if "question" in row else "text", where),
        conversation=conversation(more.get("history") or [], where),
        rewrite=optional(more, "rewrite"),
        domain=optional(more, "domain"),
        answer=optional(more, "answer").strip(),
        answerability=optional(more, "answerability").lower(),
        kind=optional(more, "kind").lower(),
    )
    relevant, documents = names(row, "relevant", where), names(row, "documents", where)
    return JudgedQuestion(question, tuple(relevant), tuple(documents), tuple(_quotes(row, where)))


def dialog_of_row(row: Mapping[str, Any], place: str) -> Iterator[JudgedQuestion]:
    """The questions of a dialog. An answer is the turn's `answer`, else what the assistant says next. Raises BadRow."""
    turns = row.get("turns")
    if not isinstance(turns, list):
        raise BadRow(f'{place} has no "turns".')
    dialog = optional(row, "dialog_id") or optional(row, "id") or place
    whole = conversation(turns, place)
    for n, raw in enumerate(turns):
        if whole.messages[n].role != "user":
            continue
        at = f"{place}, turn {n + 1}"
        following = whole.messages[n + 1 : n + 2]
        said_next = following[0].text if following and following[0].role == "assistant" else ""
        question = Question(
            id=(optional(raw, "turn_id") or f"{dialog}#{n + 1}").replace(" ", "_"),
            dialog=dialog,
            text=text(raw, "text", at),
            conversation=Conversation(whole.messages[:n]),
            rewrite=optional(raw, "rewrite"),
            domain=optional(row, "domain") or optional(row, "collection"),
            answer=optional(raw, "answer") or said_next,
            answerability=optional(raw, "answerability").lower(),
            kind=optional(raw, "kind").lower(),
        )
        relevant, documents = names(raw, "relevant", at), names(raw, "documents", at)
        yield JudgedQuestion(question, tuple(relevant), tuple(documents), tuple(_quotes(raw, at)))


def qrels(questions: Iterable[JudgedQuestion]) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """The judgements over passages and over documents, by question."""
    questions = list(questions)
    passages = {judged.question.id: dict.fromkeys(judged.relevant, 1) for judged in questions if judged.relevant}
    documents = {judged.question.id: dict.fromkeys(judged.documents, 1) for judged in questions if judged.documents}
    return passages, documents


def _quotes(row: Mapping[str, Any], where: str) -> Iterator[Quote]:
    """Quotes as texts, or as objects that name their document too."""
    key = "quotes" if row.get("quotes") else "evidence"
    entries = row.get(key) or []
    for n, entry in enumerate(entries if isinstance(entries, list) else [None], 1):
        parts = {"quote": entry} if isinstance(entry, str) and key == "quotes" else entry
        if not isinstance(parts, dict):
            raise BadRow(f'{where}: "{key}" is not a list of objects with "document" and "quote".')
        yield Quote(optional(parts, "document"), text(parts, "quote", f"{where}, {key} {n}").strip())


def present(path: Path, what: str, where_to_get: str) -> Path:
    """`path` if it exists; raises MissingSet saying what was looked for and where it is published."""
    if not path.exists():
        raise MissingSet(f"{what} is not there: {path} does not exist. {where_to_get}")
    return path


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place (file and line, for messages) and object of every line that is not blank. Raises BadRow."""
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        yield where, json_row(line, where)


def json_row(line: str, where: str) -> dict[str, Any]:
    """The object that a line holds. Raises BadRow."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRow(f"{where} is not JSON ({error}).") from None
    if not isinstance(row, dict):
        raise BadRow(f"{where} holds no JSON object.")
    return row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    except UnicodeDecodeError as error:
        raise BadRow(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from error


def text(row: Mapping[str, Any], key: str, where: str) -> str:
    """A text that must be there and say something."""
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadRow(f'{where} has no "{key}".')
    return value


def optional(row: Mapping[str, Any], key: str) -> str:
    """A text, empty where it is missing; the first of a list."""
    value = row.get(key)
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, str) else ""


def names(row: Mapping[str, Any], key: str, where: str) -> list[str]:
    """A list of ids, empty where it is missing."""
    value = row.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRow(f'{where}: "{key}" is not a list of ids.')
    return value


def conversation(turns: object, where: str) -> Conversation:
    """Turns with `role` and `text` (or `content`), oldest first, or pairs of a question and its answer."""
    if not isinstance(turns, list):
        raise BadRow(f"{where}: the history is not a list.")
    messages: list[Message] = []
    for turn in turns:
        if isinstance(turn, list) and len(turn) == 2:
            pairs = [("user", turn[0]), ("assistant", turn[1])]
        elif isinstance(turn, dict) and "question" in turn:
            pairs = [("user", turn["question"]), ("assistant", turn.get("answer"))]
        elif isinstance(turn, dict):
            pairs = [(str(turn.get("role")), turn.get("text", turn.get("content")))]
        else:
            pairs = [("", None)]
        for role, text in pairs:
            if role not in ROLES or not isinstance(text, str):
                raise BadRow(f'{where}: a turn of the history has no "role" (user or assistant) and "text".')
            messages.append(Message(ROLES[role], text))
    return Conversation(tuple(messages))


_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


def spans(text: str, quote: str) -> list[tuple[int, int]]:
    """Return every span of `text` that matches `quote`; empty for a quote without words.

    A quote is looked for character by character, and then by its words alone: a loader may have turned the page into
    Markdown.
    """
    exact = [(at.start(), at.end()) for at in regex.finditer(regex.escape(quote, special_only=True), text)]
    wanted = [word for word, _, _ in _words(quote)]
    if exact or not wanted:
        return exact if wanted else []
    words = _words(text)
    return [
        (words[n][1], words[n + len(wanted) - 1][2])
        for n, (word, _, _) in enumerate(words)
        if word == wanted[0] and [word for word, _, _ in words[n : n + len(wanted)]] == wanted
    ]


@lru_cache(maxsize=64)
def _words(text: str) -> list[tuple[str, int, int]]:
    return [(at[0].casefold(), at.start(), at.end()) for at in _WORD.finditer(text)]


def relevant(passages: Sequence[Passage], spans: Sequence[tuple[int, int]]) -> list[str]:
    """Ids of the passages of a document that hold at least half of one of the spans, or lie half within one."""
    return [
        passage.id
        for passage in passages
        if any(
            2 * (min(end, passage.end) - max(start, passage.start)) >= min(end - start, passage.end - passage.start)
            for start, end in spans
        )
    ]


def document_id(document: str, names: Names[str]) -> str:
    """The id a document has; its first folder may be that of the whole collection. Empty where it has none."""
    return next((name for name in (document, document.partition("/")[2]) if name in names), "")
