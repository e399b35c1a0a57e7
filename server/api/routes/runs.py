"""Runs of synth, training, adaptation and evaluation: started, watched, stopped, resumed, compared, promoted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from server.api.dependencies import Service
from server.chat import RunCommand, RunDetail, RunGroup, RunPlan, RunSummary, TrainedGroup
from text.names import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Runs"])

Group = Annotated[RunGroup, Path(description="What the run makes.")]
Trained = Annotated[TrainedGroup, Path(description="What was trained.")]
RunName = Annotated[str, Path(description="The run's name.", pattern=NAME_PATTERN, max_length=NAME_CHARS)]


class RunList(BaseModel):
    """Runs, those begun last first."""

    data: list[RunSummary]


class RunPlanList(BaseModel):
    """What may be started."""

    data: list[RunPlan]


class StartRun(BaseModel):
    """A command, and the values of its fields as `/v1/run-plans` lists them; fields left out have their defaults."""

    command: RunCommand
    fields: dict[str, Annotated[str, Field(max_length=200)]] = Field({}, max_length=20)
    name: Annotated[str, Field(description="Empty: by the first field and the time.", max_length=NAME_CHARS)] = ""


class Promotion(BaseModel):
    """What serves now, and what served until then."""

    serves: str
    instead_of: str = ""


@router.get("/v1/run-plans", summary="List what may be started")
async def list_plans(service: Service) -> RunPlanList:
    """Each command with its fields and their choices; `missing` says why one cannot be started now."""
    return RunPlanList(data=await service.run_plans())


@router.get("/v1/runs", summary="List runs")
async def list_runs(service: Service) -> RunList:
    """Every run of the home, those begun in a terminal too."""
    return RunList(data=await service.runs())


@router.post("/v1/runs", status_code=202, summary="Start a run")
async def start_run(body: StartRun, service: Service) -> RunDetail:
    """Start a command as a process of its own; one of each kind runs at a time."""
    return await service.start_run(body.command, body.fields, body.name)


@router.get("/v1/runs/{group}/{name}", summary="Watch a run")
async def show_run(group: Group, name: RunName, service: Service) -> RunDetail:
    """How far it is, with its curves, figures and the end of its log."""
    return await service.run(group, name)


@router.post("/v1/runs/{group}/{name}/stop", status_code=202, summary="Stop a run")
async def stop_run(group: Group, name: RunName, service: Service) -> RunDetail:
    """Ask it to end as Ctrl-C does; what it has done is kept."""
    return await service.stop_run(group, name)


@router.post("/v1/runs/{group}/{name}/resume", status_code=202, summary="Resume a run")
async def resume_run(group: Group, name: RunName, service: Service) -> RunDetail:
    """The same command again: it goes on where it was."""
    return await service.resume_run(group, name)


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
