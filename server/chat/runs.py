"""The part of the service that shows runs and decides which serves: the server's own business, not one group's."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rewriter.errors import RunError
from server import runs
from server.chat.acting import Acting, acting
from server.chat.errors import Conflict, NotFound
from server.runs import COMMANDS, FOLDERS, TRAINED, RunDetail, RunGroup, RunSummary, TrainedGroup


class RunMixin(Acting):
    """Runs of the home, for operators of every group: they read any document, and what they make serves everybody."""

    @acting("server")
    async def runs(self) -> list[RunSummary]:
        """Return every run of the home, the newest first."""
        return await asyncio.to_thread(runs.list_runs, self.core.settings.home)

    @acting("server")
    async def run_commands(self) -> dict[RunGroup, str]:
        """Return the command that starts a run of each group in a terminal."""
        home = str(self.core.settings.home.absolute())
        return {group: command.replace("{home}", home) for group, command in COMMANDS.items()}

    @acting("server")
    async def run(self, group: RunGroup, name: str) -> RunDetail:
        """Return a run with its figures and tables. Raises NotFound."""
        run = await asyncio.to_thread(runs.read_run, self.core.settings.home, group, name)
        if run is None:
            raise NotFound(f"There is no run {name[:80]!r} of {group}.", code="run_not_found")
        return run

    @acting("server")
    async def run_folder(self, group: RunGroup, name: str) -> Path:
        """Return the folder of a run. Raises NotFound."""
        await self.run(group, name)
        return self.core.settings.home / FOLDERS[group] / name

    @acting("server")
    async def promote_run(self, group: TrainedGroup, name: str) -> str:
        """Make a trained run serve and return the name of the one it replaces. Raises NotFound, Conflict."""
        await self.run(group, name)
        await self.account("run.promote", f"{group}/{name}")
        try:
            return await asyncio.to_thread(runs.promote, self.core.settings.home, name, TRAINED[group])
        except RunError as error:
            raise Conflict(str(error), code="cannot_serve") from error

    @acting("server")
    async def roll_back(self, group: TrainedGroup) -> str:
        """Bring back what served before the last promotion and return its name. Raises Conflict."""
        await self.account("run.rollback", group)
        try:
            return await asyncio.to_thread(runs.rollback, self.core.settings.home, TRAINED[group])
        except RunError as error:
            raise Conflict(str(error), code="cannot_serve") from error
