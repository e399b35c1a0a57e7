"""Measures that only the papers need, against counting by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from papers import measures as metrics
from papers.orconvqa.responses import BertScore
from rewriter.protocol import Rewrite


def test_a_match_is_exact_but_for_case_and_punctuation() -> None:
    assert metrics.exact_match("how LONG, does it last", "How long does it last?") == 1
    assert metrics.exact_match("how", "how long?") == 0


def test_the_gate_counts_changes_as_positive() -> None:
    gate = metrics.gate([True, True, False, False, True], [True, False, True, False, True])
    assert (gate.precision, gate.recall, gate.f1) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert gate.changed == pytest.approx(3 / 5)
    nothing = metrics.gate([False], [False])
    assert (nothing.precision, nothing.recall, nothing.f1) == (0, 0, 0)
    assert metrics.is_change(Rewrite("how long is it", "rewrite"), "How long?")
    assert not metrics.is_change(Rewrite("how long", "rewrite"), "How long?")


def test_calibration_error_is_the_gap_between_belief_and_truth() -> None:
    assert metrics.calibration_error([1.0] * 4, [True] * 4) == 0
    assert metrics.calibration_error([0.95] * 4, [True, True, False, False]) == pytest.approx(0.45)
    mixed = metrics.calibration_error([0.9, 0.9, 0.1, 0.1], [True, False, False, False])
    assert mixed == pytest.approx(0.5 * 0.4 + 0.5 * 0.1)
    assert metrics.calibration_error([], []) == 0


def test_bertscore_follows_its_definition(model_home: Path) -> None:
    bert = BertScore(str(model_home / "models" / "all-minilm-l6-v2"))
    same, near, far, empty = bert.score(
        ["Leave lasts ten weeks.", "The leave takes ten weeks.", "Bananas are yellow fruit.", ""],
        ["Leave lasts ten weeks."] * 4,
    )
    assert (same.precision, same.recall, same.f1) == pytest.approx((1, 1, 1), abs=1e-4)
    assert far.f1 < near.f1 < 1
    assert empty.f1 == 0
    assert near.f1 == pytest.approx(2 * near.precision * near.recall / (near.precision + near.recall))
    swapped = bert.score(["Leave lasts ten weeks."], ["The leave takes ten weeks."])[0]
    assert (swapped.precision, swapped.recall) == pytest.approx((near.recall, near.precision), abs=1e-4)
    assert bert.name == "all-minilm-l6-v2, layer 6"


TEXTS = ["How long does parental leave last?", "and by fax?", "What does a new badge cost in euros?", "Yes."]
REFERENCES = [
    "How long does parental leave last?",
    "Can I send form PL-7 by fax?",
    "What does a new badge cost?",
    "No.",
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    own, wanted = tmp_path / "own.txt", tmp_path / "wanted.txt"
    own.write_text("\n".join(TEXTS) + "\n", "utf-8")
    wanted.write_text("\n".join(REFERENCES) + "\n", "utf-8")
    return own, wanted


def run(*words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=True, timeout=180
    ).stdout


def test_bleu_is_what_sacrebleus_command_says(files: tuple[Path, Path]) -> None:
    own, wanted = files
    score, signature = metrics.corpus_bleu(TEXTS, REFERENCES)
    printed = run("sacrebleu", str(wanted), "-i", str(own), "-m", "bleu", "-b", "-w", "6")
    assert float(printed) == pytest.approx(score, abs=1e-6)
    assert "smooth:exp" in signature
    single = run("sacrebleu", str(wanted), "-i", str(own), "-m", "bleu", "-b", "-w", "6", "--sentence-level")
    assert [float(line) for line in single.split()] == pytest.approx(metrics.sentence_bleu(TEXTS, REFERENCES), abs=1e-6)
    assert metrics.corpus_bleu([], []) == (0.0, "")


def test_rouge_is_what_rouge_scores_command_says(files: tuple[Path, Path], tmp_path: Path) -> None:
    own, wanted = files
    out = tmp_path / "rouge.csv"
    words = [f"--target_filepattern={wanted}", f"--prediction_filepattern={own}", f"--output_filename={out}"]
    run("rouge_score.rouge", *words, "--rouge_types=rougeL,rouge1", "--use_stemmer=false")
    lines = dict(line.rsplit(",", 3)[0::2] for line in out.read_text().splitlines()[1:])
    ours = metrics.rouge(TEXTS, REFERENCES, ("rougeL", "rouge1"))
    for kind in ("rougeL", "rouge1"):
        mean = sum(one[kind] for one in ours) / len(ours)
        assert float(lines[f"{kind}-F"]) == pytest.approx(mean, abs=1e-5)
