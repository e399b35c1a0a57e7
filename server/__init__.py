"""The server: settings, language models, the turn, the chat service, storage, and the HTTP API over them.

What is named here is all that a program needs to serve, and is imported when it is first used:
`create_app(service, settings)` within `async with open_service(settings) as service`; and a client of such a server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server.api.app import create_app
    from server.chat import ChatError, ChatService, open_service
    from server.client import AnaphoraClient, ApiError
    from server.settings import Settings

__all__ = ["AnaphoraClient", "ApiError", "ChatError", "ChatService", "Settings", "create_app", "open_service"]

_HOME = {
    "AnaphoraClient": "server.client",
    "ApiError": "server.client",
    "ChatError": "server.chat",
    "ChatService": "server.chat",
    "Settings": "server.settings",
    "create_app": "server.api.app",
    "open_service": "server.chat",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
