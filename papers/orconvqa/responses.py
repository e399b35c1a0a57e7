"""Answers of a run scored by METEOR, BERTScore and the perplexity of a model, beside what that run has measured itself.

BERTScore is made from its definition, with any encoder of the transformers library (Zhang et al. 2020): every token of one text is matched with the most similar token of the other, by the cosine
of contextual embeddings of one layer; the means are precision (over the candidate's tokens) and recall (over the
reference's). No idf weights and no rescaling with a baseline, so numbers of different encoders cannot be
compared: the encoder and the layer belong to every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.shared.options import FailUnder, LanguageModel, Name, Out, measured_run, overriding
from cli.shared.state import InputError, state_of
from evaluation.answers import plain
from evaluation.questions import EvaluationError, Question, json_rows
from evaluation.run_folder import metrics_of, read_run
from papers.command_line import with_model
from papers.decomposition.forcing import forced_logprobs, perplexity
from papers.measures import meteor
from papers.orconvqa.answers import read_journal
from server.registry import resolve
from text.modules import need_extra

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

DEFAULT_ENCODER = "FacebookAI/roberta-large"
_LAYERS = {"roberta-large": 17, "roberta-base": 10, "bert-base-uncased": 9, "bert-large-uncased": 18}
"""The layers the authors found best; the last layer for any other encoder."""

BATCH = 16
MAX_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Match:
    """Precision, recall and their F1, each between -1 and 1 and mostly above 0."""

    precision: float
    recall: float
    f1: float


class BertScore:
    """Scores texts against references. Raises EvaluationError where the encoder cannot be loaded."""

    def __init__(self, path_or_id: str = DEFAULT_ENCODER) -> None:
        need_extra("hub", "BERTScore", "torch", "transformers")
        from transformers import AutoModel, AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(path_or_id)
            self._model: Any = AutoModel.from_pretrained(path_or_id).eval()
        except (OSError, ValueError) as error:
            raise EvaluationError(
                f"The encoder of BERTScore, {path_or_id!r}, cannot be loaded ({str(error).splitlines()[0]}). Give a "
                "local one with --encoder, or `--encoder none` to leave BERTScore out."
            ) from error
        label = Path(path_or_id).name
        self.layer = _LAYERS.get(label, int(self._model.config.num_hidden_layers))
        self.name = f"{label}, layer {self.layer}"

    def score(self, texts: Sequence[str], references: Sequence[str]) -> list[Match]:
        """One match for each pair; all 0 where a text has no token."""
        unique = list(dict.fromkeys((*texts, *references)))
        # Texts of like length share a batch, so that little of it is padding.
        unique.sort(key=len)
        states: dict[str, Any] = {}
        for start in range(0, len(unique), BATCH):
            batch = unique[start : start + BATCH]
            states.update(zip(batch, self._states(batch), strict=True))
        return [_match(states[text], states[reference]) for text, reference in zip(texts, references, strict=True)]

    def _states(self, texts: Sequence[str]) -> list[Any]:
        """`(tokens, dimension)` of each text, normalised, special tokens left out."""
        import torch

        window = min(MAX_TOKENS, int(self._model.config.max_position_embeddings) - 2)
        encoded = self._tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=window,
            return_tensors="pt",
            return_special_tokens_mask=True,
        )
        special = encoded.pop("special_tokens_mask").bool()
        with torch.inference_mode():
            hidden = self._model(**encoded, output_hidden_states=True).hidden_states[self.layer]
        keep = encoded["attention_mask"].bool() & ~special
        vectors = torch.nn.functional.normalize(hidden, dim=-1)
        return [vectors[row][keep[row]] for row in range(len(texts))]


def _match(text: Any, reference: Any) -> Match:
    if not len(text) or not len(reference):
        return Match(0.0, 0.0, 0.0)
    similarity = text @ reference.T
    precision = float(similarity.max(dim=1).values.mean())
    recall = float(similarity.max(dim=0).values.mean())
    return Match(precision, recall, 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0)


def responses(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="Folder of a run of `python -m papers.orconvqa answers`.")],
    encoder: Annotated[
        str, typer.Option(help="BERTScore's: hub id, folder or registered name; none leaves it out.")
    ] = "",
    model: LanguageModel = "none",
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Score the answers of a run by METEOR and BERTScore; --model says how likely each answer is (perplexity)."""
    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    system = next((metric.system for metric in read_run(run).metrics), "")
    found: dict[str, dict[str, tuple[Question, str, str]]] = {}
    for journal in sorted(run.glob("*/turns.jsonl")):
        turns = read_journal(journal)
        for _, row in json_rows(journal.with_name("questions.jsonl")):
            turn, reference = turns.get(row["id"]), row.get("answer", "")
            if turn is not None and turn.status == "answered" and reference:
                question = Question(row["id"], row["dialog"], row["text"])
                found.setdefault(journal.parent.name, {})[question.id] = (question, plain(turn.answer), reference)
    if not found:
        raise InputError(
            f"{run} holds no answer beside a reference; `python -m papers.orconvqa answers` makes such a run."
        )
    scorer = None if encoder == "none" else BertScore(*([resolve(encoder, settings.home)] if encoder else []))
    with measured_run(state, settings, "responses", name, out, fail_under) as writer:
        writer.notes.append(f"Answers of {run.name}.")
        if scorer is not None:
            writer.notes.append(f"BERTScore by {scorer.name}, without rescaling.")
        if model != "none":
            writer.notes.append(f"Perplexity by {model}, which sees the question and not the passages.")
        for set_name, rows in found.items():
            asked = [question for question, *_ in rows.values()]
            texts, references = [text for _, text, _ in rows.values()], [reference for *_, reference in rows.values()]
            scores, label = meteor(texts, references)
            columns = {label: scores}
            if scorer is not None:
                columns["BERTScore F1"] = [match.f1 for match in scorer.score(texts, references)]
            if model != "none":
                columns["perplexity"] = with_model(settings, state, partial(_perplexities, asked, texts))
            values = {name: {key: column[n] for key, column in columns.items()} for n, name in enumerate(rows)}
            questions = dict(zip(rows, asked, strict=True))
            writer.write_scores(set_name, system, "answer", values)
            writer.metrics += metrics_of(set_name, "answer", system, values, questions, lambda _: ("all",))


async def _perplexities(
    asked: Sequence[Question], texts: Sequence[str], chat_model: BaseChatModel | None
) -> list[float]:
    """Of each text as the answer to its question alone."""
    from langchain_core.messages import HumanMessage

    assert chat_model is not None
    pairs = zip(asked, texts, strict=True)
    return [perplexity(await forced_logprobs(chat_model, [HumanMessage(one.text)], text)) for one, text in pairs]
