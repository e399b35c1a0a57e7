"""`anaphora ask`: a chat in the terminal over the same service and the same events as the page.

Everything shown comes from documents and models: the console keeps it from steering the terminal.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from cli.shared.error_handler import ExitCode
from cli.shared.options import Answering, Where, overriding
from cli.shared.resources import demand_collection, fetch_models
from cli.shared.state import InputError, State, state_of
from text.modules import need_extra
from text.sanitize import sanitize_line
from text.sentences import without_links

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from prompt_toolkit import PromptSession
    from rich.console import Console
    from rich.status import Status

    from server.chat import (
        ChatService,
        CitationEvent,
        DoneEvent,
        ErrorEvent,
        Event,
        Evidence,
        RewriteEvent,
        TurnRequest,
    )


VARIANT_WORDS = {
    "exchange": "the previous answer",
    "opening": "the first question",
    "conversation": "the conversation",
    "reply": "your reply",
}
MARKER = re.compile(r"\[\d{1,3}\]")
SHORT = 160
"""Characters of a quotation on one line."""
NUMBER_STYLE = "bold cyan"


def place(title: str, heading: Iterable[str], page: int | None) -> str:
    """Where a passage stands: title, heading path, page."""
    path = " › ".join(sanitize_line(part) for part in (title, *heading) if part.strip())
    return f"{path}, page {page}" if page is not None else path


class Transcript:
    """Prints the events of one turn after the other and remembers what the newest one found.

    `evidence` and `citations` are by number. `talking` tells whether what is typed next goes on with the conversation.
    """

    def __init__(self, console: Console, *, talking: bool = True) -> None:
        self.console, self.talking = console, talking
        self.evidence: dict[int, Evidence] = {}
        self.citations: dict[int, CitationEvent] = {}
        self._waiting: Status | None = None
        self._answering = False

    def begin(self) -> None:
        """A question has been asked: forget the turn before and say that work is going on."""
        self.evidence, self.citations, self._answering = {}, {}, False
        if self.console.is_terminal:
            self._waiting = self.console.status("searching", spinner="dots")
            self._waiting.start()

    def show(self, event: Event) -> None:
        """Print what a person should see of `event`."""
        match event.type:
            case "rewrite":
                self._searched_for(event)
            case "evidence":
                self.evidence = {passage.n: passage for passage in event.passages}
                self._wait_for(f"reading {len(event.passages)} passages")
            case "nearest":
                self._wait_for(f"reading; nearest: “{_shorten(sanitize_line(without_links(event.quotes[0].quote)))}”")
            case "step":
                self._wait_for(f"{sanitize_line(event.text)} ({event.done} of {event.of})")
            case "token":
                self._token(event.text)
            case "fold":
                self.citations = {}
                self.console.print("\n(the documents do not bear this out; they say:)\n", style="yellow")
            case "citation":
                self.citations.setdefault(event.n, event)
            case "done":
                self._done(event)
            case "error":
                self._error(event)

    def _wait_for(self, what: str) -> None:
        if self._waiting is not None:
            self._waiting.update(Text(what))

    def end(self) -> None:
        """The turn is over, however it ended; safe to call twice."""
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def stopped(self) -> None:
        self.console.print("\n(stopped)" if self._answering else "(stopped)", style="dim")

    def sources(self, *, everything: bool) -> None:
        """The cited sources with the sentence they were cited for; with `everything` the uncited ones too."""
        for n, passage in sorted(self.evidence.items()):
            citation = self.citations.get(n)
            if citation is None and not everything:
                continue
            label = Text(f"[{n}] ", style=NUMBER_STYLE)
            label.append(place(passage.title, passage.heading, passage.page), style="bold" if citation else "dim")
            label.append(f"  {sanitize_line((citation and citation.url) or passage.source)}", style="dim")
            self.console.print(label)
            text = sanitize_line(without_links(citation.quote if citation else passage.text))
            self.console.print(Text(f"    {_shorten(text)}", style="italic" if citation else "dim"))

    def _searched_for(self, event: RewriteEvent) -> None:
        others = [
            VARIANT_WORDS.get(variant.name, variant.name)
            for variant in event.variants
            if variant.text not in (event.text, event.question)
        ]
        if event.text != event.question or others:
            line = Text("searched for: ", style="dim")
            line.append(sanitize_line(event.text), style="dim italic")
            if others:
                line.append(f"  (with {', '.join(others)})", style="dim")
            self.console.print(line)
        if event.decision in ("refused", "failed") and event.reason:
            self.console.print(Text(f"question kept as typed: {sanitize_line(event.reason)}", style="dim"))

    def _token(self, text: str) -> None:
        self.end()
        self._answering = True
        line = Text(text)
        line.highlight_regex(MARKER, NUMBER_STYLE)
        self.console.print(line, end="", soft_wrap=True)

    def _done(self, event: DoneEvent) -> None:
        self.end()
        for citation in event.citations:
            self.citations.setdefault(citation.n, citation)
        remarks = []
        if event.finish_reason == "length":
            remarks.append("(the answer was cut at its longest allowed length)")
        if event.alternatives:
            more = "type its number or some of its words, or say more"
            remarks.append(f"(asked back: {more if self.talking else 'ask again and name one of these'})")
        if event.warning:
            remarks.append(sanitize_line(event.warning))
        for sentence in event.support:
            if not sentence.supported:
                sentence_text = sanitize_line(event.answer[sentence.answer_start : sentence.answer_end])
                how = "the passage says something else" if sentence.contradicted else "not supported by what it cites"
                remarks.append(f"{how}: {_shorten(sentence_text)}")
        if event.dropped_citations:
            remarks.append(f"({event.dropped_citations} citations of sources that do not exist were removed)")
        self.console.print()
        for remark in remarks:
            self.console.print(remark, style="yellow")
        self.sources(everything=False)

    def _error(self, event: ErrorEvent) -> None:
        self.end()
        if self._answering:
            self.console.print()
        self.console.print(Text(f"error: {sanitize_line(event.message)}", style="bold red"))


def _shorten(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[: SHORT - 1].rstrip()}…"


HELP = """\
/sources  everything the last answer was given as evidence
/new      begin a new conversation
/quit     leave (or Ctrl-D); Ctrl-C stops an answer"""


def ask(
    context: typer.Context,
    question: Annotated[
        str | None, typer.Argument(help="Answer this and stop; without it begins a chat.", show_default=False)
    ] = None,
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection to ask.")] = "",
    where: Where = None,
    model: Answering = "",
    json_lines: Annotated[
        bool, typer.Option("--json", help="With a question: print the turn's events as JSON.")
    ] = False,
) -> None:
    """Chat with a collection in the terminal, or answer one question."""
    if question is not None and not question.strip():
        raise InputError("The question is empty.")
    if json_lines and question is None:
        raise InputError("--json needs a question: a chat is written for people.")
    state = state_of(context)
    settings = state.settings(overriding(collection=collection, llm__model=model))
    filters = parse_where(where or [])

    # Before anything is fetched: where there is nothing to ask, nothing is needed.
    demand_collection(settings)
    fetch_models(settings, state, llm=True)
    _wait_for(state, "Loading the models.")

    async def run() -> ExitCode:
        from server.access import at_terminal
        from server.chat import open_service

        async with open_service(settings) as opened:
            service = opened.as_principal(at_terminal())
            if question is None:
                await Chat(service, state, filters).talk()
                return ExitCode.OK
            return await _answer(service, state, question, filters, json_lines)

    if (code := asyncio.run(run())) is not ExitCode.OK:
        raise typer.Exit(code)


def _events(service: ChatService, request: TurnRequest) -> aclosing[AsyncGenerator[Event, None]]:
    """The events of a turn, which ends with the context."""
    return aclosing(cast("AsyncGenerator[Event, None]", service.turns.ask(request)))


async def _answer(
    service: ChatService, state: State, question: str, where: Mapping[str, Any], json_lines: bool
) -> ExitCode:
    """Print the answer to one question, or with `json_lines` its events."""
    from server.chat import EvidenceEvent, TurnRequest

    collection = service.settings.collection
    transcript = Transcript(state.out, talking=False)
    last: Event | None = None
    _wait_for(state, f"Asking {collection}.")
    try:
        if not json_lines:
            transcript.begin()
        request = TurnRequest(question=question, collection=collection, where=dict(where) or None)
        async with _events(service, request) as events:
            async for last in events:
                if isinstance(last, EvidenceEvent):
                    _wait_for(state, f"Reading {len(last.passages)} sources.")
                if json_lines:
                    typer.echo(json.dumps(last.model_dump(mode="json")))
                else:
                    transcript.show(last)
    finally:
        transcript.end()
    if last is None or last.type != "error":
        refused = last is not None and last.type == "done" and last.status == "refused"
        return ExitCode.REFUSED if refused else ExitCode.OK
    if last.code.startswith("llm"):
        return ExitCode.LLM
    return ExitCode.NOT_FOUND if last.code.endswith("not_found") else ExitCode.UNEXPECTED


class Chat:
    """One conversation at a time with one collection."""

    def __init__(self, service: ChatService, state: State, where: Mapping[str, Any]) -> None:
        self.service = service
        self.console = state.out
        self.where = dict(where)
        self.transcript = Transcript(state.out)
        self.collection = service.settings.collection
        self.conversation_id: str | None = None

    async def talk(self) -> None:
        """Ask until the person leaves."""
        session = self._session()
        if session is not None:
            self.console.print(f"Asking [bold]{self.collection}[/]. /help shows what else can be typed.", markup=True)
        elif isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        while True:
            try:
                typed = await _read(session)
            except KeyboardInterrupt:
                if session is None:
                    raise
                self._say("(/quit or Ctrl-D leaves)")
                continue
            if typed is None:
                return
            typed = typed.strip()
            if session is None and typed:
                self.console.print(f"› {typed}", style="bold")
            match typed:
                case "/quit" | "/exit":
                    return
                case "/help":
                    self._say(HELP)
                case "/sources" if self.transcript.evidence:
                    self.transcript.sources(everything=True)
                case "/sources":
                    self._say("There are no sources yet; ask something first.")
                case "/new":
                    self.conversation_id = None
                    self._say("A new conversation.")
                case _ if typed.startswith("/"):
                    self._say(f"There is no {typed}; /help shows what there is.")
                case _ if typed:
                    await self._ask(typed)

    async def _ask(self, question: str) -> None:
        from server.chat import ChatError, TurnRequest

        try:
            if self.conversation_id is None:
                self.conversation_id = (await self.service.conversations.create(self.collection)).id
            request = TurnRequest(
                question=question,
                collection=self.collection,
                conversation_id=self.conversation_id,
                where=self.where or None,
            )
            await self._stoppable(request)
        except ChatError as error:
            self.transcript.end()
            self.console.print(f"error: {error.message}", style="bold red")

    async def _stoppable(self, request: TurnRequest) -> None:
        """Show a turn; Ctrl-C ends the turn and nothing else."""
        self.transcript.begin()
        reading = asyncio.create_task(self._show(request))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, reading.cancel)
        try:
            await asyncio.wait({reading})
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            self.transcript.end()
        if reading.cancelled():
            self.transcript.stopped()
        else:
            reading.result()

    async def _show(self, request: TurnRequest) -> None:
        async with _events(self.service, request) as events:
            async for event in events:
                self.transcript.show(event)

    def _session(self) -> PromptSession[str] | None:
        """Line editing with history where a person types; None where input is piped in."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return None
        need_extra("standard", "A chat in the terminal", "prompt_toolkit")
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory

        home = self.service.settings.home
        home.mkdir(parents=True, exist_ok=True)
        return PromptSession(history=FileHistory(str(home / "ask_history")))

    def _say(self, text: str) -> None:
        self.console.print(text, style="dim")


def parse_where(pairs: list[str]) -> dict[str, Any]:
    """`["domain=dmv", "year=2024,2025"]` as a filter: numbers and true/false as such, commas make a list.

    Raises InputError for a pair without a key or a value.
    """
    filters: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise InputError(f"{pair!r} is not KEY=VALUE; write for example domain=dmv.")
        values = [_scalar(part.strip()) for part in value.split(",") if part.strip()]
        filters[key.strip()] = values[0] if len(values) == 1 else values
    return filters


def _scalar(text: str) -> str | int | float | bool:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | int | float | bool) else text


async def _read(session: PromptSession[str] | None) -> str | None:
    """The next line, or None at the end of the input. Raises KeyboardInterrupt on Ctrl-C."""
    if session is None:
        # Reading blocks the loop, which has nothing else to do; Ctrl-C has to end it at once.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return sys.stdin.readline() or None
    try:
        return await session.prompt_async("› ")
    except EOFError:
        return None


def _wait_for(state: State, what: str) -> None:
    """Say what is waited for, on standard error, where no spinner tells it."""
    if not sys.stdout.isatty():
        state.err.print(what)
