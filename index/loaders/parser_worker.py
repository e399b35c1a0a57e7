"""The program that opens files: started by `index.loaders.sandbox`, which says what goes over the pipes, and confined.

Whatever a file makes of this process, all that it can do is answer, or end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from shutil import which
from typing import Any

from index.documents import Document, Section, section_values
from index.errors import LoadError
from index.loaders.reading import Layout

_MEBIBYTE = 1 << 20
_DOCUMENT = attrgetter(*(field.name for field in fields(Document)))


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of parsing one file: seconds on the clock, MiB of memory of the whole worker.

    `layout` says how a PDF is read (`index.loaders.pdf`), `ocr_seconds` what recognising its pages may take beside
    that, each page at most `seconds`, and `ocr_languages` in which languages of Tesseract.
    """

    seconds: float = 60.0
    memory_mb: int = 2048
    layout: Layout = "auto"
    ocr_seconds: float = 300.0
    ocr_languages: str = "eng"


def _serve(limits: Limits) -> None:
    """Answer requests on standard input until it ends."""
    # The commonest format is at hand before the first file's time begins.
    from index.loaders import markdown  # noqa: F401

    replies = os.fdopen(os.dup(1), "wb")
    # What a parser prints is nobody's reply.
    os.dup2(2, 1)
    tesseract = which("tesseract") or ""
    _confine(limits, tesseract)

    def working() -> None:
        """An empty line says that a page is about to be recognised, which takes a while."""
        replies.write(b"\n")
        replies.flush()

    replies.write(b"{}\n")
    replies.flush()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        for path, document_id in request["files"]:
            _allow_seconds(limits.seconds)
            # A MemoryError is not caught: this process is of no use after it.
            if request["draw"]:
                reply = _picture(Path(path), request["draw"], float(request["max_file_mb"]))
            else:
                reply = _reply(Path(path), document_id, request, limits, tesseract, working)
            replies.write(reply + b"\n")
            replies.flush()


def _reply(
    path: Path,
    document_id: str,
    request: dict[str, Any],
    limits: Limits,
    tesseract: str,
    working: Callable[[], None],
) -> bytes:
    from index.loaders.files import load

    warnings: list[str] = []
    reply: dict[str, Any] = {"warnings": warnings}
    reading: dict[str, Any] = {}
    if path.suffix.lower() == ".pdf":
        from index.loaders.pdf.composing import told
        from index.loaders.pdf.loading import Recogniser

        # A page ends before the parent's patience does.
        page_seconds = 0.8 * limits.seconds
        reading["recogniser"] = Recogniser(tesseract, limits.ocr_languages, limits.ocr_seconds, page_seconds, working)
        if request["regions"]:
            reading["keep"] = lambda content: reply.update(regions=told(content.regions))
    try:
        reply["documents"] = load(
            path, document_id, float(request["max_file_mb"]), warnings.append, limits.layout, **reading
        )
    except LoadError as error:
        return json.dumps({"error": str(error)}).encode()
    return json.dumps(reply, default=_values).encode()


def _picture(path: Path, draw: tuple[int, int], max_file_mb: float) -> bytes:
    from index.loaders.pdf.loading import drawn

    try:
        return json.dumps(drawn(path, *draw, int(max_file_mb * _MEBIBYTE))).encode()
    except LoadError as error:
        return json.dumps({"error": str(error)}).encode()


def _values(value: Document | Section) -> tuple[Any, ...]:
    """Return the field values in order; far faster than `asdict`."""
    fields: tuple[Any, ...] = _DOCUMENT(value) if isinstance(value, Document) else section_values(value)
    return fields


def _confine(limits: Limits, program: str) -> None:
    """Bound what this process can do. Limits that a system lacks are skipped: the parent's clock holds everywhere.

    `program` is the one that it may start, under the same limits.
    """
    _leave_network(program)
    try:
        import resource
    except ImportError:
        return
    for what, most in ((resource.RLIMIT_AS, limits.memory_mb * _MEBIBYTE), (resource.RLIMIT_FSIZE, 0),
                       (resource.RLIMIT_CORE, 0)):  # fmt: skip
        with suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))


def _allow_seconds(seconds: float) -> None:
    """Let this process end by itself where its parent was killed while it was at work."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + 2 * seconds) + 2, hard))


def _leave_network(program: str) -> None:
    """Enter a network namespace without any device, where the kernel lets us; refuse Python's sockets everywhere."""
    import ctypes

    new_net, new_user = 0x40000000, 0x10000000
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        if libc.unshare(new_net) != 0:
            libc.unshare(new_net | new_user)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and program and arguments[0] == program:
            return
        if event.startswith(("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.fork", "os.system")):
            raise PermissionError(f"a parser may not use {event}")

    sys.addaudithook(refuse)


if __name__ == "__main__":
    _serve(Limits(**json.loads(sys.argv[1])))
