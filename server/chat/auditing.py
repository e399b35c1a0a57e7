"""The part of the service that shows the audit log."""

from __future__ import annotations

from server.chat.acting import Acting, acting
from server.store import audit
from server.store.records import AuditRecord

MAX_ROWS = 1000


class AuditMixin(Acting):
    """What was done in the groups of whoever asks; what belongs to no group is for operators of every one."""

    @acting("audit")
    async def audit_rows(
        self,
        *,
        since: float = 0.0,
        until: float | None = None,
        principal: str = "",
        action: str = "",
        after: int = 0,
        limit: int = 100,
    ) -> list[AuditRecord]:
        """Rows after number `after`, oldest first; times are seconds since the epoch."""
        groups = None if self.principal.everywhere else self.principal.groups
        asked = {"since": since, "until": until, "principal": principal, "action": action, "after": after}
        await self.account("log.read", detail={name: value for name, value in asked.items() if value})
        return await self._read(
            audit.listing,
            since=since,
            until=until,
            principal=principal,
            action=action,
            groups=groups,
            after=after,
            limit=max(1, min(limit, MAX_ROWS)),
        )
