"""Ownership the rows of a test are, and who sees them, where neither matters."""

from __future__ import annotations

from server.access import DEFAULT_GROUP, LOCAL, Ownership

ALL = LOCAL
MINE = Ownership(LOCAL.id, DEFAULT_GROUP)
