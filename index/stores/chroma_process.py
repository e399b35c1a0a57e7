"""Chroma's engine in processes of its own: on damaged files it may abort, and then ends nothing but its process.

A process serves one version at a time. What it reads is its own copy of the version's files, since Chroma writes into
those that it opens: so they stay as their checksums say, and any number of processes may read them. It ends with the
process that started it, however that ends. What is asked of Chroma, and what its answers mean, is
`index.stores.chroma`'s.

    parent                                          child (this file, run as a program)
      {"do": "open", "folder", "name", "mode"}   →
      {"do": "query" | "get" | …} [+ float32]    →
                                                 ← {…} or {"error"} [+ float32]
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np
from filelock import FileLock, Timeout

from index.encoders import Vectors

COPY = "vectors.open-"
"""Begins the names of copies in a version's folder; they are no part of the version."""
SECONDS = 120.0
"""What answers later than this is given up: damaged files can also make it loop."""

_INHERITED = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "LC_ALL", "TZ", "OMP_NUM_THREADS")
_IDLE = 1
_LOCK = "copy.lock"
_COPY_SECONDS = 60.0
_LAST_WORDS = 1 << 16

Mode: TypeAlias = Literal["create", "change", "read"]


class ChromaProcessError(Exception):
    """Chroma failed, or its process ended; the message says how."""


class ChromaCopyError(ChromaProcessError):
    """A version's files could not be copied, as they are before they are read."""


class ChromaProcess:
    """One process; used by one thread at a time, whoever comes later waits. Ended rather than mended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._pipe, theirs = Pipe()
        kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "index.stores.chroma_process", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                # Chroma reads settings from a file `.env` where it is started.
                cwd="/",
                # Ctrl-C in a terminal is the parent's business.
                start_new_session=True,
                env={**kept, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))},
            )
        except BaseException:
            self._pipe.close()
            self._errors.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, do: str, vectors: Vectors | None = None, **what: object) -> tuple[dict[str, Any], Vectors]:
        """The child's answer, and vectors where it has any. Raises ChromaProcessError."""
        with self._lock:
            try:
                _send(self._pipe, {"do": do, **what}, vectors)
                if not self._pipe.poll(SECONDS):
                    self._process.kill()
                    raise ChromaProcessError(f"Chroma did not answer within {SECONDS:g} seconds")
                answer, found = _receive(self._pipe)
            except (OSError, EOFError, ValueError) as error:
                raise ChromaProcessError(self._epitaph()) from error
        if "error" in answer:
            raise (ChromaCopyError if answer["copying"] else ChromaProcessError)(answer["error"])
        return answer, found

    def _epitaph(self) -> str:
        """How the process ended, with its last words."""
        self._process.kill()
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read()[-_LAST_WORDS:].decode("utf-8", "replace").split("\n")
        said = next((line for line in lines if "panicked" in line), "") or next(filter(None, reversed(lines)), "")
        ended = f"by signal {-code}" if code < 0 else f"with exit status {code}"
        return f"Chroma's process ended {ended}" + (f": {said.strip()[:300]}" if said else "")

    def end(self) -> None:
        self._pipe.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


class LocalCollection:
    """One version's collection in a process: the part of Chroma's own `Collection` that the store uses."""

    def __init__(self, folder: Path, name: str, mode: Mode, configuration: Mapping[str, Any]) -> None:
        self._process = _take()
        files = str(folder.absolute())
        try:
            self._process.ask("open", folder=files, name=name, mode=mode, configuration=configuration)
        except BaseException:
            self._process.end()
            raise

    def count(self) -> int:
        count: int = self._process.ask("count")[0]["count"]
        return count

    def query(
        self, query_embeddings: Vectors, n_results: int, ids: Sequence[str] | None, include: Sequence[str]
    ) -> dict[str, Any]:
        return self._process.ask("query", query_embeddings, n_results=n_results, ids=ids, include=include)[0]

    def get(self, ids: Sequence[str], include: Sequence[str]) -> dict[str, Any]:
        answer, vectors = self._process.ask("get", ids=ids, include=include)
        return {**answer, "embeddings": vectors}

    def upsert(self, ids: Sequence[str], embeddings: Vectors) -> None:
        self._process.ask("upsert", embeddings, ids=ids)

    def delete(self, ids: Sequence[str]) -> None:
        self._process.ask("delete", ids=ids)

    def close(self) -> None:
        try:
            self._process.ask("close")
        except ChromaProcessError:
            self._process.end()
        else:
            _give_back(self._process)


_idle: list[ChromaProcess] = []
_lock = threading.Lock()


def _take() -> ChromaProcess:
    """A process without a version: starting one takes most of a second."""
    with _lock:
        while _idle:
            process = _idle.pop()
            if process.alive:
                return process
            process.end()
    return ChromaProcess()


