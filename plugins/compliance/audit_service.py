"""The audit log in a running server: reading it over HTTP, cutting off old rows, checking the chain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import inspect

from plugins.compliance import ComplianceSettings, audit_log
from plugins.compliance.audit_log import AuditRecord
from server.api.dependencies import Listing, Service
from server.chat.base import ServiceBase, requires
from server.installation import Finding
from server.settings import Settings
from server.store import StoreError
from server.store.database import read_only

if TYPE_CHECKING:
    from server.chat import ChatService

router = APIRouter(tags=["Access"])

Seconds = Annotated[float, Query(ge=0, le=1e12, description="Seconds since the epoch.")]


class AuditService(ServiceBase):
    """Acts in the principal's groups; acts without a group are for operators of every one."""

    @requires("audit")
    async def rows(self, /, **filters: Any) -> list[AuditRecord]:
        """Return rows, oldest first; `filters` are those of `audit_log.listing`."""
        filtered = {name: value for name, value in filters.items() if value and name != "limit"}
        await self.account("log.read", detail=filtered)
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


async def trim_expired(service: ChatService) -> None:
    """Delete rows older than `plugins.compliance.days`, now and every hour."""
    from server.chat.service import purge_expired

    days = service.core.settings.of(ComplianceSettings).days
    await purge_expired(service.core.database, "rows of the audit log", audit_log.trim, days)


def check_chain(settings: Settings) -> Iterator[Finding]:
    """Check that the audit log is as it was written."""
    place = settings.database_at
    if isinstance(place, Path) and not place.exists():
        return
    try:
        # Read only: an older database is not brought up to date here, and an empty one not made.
        with read_only(place) as connection:
            if not inspect(connection).has_table(audit_log.AUDIT.name):
                return
            report = audit_log.verify(connection)
    except StoreError:
        return  # reported by the check of the database
    if report.problem:
        remedy = "Somebody changed the database. Compare with a backup or an export."
        yield Finding("audit log", "fail", report.problem, remedy)
    elif report.rows:
        yield Finding("audit log", "ok", f"{report.rows:,} rows, unchanged up to row {report.n}")
