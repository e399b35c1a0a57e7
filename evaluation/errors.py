"""Errors of evaluating.

EvaluationError
├── MissingSet       a data set is not where it was looked for; says where to get it
├── BadRow           a line of a data set or of a run cannot be read; names the file and the line
├── RewriterUnusable nothing but failures came from a rewriter
└── BelowThreshold   what was measured is below what `--fail-under` asks for
"""


class EvaluationError(Exception):
    """Base of every error of this package; the message says what happened, where, and what to do."""


class MissingSet(EvaluationError):
    """A data set, or a part of it, is not there."""


class BadRow(EvaluationError):
    """A line cannot be read."""


class RewriterUnusable(EvaluationError):
    """Nothing but failures came from the rewriter."""


class BelowThreshold(EvaluationError):
    """A gate: quality is below what was asked for."""
