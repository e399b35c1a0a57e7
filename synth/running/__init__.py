"""Asking a model many things: the same tasks live or through batch files, resumable at any point."""

from synth.running.journal import Journal
from synth.running.settling import Paused, Settler
from synth.running.tasks import Completion, InvalidAnswer, Outcome, Sampling, Task, TaskProgress

__all__ = ["Completion", "InvalidAnswer", "Journal", "Outcome", "Paused", "Sampling", "Settler", "Task", "TaskProgress"]
