"""Asking a model many things: the same tasks live or through batch files, resumable at any point."""

from synth.running.tasks import (
    InvalidAnswer,
    Journal,
    ModelReply,
    Outcome,
    Paused,
    Sampling,
    Task,
    TaskProgress,
    TaskRunner,
)

__all__ = [
    "InvalidAnswer",
    "Journal",
    "ModelReply",
    "Outcome",
    "Paused",
    "Sampling",
    "Task",
    "TaskProgress",
    "TaskRunner",
]
