"""The part of the service that gives and takes: API keys, and the groups that may use a collection.

Nobody gives more than there is: a key's role and groups are within those of whoever makes it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import Connection

from rewriter.protocol import RunError
from server import runs
from server.access import DEFAULT_GROUP, EVERY_GROUP, Role, policy
from server.audit_log import entry
from server.chat.authorization import ServiceBase, requires
from server.chat.collections import checked_name
from server.chat.error_mapping import (
    MAX_ID_CHARS,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    clean,
    found_or_missing,
    run_blocking,
    store_errors,
)
from server.chat.types import KeySummary, NewKey, StageTimes, Statistics, UnansweredQuestions
from server.runs import COMMANDS, FOLDERS, TRAINED, RunDetail, RunGroup, RunSummary, TrainedGroup
from server.store import audit, grants, keys, statistics
from server.store.records import AuditRecord, Job
from text.names import NAME_RULE, is_name

if TYPE_CHECKING:
    from index.encoders import Encoder


MAX_GROUPS = 100
MAX_KEY_NAME = 100
DAY = 86_400.0


def checked_group(group: str) -> str:
    """`group` if one may be called so. Raises InvalidRequest."""
    if not is_name(group):
        raise InvalidRequest(f"This cannot be a group's name: use {NAME_RULE}.", code="invalid_group", param="group")
    return group


def foreign_group(group: str) -> Forbidden:
    """The refusal to do something for a group of others."""
    return Forbidden(f"You are not in the group {group[:80]!r}.")


class GrantMixin(ServiceBase):
    """Keys and grants."""

    @requires("keys")
    async def keys(self) -> list[KeySummary]:
        """Every key whose role and groups are within those of whoever asks, oldest first; never the key itself."""
        listed = await self._read(keys.listing)
        return [KeySummary.of(key) for key in listed if policy.may_give(self.principal, key.role, key.groups)]

    @requires("keys")
    async def create_key(
        self, name: str, role: Role = "reader", groups: Sequence[str] = (DEFAULT_GROUP,), days: float | None = None
    ) -> NewKey:
        """Make a key, which is told this once. `days` is how long it opens anything; None: until it is revoked.

        Raises Forbidden for a role or a group beyond one's own.
        """
        label = " ".join("".join(char if char.isprintable() else " " for char in name).split())
        if not label or len(name) > MAX_KEY_NAME:
            raise InvalidRequest("A key's name has 1 to 100 characters; say whose it is, or what for.", param="name")
        if not groups or len(groups) > MAX_GROUPS:
            raise InvalidRequest(f"A key is in 1 to {MAX_GROUPS} groups.", param="groups")
        within = frozenset(group if group == EVERY_GROUP else checked_group(group) for group in groups)
        if days is not None and not 0 < days <= 36_500:
            raise InvalidRequest("A key lasts more than no days, and 36,500 at most.", param="expires_days")
        if not policy.may_give(self.principal, role, within):
            raise self.refusal("keys", error=Forbidden("A key has no more than your own role and groups."))
        expires = None if days is None else time.time() + days * DAY

        def make(connection: Connection) -> tuple[keys.ApiKey, str]:
            api_key, secret = keys.create(connection, label, role, within, expires)
            detail = {"name": label, "role": role, "groups": sorted(within), "expires": expires}
            audit.append(connection, entry(self.principal, "key.create", api_key.id, detail=detail))
            return api_key, secret

        api_key, secret = await self._write(make)
        return NewKey(**KeySummary.of(api_key).model_dump(), key=secret)

    @requires("keys")
    async def revoke_key(self, key_id: str) -> None:
        """Make a key useless from now on, with the sessions that began with it. Raises NotFound."""
        wanted = key_id.strip()[:80]
        key_ids = {key.id for key in await self.keys() if key.revoked is None}
        if wanted not in key_ids:
            raise NotFound(f"There is no active key {wanted!r}.", code="key_not_found")
        await self.account("key.revoke", wanted)
        await self._write(keys.revoke, wanted)

    @requires("grants")
    async def grants(self, collection: str) -> list[str]:
        """The groups that may use a collection, as far as whoever asks is in them. Raises NotFound."""
        name = checked_name(collection)
        await self.reached(name)
        granted = await self._read(grants.of, name)
        return [group for group in granted or [DEFAULT_GROUP] if self.principal.in_group(group)]

    @requires("grants")
    async def grant(self, collection: str, group: str) -> list[str]:
        """Let a group use a collection, and give those that may. One that was granted to nobody so far belonged to
        the group `default`, which then needs a grant too. Raises NotFound, or Forbidden for a group of others."""
        name = checked_name(collection)
        if not self.principal.in_group(checked_group(group)):
            raise self.refusal("grants", name, foreign_group(group))
        await self.reached(name)
        await self.account("grant.add", group, collection=name, group=group)
        await self._write(grants.add, name, group)
        return await self.grants(name)

    @requires("grants")
    async def revoke_grant(self, collection: str, group: str) -> None:
        """Take a collection from a group. Raises NotFound, or Conflict for its last one."""
        name = checked_name(collection)
        if group not in await self.grants(name):
            raise NotFound(f"{name} is not granted to {group[:80]!r}.", code="grant_not_found")
        gone = await self._write(grants.remove, name, group)
        await self.account("grant.remove", group, collection=name, group=group, outcome="done" if gone else "refused")
        if not gone:
            raise Conflict(
                f"{group} is the last group {name} is granted to, and without any it would belong to `default`. Grant "
                "it to another group first, or delete the collection.",
                code="last_grant",
            )


MAX_ROWS = 1000


class AuditMixin(ServiceBase):
    """Acts in the principal's groups; acts without a group are for operators of every one."""

    @requires("audit")
    async def audit_rows(
        self,
        *,
        since: float = 0.0,
        until: float | None = None,
        principal: str = "",
        action: str = "",
        after: int = 0,
        limit: int = 100,
    ) -> list[AuditRecord]:
        """Rows after number `after`, oldest first; times are seconds since the epoch."""
        groups = None if self.principal.everywhere else self.principal.groups
        filters = {"since": since, "until": until, "principal": principal, "action": action, "after": after}
        await self.account("log.read", detail={name: value for name, value in filters.items() if value})
        return await self._read(
            audit.listing,
            since=since,
            until=until,
            principal=principal,
            action=action,
            groups=groups,
            after=after,
            limit=max(1, min(limit, MAX_ROWS)),
        )


