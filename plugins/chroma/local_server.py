"""A Chroma server of our own: `chroma run` on a loopback port, as a child, over the folder of one collection.

Chroma's files have one owner, so every process of a home asks the same server. The process that starts it writes the
address into `server.json` beside the files; others read it there. The child ends when the process that started it ends,
however that happens: it watches the pipe to its parent. A process that finds the server gone starts its own.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from filelock import FileLock

from index.errors import StorageError
from text.files import write_json

FOLDER = "chroma"
ADDRESS = "server.json"
START_SECONDS = 60.0
_children: dict[Path, subprocess.Popen[bytes]] = {}


def local_server(folder: Path) -> str:
    """Return the address of the server over `folder/chroma`, started here if none answers.

    Raises StorageError if it does not start.
    """
    data = folder.absolute() / FOLDER
    data.mkdir(parents=True, exist_ok=True)
    with FileLock(data / "server.lock"):
        url = _recorded(data)
        if url and _answers(url):
            return url
        return _start(data)


def _recorded(data: Path) -> str:
    try:
        return str(json.loads((data / ADDRESS).read_text("utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _answers(url: str) -> bool:
    import httpx

    try:
        return httpx.get(f"{url}/api/v2/heartbeat", timeout=2.0, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _start(data: Path) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (data / "server.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "plugins.chroma.local_server", str(data), str(port)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    _stop(data)
    _children[data] = child
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + START_SECONDS
    while not _answers(url):
        if child.poll() is not None or time.monotonic() > until:
            _stop(data)
            raise StorageError(f"the Chroma server over {data} did not start: {data / 'server.log'} says why")
        time.sleep(0.05)
    write_json(data / ADDRESS, {"url": url, "pid": child.pid})
    return url


def _stop(data: Path) -> None:
    child = _children.pop(data, None)
    if child is None:
        return
    if child.stdin is not None:
        child.stdin.close()
    child.terminate()
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def stop_servers() -> None:
    """End every server that this process started."""
    for data in list(_children):
        _stop(data)


atexit.register(stop_servers)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)


def main() -> None:
    """Run the server over the folder and on the port of the command line, as long as the parent lives."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from chromadb.cli.cli import app

    sys.argv = ["chroma", "run", "--host", "127.0.0.1", "--port", sys.argv[2], "--path", sys.argv[1]]
    sys.exit(app())  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
