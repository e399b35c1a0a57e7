"""The part of the service that shows and cancels jobs."""

from __future__ import annotations

import asyncio

from server.chat.acting import Acting, acting
from server.chat.collections import checked_name
from server.chat.translated import MAX_ID_CHARS, clean, found_or_missing, store_errors
from server.store.records import Job


class JobMixin(Acting):
    """Jobs on the collections of whoever acts."""

    @acting("jobs")
    async def job(self, job_id: str) -> Job:
        """How a job stands. Raises NotFound."""
        key = clean(job_id, MAX_ID_CHARS, "job_id")
        with store_errors():
            return found_or_missing(await asyncio.to_thread(self.core.runner.find, key, self.principal), "job", key)

    @acting("jobs")
    async def jobs(self, collection: str | None = None) -> list[Job]:
        """Newest first."""
        name = checked_name(collection) if collection else None
        with store_errors():
            return await asyncio.to_thread(self.core.runner.listing, self.principal, name)

    @acting("jobs")
    async def cancel_job(self, job_id: str) -> Job:
        """Ask a job to stop; the collection then stays as it was before it. Raises NotFound."""
        job = await self.job(job_id)
        await self.account("job.cancel", job.id, collection=job.collection)
        with store_errors():
            await asyncio.to_thread(self.core.runner.cancel, job.id)
        return await self.job(job_id)
