"""Rewriters against what people wrote, over any file of examples that `rewriter.examples` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evaluation.metrics import Estimate, token_f1
from evaluation.questions import MissingSet, Question, present
from evaluation.run_folder import Latency, RunWriter, metrics_of, percentiles
from index.encoders import Encoder
from papers import measures
from papers.datasets import PRODUCT_SOURCE
from papers.measures import bare, estimate_of, note, tests_of
from rewriter.examples import RewriteExample, read_examples
from rewriter.protocol import Rewrite

LEVEL = "rewrite"
TESTED = ("ROUGE-L", "token F1", "similarity")

QRECC = "QReCC (CC BY-SA 3.0) is published at https://github.com/apple/ml-qrecc."
CAST = "CAsT 2019 (MIT) is published at https://github.com/daltonj/treccastweb."
IKAT = "iKAT 2023 (MIT) is published at https://www.trecikat.com."

FILES = {
    "qrecc": ("rewriting/qrecc.jsonl", QRECC),
    "cast2019": ("rewriting/cast2019.eval.dialogs.jsonl", CAST),
    "ikat2023": ("rewriting/ikat2023.train.dialogs.jsonl", IKAT),
    "mtrag": ("mtrag/dialogs.jsonl", PRODUCT_SOURCE),
    "synthetic": ("synthetic/dialogs.dev.jsonl", PRODUCT_SOURCE),
    "product": ("product_dialogs/dialogs.dev.jsonl", PRODUCT_SOURCE),
}
"""Files with rewrites below the folder of data sets, and where they come from."""


def load_examples(name: str, data: Path | None, every: int = 1) -> list[RewriteExample]:
    """The examples of a known set, or of the file of that name. Raises MissingSet or ExampleError."""
    if name in FILES:
        if data is None:
            raise MissingSet(f"The set {name} is looked for in a folder of data sets: give it with --data.")
        file, where = FILES[name]
        path = present(data / file, name, where)
    else:
        path = present(Path(name), "A file of examples", f"Known sets are {', '.join(FILES)}.")
    return list(read_examples(path))[::every]


def questions(examples: Sequence[RewriteExample]) -> list[Question]:
    """The examples as questions; the domain is where an example comes from."""
    return [
        Question(
            id=example.id,
            dialog=example.dialog,
            text=example.question,
            conversation=example.conversation,
            rewrite=example.rewrite,
            domain=example.source,
            answerability=example.answerability,
            kind=example.kind,
        )
        for example in examples
    ]


def measure(
    set_name: str,
    asked: Sequence[Question],
    made: Mapping[str, Mapping[str, Rewrite]],
    encoder: Encoder,
    writer: RunWriter,
) -> None:
    """Measure what every rewriter made of the questions, and write it into the run; tests are against the first."""
    by_id = {question.id: question for question in asked}
    dialogs = [question.dialog for question in asked]
    scores = {}
    for name, rewrites in made.items():
        texts = [rewrites[question.id].text for question in asked]
        scores[name] = _scores(asked, texts, encoder)
        writer.write_scores(set_name, name, LEVEL, scores[name])
        writer.metrics += metrics_of(set_name, LEVEL, name, scores[name], by_id)
        for measure_name, one in _overall(asked, [rewrites[question.id] for question in asked], dialogs).items():
            note(writer, set_name, LEVEL, name, measure_name, one)
        seconds = [rewrite.seconds for rewrite in rewrites.values()]
        writer.latencies.append(Latency(set_name, name, *percentiles(seconds), len(seconds)))
        writer.write_rows(
            (
                {"id": name_of, "text": rewrite.text, "decision": rewrite.decision, "seconds": rewrite.seconds}
                for name_of, rewrite in rewrites.items()
            ),
            set_name,
            name,
            "rewrites.jsonl",
        )
        writer.write_rows(
            (
                {"id": question.id, "shown": [f"{rewrite.decision}: {rewrite.text}", f"a person: {question.rewrite}"]}
                for question in asked
                for rewrite in (rewrites[question.id],)
            ),
            set_name,
            name,
            "evidence.jsonl",
        )
    for measure_name in TESTED:
        writer.tests += tests_of(set_name, LEVEL, measure_name, next(iter(scores)), scores, by_id)
    writer.write_questions(set_name, asked)


def _scores(asked: Sequence[Question], texts: Sequence[str], encoder: Encoder) -> dict[str, dict[str, float]]:
    references = [question.rewrite for question in asked]
    rouges = measures.rouge(texts, references)
    bleu = measures.sentence_bleu(texts, references)
    near = measures.similarities(texts, references, encoder.encode)
    return {
        question.id: {
            "ROUGE-L": rouges[place]["rougeL"],
            "sentence BLEU": bleu[place],
            "exact match": measures.exact_match(texts[place], references[place]),
            "token F1": token_f1(texts[place], references[place]),
            "similarity": near[place],
        }
        for place, question in enumerate(asked)
    }


def _overall(asked: Sequence[Question], rewrites: Sequence[Rewrite], dialogs: Sequence[str]) -> dict[str, Estimate]:
    """What is no mean over questions: corpus BLEU, the gate, calibration."""
    changed = [measures.is_change(rewrite, question.text) for rewrite, question in zip(rewrites, asked, strict=True)]
    needed = [bool(question.needs_rewrite) for question in asked]

    def gate(field: str) -> Estimate:
        def of(places: Sequence[int]) -> float:
            found = measures.gate([changed[place] for place in places], [needed[place] for place in places])
            return float(getattr(found, field))

        return estimate_of(of, dialogs)

    # Resampling whole corpora would take minutes: BLEU has no interval.
    bleu, _ = measures.corpus_bleu([r.text for r in rewrites], [question.rewrite for question in asked])
    found = {
        "BLEU": bare(bleu, len(asked)),
        "gate precision": gate("precision"),
        "gate recall": gate("recall"),
        "gate F1": gate("f1"),
        "changed": gate("changed"),
    }
    confident = [
        (rewrite.confidence, own == wanted)
        for rewrite, own, wanted in zip(rewrites, changed, needed, strict=True)
        if rewrite.confidence is not None
    ]
    if confident:
        error = measures.calibration_error([one for one, _ in confident], [right for _, right in confident])
        found["calibration error"] = bare(error, len(confident))
    return found
