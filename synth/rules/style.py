"""How people type: small letters, missing marks, contractions, a word before the question.

The rewrite keeps its own form; where the question stands alone, both are the same text.
"""

from __future__ import annotations

import random

import regex

_CONTRACTED = (
    ("What is ", "What's "),
    ("Who is ", "Who's "),
    ("Where is ", "Where's "),
    ("How is ", "How's "),
    (" do not ", " don't "),
    ("I am ", "I'm "),
    ("I have not ", "I haven't "),
    ("does not ", "doesn't "),
    ("is not ", "isn't "),
)
_BEFORE = (
    "and ",
    "and ",
    "and ",
    "so ",
    "so ",
    "ok, ",
    "ok ",
    "but ",
    "then ",
    "also, ",
    "thanks. ",
    "hm, ",
    "great, ",
    "alright, ",
    "ok and ",
    "one more thing: ",
    "got it. ",
    "yes, but ",
    "I see. ",
    "quick question, ",
    "please tell me, ",
    "well, ",
    "sorry, ",
)
_KEEPS_CAPITAL = regex.compile(r"^(?:I\b|`|\p{Lu}[\p{Lu}\d]|\p{L}+[\p{Lu}_.\d])")


def typed(text: str, rng: random.Random, casual: float) -> str:
    """A contextual question as people type it; `casual` is the share typed in small letters."""
    text = contracted(text, rng)
    if rng.random() < 0.16 and not text.lower().startswith(("and ", "or ", "no,", "sorry", "so ", "but ")):
        text = rng.choice(_BEFORE) + small(text)
        if rng.random() > casual:
            text = text[:1].upper() + text[1:]
    elif rng.random() < casual:
        text = small(text)
    else:
        text = text[:1].upper() + text[1:]
    return unmarked(text, rng, casual * 0.55)


def standing(text: str, rng: random.Random, casual: float) -> str:
    """A question that stands alone, as typed; seldom careless."""
    if rng.random() < casual:
        text = unmarked(small(text), rng, 0.6)
    return text


def contracted(text: str, rng: random.Random) -> str:
    """ "What's" for "What is", about half of the time."""
    if rng.random() < 0.4:
        for full, short in _CONTRACTED:
            text = text.replace(full, short)
    return text


def small(text: str) -> str:
    """Without the capital of the beginning, where nothing else asks for it."""
    return text if _KEEPS_CAPITAL.match(text) else text[:1].lower() + text[1:]


def unmarked(text: str, rng: random.Random, share: float) -> str:
    """Without its closing mark, in that share of cases."""
    return text[:-1] if text[-1:] in "?." and rng.random() < share else text
