"""The door of the server, as ASGI middleware: what every request passes before a route sees it.

Each part knows one thing: which names and origins are answered, how long a body may be, who sends a request and how
often, what a browser is told. What a principal may do once inside is not decided here (`server.access`).
"""

from server.api.door.bodies import BodyLimit
from server.api.door.guard import KeyGuard
from server.api.door.headers import SecurityHeaders
from server.api.door.origins import OriginGuard, is_loopback
from server.api.door.quotas import RequestLimit

__all__ = ["BodyLimit", "KeyGuard", "OriginGuard", "RequestLimit", "SecurityHeaders", "is_loopback"]
