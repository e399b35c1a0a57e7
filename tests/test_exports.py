"""What each room offers to programs: exactly these names, and nothing is loaded before it is used."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
EXPORTS = {
    "index": {
        "Collection", "Document", "Encoder", "Hit", "IndexingError", "Passage", "Query", "Reranker",
        "Section", "StoreSpec", "VectorStore", "delete_collection", "delete_documents", "index_documents",
        "index_paths", "list_collections", "load_encoder", "load_reranker",
    },
    "evaluation": {
        "Adaptation", "AdaptationPlan", "AdaptationResult", "AdaptationTools", "EvalSet", "EvaluationError",
        "EvaluationRun", "compare", "create_run", "estimate", "measure_search", "own_questions",
        "per_question", "randomisation", "read_run",
    },
    "synth": {
        "BatchAsker", "ChatAsker", "Dialog", "DialogMessage", "Folder", "Journal", "Paused", "Proposition", "RunFacts",
        "Sampling", "TaskRunner", "SynthError", "SynthPlan", "read_dialogs", "read_propositions", "read_responses",
        "read_sources", "synthesise",
    },
    "rewriter": {
        "AsyncRewriter", "Conversation", "Decision", "Message", "PassThroughRewriter", "PromptedRewriter", "Rewrite",
        "Rewriter", "RewriterError", "RunError", "Serving", "load_rewriter", "read_recipe", "train",
    },
    "server": {"ChatError", "ChatService", "Settings", "create_app", "open_service"},
    "ui": {"load_page", "mount"},
    "text": {
        "MissingExtra", "PluginError", "Sentence", "is_name", "replacing", "sentence_spans", "sanitize_text", "stems",
        "text_writer", "tokenize", "write_json", "write_text",
    },
}  # fmt: skip
# The command is what is run of it: it has no names for programs, and loads what every command needs.
COMMAND = {"app", "main"}
FOR_PROGRAMS = [
    REPOSITORY / "docs" / "operate" / "langchain.md",
    *sorted((REPOSITORY / "docs" / "examples").glob("*.py")),
]


@pytest.mark.parametrize("room", EXPORTS)
def test_a_room_exports_what_a_program_needs(room: str) -> None:
    module = importlib.import_module(room)
    assert set(module.__all__) == EXPORTS[room]
    # An alias of a type has the name of what it stands for.
    assert all(getattr(module, name).__name__ in (name, "Literal") for name in EXPORTS[room])
    with pytest.raises(AttributeError, match="no attribute 'surprise'"):
        module.surprise  # noqa: B018


def test_the_command_exports_what_starts_it() -> None:
    assert set(importlib.import_module("cli").__all__) == COMMAND


@pytest.mark.parametrize("room", EXPORTS)
def test_importing_a_room_imports_nothing_else(room: str) -> None:
    program = f"import sys; before = set(sys.modules); import {room}; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    # The ground room reads what is exported.
    assert {name.split(".")[0] for name in loaded} - sys.stdlib_module_names | {"text"} == {room, "text"}


@pytest.mark.parametrize("path", FOR_PROGRAMS, ids=lambda path: path.name)
def test_what_is_shown_to_programmers_uses_exported_names_only(path: Path) -> None:
    text = path.read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if path.suffix == ".md" else [text]
    for node in (node for block in blocks for node in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in EXPORTS:
            assert {alias.name for alias in node.names} <= EXPORTS.get(node.module, set()), ast.unparse(node)
