"""Which trained run serves: promoted once it was opened as the server would, and brought back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rewriter import runs
from rewriter.load import RERANKERS, REWRITERS, RunKind

KINDS: Mapping[str, RunKind] = {"rewriters": REWRITERS, "rerankers": RERANKERS}
"""The groups of which one run serves. A reader serves nothing: `anaphora eval qasper` is given it by its name."""


def promote(home: Path, name: str, kind: RunKind) -> str:
    """Make a run serve; the name of the one it takes over from. Raises RunError: then nothing changes."""
    return runs.promote(home, name, kind, _checked(kind)) or default(kind)


def rollback(home: Path, kind: RunKind) -> str:
    """Bring back what served before the last promotion; its name. Raises RunError."""
    return runs.rollback(home, kind, _checked(kind)) or default(kind)


def default(kind: RunKind) -> str:
    """What serves where nothing was promoted."""
    from server.rerankers import DEFAULT

    return DEFAULT if kind == RERANKERS else "the packaged default"


def _checked(kind: RunKind) -> Callable[[Path], None]:
    from server.rerankers import check as check_reranker

    return check_reranker if kind == RERANKERS else runs.check
