"""Collections as OpenAI lists models."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from server.api.dependencies import Service
from server.chat import CollectionSummary, NotFound

router = APIRouter(tags=["OpenAI"])


class ModelObject(BaseModel):
    """A collection. `created` is when its newest version was written, in seconds since the epoch."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["anaphora"] = "anaphora"
    documents: int = Field(description="Documents in the collection.")
    passages: int = Field(description="Passages that can be found.")


class ModelList(BaseModel):
    """Every collection."""

    object: Literal["list"] = "list"
    data: list[ModelObject]


def _model(info: CollectionSummary) -> ModelObject:
    return ModelObject(id=info.name, created=int(info.updated), documents=info.documents, passages=info.passages)


@router.get("/v1/models", summary="List collections as models")
async def list_models(service: Service) -> ModelList:
    """Every collection, by name."""
    return ModelList(data=[_model(info) for info in await service.collections.listing()])


@router.get("/v1/models/{model}", summary="Show one collection as a model")
async def show_model(
    model: Annotated[str, Path(description="The collection's name.")], service: Service
) -> ModelObject:
    """One collection."""
    for info in await service.collections.listing():
        if info.name == model:
            return _model(info)
    raise NotFound(f"There is no collection {model[:80]!r}.", code="model_not_found", param="model")
