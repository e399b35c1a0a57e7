"""Recording what is called within what: each call with its inputs, output, values and prompt, as a tree.

`call` and `@recorded` note a call below the current one, whichever task or thread it runs in; `record` notes a value
at the current call. Where no recording is under way they cost next to nothing. Inputs, outputs, prompts and what
`record` is told may hold people's words, and are dropped where content is not wanted; `label` is for names and
settings, which are always kept. A recording is bounded: what is beyond is counted, not kept. Storing and sending a
recording is left to whoever began it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import fields, is_dataclass
from random import Random
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar, cast

from text.sanitize import PromptPart, parts_of

P = ParamSpec("P")
R = TypeVar("R")

Json: TypeAlias = "str | float | list[Json] | dict[str, Json] | None"
Label: TypeAlias = str | float

MAX_CALLS = 10_000
MAX_CHARS = 1_000_000
"""Characters of content in one recording."""
MAX_TEXT = 100_000
MAX_ITEMS = 1000
MAX_DEPTH = 8

_ids = Random()
_current: ContextVar[Call | None] = ContextVar("current_call", default=None)


class Recording:
    """A tree of calls below `root`. `caller` is the span of whoever asked for it, in hexadecimal."""

    def __init__(
        self, name: str, *, content: bool = True, trace_id: str = "", caller: str = "", flags: int = 1, state: str = ""
    ) -> None:
        self.content = content
        self.trace_id = trace_id or f"{_ids.getrandbits(128) or 1:032x}"
        self.flags = flags
        self.state = state
        """W3C `tracestate` of the caller, handed on as it is."""
        self.calls: list[Call] = []
        self.dropped = 0
        """Calls that were too many to be kept."""
        self._chars = 0
        self._epoch = time.time() - time.perf_counter()
        self.root = Call(name, self, caller)

    def at(self, moment: float) -> float:
        """Unix time of a moment of the performance counter; later calls never begin earlier."""
        return self._epoch + moment

    def clipped(self, text: str) -> str:
        """The text, or what the bounds leave of it."""
        room = max(0, min(MAX_TEXT, MAX_CHARS - self._chars))
        self._chars += min(len(text), room)
        return text if len(text) <= room else f"{text[:room]}… [{len(text) - room} characters are not kept]"

    def told(self) -> list[dict[str, Json]]:
        """Every call in the order in which they began, the root first, as JSON."""
        return [
            {
                "id": call.id,
                "parent": call.parent or None,
                "name": call.name,
                "started": call.started,
                "seconds": call.elapsed,
                "inputs": dict(call.given()),
                "output": call.gave(),
                "values": call.noted(),
                "prompt": list[Json](call.prompted()),
                "error": call.error,
                "message": call.message,
                "source": call.source,
            }
            for call in (self.root, *self.calls)
        ]


class Call:
    """A call that has begun. In `with` it is the current one there, and has ended behind it."""

    def __init__(self, name: str, recording: Recording | None, parent: str = "", source: str = "") -> None:
        self.name = name
        self.parent = parent
        self.id = f"{_ids.getrandbits(64) or 1:016x}" if recording else ""
        self.source = source
        self.seconds: float | None = None
        """Wall time; None until it has ended."""
        self.error = self.message = ""
        self.labels = dict[str, Label]()
        self.values = dict[str, object]()
        self.parts = list[tuple[str, tuple[PromptPart, ...]]]()
        """The prompt: role and parts of each message."""
        self._inputs: Mapping[str, object] = {}
        self._output: object = None
        self._recording = recording
        self._token: Token[Call | None] | None = None
        self._began = time.perf_counter()

    @property
    def recording(self) -> Recording | None:
        """The recording that this call is part of; None where nothing is recorded."""
        return self._recording

    @property
    def content(self) -> bool:
        """Whether what holds people's words is kept, so that nobody need gather it otherwise."""
        return self._recording is not None and self._recording.content

    @property
    def started(self) -> float:
        """Unix time, seconds."""
        return self._recording.at(self._began) if self._recording else 0.0

    @property
    def elapsed(self) -> float:
        """Wall time since it began, or until it ended."""
        return time.perf_counter() - self._began if self.seconds is None else self.seconds

    def begin(self, name: str, source: str = "") -> Call:
        """A call below this one, begun now and not yet current."""
        recording = self._recording
        if recording is None:
            return Call(name, None)
        if len(recording.calls) >= MAX_CALLS:
            recording.dropped += 1
            return Call(name, None)
        call = Call(name, recording, self.id, source)
        recording.calls.append(call)
        return call

    def inputs(self, **inputs: object) -> None:
        """Record the inputs."""
        if self.content:
            self._inputs = inputs

    def output(self, output: object) -> None:
        """Record the output."""
        if self.content:
            self._output = output

    def record(self, **values: object) -> None:
        """Values that may hold people's words; without content only numbers are kept."""
        if self._recording is not None:
            recorded = values if self.content else {name: value for name, value in values.items() if _is_number(value)}
            self.values.update(recorded)

    def label(self, **labels: Label) -> None:
        """Names, counts and settings: nothing of anyone's words."""
        if self._recording is not None:
            self.labels.update(labels)

    def tell(self, inputs: Mapping[str, object], outputs: object, labels: Mapping[str, Label]) -> None:
        """Record inputs, output, and labels that hold nobody's words."""
        self.inputs(**inputs)
        self.output(outputs)
        self.label(**labels)

    def prompt(self, messages: Iterable[tuple[str, str]]) -> None:
        """The messages a model is sent, as roles and texts; `text.sanitize` says what they are made of."""
        if self.content:
            self.parts = [(role, parts_of(text)) for role, text in messages]

    def fail(self, error: BaseException | str, message: str = "") -> None:
        """It ended badly: by this exception, or with this code and message."""
        self.error = error if isinstance(error, str) else type(error).__name__
        if self.content:
            self.message = message or (str(error) if isinstance(error, BaseException) else "")

    def end(self, error: BaseException | None = None, seconds: float | None = None) -> None:
        """It has ended; only the first time counts."""
        if self.seconds is None:
            self.seconds = self.elapsed if seconds is None else seconds
            if error is not None:
                self.fail(error)

    def given(self) -> Mapping[str, Json]:
        """The inputs as JSON, within bounds."""
        return {name: plain(value, self._clip) for name, value in self._inputs.items()}

    def gave(self) -> Json:
        """The output as JSON, within bounds."""
        return plain(self._output, self._clip)

    def noted(self) -> dict[str, Json]:
        """Labels and values as JSON, within bounds."""
        return {**self.labels, **{name: plain(value, self._clip) for name, value in self.values.items()}}

    def prompted(self) -> list[dict[str, Json]]:
        """The prompt as ordered parts: `{message, role, literal}` or `{message, role, value, expression}`."""
        recorded = list[dict[str, Json]]()
        for n, (role, parts) in enumerate(self.parts):
            for part in parts:
                text = self._clip(part.text)
                entry = {"value": text, "expression": part.expression} if part.expression else {"literal": text}
                recorded.append({"message": n, "role": role, **entry})
        return recorded

    def _clip(self, text: str) -> str:
        return self._recording.clipped(text) if self._recording else ""

    @contextmanager
    def current(self) -> Iterator[Self]:
        """Within it, calls and requests belong to this call; not around a `yield` of a generator of events."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)
            self._token = None
        self.end(error)


_NOTHING = Call("", None)


def current() -> Call:
    """The current call; where nothing is recorded, one that keeps nothing."""
    return _current.get() or _NOTHING


def call(name: str, /, **inputs: object) -> Call:
    """A call below the current one; use it in `with`."""
    below = _current.get() or _NOTHING
    if below.recording is None:
        return Call(name, None)
    frame = sys._getframe(1)
    call = below.begin(name, f"{frame.f_globals.get('__name__', '')}:{frame.f_lineno}")
    call.inputs(**inputs)
    return call


def record(**values: object) -> None:
    """Note values at the current call."""
    current().record(**values)


def recorded(function: Callable[P, R]) -> Callable[P, R]:
    """A function, also an asynchronous one, whose calls are recorded with their arguments and results."""
    signature = inspect.signature(function)
    code = inspect.unwrap(function).__code__
    source = f"{function.__module__}:{code.co_firstlineno}"
    name = function.__name__

    def begun(args: Sequence[object], kwargs: Mapping[str, object]) -> Call:
        call = current().begin(name, source)
        if call.content:
            bound = signature.bind(*args, **kwargs).arguments
            call.inputs(**{key: value for key, value in bound.items() if key not in ("self", "cls")})
        return call

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            with begun(args, kwargs) as this:
                result = await function(*args, **kwargs)
                this.output(result)
                return result

        return cast("Callable[P, R]", awaited)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with begun(args, kwargs) as this:
            result = function(*args, **kwargs)
            this.output(result)
            return result

    return called


def trace_headers() -> dict[str, str]:
    """The W3C headers of a request that the current call sends; none where nothing is recorded."""
    below = _current.get()
    recording = below.recording if below is not None else None
    if below is None or recording is None:
        return {}
    headers = {"traceparent": f"00-{recording.trace_id}-{below.id}-{recording.flags:02x}"}
    return {**headers, "tracestate": recording.state} if recording.state else headers


def plain(value: object, clip: Callable[[str], str] = str, depth: int = MAX_DEPTH) -> Json:
    """A value as JSON, its texts cut by `clip`: what has no such form is named by its type."""
    if isinstance(value, str):
        return clip(str(value))
    if value is None or _is_number(value):
        return cast("Json", value)
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {str(name): plain(item, clip, depth - 1) for name, item in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, clip, depth - 1) for item in list(value)[:MAX_ITEMS]]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), clip, depth - 1) for field in fields(value)}
    dump = getattr(value, "model_dump", None)
    return plain(dump(mode="json"), clip, depth - 1) if dump is not None else f"<{type(value).__name__}>"


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float)
