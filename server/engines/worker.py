"""The process of the local engine: llama.cpp's server on a Unix socket, and nothing else.

    python -m server.engines.worker

Its parent writes one line of JSON to standard input (see `EngineJob`) and keeps the pipe open; the answer on
standard output is `{"ready": true}` once the model answers, or `{"error": "…"}`. When the pipe closes, for
whatever reason, the process ends: an engine never outlives its server. Logs go to standard error.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from typing import IO, Any

from server.engines.base import EngineJob

_PROMPT_CACHE_MIB = 256
_WARNINGS = 2


def serve(job: EngineJob) -> Any:
    """Load the model and listen; returns the running server, which lives as long as it is referred to.

    Raises RuntimeError when the file cannot be loaded.
    """
    import xllamacpp  # type: ignore[import-untyped]

    params = xllamacpp.CommonParams()
    params.model.path = job.model
    params.model_alias = {os.path.basename(job.model)}
    params.hostnames = [job.socket]
    # Each slot has a cache of its own: with a unified one, attention would run over the other requests too.
    params.n_ctx = job.context_tokens * job.parallel
    params.n_parallel = job.parallel
    params.fit_params = False
    params.cpuparams.n_threads = job.threads
    params.cpuparams_batch.n_threads = job.threads
    # The default keeps up to 8 GiB of old prompts in memory.
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    # Only our own client talks to the socket, and no browser.
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = _WARNINGS
    return xllamacpp.Server(params)


def main() -> None:
    """Serve until standard input closes."""
    # Ctrl-C in a terminal goes to the server, which ends its turns first and then closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = _keep_stdout()
    job = EngineJob(**json.loads(sys.stdin.readline()))
    with suppress(FileNotFoundError):
        os.unlink(job.socket)
    try:
        server = serve(job)  # noqa: F841 (it lives as long as it is referred to)
    except RuntimeError as error:
        _say(answers, {"error": str(error)})
        raise SystemExit(1) from None
    _say(answers, {"ready": True})
    while sys.stdin.read(1):
        pass
    shutil.rmtree(os.path.dirname(job.socket), ignore_errors=True)
    # Requests in flight have nobody left who would read them.
    os._exit(0)


def _keep_stdout() -> IO[str]:
    """Standard output for our answers alone: what the library prints there goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _say(answers: IO[str], message: dict[str, Any]) -> None:
    print(json.dumps(message), file=answers, flush=True)


if __name__ == "__main__":
    main()
