"""Asking a model many things: the same tasks live or through batch files, resumable at any point."""

from synth.running.journal import Journal
from synth.running.settling import Paused, Settler
from synth.running.tasks import InvalidAnswer, ModelReply, Outcome, Sampling, Task, TaskProgress

__all__ = ["InvalidAnswer", "Journal", "ModelReply", "Outcome", "Paused", "Sampling", "Settler", "Task", "TaskProgress"]
