from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from evaluation import metrics
from evaluation.metrics import FULL_MEASURES, evaluate, per_question, read_run, run_lines
from papers.datasets import read_qrels

QRELS = {"q1": {"a": 1, "b": 1}, "q2": {"c": 1}, "q3": {"d": 1}}
RUN = {"q1": ["a", "x", "b"], "q2": ["x", "y", "z", "w", "v", "c"]}


def test_measures_are_means_over_all_judged_questions() -> None:
    values = evaluate(RUN, QRELS, ["AP", "R@5", "RR", "nDCG@5"])
    assert values["AP"] == pytest.approx(((1 + 2 / 3) / 2 + 1 / 6 + 0) / 3)
    assert values["R@5"] == pytest.approx((1 + 0 + 0) / 3)
    assert values["RR"] == pytest.approx((1 + 1 / 6 + 0) / 3)
    ideal = 1 + 1 / 1.584962500721156
    assert values["nDCG@5"] == pytest.approx(((1 + 0.5) / ideal) / 3)


def test_a_run_comes_back_in_its_order_with_spaces_in_ids_and_ties(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    ranking = [("Top 5 mistakes::sec 1", 0.5), ("b", 0.5), ("c", 0.9)]
    path.write_text("".join(run_lines("q 1".replace(" ", "_"), ranking, "tag")), "utf-8")
    (line,) = "".join(run_lines("q1", [("a\nq2 Q0 forged 1 9.0 x", 1.0)], "tag")).splitlines()
    assert line == "q1 Q0 a q2 Q0 forged 1 9.0 x 1 1 tag"
    assert read_run(path) == {"q_1": ["Top 5 mistakes::sec 1", "b", "c"]}
    scores = [float(line.rsplit(maxsplit=3)[2]) for line in path.read_text("utf-8").splitlines()]
    assert scores == sorted(set(scores), reverse=True)


def test_both_forms_of_judgements_are_read(tmp_path: Path) -> None:
    beir, trec = tmp_path / "qrels.tsv", tmp_path / "qrels.txt"
    beir.write_text("query-id\tcorpus-id\tscore\nq1\tan id with spaces\t1\nq1\tb\t0\n", "utf-8")
    trec.write_text("q1 0 a 2\n\nq2 0 b 1\n", "utf-8")
    assert read_qrels(beir) == {"q1": {"an id with spaces": 1, "b": 0}}
    assert read_qrels(trec) == {"q1": {"a": 2}, "q2": {"b": 1}}


@pytest.mark.parametrize("line", ["q1 Q0 a 1", "q1 XX a 1 0.5 tag", "q1 Q0 a 1 high tag"])
def test_a_malformed_run_names_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "run.trec"
    path.write_text(f"q1 Q0 a 1 0.5 tag\n{line}\n", "utf-8")
    with pytest.raises(ValueError, match="line 2"):
        read_run(path)


@pytest.mark.parametrize("line", ["q1", "q1\ta\tmany"])
def test_malformed_judgements_name_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text(f"query-id\tcorpus-id\tscore\n{line}\n", "utf-8")
    with pytest.raises(ValueError, match="line 2"):
        read_qrels(path)


def test_every_measure_equals_pytrec_evals() -> None:
    import random

    import pytrec_eval

    chance = random.Random(5)
    items = [f"d{n}" for n in range(40)]
    qrels = {f"q{n}": {item: 1 for item in chance.sample(items, 1 + n % 4)} for n in range(25)}
    run = {question: chance.sample(items, 30) for question in qrels}
    scored = {q: {item: 1.0 / rank for rank, item in enumerate(found, 1)} for q, found in run.items()}
    names = {"AP": "map", "RR": "recip_rank"}
    names |= {f"R@{k}": f"recall_{k}" for k in (1, 3, 5, 10, 20)}
    names |= {f"nDCG@{k}": f"ndcg_cut_{k}" for k in (3, 5, 10)}
    wanted = {"map", "recip_rank", "recall.1,3,5,10,20", "ndcg_cut.3,5,10"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(scored)
    ours = per_question(run, qrels, FULL_MEASURES)
    assert set(names) == set(FULL_MEASURES)
    for question in qrels:
        for measure, name in names.items():
            assert ours[question][measure] == pytest.approx(theirs[question][name]), (question, measure)


def test_words_are_counted_as_often_as_they_occur() -> None:
    assert metrics.token_f1("a b b c", "b b d") == pytest.approx(2 * 2 / 7)
    assert metrics.token_f1("?", "!") == 1
    assert metrics.token_f1("", "x") == 0


def test_scores_fall_in_single_precision_whatever_the_hits_say() -> None:
    import numpy as np

    lines = list(run_lines("q", [("a", 0.5), ("b", 0.5), ("c", 0.9), ("d", 0.0), ("e", 0.0)], "tag"))
    scores = [np.float32(line.split()[4]) for line in lines]
    assert all(higher > lower for higher, lower in pairwise(scores))


def test_ids_with_spaces_are_written_as_they_are() -> None:
    (line,) = run_lines("q", [("My page.md", 0.5)], "tag")
    fields = line.split()
    assert (fields[0], " ".join(fields[2:-3]), fields[-3]) == ("q", "My page.md", "1")
