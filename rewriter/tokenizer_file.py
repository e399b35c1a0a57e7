"""The `tokenizer.json` that lies beside a rewriter's model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.errors import RunError, TrainingError
from text.files import replacing

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER = "tokenizer.json"


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of that file. Raises RunError where it is missing or none."""
    from tokenizers import Tokenizer

    if not path.is_file():
        raise RunError(f"{path} is missing: the rewriter has no tokenizer. Train or copy the rewriter again.")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise RunError(f"{path} is no tokenizer ({error}). Train or copy the rewriter again.") from error


def put_tokenizer(base: str, folder: Path, callback: Callable[[str], None]) -> None:
    """Copy the `tokenizer.json` of `base`, a folder or a hub id, into a run's folder, unless it lies there already.

    Raises TrainingError.
    """
    if (folder / TOKENIZER).is_file():
        return
    callback(f"opening {base}")
    with replacing(folder / TOKENIZER) as draft:
        shutil.copyfile(_fetched(base), draft)


def _fetched(base: str) -> Path:
    local = Path(base) / TOKENIZER
    if Path(base).is_dir():
        return local
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(base, TOKENIZER))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise TrainingError(f"cannot fetch the tokenizer of {base!r}: {error}") from error
