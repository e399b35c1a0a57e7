"""A small program in place of a command that the server starts: it trains a little, waits, and is done the second time.

With `--seed=13` it fails then.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def stand_in(patch: pytest.MonkeyPatch) -> None:
    """Let the server start this instead of `anaphora`."""
    from server.runs import commands

    patch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    patch.setattr(commands, "_MODULE", "tests.stand_in_command")


def main() -> None:
    from cli.shared.child import watch

    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=watch, daemon=True).start()
    out = Path(next(word for word in sys.argv if word.startswith("--out=")).removeprefix("--out="))
    again = (out / "begun").exists()
    (out / "begun").touch()
    print("docs: pairs: 1,200 examples\npairs: 7 of 20", flush=True)
    print("docs: step 10/40: loss 1.250\ndocs: step 20/40: loss 0.750\ndocs: step 20/40: dev loss 0.900", flush=True)
    try:
        while not again:
            time.sleep(0.01)
    except KeyboardInterrupt:
        print("Stopped.", flush=True)
        sys.exit(130)
    (out / "dialogs.train.jsonl").touch()
    if "--seed=13" in sys.argv:
        print("error: The model <b>failed</b>.")
        sys.exit(os.EX_SOFTWARE)


if __name__ == "__main__":
    main()
