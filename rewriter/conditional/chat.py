"""A chat model that learns to answer the rewriter's prompt: low-rank weights, to be served beside their base.

vLLM serves them under a name of their own (docs/operate/vllm.md), and the prompted rewriter asks for it. A promoted run
is served by torch in the server's process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.conditional.folder import ADAPTER
from rewriter.conditional.model_part import ChatModelPart
from rewriter.conditional.training import Conditional, ConditionalFamily
from rewriter.errors import TrainingError
from rewriter.tokenizer_file import TOKENIZER
from rewriter.training.families import Texts
from rewriter.training.recipe import ModelPart, Recipe
from text.files import replacing

if TYPE_CHECKING:
    from rewriter.conditional.bases import Base
    from rewriter.conditional.chat_form import ChatForm


class ChatFamily(ConditionalFamily):
    """How chat models are opened and saved; they are judged as conditional rewriters are."""

    settings: type[ModelPart] = ChatModelPart
    about = "It teaches a chat model to keep or rewrite follow-up questions as the rewriter's prompt wants it."

    def open(self, recipe: Recipe, texts: Texts, folder: Path, callback: Callable[[str], None]) -> ChatTraining:
        """The base, as it is, with fresh low-rank weights."""
        from rewriter.conditional.bases import open_chat

        part = recipe.model
        assert isinstance(part, ChatModelPart)
        assert recipe.lora is not None
        callback(f"opening {part.base}")
        base, form = open_chat(part, recipe.lora, recipe.seed)
        with replacing(folder / TOKENIZER) as draft:
            base.tokenizer.save(str(draft))
        return ChatTraining(base, form)

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """What was saved is what is served."""
        if not (folder / ADAPTER).is_dir():
            raise TrainingError(f"{folder} has no {ADAPTER}; only a finished run has one.")
        return {"exports": []}, [path for path in (folder / ADAPTER).iterdir() if path.suffix != ".md"]


class ChatTraining(Conditional):
    """A chat model in training."""

    def __init__(self, base: Base, form: ChatForm) -> None:
        super().__init__(base)
        self._form = form

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the low-rank weights alone, with the tokenizer and its chat template."""
        self.model.save_pretrained(folder / ADAPTER, save_embedding_layers=False)
        self._form.chat.save_pretrained(folder / ADAPTER)
        return self._described()
