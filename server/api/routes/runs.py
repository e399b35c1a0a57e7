"""Runs of synth, train, adapt, eval and diagnose: list, show, delete, promote."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel

from server.api.dependencies import Service
from server.chat import RunDetail, RunGroup, RunSummary, TrainedGroup
from text.names import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Runs"])

Group = Annotated[RunGroup, Path(description="What the run makes.")]
Trained = Annotated[TrainedGroup, Path(description="What was trained.")]
RunName = Annotated[str, Path(description="The run's name.", pattern=NAME_PATTERN, max_length=NAME_CHARS)]


class RunList(BaseModel):
    """Runs, those begun last first."""

    data: list[RunSummary]


class Promotion(BaseModel):
    """What serves now, and what served until then."""

    serves: str
    instead_of: str = ""


@router.get("/v1/runs", summary="List runs")
async def list_runs(service: Service) -> RunList:
    """Every run of the home, those begun in a terminal too."""
    return RunList(data=await service.runs())


@router.get("/v1/runs/{group}/{name}", summary="Watch a run")
async def show_run(group: Group, name: RunName, service: Service) -> RunDetail:
    """How far it is, with its curves, figures and tables."""
    return await service.run(group, name)


@router.delete("/v1/runs/{group}/{name}", status_code=204, summary="Delete a run")
async def delete_run(group: Group, name: RunName, service: Service) -> None:
    """Delete its folder; one that runs or serves stays."""
    await service.delete_run(group, name)


@router.post("/v1/runs/{group}/{name}/promote", summary="Promote a run")
async def promote_run(group: Trained, name: RunName, service: Service) -> Promotion:
    """Make a trained run serve, once it was opened and asked; a rewriter from the next turn on."""
    return Promotion(serves=name, instead_of=await service.promote_run(group, name))


@router.post("/v1/runs/{group}/rollback", summary="Undo the last promotion")
async def roll_back(group: Trained, service: Service) -> Promotion:
    """Bring back what served before."""
    return Promotion(serves=await service.roll_back(group))
