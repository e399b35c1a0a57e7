"""Examples of rewriting: a conversation, the question as typed, and the same question standing alone.

The one shape in which training and evaluation data pass between rooms. Three kinds of lines are read: the row itself,
dialogs whose user turns carry a rewrite, and rows in the manner of QReCC.
"""

from __future__ import annotations

import gzip
import json
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import regex

from rewriter.protocol import Conversation, ExampleError, Message, Role

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "agent": "assistant", "system": "assistant"}


@dataclass(frozen=True, slots=True)
class RewriteExample:
    """One question in its conversation.

    `history` holds the messages before it, oldest first; `rewrite` is the question that stands alone, equal to
    `question` where nothing had to be added. `id` is unique within its file; `source` says where it comes from.
    Where a dialog says so: how the question refers to its history (`kind`), whether it can be answered, and what
    answers it, word for word (`evidence`).
    """

    id: str
    history: tuple[Message, ...]
    question: str
    rewrite: str
    source: str = ""
    kind: str = ""
    answerability: str = ""
    evidence: tuple[str, ...] = ()

    @property
    def conversation(self) -> Conversation:
        """The history as a rewriter takes it."""
        return Conversation(self.history)

    @property
    def needs_rewrite(self) -> bool:
        """Whether the rewrite says something else than the question; case, punctuation and spacing aside."""
        return normalised(self.rewrite) != normalised(self.question)

    @property
    def dialog(self) -> str:
        """The conversation an example belongs to, as far as its id tells (`<dialog>_<turn>`, `<dialog>#<turn>`)."""
        return regex.split(r"[#_](?=[^#_]*$)", self.id, maxsplit=1)[0]


def normalised(text: str) -> str:
    """Words and numbers only, case-folded: what two questions are compared by."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def read_examples(path: Path) -> Iterator[RewriteExample]:
    """Every example of a `.jsonl` or `.jsonl.gz` file, in its order.

    A line is one of three things: a row (`id, history, question, rewrite, source`), a dialog (`turns`, each with
    `role`, `text`, and for the user's turns `rewrite`), or a QReCC row (`_id, history, text, rewrite`). User turns of a
    dialog without a rewrite are history only.

    Raises ExampleError, naming file and line, for a line that is none of these, and for a file that cannot be read.
    """
    for where, line in read_lines(path):
        yield from _of_line(line, where, path.name.split(".", 1)[0])


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each line that is not blank, behind its place as messages name it. Raises ExampleError."""
    try:
        with _opened(path, "rt") as lines:
            yield from ((f"{path.name}, line {n}", line) for n, line in enumerate(lines, start=1) if line.strip())
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ExampleError(f"{path} cannot be read ({error}). Give a JSONL file in UTF-8.") from error


def write_examples(path: Path, examples: Iterable[RewriteExample]) -> int:
    """Write rows that `read_examples` reads back, compressed where the name ends in `.gz`; how many there were."""
    return write_lines(path, map(as_row, examples))


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows as lines of JSON, compressed where the name ends in `.gz`; how many there were."""
    count = 0
    with _opened(path, "wt") as file:
        for count, row in enumerate(rows, start=1):  # noqa: B007
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return count


def as_row(example: RewriteExample) -> dict[str, Any]:
    """The example as the JSON row `read_examples` understands."""
    return {
        "id": example.id,
        "history": [{"role": message.role, "text": message.text} for message in example.history],
        "question": example.question,
        "rewrite": example.rewrite,
        "source": example.source,
        **{key: value for key in ("kind", "answerability", "evidence") if (value := getattr(example, key))},
    }


def _of_line(line: str, where: str, source: str) -> Iterator[RewriteExample]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ExampleError(f"{where} is no JSON ({error.msg} at column {error.colno}).") from error
    if not isinstance(row, dict):
        raise ExampleError(f"{where} holds {type(row).__name__} where an object was expected.")
    if "turns" in row:
        yield from _of_dialog(row, where, source)
    elif "question" in row:
        yield _of_row(row, where, source, id_key="id", question_key="question")
    elif "text" in row:
        yield _of_row(row, where, source, id_key="_id", question_key="text")
    else:
        raise ExampleError(f"{where} has neither `turns` nor `question` nor `text`: it is no dialog and no example.")


def _of_row(row: dict[str, Any], where: str, source: str, *, id_key: str, question_key: str) -> RewriteExample:
    history = tuple(_message(value, f"{where}, history {n}") for n, value in enumerate(_list(row, "history", where), 1))
    return RewriteExample(
        id=str(row.get(id_key) or where),
        history=history,
        question=_text(row, question_key, where),
        rewrite=_text(row, "rewrite", where),
        source=str(row.get("source") or source),
        **_said(row),
    )


def _of_dialog(row: dict[str, Any], where: str, source: str) -> Iterator[RewriteExample]:
    dialog = str(row.get("dialog_id") or row.get("id") or where)
    source = str(row.get("source") or row.get("product") or source)
    history: list[Message] = []
    for n, raw in enumerate(_list(row, "turns", where), start=1):
        at = f"{where}, turn {n}"
        message = _message(raw, at)
        if message.role == "user" and isinstance(raw, dict) and raw.get("rewrite") is not None:
            rewrite = _text(raw, "rewrite", at)
            yield RewriteExample(f"{dialog}#{n}", tuple(history), message.text, rewrite, source, **_said(raw))
        history.append(message)


def _said(row: dict[str, Any]) -> dict[str, Any]:
    """Read the label of a row, in any case and, as in MTRAG, in a list."""
    evidence = row.get("evidence")
    quotes = (
        [quote.get("quote") if isinstance(quote, dict) else quote for quote in evidence]
        if isinstance(evidence, list)
        else []
    )
    fields: dict[str, Any] = {"evidence": tuple(quote for quote in quotes if isinstance(quote, str))}
    for key in ("kind", "answerability"):
        value = row.get(key)
        value = value[0] if isinstance(value, list) and value else value
        fields[key] = value.lower() if isinstance(value, str) else ""
    return fields


def _message(raw: object, where: str) -> Message:
    if not isinstance(raw, dict) or raw.get("role") not in _ROLES:
        raise ExampleError(f"{where} needs a `role` (user or assistant) and a `text`.")
    text = raw.get("text")
    if not isinstance(text, str):
        raise ExampleError(f"{where} has no `text`.")
    return Message(_ROLES[raw["role"]], text.strip())


def _list(row: dict[str, Any], key: str, where: str) -> list[object]:
    value = row.get(key, [])
    if not isinstance(value, list):
        raise ExampleError(f"{where}: `{key}` must be a list.")
    return value


def _text(row: dict[str, Any], key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ExampleError(f"{where} has no `{key}`, or an empty one.")
    return value.strip()


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[IO[str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, mode, encoding="utf-8", newline="\n") as file:
        yield cast("IO[str]", file)
