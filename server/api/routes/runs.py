"""Runs of synth, training, adaptation, evaluation and diagnosis: listed, shown, promoted. A terminal starts them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel

from server.api.dependencies import Service
from server.chat import RunDetail, RunGroup, RunSummary, TrainedGroup
from text.names import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Runs"])

RunName = Annotated[str, Path(description="The run's name.", pattern=NAME_PATTERN, max_length=NAME_CHARS)]


class RunList(BaseModel):
    """Runs, the newest first, and the command of each group that starts one in a terminal."""

    data: list[RunSummary]
    commands: dict[RunGroup, str]


class Promotion(BaseModel):
    """The run that serves now, and the one that served before."""

    serves: str
    instead_of: str = ""


@router.get("/v1/runs", summary="List runs")
async def list_runs(service: Service) -> RunList:
    """Every run of the home with its progress, and the commands that start further ones."""
    return RunList(data=await service.admin.runs(), commands=await service.admin.run_commands())


@router.get("/v1/runs/{group}/{name}", summary="Show a run")
async def show_run(group: RunGroup, name: RunName, service: Service) -> RunDetail:
    """Its progress, figures and tables."""
    return await service.admin.run(group, name)


@router.post("/v1/runs/{group}/{name}/promote", summary="Promote a run")
async def promote_run(group: TrainedGroup, name: RunName, service: Service) -> Promotion:
    """Make a trained run serve, once it was opened and asked; a rewriter from the next turn on."""
    return Promotion(serves=name, instead_of=await service.admin.promote_run(group, name))


@router.post("/v1/runs/{group}/rollback", summary="Undo the last promotion")
async def roll_back(group: TrainedGroup, service: Service) -> Promotion:
    """Bring back what served before."""
    return Promotion(serves=await service.admin.roll_back(group))
