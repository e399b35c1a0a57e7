"""A complete question worded as it is asked within a conversation, by rules.

For dialogs whose questions a model left complete: what the last exchange named is pointed at or left out, as in
`pointing`, but in a question that somebody else wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from rewriter.words import stems
from synth.rules.lexicon import is_plural
from synth.rules.phrases import Chunk, Phrase, chunks
from synth.rules.tagging import Token, tagged

_BINDS = frozenset({"of", "that", "who", "which", "whose", "'s", "'", "and", "or"})
_WITHIN = frozenset({"NN", "NNS", "NNP", "JJ", "CD"})
"""Next to the phrase, these say that only a part of a longer name was found."""
_LISTS = (",", ":", ";", "(", "/", "-", "–")
_MARKUP = frozenset('*_`~[]"“”')
_FEWEST_WORDS = 3
"""Words that must be left of a question whose end is left out."""
DROPPED, DESCRIBED, JOINED = 0.5, 0.35, 0.25
"""How often a last prepositional phrase is left out, a thing described instead of named "it", "and" put first."""


def worded(question: str, exchange: Sequence[str], rng: Random) -> str | None:
    """`question` with something pointed at that the last question or answer named; None where nothing can be.

    `exchange` is what was said last, questions and answers. Whether the wording still says what it should is the
    caller's to check.
    """
    tokens = tagged(question)
    said = [stems(text) for text in exchange]
    known = [chunk for chunk in chunks(tokens, opens=True) if _known(tokens, chunk, said)]
    if not known:
        return None
    # The longest name is the likeliest to be spared, and of two the later.
    chunk = max(known, key=lambda one: (one.end - one.start, one.start))
    start, end, words = chunk.start, chunk.end, ""
    last = all(token.tag == "PUNCT" for token in tokens[end:])
    if last and tokens[start - 1].tag == "IN" and start - 1 >= _FEWEST_WORDS and rng.random() < DROPPED:
        start -= 1
    else:
        words = _pointer(chunk.phrase, tokens, start, rng)
    text = f"{_text(tokens[:start])} {words}".strip() + _text(tokens[end:], after=True)
    if rng.random() < JOINED and tokens[0].tag in {"WH", "DO", "BE", "MD", "HAVE"}:
        text = f"And {text[:1].lower()}{text[1:]}"
    return text


def _known(tokens: Sequence[Token], chunk: Chunk, said: Sequence[list[str]]) -> bool:
    """Whether the phrase was named, and something can stand in its place alone."""
    if not chunk.start or (chunk.phrase.person and not chunk.phrase.plural):
        return False
    content = stems(_text(tokens[chunk.start : chunk.end]))
    if not content or not any(_holds(one, content) for one in said):
        return False
    inside = tokens[chunk.start : chunk.end]
    if any(one.lower == "of" and other.lower.endswith("ing") for one, other in pairwise(inside)):
        # "the purpose of mounting" goes on.
        return False
    before, after = tokens[chunk.start - 1], tokens[chunk.end] if chunk.end < len(tokens) else None
    if before.lower in _BINDS - {"of", "that"} or before.text in _LISTS or before.tag in _WITHIN | {"WH"}:
        return False
    if before.text in _MARKUP or (after is not None and after.text in _MARKUP):
        # A pointer between asterisks or quotation marks points at nothing.
        return False
    # "What does X do?": its verb was taken for a part of the name where none follows.
    if after is None or after.text in "?.!":
        return before.tag not in {"DO", "MD"}
    if after.lower in _BINDS or after.text in _LISTS or after.tag in _WITHIN | {"VBN", "VBG"}:
        return False
    # "What is the process for …", "What is the server not …": what follows belongs to it.
    return not (before.tag in {"BE", "DO", "MD"} and after.tag in {"IN", "TO", "NOT", "RB"})


def _holds(said: list[str], content: list[str]) -> bool:
    """Whether the words stand in `said` one after the other: "the purpose of X" is not named by each of its words."""
    return any(said[at : at + len(content)] == content for at in range(len(said) - len(content) + 1))


def _pointer(phrase: Phrase, tokens: Sequence[Token], start: int, rng: Random) -> str:
    noun = phrase.core.split(" of ")[0].split()[-1]
    plural = phrase.plural or is_plural(noun.lower())
    if phrase.long and not phrase.named and rng.random() < DESCRIBED:
        return f"{rng.choice(('these', 'those') if plural else ('this', 'that'))} {noun}"
    if not plural:
        return "it"
    return "they" if tokens[start - 1].tag in {"DO", "BE", "MD", "HAVE"} else "them"


def _text(tokens: Sequence[Token], *, after: bool = False) -> str:
    """Tokens as they stood; `after` others, with the space between."""
    return "".join(
        (" " if token.spaced and (place or after) else "") + token.text for place, token in enumerate(tokens)
    )
