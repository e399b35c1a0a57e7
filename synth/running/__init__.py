"""Asking a model many things: the same tasks live or through batch files, resumable at any point."""

from synth.running.journal import Journal
from synth.running.settling import Paused, Settler
from synth.running.tasks import Answer, InvalidAnswer, Outcome, Progress, Sampling, Task

__all__ = ["Answer", "InvalidAnswer", "Journal", "Outcome", "Paused", "Progress", "Sampling", "Settler", "Task"]
