"""Errors of the rewriter's room.

RewriterError
├── ExampleError           a training row cannot be read; names the file and the line
├── RecipeError            a recipe, a mixture or an option makes no sense
├── RunError               a folder is not a finished run, or its files are damaged or do not fit together
└── TrainingError          a training run could not go on
"""


class RewriterError(Exception):
    """Base of every error this room raises; the message says what happened, where, and what to do."""


class ExampleError(RewriterError):
    """A row of training or evaluation data cannot be read."""


class RecipeError(RewriterError):
    """A recipe, a mixture of data or an option makes no sense."""


class RunError(RewriterError):
    """A folder is not a finished run, or its files are damaged or do not fit together."""


class TrainingError(RewriterError):
    """A training run could not go on: out of memory, out of data, or numbers that left their range."""
