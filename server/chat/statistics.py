"""The part of the service that says how it fares: turns a day, refusals, support, time by stage, what found nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from server.chat.acting import Acting, acting
from server.chat.collections import checked_name
from server.chat.translated import in_thread
from server.chat.types import StageTimes, Statistics, UnansweredQuestions
from server.store import statistics

if TYPE_CHECKING:
    from index.encoders import Encoder

DAY = 86_400.0
CLUSTERED = 300
"""Questions that are put together, the newest."""
ALIKE = 0.6
"""Cosine from which on two questions ask for the same."""
SHOWN, EXAMPLES = 20, 5


class StatisticsMixin(Acting):
    """Numbers over the turns that whoever acts may see."""

    @acting("review")
    async def statistics(self, *, days: int = 30, collection: str = "") -> Statistics:
        """What happened in the last `days`, today among them.

        Questions are shown where texts are recorded (`trace.content`); how many were refused is counted either way.
        """
        name = checked_name(collection) if collection else ""
        since = (time.time() // DAY - (days - 1)) * DAY
        asked = (self.principal, name, since)
        counts = await self._read(statistics.days, *asked)
        seconds = await self._read(statistics.stages, *asked)
        refused = await self._read(statistics.refused, *asked, CLUSTERED)
        content = self.core.settings.trace.content
        questions = [(turn, text) for turn, text in refused if text] if content else []
        clusters = await in_thread(lambda: clustered(questions, self.core.models.encoder())) if questions else []
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
    found = list[UnansweredQuestions]()
    for first in range(len(questions)):
        if not free[first]:
            continue
        alike[first, first] = True
        here = alike[first] & free
        free &= ~here
        members = list(compress(questions, here))
        texts = tuple(dict.fromkeys(text for _, text in members))[:EXAMPLES]
        found.append(UnansweredQuestions(questions=texts, turns=len(members), newest=members[0][0]))
    return sorted(found, key=lambda one: -one.turns)
