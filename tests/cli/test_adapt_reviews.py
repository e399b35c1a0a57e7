"""What an adaptation says of reviews that are not there."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from cli import app


def anaphora(home: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments])
    return result.exit_code, " ".join(result.output.split())


def test_an_adaptation_without_documents_learns_from_reviews_or_says_so(command_home: Path) -> None:
    code, output = anaphora(command_home, "adapt")
    assert code == 3
    assert "--from review" in output
    code, output = anaphora(command_home, "adapt", "--from", "review", "--name", "better", "--collection", "docs")
    assert code != 0
    assert "Fewer than two conversations of this collection were reviewed (0)" in output
    assert "12 conversations, with 30 follow-ups with marked passages" in output
    code, output = anaphora(command_home, "adapt", "--from", "review", "--name", "other", "--collection", "nothing")
    assert code == 3
    assert "There is no collection 'nothing'" in output