class JobMixin(ServiceBase):
    """Jobs on the collections of whoever acts."""

    @requires("jobs")
    async def job(self, job_id: str) -> Job:
        """How a job stands. Raises NotFound."""
        key = clean(job_id, MAX_ID_CHARS, "job_id")
        with store_errors():
            return found_or_missing(await asyncio.to_thread(self.core.runner.find, key, self.principal), "job", key)

    @requires("jobs")
    async def jobs(self, collection: str | None = None) -> list[Job]:
        """Newest first."""
        name = checked_name(collection) if collection else None
        with store_errors():
            return await asyncio.to_thread(self.core.runner.listing, self.principal, name)

    @requires("jobs")
    async def cancel_job(self, job_id: str) -> Job:
        """Ask a job to stop; the collection then stays as it was before it. Raises NotFound."""
        job = await self.job(job_id)
        await self.account("job.cancel", job.id, collection=job.collection)
        with store_errors():
            await asyncio.to_thread(self.core.runner.cancel, job.id)
        return await self.job(job_id)


class RunMixin(ServiceBase):
    """Runs of the home, for operators of every group: they read any document, and what they make serves everybody."""

    @requires("server")
    async def runs(self) -> list[RunSummary]:
        """Return every run of the home, the newest first."""
        return await asyncio.to_thread(runs.list_runs, self.core.settings.home)

    @requires("server")
    async def run_commands(self) -> dict[RunGroup, str]:
        """Return the command that starts a run of each group in a terminal."""
        home = str(self.core.settings.home.absolute())
        return {group: command.replace("{home}", home) for group, command in COMMANDS.items()}

    @requires("server")
    async def run(self, group: RunGroup, name: str) -> RunDetail:
        """Return a run with its figures and tables. Raises NotFound."""
        run = await asyncio.to_thread(runs.read_run, self.core.settings.home, group, name)
        if run is None:
            raise NotFound(f"There is no run {name[:80]!r} of {group}.", code="run_not_found")
        return run

    @requires("server")
    async def run_folder(self, group: RunGroup, name: str) -> Path:
        """Return the folder of a run. Raises NotFound."""
        await self.run(group, name)
        return self.core.settings.home / FOLDERS[group] / name

    @requires("server")
    async def promote_run(self, group: TrainedGroup, name: str) -> str:
        """Make a trained run serve and return the name of the one it replaces. Raises NotFound, Conflict."""
        await self.run(group, name)
        await self.account("run.promote", f"{group}/{name}")
        try:
            return await asyncio.to_thread(runs.promote, self.core.settings.home, name, TRAINED[group])
        except RunError as error:
            raise Conflict(str(error), code="cannot_serve") from error

    @requires("server")
    async def roll_back(self, group: TrainedGroup) -> str:
        """Bring back what served before the last promotion and return its name. Raises Conflict."""
        await self.account("run.rollback", group)
        try:
            return await asyncio.to_thread(runs.rollback, self.core.settings.home, TRAINED[group])
        except RunError as error:
            raise Conflict(str(error), code="cannot_serve") from error


