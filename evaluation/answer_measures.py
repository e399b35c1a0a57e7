"""Answer measures: words against a reference, citations, refusals, time.

Four tables (levels): `answer` compares the words of answered turns with a reference; `citation` looks at what
they cite; `turn` counts refusals and seconds over all turns; `perplexity` is the model's own of what it wrote.
Whether a passage supports a sentence is judged as in a chat (`server.turn.support`), by words and not by a
second language model. A reference is what a person or the set's own agent said; it is one right answer of many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import regex

from evaluation import scoring
from evaluation.answering import AnsweredTurn
from evaluation.metrics.overlap import corpus_bleu, rouge, sentence_bleu, token_f1
from evaluation.metrics.significance import Estimate, estimate_of
from evaluation.reports.run_folder import Latency, RunWriter, Scores
from evaluation.scoring import percentiles
from evaluation.sets.base import EvalSet, Question
from server.turn.events import Evidence
from server.turn.support import SUPPORTED, SupportScorer
from text.modules import need_extra

_MARKER = regex.compile(r"[ ]?\[\d{1,3}\]")
_TURN_MEASURES = ("refused", "first token s", "total s", "answer tokens")


def measure(
    chosen: EvalSet,
    system: str,
    turns: Mapping[str, AnsweredTurn],
    writer: RunWriter,
    judged: Scores | None = None,
) -> None:
    """Write the measures of all turns of a set into the run; `judged` are a judge's scores, where one was asked."""
    by_id = {question.id: question for question in chosen.questions}
    done = {name: turn for name, turn in turns.items() if turn.status != "error"}
    failed = len(turns) - len(done)
    if failed:
        writer.notes.append(f"{chosen.name}: {failed} turns ended in an error and are left out.")
    compared = {
        name: turn
        for name, turn in done.items()
        if turn.status != "refused" and by_id[name].answer and by_id[name].answerability not in ("unanswerable",)
    }
    tables: dict[str, Scores] = {
        "turn": {name: _turn(turn) for name, turn in done.items()},
        "answer": _texts(compared, by_id),
        "citation": {
            name: _citations(turn, _relevant(chosen, name))
            for name, turn in done.items()
            if turn.status == "answered" and turn.support
        },
        "perplexity": {
            name: {"perplexity": turn.perplexity}
            for name, turn in done.items()
            if turn.perplexity is not None and turn.status == "answered"
        },
    }
    if judged:
        tables["judge"] = judged
    for level, scores in tables.items():
        if scores:
            writer.write_scores(chosen.name, system, level, scores)
            writer.metrics += scoring.metrics(chosen.name, level, system, scores, by_id)
    extra = _refusals(done, by_id)
    texts = [plain(turn.answer) for turn in compared.values()]
    bleu, signature = corpus_bleu(texts, [by_id[name].answer for name in compared])
    extra["answer", "SacreBLEU"] = Estimate.bare(bleu, len(compared))
    if signature:
        writer.notes.append(f"SacreBLEU: {signature}.")
    for (level, name), estimate in extra.items():
        writer.note(chosen.name, level, system, name, estimate)
    seconds = [turn.seconds["total"] for turn in done.values() if "total" in turn.seconds]
    writer.latencies.append(Latency(chosen.name, system, *percentiles(seconds), len(seconds)))
    show(chosen, system, turns, writer)


def plain(answer: str) -> str:
    """An answer without its citation markers."""
    return _MARKER.sub("", answer).strip()


def meteor(texts: Sequence[str], references: Sequence[str]) -> tuple[list[float], str]:
    """METEOR by NLTK, and its name: without WordNet's data it matches words and stems only, and is named so.

    Raises MissingExtra.
    """
    need_extra("eval", "METEOR", "nltk")
    import nltk
    from nltk.translate.meteor_score import single_meteor_score

    wordnet: Any = _NoSynonyms()
    name = "METEOR (exact+stem)"
    try:
        nltk.data.find("corpora/wordnet")
    except LookupError:
        pass
    else:
        from nltk.corpus import wordnet as synonyms

        wordnet, name = synonyms, "METEOR"
    pairs = zip(texts, references, strict=True)
    return [
        float(single_meteor_score(reference.split(), text.split(), wordnet=wordnet)) if text.split() else 0.0
        for text, reference in pairs
    ], name


class _NoSynonyms:
    """Stands in for WordNet where its data is not installed."""

    def synsets(self, word: str) -> list[Any]:
        return []


def _texts(turns: Mapping[str, AnsweredTurn], questions: Mapping[str, Question]) -> dict[str, dict[str, float]]:
    if not turns:
        return {}
    texts = [plain(turn.answer) for turn in turns.values()]
    references = [questions[name].answer for name in turns]
    kinds = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
    rouges = rouge(texts, references, list(kinds))
    bleus = sentence_bleu(texts, references)
    meteors, meteor_name = meteor(texts, references)
    values = {}
    for place, name in enumerate(turns):
        values[name] = {
            **{label: rouges[place][kind] for kind, label in kinds.items()},
            "sentence BLEU": bleus[place],
            meteor_name: meteors[place],
            "token F1": token_f1(texts[place], references[place]),
        }
    return values


def _turn(turn: AnsweredTurn) -> dict[str, float]:
    values = (
        float(turn.status == "refused"),
        turn.seconds.get("first_token", turn.seconds.get("total", 0.0)),
        turn.seconds.get("total", 0.0),
        float(turn.tokens.get("completion", 0)),
    )
    return dict(zip(_TURN_MEASURES, values, strict=True))


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


def _relevant(chosen: EvalSet, question: str) -> frozenset[str]:
    return frozenset(item for level in chosen.levels if level.by == "unit" for item in level.qrels.get(question, ()))


def _evidence(passage: Mapping[str, Any]) -> Evidence:
    return Evidence(page=None, source="", ranks={}, **passage)


def show(chosen: EvalSet, system: str, turns: Mapping[str, AnsweredTurn], writer: RunWriter) -> None:
    """Write into the run what was asked and what came of it, for comparisons to show."""
    questions = [question for question in chosen.questions if question.id in turns]
    writer.write_rows(
        (
            {
                "id": question.id,
                "shown": [
                    f"{turns[question.id].status}: {turns[question.id].answer}",
                    f"reference ({question.answerability or 'answerability unknown'}): {question.answer}",
                    *(f"[{p['n']}] {p['title']}: {p['text']}" for p in turns[question.id].passages[:2]),
                ],
            }
            for question in questions
        ),
        chosen.name,
        system,
        "evidence.jsonl",
    )
    writer.write_questions(
        chosen.name, questions, lambda question: {"answer": question.answer, "answerability": question.answerability}
    )
