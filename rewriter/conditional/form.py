"""How a conversation and a question become tokens, and a target becomes tokens: the same in training and serving.

The source is the newest messages that fit, roles marked, and the question last, with a hint behind it where there is
one; the target is a gate token and, where it says `<rewrite>`, the stand-alone question. Texts are encoded with special
tokens disabled, so nothing that people or documents write can pass for a gate or a role.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rewriter.gate import RewriteGate
from rewriter.onnx_weights import TOKENIZER, read_tokenizer
from rewriter.protocol import Conversation, Rewrite, RunError
from text.asking import BETWEEN
from text.sanitize import escape

if TYPE_CHECKING:
    from tokenizers import Tokenizer


KEEP, REWRITE = "<no_rewrite>", "<rewrite>"
USER, ASSISTANT, QUESTION = "<user>", "<assistant>", "<question>"
SPECIAL_TOKENS = (KEEP, REWRITE, USER, ASSISTANT, QUESTION)
CLIPPED_CHARS = 12
"""Characters read per allowed token: a text of hostile length is cut before it is encoded."""
EXPORT, WEIGHTS = "export", "weights"
"""Folders of a run: what CTranslate2 serves, and what it was made from."""

Architecture: TypeAlias = Literal["seq2seq", "causal"]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Bounds in tokens. `source` bounds the whole input; a message longer than its bound keeps its beginning.

    `turns`, the name it has in recipes and runs, is how many messages are read, the newest kept.
    """

    source: int = 192
    target: int = 48
    question: int = 64
    user: int = 48
    assistant: int = 64
    turns: int = 6
    hint: int = 24


def hint_of(expanded: Rewrite) -> str:
    """The hint that a model reads behind the question: the words that the term rewriter found."""
    return " ".join(term.text for term in expanded.expansion)


class Form:
    """Encodes for one tokenizer; safe to call from several threads.

    Raises RunError where the tokenizer lacks one of the special tokens: it is not the one the model was trained with.
    """

    def __init__(self, tokenizer: Tokenizer, architecture: Architecture, lengths: Lengths, *, end: str) -> None:
        # Otherwise a typed "<rewrite>" would become the token of that name.
        tokenizer.encode_special_tokens = True
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer
        self.architecture = architecture
        self.lengths = lengths
        self.end = self._id(end)
        self.keep, self.rewrite = self._id(KEEP), self._id(REWRITE)
        self.ends = [self.end, self.keep]
        self._user, self._assistant, self._question = self._id(USER), self._id(ASSISTANT), self._id(QUESTION)

    def source(self, conversation: Conversation, question: str, hint: str = "") -> list[int]:
        """Token ids of the input, at most `lengths.source`; question and hint always fit, old messages give way."""
        lengths = self.lengths
        tail = [self._question, *self._encoded(question, lengths.question)]
        if hint:
            tail += self._encoded(BETWEEN + hint, lengths.hint)
        if self.architecture == "seq2seq":
            tail.append(self.end)
        left = lengths.source - len(tail)
        messages: list[list[int]] = []
        for message in reversed(conversation.messages[-lengths.turns :] if lengths.turns else ()):
            user = message.role == "user"
            role = self._user if user else self._assistant
            ids = [role, *self._encoded(message.text, lengths.user if user else lengths.assistant)][:left]
            if len(ids) < 2:
                break
            messages.append(ids)
            left -= len(ids)
        return [token for ids in reversed(messages) for token in ids] + tail

    def target(self, rewrite: str | None) -> list[int]:
        """Token ids of the output, the end token included; None stands for a question that is kept."""
        if rewrite is None:
            return [self.keep, self.end]
        return [self.rewrite, *self._encoded(rewrite, self.lengths.target), self.end]

    def text(self, ids: Sequence[int]) -> str:
        """The question that decoded ids spell, on one line."""
        return " ".join(str(self.tokenizer.decode(list(ids), skip_special_tokens=True)).split())

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The names of ids, as CTranslate2 takes them."""
        return [str(self.tokenizer.id_to_token(i)) for i in ids]

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """The ids of names, as CTranslate2 gives them."""
        return [token_id for token in tokens if (token_id := self.tokenizer.token_to_id(token)) is not None]

    def _encoded(self, text: str, limit: int) -> list[int]:
        text = " ".join(escape(text[: CLIPPED_CHARS * limit]).split())
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids[:limit])

    def _id(self, token: str) -> int:
        token_id = self.tokenizer.token_to_id(token)
        if token_id is None:
            raise RunError(
                f"The tokenizer has no token {token!r}: it does not belong to this model. "
                "Restore the run folder's own tokenizer.json, or train again."
            )
        return int(token_id)


@dataclass(frozen=True, slots=True)
class Description:
    """A run as serving reads it. With `words` the term rewriter decides, and gives its words as a hint."""

    family: str
    form: Form
    gate: RewriteGate
    words: bool = False


def read_description(folder: Path, description: dict[str, Any], messages: int | None = None) -> Description:
    """The run a description tells of, its form seeing at most so many messages.

    Raises RunError, naming the field, where something is missing.
    """
    try:
        lengths, architecture = Lengths(**description["lengths"]), description["architecture"]
        family, end, gate = str(description["family"]), str(description["end"]), RewriteGate.of(description)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"The description of {folder.name} lacks or spoils {error}; train it again.") from error
    if messages is not None:
        lengths = replace(lengths, turns=min(messages, lengths.turns))
    form = Form(read_tokenizer(folder / TOKENIZER), architecture, lengths, end=end)
    return Description(family, form, gate, bool(description.get("words", False)))
