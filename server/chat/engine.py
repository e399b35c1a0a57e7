"""The language model of a service: started in the background, waited for by the first turn."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from server.chat.errors import Unavailable
from server.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from server.engines import Engine

log = logging.getLogger(__name__)


class EngineKeeper:
    """Starts the engine of the settings once; after a failure the next one who needs it tries again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._starting: asyncio.Task[Engine] | None = None
        self._warming: asyncio.Task[None] | None = None

    def begin(self) -> asyncio.Task[Engine]:
        """Start in the background, unless that was done already and has not failed."""
        task = self._starting
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._starting = asyncio.create_task(self._start(), name="engine")
        return task

    async def _start(self) -> Engine:
        from server.engines import open_engine

        def start() -> Engine:
            engine = open_engine(self._settings)
            engine.start()
            return engine

        engine = await asyncio.to_thread(start)
        self._warming = asyncio.create_task(self._warm(engine), name="engine-warming")
        return engine

    async def _warm(self, engine: Engine) -> None:
        """Have a model that runs here read the instructions, which it then keeps for the first question."""
        from langchain_core.messages import HumanMessage, SystemMessage

        from server.turn.prompt import instructions

        model = limited(engine.chat_model(), 1, self._settings)
        if model is None or self._settings.llm.remote:
            return
        try:
            await model.ainvoke([SystemMessage(instructions().text), HumanMessage("")])
        except Exception as error:  # noqa: BLE001  (whatever a client raises: nothing was lost but a head start)
            log.info("the language model did not read ahead: %s", error)

    async def engine(self) -> Engine:
        """The running engine. Raises Unavailable when it cannot be started."""
        from server.engines import EngineError
        from server.registry import RegistryError

        try:
            # Shielded: a reader who leaves must not stop the model for the others.
            return await asyncio.shield(self.begin())
        except (EngineError, RegistryError, OSError) as error:
            log.warning("the language model could not be started: %s", error)
            raise Unavailable(str(error), code="llm_unreachable") from error

    @property
    def running(self) -> Engine | None:
        """The engine if it has started."""
        task = self._starting
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()

    @property
    def problem(self) -> str:
        """Why the last start failed, empty if it did not."""
        task = self._starting
        if task is None or not task.done() or task.cancelled():
            return ""
        error = task.exception()
        return str(error) if error is not None else ""

    async def close(self) -> None:
        """Stop the engine, also one that is only starting."""
        if self._starting is None:
            return
        await asyncio.wait({self._starting})
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait({self._warming})
        if engine := self.running:
            await engine.aclose()
            await asyncio.to_thread(engine.stop)


def limited(model: BaseChatModel | None, answer_tokens: int | None, settings: Settings) -> BaseChatModel | None:
    """`model` with a shorter longest answer, where it has such a limit and a shorter one is asked for."""
    if model is None or answer_tokens is None or "max_tokens" not in type(model).model_fields:
        return model
    return model.model_copy(update={"max_tokens": max(1, min(answer_tokens, settings.llm.answer_tokens))})
