"""Files are parsed in processes of their own, which may be killed at any moment.

Documents are hostile. So a worker (this module as a program) reads one file at a time under limits of time and memory,
without network and without writing, and answers in JSON, of which nothing is executed.

    parent                                                   worker
                                                           ← {}  (ready)
      {"path", "document_id", "max_file_mb", "draw": null} → {"documents", "warnings"} or {"error"}
                          "draw": [page, pixels]}          → {"png", "width", "height"}, {"missing"} or {"error"}
                                                           ← an empty line before each step of recognising a page (OCR)
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from index.documents import Document
from index.errors import IndexingCancelled, LoadError, PageMissing, ParserKilled
from index.loaders.files import load
from index.loaders.reading import MEBIBYTE, find_recogniser

_PROGRAM = "from index.loaders.sandbox import serve; serve()"
_POLL_SECONDS = 0.05
_START_SECONDS = 60.0
_NEEDED = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TESSDATA_PREFIX", "TZ", "TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "SYSTEMROOT"}
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of parsing one file: seconds on the clock, MiB of memory of the whole worker.

    `ocr_seconds` is what recognising the pages of a PDF may take beside that, each step at most `seconds`;
    `ocr_languages` are those of Tesseract, such as `eng+deu`, empty for no recognition.
    """

    seconds: float = 60.0
    memory_mb: int = 2048
    ocr_seconds: float = 300.0
    ocr_languages: str = "eng"


class PagePicture(NamedTuple):
    """A page as PNG; its size in points is what boxes count in."""

    png: bytes
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Parsed:
    """The documents of a file, and what was left out of it."""

    documents: list[Document]
    warnings: list[str]


class ParserPool:
    """Workers that parse files; they are started when needed and kept for the next file. Safe to share by threads.

    Closing it ends them.
    """

    def __init__(self, limits: Limits = Limits()) -> None:
        self.limits = limits
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Callable[[Limits], ParserPool], tuple[Limits]]:
        """In another process it is that one's own."""
        return shared_pool, (self.limits,)

    def parse(
        self, path: Path, document_id: str, max_file_mb: float, cancelled: Callable[[], bool] = lambda: False
    ) -> Parsed:
        """The documents of a file, as `index.loaders.load` gives them.

        Raises LoadError; ParserKilled where a limit was reached or the parser died; IndexingCancelled within a tenth
        of a second once `cancelled` says so.
        """
        request = {"path": str(path), "document_id": document_id, "max_file_mb": max_file_mb, "draw": None}
        reply = self._ask(path, request, cancelled)
        return Parsed(list(map(Document.of, reply["documents"])), list(map(str, reply["warnings"])))

    def draw(self, path: Path, page: int, pixels: int, max_file_mb: float) -> PagePicture:
        """A page of a PDF, counted from 1, so many pixels wide. Raises PageMissing, LoadError or ParserKilled."""
        request = {"path": str(path), "document_id": "", "max_file_mb": max_file_mb, "draw": (page, pixels)}
        reply = self._ask(path, request, lambda: False)
        if "missing" in reply:
            raise PageMissing(str(reply["missing"]))
        return PagePicture(base64.b64decode(reply["png"]), float(reply["width"]), float(reply["height"]))

    def _ask(self, path: Path, request: dict[str, Any], cancelled: Callable[[], bool]) -> dict[str, Any]:
        used = False
        try:
            with self._worker() as worker:
                used = worker.used
                reply = worker.ask(path.name, request, cancelled)
        except ParserKilled as error:
            if not used or not error.died:
                raise
            # Its memory may have been full of earlier files: a fresh one tells whether this file is to blame.
            with self._worker(fresh=True) as worker:
                reply = worker.ask(path.name, request, cancelled)
        if "error" in reply:
            raise LoadError(str(reply["error"]))
        return reply

    def close(self) -> None:
        """End the workers that wait; those at work end with their file."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()

    @contextmanager
    def _worker(self, *, fresh: bool = False) -> Iterator[_Worker]:
        with self._lock:
            worker = self._idle.pop() if self._idle and not fresh else None
        if worker is not None and not worker.usable:
            worker.kill()
            worker = None
        worker = worker or _Worker(self.limits)
        try:
            yield worker
        except BaseException:
            worker.kill()
            raise
        with self._lock:
            self._idle.append(worker)


@cache
def shared_pool(limits: Limits) -> ParserPool:
    """The pool of this process with these limits, for whoever brings none; it ends with the process."""
    pool = ParserPool(limits)
    atexit.register(pool.close)
    return pool


class _Worker:
    """One process; it is used by one thread at a time, and killed rather than mended."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._path = _path()
        self.used = self._ready = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps(asdict(limits))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**_environment(), "PYTHONPATH": self._path},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)

    @property
    def usable(self) -> bool:
        """Whether it runs, and finds the modules that this process finds."""
        return self._process.poll() is None and self._path == _path()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._selector.close()
        for pipe in (self._input, self._output):
            with suppress(OSError):
                pipe.close()

    def ask(self, name: str, request: dict[str, Any], cancelled: Callable[[], bool]) -> dict[str, Any]:
        """The answer about a file. Raises ParserKilled or IndexingCancelled; the caller kills the worker then."""
        if not self._ready:
            self._answer(name, cancelled, _START_SECONDS)
            self._ready = True
        try:
            self._input.write(json.dumps(request).encode() + b"\n")
            self._input.flush()
        except OSError as error:
            raise ParserKilled(
                f"{name} could not be parsed: the parser's process ended ({error})", died=True
            ) from error
        self.used = True
        return self._answer(name, cancelled, self._limits.seconds)

    def _answer(self, name: str, cancelled: Callable[[], bool], seconds: float) -> dict[str, Any]:
        """The worker's next line, which may take so many seconds, and beside them what recognising pages may."""
        most = self._limits.memory_mb * MEBIBYTE
        deadline = time.monotonic() + seconds
        latest = deadline + self._limits.ocr_seconds
        line = bytearray()
        while True:
            answered = self._selector.select(_POLL_SECONDS)
            if cancelled():
                raise IndexingCancelled(f"stopped while {name} was read")
            if time.monotonic() > (latest if answered else deadline):
                raise ParserKilled(f"{name} was given up: reading it takes more than {seconds:g} seconds")
            if not answered:
                continue
            piece = os.read(self._output.fileno(), MEBIBYTE)
            if not piece or len(line) + len(piece) > most:
                raise ParserKilled(
                    f"{name} was given up: reading it takes more than {self._limits.memory_mb} MiB of memory, "
                    "or ends the parser",
                    died=True,
                )
            # Empty lines say that the worker is about to recognise a page, or a line of it.
            line += piece.lstrip(b"\n") if not line else piece
            if line.endswith(b"\n"):
                reply: dict[str, Any] = json.loads(line)
                return reply
            deadline = min(time.monotonic() + seconds, latest)


