"""Fresh weights: the circuit that copies, and the command that trains each family from them."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from papers.orconvqa.__main__ import app
from rewriter.load import Serving, load_rewriter
from rewriter.protocol import Conversation, Message

TALK = Conversation(
    (Message("user", "How do I renew a fishing licence?"), Message("assistant", "Ask the county office."))
)


def test_the_families_are_trained_and_compared(tmp_path: Path) -> None:
    turn = {"role": "user", "text": "How do I renew a library card, a bus pass, or a fishing licence?"}
    rows = [
        {"id": f"d{n}#3", "history": [turn], "question": f"cost {n}?", "rewrite": f"What does a bus pass cost {n}?"}
        for n in range(40)
    ]
    for name in ("synthetic/dialogs.train", "rewriting/qrecc", "rewriting/cast2019.eval.dialogs",
                 "rewriting/ikat2023.train.dialogs"):  # fmt: skip
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    options = ("--data", str(tmp_path), "--runs", str(tmp_path / "runs"), "--size", "tiny", "--steps", "2", "--cpu")
    names = ("T5 that copies", "GPT-2-like", "Mamba", "LoRA, from that")
    only = [word for name in names for word in ("--only", name)]
    result = CliRunner().invoke(app, ["--home", str(tmp_path), "families", *options, "--threads", "1", *only])
    assert result.exit_code == 0, result.output
    for name in names:
        assert f"| {name} |" in result.output
    mamba = load_rewriter(tmp_path / "runs" / "mamba", Serving(timeout_seconds=600))
    assert mamba.rewrite(TALK, "by mail?").decision in ("keep", "rewrite", "refused")
