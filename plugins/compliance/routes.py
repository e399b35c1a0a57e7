"""Reading the audit log over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from plugins.compliance import audit_log
from plugins.compliance.audit_log import AuditRecord
from server.api.dependencies import Listing, Service
from server.chat.authorization import ServiceBase, requires

router = APIRouter(tags=["Access"])

Seconds = Annotated[float, Query(ge=0, le=1e12, description="Seconds since the epoch.")]


class AuditService(ServiceBase):
    """Acts in the principal's groups; acts without a group are for operators of every one."""

    @requires("audit")
    async def rows(self, /, **filters: Any) -> list[AuditRecord]:
        """Return rows, oldest first; `filters` are those of `audit_log.listing`."""
        shown = {name: value for name, value in filters.items() if value and name != "limit"}
        await self.account("log.read", detail=shown)
        groups = None if self.principal.everywhere else self.principal.groups
        return await self._read(lambda connection: audit_log.listing(connection, groups=groups, **filters))


@router.get("/v1/audit", summary="Read who did what")
async def read_audit(
    service: Service,
    since: Seconds = 0.0,
    until: Seconds = 1e12,
    principal: Annotated[str, Query(max_length=400, description="Only what this principal did.")] = "",
    action: Annotated[str, Query(max_length=80, description="Only this action, such as `key.create`.")] = "",
    after: Annotated[int, Query(ge=0, le=2**62, description="Only rows after this number: the way to go on.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Listing[AuditRecord]:
    """List the acts in your groups; operators of every group also see logins and other entries without a group."""
    filters = {"since": since, "until": until, "principal": principal, "action": action, "after": after, "limit": limit}
    return Listing(data=await AuditService(service.core, service.principal).rows(**filters))