def _environment() -> dict[str, str]:
    """Return the environment variables Python needs; keys and settings are withheld from a parser.

    It works in one thread: those that OpenBLAS starts for each processor would take up the memory it may have.
    """
    kept = {name: value for name, value in os.environ.items() if name in _NEEDED or name.startswith(("LC_", "PYTHON"))}
    return {**kept, "OPENBLAS_NUM_THREADS": "1"}


def _path() -> str:
    return os.pathsep.join(filter(None, sys.path))


def serve() -> None:
    """Be a worker: answer requests on standard input until it ends."""
    limits = Limits(**json.loads(sys.argv[1]))
    # The commonest format is at hand before the first file's time begins.
    import index.loaders.markdown  # noqa: F401

    replies = os.fdopen(os.dup(1), "wb")
    # What a parser prints is nobody's reply.
    os.dup2(2, 1)
    program = find_recogniser()
    _confine(limits, program)

    def working() -> None:
        """An empty line says that recognising goes on, which takes a while."""
        _allow_seconds(limits.seconds)
        replies.write(b"\n")
        replies.flush()

    replies.write(b"{}\n")
    replies.flush()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        path, max_file_mb = Path(request["path"]), float(request["max_file_mb"])
        _allow_seconds(limits.seconds)
        # A MemoryError is not caught: this process is of no use after it.
        try:
            if request["draw"]:
                from index.loaders.pdf.loading import drawn

                page, pixels = request["draw"]
                reply = drawn(path, page, pixels, int(max_file_mb * MEBIBYTE))
            else:
                warnings: list[str] = []
                recogniser = None
                if path.suffix.lower() == ".pdf":
                    from index.loaders.pdf.recognising import Recogniser

                    # A page ends before the parent's patience does.
                    patience = limits.ocr_seconds, 0.8 * limits.seconds
                    recogniser = Recogniser(program, limits.ocr_languages, *patience, working)
                documents = load(path, request["document_id"], max_file_mb, warnings.append, recogniser)
                reply = {"documents": documents, "warnings": warnings}
        except LoadError as error:
            reply = {"error": str(error)}
        replies.write(json.dumps(reply, default=attrgetter("values")).encode() + b"\n")
        replies.flush()


def _confine(limits: Limits, program: str) -> None:
    """Bound what this process can do. Limits that a system lacks are skipped: the parent's clock holds everywhere.

    `program` is the one that it may start, under the same limits; the name of a package starts none.
    """
    _leave_network(program)
    try:
        import resource
    except ImportError:
        return
    for what, most in ((resource.RLIMIT_AS, limits.memory_mb * MEBIBYTE), (resource.RLIMIT_FSIZE, 0),
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
