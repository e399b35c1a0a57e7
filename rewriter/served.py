"""A trained rewriter, and a served language model that writes in full the questions that lean on their conversation.

The trained one takes milliseconds: its words are searched at once, and it tells whether a question needs its
conversation. Only then is the model asked, for a short time, while the words are searched. A sentence in time takes
their place; else they stay. `docs/lab/retrieval.md` tells what is found where one is written as people write it.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from text.recorder import current

if TYPE_CHECKING:
    from rewriter.protocol import AsyncRewriter, Conversation, Rewrite, Rewriter

MESSAGES = 20
"""Messages that a served model reads: they hold .999 of the words that people add to dev questions; six hold .867."""
ANSWER_CHARS = 800
"""Characters of each answer that it reads."""

MISSES = 2
"""Questions in a row that a server may be too slow for, or fail at."""
PAUSE = 20
"""Questions that it is then not asked for."""


class Patience:
    """Counts how often in a row a server wrote nothing in time. Safe to use from several threads.

    >>> patience = Patience()
    >>> for _ in range(MISSES):
    ...     patience.tell(in_time=False)
    >>> [patience.allows() for _ in range(PAUSE + 1)].index(True)
    20
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._misses = self._passed = 0

    def allows(self) -> bool:
        """Return whether the server is to be asked; after `MISSES` it is tried once in `PAUSE` questions."""
        with self._lock:
            if self._misses < MISSES:
                return True
            self._passed += 1
            if self._passed <= PAUSE:
                return False
            self._passed = 0
            return True

    def tell(self, *, in_time: bool) -> None:
        """Count an answer."""
        with self._lock:
            self._misses = 0 if in_time else self._misses + 1


class ServedRewriter:
    """Rewrites by `trained`, and by `writer` where that finds that a question needs its conversation.

    `leans` is the probability from which on the writer is asked; it bounds its own time. A rewrite that it does not
    give in time, keeps or has refused by the guard is the trained one's.
    """

    def __init__(
        self, trained: Rewriter, writer: AsyncRewriter, patience: Patience | None = None, leans: float = 0.5
    ) -> None:
        self.first = trained
        self._writer = writer
        self._patience = patience or Patience()
        self._leans = leans

    @property
    def name(self) -> str:
        return f"{self.first.name}+{self._writer.name}"

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """Rewrite by both, blocking; never raises."""
        first = self.first.rewrite(conversation, question)
        return self.finish(conversation, question, first) if self.writes(conversation, first) else first

    def writes(self, conversation: Conversation, first: Rewrite) -> bool:
        """Return whether the model is to be asked for the question that `first` was made of."""
        needed = first.history_probability
        return bool(conversation) and needed is not None and needed >= self._leans and self._patience.allows()

    def finish(self, conversation: Conversation, question: str, first: Rewrite) -> Rewrite:
        """Return the model's rewrite, or `first` where there is none. Blocks."""
        return self._chosen(first, self._writer.rewrite(conversation, question))

    async def afinish(self, conversation: Conversation, question: str, first: Rewrite) -> Rewrite:
        """As `finish`, without blocking; cancelling it ends the request."""
        return self._chosen(first, await self._writer.arewrite(conversation, question))

    def _chosen(self, first: Rewrite, written: Rewrite) -> Rewrite:
        self._patience.tell(in_time=written.decision != "failed")
        current().label(sentence=written.decision, sentence_seconds=round(written.seconds, 3))
        if written.decision != "rewrite":
            return first
        return replace(written, history_probability=first.history_probability)
