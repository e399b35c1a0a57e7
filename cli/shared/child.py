"""A command as a child of the server: `python -P -m cli.shared.child ARGUMENTS…` is `anaphora ARGUMENTS…`.

The parent keeps standard input open: when it closes, for whatever reason, the command is interrupted as by Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import threading


def watch() -> None:
    """Interrupt this process once its standard input closes."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    from cli import main

    # A server that runs in the background may have been started with Ctrl-C turned off.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Turns go first: people wait for them.
    os.nice(5)
    threading.Thread(target=watch, daemon=True).start()
    main()
