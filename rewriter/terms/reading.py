"""Input of the encoder: the question, then the history newest first, as tokens with the words they make up.

The same reading serves training and serving. Which words it marks is the model's business, which of them
are appended is `rewriter.terms.rewriter`'s.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import regex

from rewriter.onnx_weights import read_tokenizer
from rewriter.protocol import Conversation, Message, RunError
from text.words import FUNCTION_WORDS, stem, stems

if TYPE_CHECKING:
    from tokenizers import Tokenizer


TYPES = 8
"""Kinds of text a token can belong to: the question; user and assistant, one, two and more turns back;
the question the conversation began with."""

_OPENING = 7
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_LONGEST_WORD = 32
# A history is cut before it is tokenised: no text of this length fits into the window anyway.
_CHARS_PER_TOKEN = 12


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """How many tokens are read: of the question, of all history, and of one message of it.

    Of a text that is too long the beginning is kept. The question that the conversation began with has its
    place reserved, and of the rest the newest messages are kept.
    """

    question: int = 64
    history: int = 176
    user: int = 48
    assistant: int = 96
    older: int = 40
    """An answer before the last one."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the history that could be appended.

    `message` is its message's place in the conversation, `[start, end)` its characters in that message's text,
    `[first, last)` its tokens in the reading.
    """

    text: str
    stem: str
    message: int
    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Reading:
    """Token ids and types, equally long, and the words among them that the question does not have already."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    words: tuple[Word, ...]


class ConversationReader:
    """Reads conversations for an encoder with a BERT-like tokenizer; safe to call from several threads."""

    def __init__(self, tokenizer: Tokenizer, window: TokenWindow = TokenWindow()) -> None:
        self._tokenizer = tokenizer
        self._window = window
        first, last = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
        if first is None or last is None:
            raise RunError("the tokenizer has no [CLS] and [SEP]: the term rewriter needs a BERT-like encoder")
        self._first, self._last = first, last

    @classmethod
    def open(cls, path: Path, window: TokenWindow = TokenWindow()) -> ConversationReader:
        """The reader of a `tokenizer.json`; raises RunError where it is missing or damaged."""
        tokenizer = read_tokenizer(path)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return cls(tokenizer, window)

    @property
    def vocabulary(self) -> int:
        """How many tokens there are; a model with another number does not belong to this tokenizer."""
        return int(self._tokenizer.get_vocab_size())

    def read(self, conversation: Conversation, question: str) -> Reading:
        window = self._window
        question_stems = frozenset(stems(question))
        encoded = self._encode(question, window.question)
        ids = [self._first, *(token for token, _ in encoded), self._last]
        types = [0] * len(ids)
        words: list[Word] = []
        for index, kind, tokens in self._history(conversation):
            text = conversation.messages[index].text
            words += _words(text, [span for _, span in tokens], index, len(ids), question_stems)
            ids += [*(token for token, _ in tokens), self._last]
            types += [kind] * (len(tokens) + 1)
        return Reading(tuple(ids), tuple(types), tuple(words))

    def _history(self, conversation: Conversation) -> list[tuple[int, int, list[_Token]]]:
        """`(message, type, tokens)` of what is read of the history, newest first."""
        messages = conversation.messages
        opening = next((index for index, message in enumerate(messages) if message.role == "user"), None)
        begun = [] if opening is None else self._encode(messages[opening].text, self._window.user)
        room = self._window.history - len(begun)
        read: list[tuple[int, int, list[_Token]]] = []
        for index, kind in _newest_first(messages):
            if index == opening:
                read.append((index, kind if kind < _OPENING - 2 else _OPENING, begun))
            elif room > 0:
                tokens = self._encode(messages[index].text, min(room, self._longest(messages[index], kind)))
                room -= len(tokens)
                read.append((index, kind, tokens))
        return read

    def _longest(self, message: Message, kind: int) -> int:
        if message.role == "user":
            return self._window.user
        return self._window.assistant if kind == 2 else self._window.older

    def _encode(self, text: str, tokens: int) -> list[_Token]:
        encoded = self._tokenizer.encode(text[: tokens * _CHARS_PER_TOKEN], add_special_tokens=False)
        return list(zip(encoded.ids[:tokens], encoded.offsets[:tokens], strict=True))


_Token = tuple[int, tuple[int, int]]


def _newest_first(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Every message's index and type. A turn is a user's message with the assistant's messages that follow it."""
    back, spans = 1, list[tuple[int, int]]()
    for index in range(len(messages) - 1, -1, -1):
        role = messages[index].role
        spans.append((index, 2 * min(back, 3) - (1 if role == "user" else 0)))
        if role == "user":
            back += 1
    return spans


def _words(
    text: str, spans: Sequence[tuple[int, int]], message: int, offset: int, question_stems: frozenset[str]
) -> list[Word]:
    """The words that are read in full, carry content, and are not in the question."""
    words: list[Word] = []
    position = 0
    for match in _WORD.finditer(text):
        start, end = match.span()
        if not spans or start >= spans[-1][1]:
            break
        while position < len(spans) and spans[position][1] <= start:
            position += 1
        first = position
        while position < len(spans) and spans[position][0] < end:
            position += 1
        if first == position or spans[position - 1][1] < end or end - start > _LONGEST_WORD:
            continue
        plain = unicodedata.normalize("NFKC", match.group()).casefold()
        if plain in FUNCTION_WORDS:
            continue
        stemmed = stem(plain)
        if stemmed not in question_stems:
            words.append(Word(match.group(), stemmed, message, start, end, offset + first, offset + position))
    return words
