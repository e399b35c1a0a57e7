"""Runs of the home: list, show, delete and promote them. They belong to the server, not to one group."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from rewriter.errors import RunError
from server import runs
from server.chat.acting import Acting, acting
from server.chat.errors import Conflict, NotFound, Unavailable
from server.runs import FOLDERS, RunDetail, RunGroup, RunReader, RunSummary, TrainedGroup
from server.store.runners import is_held


class RunMixin(Acting):
    """Runs of the home, for operators: a run may read any document, and a promoted one serves everybody."""

    @acting("server")
    async def runs(self) -> list[RunSummary]:
        """Return every run of the home, the newest first."""
        return await asyncio.to_thread(RunReader(self.core.settings.home).listing)

    @acting("server")
    async def run(self, group: RunGroup, name: str) -> RunDetail:
        """Return a run with its figures, curves and tables. Raises NotFound."""
        detail = await asyncio.to_thread(RunReader(self.core.settings.home).detail, group, name)
        if detail is None:
            raise NotFound(f"There is no run {name[:80]!r} of {group}.", code="run_not_found")
        return detail

    @acting("server")
    async def run_folder(self, group: RunGroup, name: str) -> Path:
        """Return the folder of a run. Raises NotFound."""
        await self.run(group, name)
        return self.core.settings.home / FOLDERS[group] / name

    @acting("server")
    async def delete_run(self, group: RunGroup, name: str) -> None:
        """Delete a run with all its files. Raises NotFound, and Conflict while it runs or serves."""
        run, folder = await self.run(group, name), await self.run_folder(group, name)
        if run.promoted or run.state == "running" or await asyncio.to_thread(is_held, folder / "training.lock"):
            doing = "serves" if run.promoted else "is running"
            raise Conflict(f"{name} {doing}; nothing of it was deleted.", code="run_in_use")
        await self.account("run.delete", f"{group}/{name}")
        try:
            await asyncio.to_thread(shutil.rmtree, folder)
        except OSError as error:
            raise Unavailable(f"{name} could not be deleted: {error.strerror or error}.") from error

    @acting("server")
    async def promote_run(self, group: TrainedGroup, name: str) -> str:
        """Make a trained run serve. Return the name of the one it replaces. Raises NotFound, Conflict."""
        await self.run(group, name)
        await self.account("run.promote", f"{group}/{name}")
        return await self._promotion(group, name)

    @acting("server")
    async def roll_back(self, group: TrainedGroup) -> str:
        """Undo the last promotion. Return the name of what serves again. Raises Conflict."""
        await self.account("run.rollback", group)
        return await self._promotion(group, "")

    async def _promotion(self, group: TrainedGroup, name: str) -> str:
        kind, home = runs.KINDS[group], self.core.settings.home
        try:
            if name:
                return await asyncio.to_thread(runs.promote, home, name, kind)
            return await asyncio.to_thread(runs.rollback, home, kind)
        except RunError as error:
            raise Conflict(str(error), code="cannot_serve") from error
