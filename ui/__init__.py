"""Web interface: a chat page with sources, conversations and uploads.

`mount(app, service)` puts the page on a FastAPI app; it knows the server by `server.chat`. `load_page()` imports what
that takes, beforehand and in any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ui.loading import load_page

if TYPE_CHECKING:
    from fastapi import FastAPI

    from server.chat import ChatService

__all__ = ["load_page", "mount"]


def mount(app: FastAPI, service: ChatService) -> FastAPI:
    """Mount the page at `/` of `app` and return the app; its lifespan runs the page's too."""
    load_page()
    from ui.app import mount_page

    return mount_page(app, service)
