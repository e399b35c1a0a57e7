"""Web interface: a chat page with sources, conversations and uploads.

`mount(app, service)` puts the page on a FastAPI app; it knows the server by `server.chat`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from server.chat import ChatService

__all__ = ["mount"]


def mount(app: FastAPI, service: ChatService) -> FastAPI:
    """Mount the page at `/` of `app` and return the app; its lifespan runs the page's too."""
    from ui.app import mount_page

    return mount_page(app, service)