STATISTICS_DAY = 86_400.0
CLUSTERED = 300
"""Questions that are put together, the newest."""
ALIKE = 0.6
"""Cosine from which on two questions ask for the same."""
SHOWN, EXAMPLES = 20, 5


class StatisticsMixin(ServiceBase):
    """Numbers over the turns that whoever acts may see."""

    @requires("review")
    async def statistics(self, *, days: int = 30, collection: str = "") -> Statistics:
        """Return counts of the last `days`, including today.

        Questions are shown where texts are recorded (`trace.content`); how many were refused is counted either way.
        """
        name = checked_name(collection) if collection else ""
        since = (time.time() // STATISTICS_DAY - (days - 1)) * STATISTICS_DAY
        arguments = (self.principal, name, since)
        counts = await self._read(statistics.days, *arguments)
        seconds = await self._read(statistics.stages, *arguments)
        refused = await self._read(statistics.refused, *arguments, CLUSTERED)
        content = self.core.settings.trace.content
        questions = [(turn, text) for turn, text in refused if text] if content else []
        clusters = await run_blocking(lambda: clustered(questions, self.core.models.encoder())) if questions else []
        return Statistics(
            since=since,
            days=counts,
            stages=[_times(stage, times) for stage, times in seconds.items()],
            unanswered=clusters[:SHOWN],
            content=content,
        )


def _times(stage: str, seconds: Sequence[float]) -> StageTimes:
    p50, p95 = np.percentile(seconds, (50, 95))
    return StageTimes(stage=stage, p50=float(p50), p95=float(p95), turns=len(seconds))


def clustered(questions: Sequence[tuple[str, str]], encoder: Encoder) -> list[UnansweredQuestions]:
    """Questions (turn, text) that ask for the same, by the encoder; most asked first.

    Each joins the first that is alike, in the order given, so that equal input gives equal groups.
    """
    vectors = encoder.encode([text for _, text in questions])
    alike = vectors @ vectors.T >= ALIKE
    free = np.ones(len(questions), dtype=bool)
    clusters = list[UnansweredQuestions]()
    for first in range(len(questions)):
        if not free[first]:
            continue
        alike[first, first] = True
        here = alike[first] & free
        free &= ~here
        members = list(compress(questions, here))
        texts = tuple(dict.fromkeys(text for _, text in members))[:EXAMPLES]
        clusters.append(UnansweredQuestions(questions=texts, turns=len(members), newest=members[0][0]))
    return sorted(clusters, key=lambda group: -group.turns)
