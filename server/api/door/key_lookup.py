"""Whose a key is that somebody shows, for those who are not wrong too often; refusals are in the audit log."""

from __future__ import annotations

from server.access.principals import Principal
from server.api.door.throttle import LoginThrottle
from server.audit_log import note
from server.store import Database, keys
from server.store.keys import ApiKey


class KeyLookup:
    """One for all ways in, so that an address has as many tries by all of them together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._throttle = LoginThrottle()

    async def find(self, address: str, secret: str) -> tuple[ApiKey | None, int]:
        """The key that an address shows, if it is one; and in how many seconds it may show the next after too many
        wrong ones. Raises StoreError."""
        if wait := self._throttle.wait(address, secret):
            return None, wait
        key = await self._database.read(keys.check, secret)
        if key is None:
            return None, self.wrong(address, "key.refuse")
        self._throttle.right(address, secret)
        return key, 0

    def wait(self, address: str) -> int:
        """In how many seconds an address may try again."""
        return self._throttle.wait(address)

    def wrong(self, address: str, action: str) -> int:
        """Count that somebody was refused; seconds to wait where there are too many, of whom the log tells nothing."""
        # Tries that came together were all let through to here.
        wait = self._throttle.wait(address) or self._throttle.wrong(address)
        if not wait:
            note(self._database, Principal("", "nobody", "reader", frozenset(), address), action, outcome="refused")
        return wait
