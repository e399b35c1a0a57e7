"""Watching and cancelling jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from server.api.dependencies import Service
from server.chat import Job
from text.names import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Jobs"])

JobId = Annotated[str, Path(description="The job's id.")]


class JobList(BaseModel):
    """Jobs, newest first."""

    data: list[Job]


@router.get("/v1/jobs", summary="List jobs")
async def list_jobs(
    service: Service,
    collection: Annotated[
        str | None, Query(description="Only jobs on this collection.", pattern=NAME_PATTERN, max_length=NAME_CHARS)
    ] = None,
) -> JobList:
    """Newest first, those of earlier runs of the server too."""
    return JobList(data=await service.admin.jobs(collection))


@router.get("/v1/jobs/{job_id}", summary="Watch a job")
async def show_job(job_id: JobId, service: Service) -> Job:
    """How the job stands now."""
    return await service.admin.job(job_id)


@router.post("/v1/jobs/{job_id}/cancel", status_code=202, summary="Cancel a job")
async def cancel_job(job_id: JobId, service: Service) -> Job:
    """Ask the job to stop; the collection stays as it was before it."""
    return await service.admin.cancel_job(job_id)