def _give_back(process: ChromaProcess) -> None:
    with _lock:
        if len(_idle) < _IDLE:
            _idle.append(process)
            return
    process.end()


@atexit.register
def _end_idle() -> None:
    with _lock:
        while _idle:
            _idle.pop().end()


def _send(pipe: Connection, message: Mapping[str, object], vectors: Vectors | None = None) -> None:
    shape = None if vectors is None else vectors.shape
    pipe.send_bytes(json.dumps({**message, "shape": shape}).encode())
    if vectors is not None:
        pipe.send_bytes(np.ascontiguousarray(vectors, dtype="<f4").tobytes())


def _receive(pipe: Connection) -> tuple[dict[str, Any], Vectors]:
    message = json.loads(pipe.recv_bytes())
    shape = message.pop("shape")
    data = pipe.recv_bytes() if shape else b""
    return message, np.frombuffer(data, dtype="<f4").reshape(shape or (0, 0))


# From here on: the child.


class _Version:
    """One version, open in Chroma: its own files where they are written, a copy where they are read."""

    def __init__(self, folder: Path, copy: _Copy | None, name: str, mode: Mode, configuration: dict[str, Any]) -> None:
        from chromadb import PersistentClient
        from chromadb.config import Settings

        self.copy = copy
        place = copy.folder if copy else folder
        self._client: Any = PersistentClient(str(place), settings=Settings(anonymized_telemetry=False))
        if mode == "create":
            made: dict[str, Any] = {"configuration": configuration, "embedding_function": None}
            self.collection: Any = self._client.create_collection(name, **made)
        else:
            self.collection = self._client.get_collection(name, embedding_function=None)

    def close(self) -> None:
        self._client.close()
        if self.copy:
            self.copy.remove()


class _Copy:
    """A version's files to be read: Chroma would change them.

    It lies beside them, or in the system's temporary folder where nothing may be written beside them. A killed
    process leaves it to the next one. Raises OSError.
    """

    def __init__(self, files: Path) -> None:
        try:
            _remove_left(files.parent)
            self.folder = Path(tempfile.mkdtemp(prefix=COPY, dir=files.parent))
        except OSError:
            self.folder = Path(tempfile.mkdtemp(prefix=COPY))
        self._lock = FileLock(self.folder / _LOCK)
        try:
            self._lock.acquire(timeout=0)
            shutil.copytree(files, self.folder, dirs_exist_ok=True)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        self._lock.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def _remove_left(folder: Path) -> None:
    """Remove copies whose process was killed."""
    for copy in folder.glob(f"{COPY}*"):
        lock = FileLock(copy / _LOCK)
        with suppress(OSError, Timeout):
            # One that was made a moment ago may not be locked yet.
            if time.time() - copy.stat().st_mtime > _COPY_SECONDS:
                with lock.acquire(timeout=0):
                    shutil.rmtree(copy, ignore_errors=True)


def _answer(collection: Any, do: str, what: dict[str, Any], vectors: Vectors) -> tuple[dict[str, Any], Vectors | None]:
    if do == "count":
        return {"count": collection.count()}, None
    if do == "query":
        found = collection.query(query_embeddings=vectors, **what)
        return {"ids": found["ids"], "distances": found["distances"]}, None
    if do == "get":
        found = collection.get(**what)
        return {"ids": found["ids"]}, np.asarray(found["embeddings"], dtype=np.float32)
    if do == "upsert":
        collection.upsert(embeddings=vectors, **what)
    elif do == "delete":
        collection.delete(**what)
    return {}, None


def _serve(pipe: Connection) -> None:
    """Answer requests until the parent is gone, which ends this process in the middle of anything."""
    requests: queue.SimpleQueue[tuple[dict[str, Any], Vectors]] = queue.SimpleQueue()
    version: _Version | None = None

    def listen() -> None:
        try:
            while True:
                requests.put(_receive(pipe))
        except (OSError, EOFError):
            if version and version.copy:
                version.copy.remove()
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        what, vectors = requests.get()
        do = what.pop("do")
        answer: tuple[dict[str, Any], Vectors | None] = ({}, None)
        copying = False
        try:
            if do == "open":
                folder, copying = Path(what.pop("folder")), what["mode"] == "read"
                copy = _Copy(folder) if copying else None
                copying = False
                try:
                    version = _Version(folder, copy, **what)
                except BaseException:
                    if copy:
                        copy.remove()
                    raise
            elif version is not None and do == "close":
                version.close()
                version = None
            elif version is not None:
                answer = _answer(version.collection, do, what, vectors)
        except _failures() as error:
            answer = {"error": str(error), "copying": copying}, None
        _send(pipe, *answer)


def _failures() -> tuple[type[Exception], ...]:
    from chromadb.errors import ChromaError

    return ChromaError, OSError, ValueError, KeyError, TypeError


if __name__ == "__main__":
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _serve(Connection(int(sys.argv[1])))
