"""What `server.processes` makes of a process, seen in one of its own."""

from __future__ import annotations

import platform
import subprocess

import pytest

from server.processes import python_command, python_environment

_HEAPS = """
import ctypes, threading
from server.processes import share_heaps
libc = ctypes.CDLL("libc.so.6")
libc.fdopen.restype = ctypes.c_void_p
{call}
def take(gate):
    held = ctypes.create_string_buffer(50_000)
    gate.wait()
gate = threading.Barrier(9)
threads = [threading.Thread(target=take, args=(gate,)) for _ in range(8)]
for thread in threads:
    thread.start()
file = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, file)
libc.fflush(file)
gate.wait()
"""


def heaps(call: str) -> int:
    command = python_command("-c", _HEAPS.replace("{call}", call))
    run = subprocess.run(command, env=python_environment(), capture_output=True, text=True, timeout=180, check=True)
    return run.stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives every thread a heap of its own")
def test_threads_share_two_heaps() -> None:
    assert heaps("pass") > 2
    assert heaps("share_heaps()") <= 2
