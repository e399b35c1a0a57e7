"""The one list of libraries that cost a start its time, for every test of what an import loads."""

from __future__ import annotations

HEAVY = frozenset(
    {
        "accelerate", "bm25s", "chromadb", "ctranslate2", "gradio", "huggingface_hub", "ir_measures", "langchain",
        "langchain_core", "langchain_openai", "langgraph", "mammoth", "matplotlib", "mcp", "milvus_lite",
        "onnxruntime", "openai", "peft", "pymilvus", "pypdfium2", "sentence_transformers", "sentencepiece",
        "tensorboard", "torch", "transformers", "xllamacpp",
    }
)  # fmt: skip
"""No module loads one of these merely by being imported."""

LATE = HEAVY | {
    "docutils", "fastapi", "httpx", "lxml", "numpy", "opentelemetry", "prompt_toolkit", "pydantic_settings",
    "sqlalchemy", "starlette", "tokenizers", "uvicorn",
}  # fmt: skip
"""Modules may load these, but neither a command's help nor the import of a room does."""
