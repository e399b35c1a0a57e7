"""Web interface: a chat page with sources, conversations and uploads.

`mount(app, service)` puts the page on a FastAPI app; it knows the server by `server.chat`. `load_page()` imports what
that takes, beforehand and in any thread.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

    from server.chat import ChatService

__all__ = ["load_page", "mount"]


def mount(app: FastAPI, service: ChatService) -> FastAPI:
    """Mount the page at `/` of `app` and return the app; its lifespan runs the page's too."""
    load_page()
    from ui.app import mount_page

    return mount_page(app, service)


def load_page() -> None:
    """Import what the page consists of. It takes a second or two, and may be called in any thread."""
    with _without_stubs():
        import ui.app  # noqa: F401


@contextmanager
def _without_stubs() -> Iterator[None]:
    """Keep Gradio from writing a type stub beside each of its components, which is two fifths of its import.

    It looks for a component's source by `inspect.getfile`, and goes on where that raises OSError.
    """
    original = inspect.getfile

    def getfile(thing: Any) -> str:
        if str(getattr(thing, "__module__", "")).startswith("gradio."):
            raise OSError("no stub is to be written")
        return original(thing)

    inspect.getfile = getfile  # type: ignore[assignment]  # whose parameter bears a builtin's name
    try:
        yield
    finally:
        inspect.getfile = original
