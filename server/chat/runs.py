"""The part of the service that starts, shows, stops and promotes runs: the server's own business, not one group's."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from rewriter.errors import RunError
from server.chat.acting import Acting, acting
from server.chat.errors import Conflict, InvalidRequest, NotFound, Unavailable
from server.runs import promotion
from server.runs.commands import CommandBusy
from server.runs.plans import FOLDERS, CommandPlan, PlanError, PlannedRun, plans
from server.runs.reading import RunReader, read_record
from server.runs.records import RunCommand, RunDetail, RunGroup, RunPlan, RunSummary, TrainedGroup
from server.store import jobs
from server.store.runners import is_held
from text.names import NAME_RULE, is_name


class RunMixin(Acting):
    """Runs of the home, for operators of every group: they read any document, and what they make serves everybody."""

    @property
    def _runs(self) -> RunReader:
        return RunReader(self.core.settings.home, self.core.commands)

    @acting("server")
    async def run_plans(self) -> list[RunPlan]:
        """What may be started, and with what."""
        return [plan.shown() for plan in (await self._plans()).values()]

    @acting("server")
    async def runs(self) -> list[RunSummary]:
        """Every run of the home, those begun last first."""
        return await asyncio.to_thread(self._runs.listing)

    @acting("server")
    async def run(self, group: RunGroup, name: str) -> RunDetail:
        """How a run stands, with its figures, curves, tables and the end of its log. Raises NotFound."""
        found = await asyncio.to_thread(self._runs.detail, group, name)
        if found is None:
            raise NotFound(f"There is no run {name[:80]!r} of {group}.", code="run_not_found")
        return found

    @acting("server")
    async def run_folder(self, group: RunGroup, name: str) -> Path:
        """Where a run lies. Raises NotFound."""
        await self.run(group, name)
        return self.core.settings.home / FOLDERS[group] / name

    @acting("server")
    async def start_run(self, command: RunCommand, values: Mapping[str, str], name: str = "") -> RunDetail:
        """Start a command with these values of its fields. Raises InvalidRequest, Conflict."""
        if name and not is_name(name):
            raise InvalidRequest(f"This cannot be a run's name: use {NAME_RULE}.", param="name")
        planned = await self._planned(command, name, values)
        if await asyncio.to_thread(planned.folder.exists):
            raise Conflict(f"There is a run {planned.folder.name} already; resume it, or give another name.")
        await self.account("run.start", f"{planned.group}/{planned.folder.name}", detail=planned.fields)
        return await self._started(planned)

    @acting("server")
    async def resume_run(self, group: RunGroup, name: str) -> RunDetail:
        """Go on with a run that was stopped, interrupted or failed: the same command again.

        Raises NotFound, and Conflict where it runs, is finished, or was begun in a terminal.
        """
        found, folder = await self.run(group, name), await self.run_folder(group, name)
        record = await asyncio.to_thread(read_record, folder)
        if record is None or not found.resumable:
            raise Conflict(f"{name} is {found.state} and cannot be resumed here.", code="not_resumable")
        planned = await self._planned(record.command, name, record.fields)
        await self.account("run.resume", f"{group}/{name}", detail=planned.fields)
        return await self._started(planned)

    @acting("server")
    async def stop_run(self, group: RunGroup, name: str) -> RunDetail:
        """Ask a command to end, as Ctrl-C does; what it has done is kept. Raises NotFound, Conflict."""
        folder = await self.run_folder(group, name)
        await self.account("run.stop", f"{group}/{name}")
        if not self.core.commands.stop(folder):
            raise Conflict(f"{name} does not run here.", code="not_running")
        return await self.run(group, name)

    @acting("server")
    async def delete_run(self, group: RunGroup, name: str) -> None:
        """Delete a run with all its files. Raises NotFound, and Conflict while it runs or serves."""
        found, folder = await self.run(group, name), await self.run_folder(group, name)
        if found.promoted or found.state == "running" or await asyncio.to_thread(is_held, folder / "training.lock"):
            doing = "serves" if found.promoted else "is running"
            raise Conflict(f"{name} {doing}; nothing of it was deleted.", code="run_in_use")
        await self.account("run.delete", f"{group}/{name}")
        try:
            await asyncio.to_thread(shutil.rmtree, folder)
        except OSError as error:
            raise Unavailable(f"{name} could not be deleted: {error.strerror or error}.") from error

    @acting("server")
    async def promote_run(self, group: TrainedGroup, name: str) -> str:
        """Make a trained run serve; what it takes over from. Raises NotFound, Conflict."""
        await self.run(group, name)
        await self.account("run.promote", f"{group}/{name}")
        return await self._promotion(group, name)

    @acting("server")
    async def roll_back(self, group: TrainedGroup) -> str:
        """Bring back what served before the last promotion; its name. Raises Conflict."""
        await self.account("run.rollback", group)
        return await self._promotion(group, "")

    async def _promotion(self, group: TrainedGroup, name: str) -> str:
        kind, home = promotion.KINDS[group], self.core.settings.home
        try:
            if name:
                return await asyncio.to_thread(promotion.promote, home, name, kind)
            return await asyncio.to_thread(promotion.rollback, home, kind)
        except RunError as error:
            raise Conflict(str(error), code="cannot_serve") from error

    async def _plans(self) -> dict[str, CommandPlan]:
        """What may be started, with the collections of which the files are known."""
        found = dict[str, list[Path]]()
        for info in await self.listed():
            kept = await self._read(jobs.sources, info.name)
            if paths := [path for path in (*kept, self.core.uploads.root(info.name)) if path.exists()]:
                found[info.name] = paths
        return await asyncio.to_thread(plans, self.core.settings.home.absolute(), found)

    async def _planned(self, command: RunCommand, name: str, values: Mapping[str, str]) -> PlannedRun:
        plan = (await self._plans())[command]
        try:
            return plan.run(self.core.settings.home.absolute(), name, values)
        except PlanError as error:
            raise InvalidRequest(str(error), code="cannot_start") from error

    async def _started(self, planned: PlannedRun) -> RunDetail:
        name = planned.folder.name
        try:
            await asyncio.to_thread(self.core.commands.start, planned, self.principal.id)
        except CommandBusy as error:
            raise Conflict(str(error), code="run_busy") from error
        except OSError as error:
            raise Unavailable(f"{name} could not be started: {error.strerror or error}.") from error
        return await self.run(planned.group, name)
