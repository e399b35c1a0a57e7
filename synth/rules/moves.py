"""All moves of the asking person, with their shares.

A move is a function of the dialog that returns a `Step`, or None where it does not fit. `STANDING` ones leave the
question as it is; `POINTING` ones leave something out that the rewrite brings back from history and question alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from synth.rules.dialog import Dialog, Step
from synth.rules.pointing import bare, do_that, from_answer, further_back, more, of_list, same_topic
from synth.rules.standing import act, elsewhere, keywords, named_again, pleasantry, shift
from synth.rules.swapping import circumstances, compared, correction, instead, manner, told_first

Move: TypeAlias = Callable[[Dialog], Step | None]

STANDING: tuple[tuple[Move, float], ...] = (
    (shift, 46),
    (named_again, 22),
    (act, 14),
    (elsewhere, 12),
    (keywords, 3),
    (pleasantry, 3),
)
"""Moves whose question is its own rewrite, with their share among these."""

POINTING: tuple[tuple[Move, float], ...] = (
    (same_topic, 26),
    (from_answer, 18),
    (further_back, 8),
    (instead, 12),
    (manner, 4),
    (do_that, 8),
    (bare, 4),
    (circumstances, 7),
    (told_first, 5),
    (of_list, 8),
    (compared, 4),
    (correction, 2),
    (more, 3),
)
"""Moves whose rewrite says what the question leaves to the conversation, with their share where all of them fit."""
