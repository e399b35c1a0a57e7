"""API keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field, field_validator

from server.access import Role
from server.api.dependencies import Listing, Service, StrictBody, number
from server.chat.admin import KeySummary, NewKey
from text.names import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Access"])

WideGroup = Annotated[str, Field(pattern=rf"^\*$|{NAME_PATTERN}", max_length=NAME_CHARS)]


class KeyRequest(StrictBody):
    """A key to be made. Its role and groups are within those of whoever makes it."""

    name: str = Field(pattern=r"\w", max_length=100, description="Whose key it is, or what for.")
    role: Role = Field(default="reader", description="`reader` asks, `agent` also reviews, `operator` also manages.")
    groups: list[WideGroup] = Field(
        default=["default"], min_length=1, max_length=100, description="`*` is every group."
    )
    expires_days: float | None = Field(default=None, gt=0, le=36500, description="None: until it is revoked.")

    _numbers = field_validator("expires_days", mode="before")(number)


@router.get("/v1/keys", summary="List API keys")
async def list_keys(service: Service) -> Listing[KeySummary]:
    """Keys within your own role and groups; never the key itself."""
    return Listing(data=await service.admin.keys())


@router.post("/v1/keys", status_code=201, summary="Make an API key")
async def create_key(body: KeyRequest, service: Service) -> NewKey:
    """The key itself is told this once: only a hash of it is kept."""
    return await service.admin.create_key(body.name, body.role, body.groups, body.expires_days)


@router.delete("/v1/keys/{key_id}", status_code=204, summary="Revoke an API key")
async def revoke_key(key_id: Annotated[str, Path(description="The key's id, as listed.")], service: Service) -> None:
    """Make it useless from now on, with the sessions that began with it."""
    await service.admin.revoke_key(key_id)
