"""Start Python child processes so that nothing in the working directory can shadow a module; cores and memory.

A server runs for months, so its memory is kept from being scattered.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

_M_ARENA_MAX = -8
_ARENAS = 2


def python_command(*arguments: str) -> list[str]:
    """The command of an interpreter like this one, which looks for modules only where they are installed."""
    return [sys.executable, "-P", *arguments]


def python_environment(**changes: str) -> dict[str, str]:
    """This process's environment with `changes`, to go with `python_command`.

    Relative and empty entries of PYTHONPATH mean the working directory again, and are left out.
    """
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(entry for entry in entries if os.path.isabs(entry))
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": path, **changes}


def machine_cores() -> int:
    """Cores this process may use, which in a container can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_CGROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def machine_memory() -> int:
    """Bytes of memory this process may use: the machine's, or its container's where that is less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUPS:
        with suppress(OSError, ValueError):  # no such limit, or the word "max"
            sizes.append(int(path.read_text()))
    return min(sizes)


def has_gpu() -> bool:
    """Whether a GPU that vLLM knows is here: of NVIDIA or AMD."""
    return any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd"))


def share_heaps() -> None:
    """Let all threads take memory from two heaps, where the C library is glibc; to be called before threads begin.

    Each thread gets one of its own otherwise, which keeps what was freed and grows for as long as a server runs: by
    7 % from the 10,000th to the 100,000th turn (`benchmarks/soak.py`).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(_M_ARENA_MAX, _ARENAS)
