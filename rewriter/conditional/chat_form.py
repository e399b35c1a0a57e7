"""What `rewriter.prompted` asks a chat model, and what it is to answer, as tokens of the model's own chat template.

The gate is the answer's first token, that of `KEEP` or that of `REWRITE:`; so a model trained for the prompt is run,
calibrated and judged as any conditional one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewriter.conditional.form import Form, Lengths
from rewriter.conversation import Conversation
from rewriter.errors import RunError
from rewriter.prompted import asked, parse

KEPT, REWRITTEN = "KEEP", "REWRITE:"


class ChatForm(Form):
    """Encodes for one chat model; safe to call from several threads. `chat` is transformers' fast tokenizer.

    Raises RunError where that cannot hold the prompt, or begins both answers with the same token.
    """

    def __init__(self, chat: Any, lengths: Lengths) -> None:
        # Form's own tokens are not in the vocabulary, and are not put there: the base stays what it is.
        self.chat = chat
        self.tokenizer = chat.backend_tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.architecture = "causal"
        self.lengths = lengths
        self.end = int(chat.eos_token_id)
        self.ends = [self.end]
        self.keep, self.rewrite = (self._ids(word)[0] for word in (KEPT, REWRITTEN))
        if self.keep == self.rewrite:
            raise RunError(
                f"{chat.name_or_path} begins {KEPT} and {REWRITTEN} with the same token: choose another base."
            )
        try:
            self.source(Conversation(), "?")
        except Exception as error:  # templates raise what they like
            raise RunError(
                f"{chat.name_or_path} has no chat template that takes a system message ({error}): choose another base."
            ) from error

    @classmethod
    def open(cls, folder: Path, lengths: Lengths) -> ChatForm:
        """The form of a saved tokenizer. Raises RunError where it cannot be read."""
        from transformers import AutoTokenizer

        try:
            return cls(AutoTokenizer.from_pretrained(folder, local_files_only=True), lengths)
        except (OSError, ValueError) as error:
            raise RunError(f"The tokenizer in {folder} cannot be read ({error}).") from error

    def source(self, conversation: Conversation, question: str, words: str = "") -> list[int]:
        """Token ids of the whole prompt, whose parts are escaped, and bounded in characters; no words are shown."""
        system, user = asked(conversation, question, self.lengths.turns)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return self._ids(self.chat.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))

    def target(self, rewrite: str | None) -> list[int]:
        """Token ids of the answer, the end token included; None stands for a question that is kept."""
        said = KEPT if rewrite is None else f"{REWRITTEN} {rewrite}"
        return [*self._ids(said)[: self.lengths.target], self.end]

    def text(self, ids: Sequence[int]) -> str:
        """The question in an answer whose first token was that of `REWRITE:`, without it; empty where there is none."""
        return parse(str(self.tokenizer.decode([self.rewrite, *ids], skip_special_tokens=True))) or ""

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)
