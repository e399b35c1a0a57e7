"""Reading the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from server.api.dependencies import Service
from server.chat import AuditRecord

router = APIRouter(tags=["Access"])

Seconds = Annotated[float, Query(ge=0, le=1e12, description="Seconds since the epoch.")]


class AuditList(BaseModel):
    """Rows of the audit log, oldest first."""

    data: list[AuditRecord]


@router.get("/v1/audit", summary="Read who did what")
async def read_audit(
    service: Service,
    since: Seconds = 0.0,
    until: Seconds = 1e12,
    principal: Annotated[str, Query(max_length=400, description="Only what this principal did.")] = "",
    action: Annotated[str, Query(max_length=80, description="Only this action, such as `key.create`.")] = "",
    after: Annotated[int, Query(ge=0, le=2**62, description="Only rows after this number: the way to go on.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> AuditList:
    """List the acts in your groups; operators of every group also see logins and other entries without a group."""
    return AuditList(
        data=await service.admin.audit_rows(
            since=since, until=until, principal=principal, action=action, after=after, limit=limit
        )
    )
