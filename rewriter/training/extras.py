"""The libraries that only training needs, asked for in one place so that their absence is told in one sentence."""

from __future__ import annotations

from importlib import import_module

from rewriter.errors import MissingExtra

NEEDED = ("accelerate", "matplotlib", "peft", "sentencepiece", "tensorboard")


def need_training_extra() -> None:
    """Raises MissingExtra where a library of the `train` extra is not installed."""
    import importlib.util

    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"Training needs {', '.join(missing)}, which a plain installation leaves out. "
            "Install it with `pip install -c constraints.txt 'anaphora[train]'`."
        )


def need(name: str) -> None:
    """Raises MissingExtra where one library of the extra is not installed."""
    try:
        import_module(name)
    except ImportError as error:
        raise MissingExtra(
            f"This needs {name} ({error}). Install it with `pip install -c constraints.txt 'anaphora[train]'`."
        ) from error
