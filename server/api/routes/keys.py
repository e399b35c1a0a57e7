"""API keys, and the groups that may use a collection."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from server.access import Role
from server.api.dependencies import CollectionName, Service, StrictBody
from server.chat import KeySummary, NewKey
from text.names import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Access"])

GroupName = Annotated[str, Path(description="The group's name.", pattern=NAME_PATTERN, max_length=NAME_CHARS)]
WideGroup = Annotated[str, Field(pattern=rf"^\*$|{NAME_PATTERN}", max_length=NAME_CHARS)]


class KeyRequest(StrictBody):
    """A key to be made. Its role and groups are within those of whoever makes it."""

    name: str = Field(pattern=r"\w", max_length=100, description="Ownership key it is, or what for.")
    role: Role = Field(default="reader", description="`reader` asks, `agent` also reviews, `operator` also manages.")
    groups: list[WideGroup] = Field(
        default=["default"], min_length=1, max_length=100, description="`*` is every group."
    )
    expires_days: float | None = Field(default=None, gt=0, le=36500, description="None: until it is revoked.")


class KeyList(BaseModel):
    """Keys, oldest first."""

    data: list[KeySummary]


class GrantList(BaseModel):
    """Groups, by name."""

    data: list[str]


@router.get("/v1/keys", summary="List API keys")
async def list_keys(service: Service) -> KeyList:
    """Keys within your own role and groups; never the key itself."""
    return KeyList(data=await service.admin.keys())


@router.post("/v1/keys", status_code=201, summary="Make an API key")
async def create_key(body: KeyRequest, service: Service) -> NewKey:
    """The key itself is told this once: only a hash of it is kept."""
    return await service.admin.create_key(body.name, body.role, body.groups, body.expires_days)


@router.delete("/v1/keys/{key_id}", status_code=204, summary="Revoke an API key")
async def revoke_key(key_id: Annotated[str, Path(description="The key's id, as listed.")], service: Service) -> None:
    """Make it useless from now on, with the sessions that began with it."""
    await service.admin.revoke_key(key_id)


@router.get("/v1/collections/{collection}/grants", summary="List who may use a collection")
async def list_grants(collection: CollectionName, service: Service) -> GrantList:
    """The groups it is granted to, as far as you are in them."""
    return GrantList(data=await service.collections.grants(collection))


@router.put("/v1/collections/{collection}/grants/{group}", summary="Let a group use a collection")
async def grant(collection: CollectionName, group: GroupName, service: Service) -> GrantList:
    """A collection that was granted to nobody belonged to `default`, which then needs a grant of its own."""
    return GrantList(data=await service.collections.grant(collection, group))


@router.delete("/v1/collections/{collection}/grants/{group}", status_code=204, summary="Take a collection from a group")
async def revoke_grant(collection: CollectionName, group: GroupName, service: Service) -> None:
    """The last grant stays: without any the collection would belong to `default`."""
    await service.collections.revoke_grant(collection, group)
