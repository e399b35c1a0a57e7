"""`anaphora trace`: what happened in a turn, what is different between two, and a turn played again with a change."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from cli.shared.console import open_table
from cli.shared.options import Answering, overriding
from cli.shared.resources import with_service
from cli.shared.state import InputError, State, state_of
from text.sanitize import sanitize_line, sanitize_text

if TYPE_CHECKING:
    from server.chat import ChatService, ReplayedTurn, Trace
    from server.tracing import CallDifference

app = typer.Typer(help="See what happened in a turn, compare turns, and play one again.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="As JSON, for scripts.")]
TurnId = Annotated[
    str,
    typer.Argument(help="The turn's id, as `trace list` and the page show it, or how it begins.", show_default=False),
]
SHOWN = 200
"""Characters of a value in a list; `--json` has all of it."""


@app.command("list")
def list_traces(
    context: typer.Context,
    collection: Annotated[str, typer.Option("--collection", "-c", help="Only turns over this collection.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 20,
    as_json: AsJson = False,
) -> None:
    """The newest turns, each with its id, status, seconds and question."""
    state = state_of(context)

    async def read(service: ChatService) -> list[Any]:
        return list(await service.turns.traces(collection=collection, limit=limit))

    summaries = with_service(state, read)
    if as_json:
        typer.echo(json.dumps([summary.model_dump(mode="json") for summary in summaries], ensure_ascii=False))
        return
    table = open_table("turn", "when (UTC)", "status", "seconds", "question")
    for summary in summaries:
        when = datetime.fromtimestamp(summary.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(
            summary.turn_id, when, summary.status, f"{summary.seconds:.2f}", Text(sanitize_line(summary.question)[:80])
        )
    state.out.print(table) if summaries else state.err.print("No turn has left a trace yet.")


@app.command()
def show(
    context: typer.Context,
    turn: TurnId,
    other: Annotated[str, typer.Argument(help="Another turn: compare both call by call.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """Show the calls of a turn as a tree, each with its inputs and output, or what differs between two turns."""
    from server.tracing import calls, differences

    state = state_of(context)
    trace = _trace(state, turn)
    if other:
        _tell(state, differences(trace, _trace(state, other)), as_json)
        return
    if as_json:
        fields = trace.model_dump(mode="json", include={"turn_id", "conversation_id", "trace_id", "dropped"})
        typer.echo(json.dumps({**fields, "calls": calls(trace)}, ensure_ascii=False))
        return
    depth: dict[str | None, int] = {None: -1}
    for call in calls(trace):
        depth[call["id"]] = level = depth.get(call["parent"], 0) + 1
        failed = f"  {call['error']} {call['message']}" if call["error"] else ""
        state.out.print(f"{'  ' * level}{call['name']}  {call['seconds']:.3f} s{sanitize_line(failed)}", style="bold")
        for name in ("inputs", "output", "values"):
            if call[name]:
                state.out.print(f"{'  ' * level}  {name}: {_brief(call[name])}")
        if call["prompt"]:
            state.out.print(f"{'  ' * level}  prompt: {len(call['prompt'])} parts (--json shows them)")


@app.command()
def replay(
    context: typer.Context,
    turn: TurnId,
    rewrite: Annotated[str, typer.Option(metavar="TEXT", help="As if the rewriter had said this.")] = "",
    add: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A passage or document to be read first; repeatable.")
    ] = None,
    drop: Annotated[list[int] | None, typer.Option(metavar="N", help="A source to leave out; repeatable.")] = None,
    model: Answering = "",
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another setting, such as retrieval.evidence=3; repeatable."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Add the turn to this file as a case for `anaphora eval` and `diagnose`.")
    ] = None,
    gold: Annotated[str, typer.Option(metavar="TEXT", help="The right answer, with --keep; else the one given.")] = "",
    as_json: AsJson = False,
) -> None:
    """Play a turn again with something changed: what is asked the same comes from the record, the rest is done anew."""
    from server.replay import ReplayChanges
    from server.tracing import differences

    state = state_of(context)
    changes = ReplayChanges(rewrite.strip(), tuple(add or ()), tuple(drop or ()), another_model=bool(model))

    async def play(service: ChatService) -> ReplayedTurn:
        return await service.turns.replay(await _whole(service, turn), changes)

    played = with_service(state, play, _overrides(sets or (), model))
    _tell(state, differences(played.record, played.trace), as_json)
    if not as_json:
        state.out.print("\nthen: " + sanitize_text(played.record.answer), style="dim")
        state.out.print("now:  " + sanitize_text(played.trace.answer))
    if keep is not None:
        played.keep(keep, gold)
        state.err.print(f"Kept as a case in {keep}.")


def _trace(state: State, turn: str) -> Trace:
    async def read(service: ChatService) -> Trace:
        return await service.turns.trace(await _whole(service, turn))

    return with_service(state, read)


async def _whole(service: ChatService, turn: str) -> str:
    """The id of the one turn of the newest that begins so; `turn` itself where there is not just one."""
    matching = [trace.turn_id for trace in await service.turns.traces(limit=1000) if trace.turn_id.startswith(turn)]
    return matching[0] if turn and len(matching) == 1 else turn


def _overrides(sets: Iterable[str], model: str) -> dict[str, Any]:
    """`retrieval.profile.depth=50` and the like as settings. Raises InputError."""
    values = overriding(llm__model=model)
    for assignment in sets:
        name, equals, value = assignment.partition("=")
        if not (name.strip() and equals):
            raise InputError(f"{assignment!r} is not NAME=VALUE; write for example --set retrieval.profile.depth=50.")
        *groups, leaf = name.strip().split(".")
        within = values
        for group in groups:
            within = within.setdefault(group, {})
        try:
            within[leaf] = json.loads(value)
        except ValueError:
            within[leaf] = value
    return values


def _tell(state: State, differences: list[CallDifference], as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "path": difference.path,
                "status": difference.status,
                "changed": list(difference.changed),
                "replayed": (difference.right or {}).get("values", {}).get("replayed", ""),
                "left": difference.left,
                "right": difference.right,
            }
            for difference in differences
        ]
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    for difference in differences:
        indent = "  " * difference.depth
        what = f" ({', '.join(difference.changed)})" if difference.changed else ""
        name = difference.path.rsplit("/", 1)[-1]
        state.out.print(
            f"{indent}{name}: {difference.status}{what}", style="" if difference.status == "same" else "bold"
        )
        for field in difference.changed:
            for side, call in (("-", difference.left), ("+", difference.right)):
                state.out.print(f"{indent}  {side} {_brief((call or {}).get(field))}", style="dim")


def _brief(value: object) -> str:
    text = sanitize_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
