"""Answers as a chat gives them: every question of a set through the turn's own event stream, kept, and measured.

Each finished turn is one line of a journal at once, so that an evaluation of hours can be stopped and gone on with.
These tables are measured: `answer` compares the words of answered turns with a reference, which is one right answer
of many; `citation` looks at what they cite, judged as in a chat (`server.turn.support`); `turn` counts refusals and
seconds over all turns; `answerable`, `unanswerable` and `underspecified` say what people met who asked such a question,
and `evidence` whether the marked evidence of the answerable ones was shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.shared.options import Every, FailUnder, LanguageModel, Out, listed, measured_run, overriding
from cli.shared.state import state_of
from evaluation.answers import AnsweredTurn, answered, plain, show
from evaluation.metrics import Estimate, token_f1
from evaluation.questions import BadRow, Question, json_rows
from evaluation.run_folder import Latency, RunWriter, Scores, metrics_of, percentiles
from evaluation.sets import Place, placed, quoted_places
from papers.asking import JudgeVerdict, judged_as, rubric
from papers.bench import Bench, index_set
from papers.command_line import Data, Sets, bench
from papers.datasets import DataSet, load_sets
from papers.measures import bare, corpus_bleu, estimate_of, note, rouge, sentence_bleu
from rewriter.protocol import Conversation, Message
from server.turn.events import Evidence
from server.turn.models import TurnModels, answer_style
from server.turn.run import TurnEngine, TurnInput
from server.turn.support import SUPPORTED, SupportScorer
from server.turn.system_messages import history_for_model
from text.recorder import Recording

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from rewriter.protocol import Rewriter
    from server.turn.support import PairModel


def read_journal(path: Path) -> dict[str, AnsweredTurn]:
    """The turns of a journal by question; none where there is no file. A torn last line is passed over.

    Raises BadRow for any other line that is no turn.
    """
    if not path.is_file():
        return {}
    text = path.read_text("utf-8")
    if text and not text.endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1], "utf-8")
    turns = {}
    for where, row in json_rows(path):
        try:
            turn = AnsweredTurn(**row)
        except TypeError as error:
            raise BadRow(f"{where} is no answered turn ({error}).") from None
        turns[turn.id] = turn
    return turns


async def answer_all(
    engine: TurnEngine,
    questions: Sequence[Question],
    journal: Path,
    *,
    collection: str,
    content: bool = True,
    own_answers: bool = False,
    until: float = math.inf,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, AnsweredTurn]:
    """Ask every question the journal does not know yet, one after the other; the turns by question.

    The calls of each turn are kept beside the journal (`.traces.jsonl`), with `content` in words. Stops before a new
    question at `until` (`time.monotonic`): then fewer turns than questions come back. A turn that ended in an error is
    asked again the next time. With `own_answers` a question's history holds the answers that came to the questions before
    it, as in a chat, and not those that people wrote; the questions of a dialog are in their order.
    """
    wanted = {question.id for question in questions}
    done = {name: turn for name, turn in read_journal(journal).items() if turn.status != "error" and name in wanted}
    answers = {(q.dialog, q.depth): done[q.id].answer for q in questions if q.id in done}
    for question in questions:
        if question.id in done:
            continue
        if time.monotonic() > until:
            break
        progress("answering", len(done), len(questions))
        recording = Recording("turn", content=content)
        with recording.root as call:
            call.inputs(question=question.text)
            history = _with_answers(question, answers) if own_answers else question.conversation
            request = TurnInput(question=question.text, collection=collection, conversation=history)
            turn = answered(question, [event async for event in engine.run(request)])
            call.output({"answer": turn.answer})
        answers[question.dialog, question.depth] = turn.answer
        _keep(asdict(turn), journal)
        _keep({"id": question.id, "calls": recording.calls()}, journal.with_suffix(".traces.jsonl"))
        done[question.id] = turn
    progress("answering", len(done), len(questions))
    return done


def _with_answers(question: Question, answers: Mapping[tuple[str, int], str]) -> Conversation:
    """Return the history of a question with the `answers` by dialog and number of the question, as a chat reads it."""
    messages = list[Message]()
    asked = (message for message in question.conversation.messages if message.role == "user")
    for number, message in enumerate(asked, 1):
        answer = answers.get((question.dialog, number))
        messages += [message, *([Message("assistant", answer)] if answer else [])]
    return history_for_model(messages)


def _keep(row: Mapping[str, Any], journal: Path) -> None:
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def evaluate_answers(
    sets: Sequence[DataSet],
    rewriter: Rewriter,
    chat_model: BaseChatModel | None,
    label: str,
    bench: Bench,
    writer: RunWriter,
    *,
    aclose: Callable[[], Awaitable[None]],
    seconds: float = math.inf,
    judged: bool = False,
    own_answers: bool = False,
    pairs: PairModel | None = None,
) -> int:
    """Answer every question that is open, and measure all under the system `label`; how many questions are left.

    Nothing is measured before every question is answered. Nothing new is asked once `seconds` of the run are over.
    `pairs` reads statements beside what they cite. With `judged` the language model judges its own answers. `aclose`
    closes the model's connections, on their event loop.
    """
    names = {eval_set.name: index_set(eval_set, bench) for eval_set in sets}
    with ExitStack() as stack:
        opened = {name: stack.enter_context(closing(bench.open(name, bench.plain))) for name in names.values()}
        models = TurnModels(rewriter, bench.reranker, chat_model, style=answer_style(bench.settings.llm), pairs=pairs)
        engine = TurnEngine(collection=opened.__getitem__, models=models, settings=bench.settings)

        async def ask() -> dict[str, dict[str, AnsweredTurn]]:
            try:
                return {
                    eval_set.name: await answer_all(
                        engine,
                        eval_set.questions,
                        writer.path(eval_set.name, "turns.jsonl"),
                        collection=names[eval_set.name],
                        content=bench.settings.trace.content,
                        own_answers=own_answers,
                        until=writer.began + seconds,
                        progress=bench.progress,
                    )
                    for eval_set in sets
                }
            finally:
                await aclose()

        turns = asyncio.run(ask())
        missing = sum(len(eval_set.questions) - len(turns[eval_set.name]) for eval_set in sets)
        for eval_set in sets if not missing else ():
            scores: Scores = {}
            if judged and chat_model is not None:
                journal = writer.path(eval_set.name, "judge.jsonl")
                scores = judge_all(chat_model, eval_set.questions, turns[eval_set.name], journal, bench.progress)
            collection = opened[names[eval_set.name]]
            judgements = placed(eval_set, collection), quoted_places(eval_set, collection)
            measure(*judgements, label, turns[eval_set.name], writer, scores)
    return missing


def measure(
    chosen: DataSet,
    places: Mapping[str, Sequence[Place]],
    system: str,
    turns: Mapping[str, AnsweredTurn],
    writer: RunWriter,
    judged: Scores | None = None,
) -> None:
    """Write the measures of all turns of a set into the run.

    `places` says by question where its evidence stands. `judged` are a judge's scores, where one was asked.
    """
    by_id = {question.id: question for question in chosen.questions}
    done = {name: turn for name, turn in turns.items() if turn.status != "error"}
    failed = len(turns) - len(done)
    if failed:
        writer.notes.append(f"{chosen.name}: {failed} turns ended in an error and are left out.")
    compared = {
        name: turn
        for name, turn in done.items()
        if turn.status not in ("asked", "refused")
        and by_id[name].answer
        and by_id[name].answerability not in ("unanswerable",)
    }
    tables: dict[str, Scores] = {
        "turn": {name: _turn(turn) for name, turn in done.items()},
        "answer": _texts(compared, by_id),
        "citation": {
            name: _citations(turn, _relevant(chosen, name))
            for name, turn in done.items()
            if turn.status == "answered" and turn.support
        },
    }
    for level in dict.fromkeys(_GROUPS.values()):
        tables[level] = {n: outcome(turn) for n, turn in done.items() if _GROUPS.get(by_id[n].answerability) == level}
    tables["evidence"] = {n: evidence_shown(done[n], places[n]) for n in tables["answerable"] if n in places}
    if judged:
        tables["judge"] = judged
    for level, scores in tables.items():
        if scores:
            writer.write_scores(chosen.name, system, level, scores)
            writer.metrics += metrics_of(chosen.name, level, system, scores, by_id)
    extra = _refusals(done, by_id)
    texts = [plain(turn.answer) for turn in compared.values()]
    bleu, signature = corpus_bleu(texts, [by_id[name].answer for name in compared])
    extra["answer", "SacreBLEU"] = bare(bleu, len(compared))
    if signature:
        writer.notes.append(f"SacreBLEU: {signature}.")
    for (level, name), estimate in extra.items():
        note(writer, chosen.name, level, system, name, estimate)
    seconds = [turn.seconds["total"] for turn in done.values() if "total" in turn.seconds]
    writer.latencies.append(Latency(chosen.name, system, *percentiles(seconds), len(seconds)))
    show(chosen, system, turns, writer)


_GROUPS = {
    "answerable": "answerable",
    "partial": "answerable",
    "unanswerable": "unanswerable",
    "underspecified": "underspecified",
}
"""The table of a turn, by what people say of its question."""


def outcome(turn: AnsweredTurn) -> dict[str, float]:
    """Return what a person met: exactly one of `refused`, `asked back`, `doubted` and `sure` is 1."""
    refused, asks = turn.status == "refused", turn.status == "asked"
    doubted = turn.doubted and not (refused or asks)
    values = {"refused": refused, "asked back": asks, "doubted": doubted, "sure": not (refused or asks or doubted)}
    return {name: float(value) for name, value in values.items()}


def evidence_shown(turn: AnsweredTurn, places: Sequence[Place]) -> dict[str, float]:
    """Return whether a citation quotes one of the `places`, and whether it does so without a doubt."""
    overlap = any(overlaps(tuple(cited["place"]), place) for cited in turn.citations for place in places)
    return {"shown": float(overlap), "shown and sure": float(overlap) * outcome(turn)["sure"]}


def overlaps(cited: Place, place: Place) -> bool:
    """Whether two spans of one document have at least half of the shorter one in common."""
    (document, start, end), (other, first, last) = cited, place
    return document == other and 2 * (min(end, last) - max(start, first)) >= min(end - start, last - first)


def _texts(turns: Mapping[str, AnsweredTurn], questions: Mapping[str, Question]) -> dict[str, dict[str, float]]:
    if not turns:
        return {}
    texts = [plain(turn.answer) for turn in turns.values()]
    references = [questions[name].answer for name in turns]
    kinds = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
    rouges = rouge(texts, references, list(kinds))
    bleus = sentence_bleu(texts, references)
    return {
        name: {
            **{label: rouges[place][kind] for kind, label in kinds.items()},
            "sentence BLEU": bleus[place],
            "token F1": token_f1(texts[place], references[place]),
        }
        for place, name in enumerate(turns)
    }


def _turn(turn: AnsweredTurn) -> dict[str, float]:
    values = (
        float(turn.status == "refused"),
        turn.seconds.get("first_token", turn.seconds.get("total", 0.0)),
        turn.seconds.get("total", 0.0),
        float(turn.tokens.get("completion", 0)),
    )
    return dict(zip(("refused", "first token s", "total s", "answer tokens"), values, strict=True))


def _citations(turn: AnsweredTurn, relevant: frozenset[str]) -> dict[str, float]:
    """Precision: citations that support their sentence alone. Recall: sentences that all their citations support."""
    scorer = SupportScorer([_evidence(passage) for passage in turn.passages])
    right = cited = 0
    for statement in turn.support:
        text = plain(turn.answer[statement["answer_start"] : statement["answer_end"]])
        for n in statement["cited"]:
            cited += 1
            right += scorer.score(text, [n]) >= SUPPORTED
    supported = sum(bool(statement["supported"]) for statement in turn.support)
    ids = {passage["n"]: passage["passage_id"] for passage in turn.passages}
    used = {ids[citation["n"]] for citation in turn.citations if citation["n"] in ids}
    own = [citation for citation in turn.citations if not citation["attributed"]]
    return {
        "citation precision": right / cited if cited else 0.0,
        "citation recall": supported / len(turn.support),
        "unsupported sentences": 1 - supported / len(turn.support),
        "cites anything": float(bool(turn.citations)),
        "cited by the model": len(own) / len(turn.citations) if turn.citations else 0.0,
        "cites what is labelled": len(used & relevant) / len(used) if used else 0.0,
        "dropped citations": float(turn.dropped),
    }


def _refusals(turns: Mapping[str, AnsweredTurn], questions: Mapping[str, Question]) -> dict[tuple[str, str], Estimate]:
    """How refusing follows what people say can be answered; partly answerable questions count as answerable."""
    rows = [
        (turn.status == "refused", questions[name].answerability == "unanswerable", questions[name].dialog)
        for name, turn in turns.items()
        if questions[name].answerability in ("answerable", "partial", "unanswerable")
    ]
    if not any(unanswerable for _, unanswerable, _ in rows):
        return {}
    dialogs = [dialog for *_, dialog in rows]

    def share(of: str) -> Estimate:
        def value(places: Sequence[int]) -> float:
            refused = [rows[place][0] for place in places]
            unanswerable = [rows[place][1] for place in places]
            both = sum(a and b for a, b in zip(refused, unanswerable, strict=True))
            if of == "precision":
                return both / max(1, sum(refused))
            if of == "recall":
                return both / max(1, sum(unanswerable))
            return (sum(refused) - both) / max(1, len(places) - sum(unanswerable))

        return estimate_of(value, dialogs)

    return {
        ("turn", "refusal precision"): share("precision"),
        ("turn", "refusal recall"): share("recall"),
        ("turn", "false refusals"): share("false"),
    }


def _relevant(chosen: DataSet, question: str) -> frozenset[str]:
    return frozenset(item for level in chosen.levels if level.by == "unit" for item in level.qrels.get(question, ()))


def _evidence(passage: Mapping[str, Any]) -> Evidence:
    return Evidence(page=None, source="", ranks={}, **passage)


CRITERIA = {
    "faithful": "is everything the answer says said by the passages too?",
    "relevant": "does the answer answer the question that was asked, as the conversation means it?",
    "complete": "does the answer say what the passages hold about the question, leaving out nothing of importance?",
}


HISTORY = 4


CHARS = 1500


def judge(model: BaseChatModel, question: Question, turn: AnsweredTurn) -> list[JudgeVerdict]:
    """A verdict for each criterion; one whose answer holds no number from 1 to 5 is left out."""
    return judged_as(model, CRITERIA, "papers.orconvqa:rubric_turn", _parts(question, turn))


def _parts(question: Question, turn: AnsweredTurn) -> dict[str, str]:
    history: Sequence[str] = [
        f"{message.role}: {message.text}" for message in question.conversation.messages[-HISTORY:]
    ]
    passages = [f"[{passage['n']}] {passage['title']}\n{passage['text']}" for passage in turn.passages]
    return {
        "conversation": "\n".join(history)[-CHARS:],
        "question": question.text,
        "passages": "\n\n".join(passages)[: 4 * CHARS],
        "answer": turn.answer,
    }


def judge_all(
    model: BaseChatModel,
    questions: Sequence[Question],
    turns: Mapping[str, AnsweredTurn],
    path: Path,
    progress: Callable[[str, int, int], None],
) -> dict[str, dict[str, float]]:
    """The scores of every answered turn, by question and criterion; verdicts are kept in `path` as they come.

    Verdicts that are there already, by the same rubric over the same answer, are not asked for again.
    """
    rows = json_rows(path) if path.is_file() else ()
    keys = {name: _key(turn) for name, turn in turns.items()}
    cached = {row["id"]: row["verdicts"] for _, row in rows if row.get("key") == keys.get(row["id"])}
    wanted = [q for q in questions if q.id in turns and turns[q.id].status == "answered"]
    with path.open("a", encoding="utf-8") as file:
        for done, question in enumerate(wanted):
            if question.id in cached:
                continue
            progress("judging", done, len(wanted))
            turn = turns[question.id]
            cached[question.id] = [asdict(verdict) for verdict in judge(model, question, turn)]
            row = {"id": question.id, "key": keys[question.id], "verdicts": cached[question.id]}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
    scores = {
        name: {f"judge: {verdict['criterion']}": verdict["score"] for verdict in verdicts}
        for name, verdicts in cached.items()
    }
    return {name: values for name, values in scores.items() if len(values) == len(CRITERIA)}


def _key(turn: AnsweredTurn) -> str:
    return hashlib.sha256(f"{rubric().version}\n{turn.answer}".encode()).hexdigest()[:16]


def answers(
    context: typer.Context,
    sets: Sets,
    name: Annotated[str, typer.Option(help="Name of the run's folder; the same name goes on with it.")],
    data: Data = None,
    model: LanguageModel = "",
    minutes: Annotated[float, typer.Option(help="Stop asking after this; 0 asks everything.")] = 0,
    judge: Annotated[bool, typer.Option("--judge", help="Let the language model judge every answer.")] = False,
    every: Every = 1,
    own_answers: Annotated[
        bool, typer.Option("--own-answers", help="The history holds the server's own answers; --every takes dialogs.")
    ] = False,
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Answer every question of data sets as a chat does; text measures, citations, refusals and times.

    Finished turns are kept: after an interruption, or with --minutes, the same command goes on.
    """
    from cli.shared.resources import fetch_models, open_rewriter
    from server.engines import open_engine
    from server.rewriters import open_pairs
    from text.modules import need_extra

    need_extra("papers", "Measuring answers", "rouge_score", "sacrebleu")

    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    chosen = load_sets(listed(sets), data, 1 if own_answers else every)
    if own_answers:
        chosen = [eval_set.every_dialog(every) for eval_set in chosen]
    with measured_run(state, settings, "answers", name, out, fail_under, resume=True) as writer, ExitStack() as stack:
        if judge:
            version = rubric().version
            writer.notes.append(f"judge: the model itself, rubric {version}; its prompts stand in judge.jsonl.")
        measuring = stack.enter_context(bench(settings, state, settings.retrieval.rerank != "never"))
        fetch_models(settings, state, encoder=False, reranker=False, llm=True)
        rewriter = stack.enter_context(open_rewriter(settings, state))
        with state.err.status("starting the language model"):
            engine = stack.enter_context(open_engine(settings))
        missing = evaluate_answers(
            chosen,
            rewriter,
            engine.chat_model(),
            engine.name,
            measuring,
            writer,
            aclose=engine.aclose,
            seconds=60 * minutes if minutes > 0 else math.inf,
            judged=judge,
            own_answers=own_answers,
            pairs=open_pairs(settings),
        )
        if missing:
            state.err.print(f"{missing} questions are left: the same command goes on with them.")
            raise typer.Exit
