"""Opening a trained rewriter from its folder, and the `rewriter.json` that describes one.

A folder says in `rewriter.json` of which family it is; the family's own module does the rest and is imported only
then. Other packages add families by entry points. Which folder to open is the server's business.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from rewriter.protocol import Rewriter, RunError
from text.files import write_json
from text.modules import PluginError, load_plugin, plugins

DESCRIPTION = "rewriter.json"
"""The file that makes a folder a rewriter; written last, so that a folder without it is unfinished."""
FORMAT = 1


@dataclass(frozen=True, slots=True)
class RunKind:
    """A kind of trained model: its runs are in the folder of that name in a home, each described by a file of that
    name."""

    folder: str
    description: str
    what: str


REWRITERS = RunKind("rewriters", DESCRIPTION, "rewriter")
"""They are served by `index.rerank`."""

FAMILIES = {"t5": "rewriter.conditional:load", "causal": "rewriter.conditional:load", "terms": "rewriter.terms:load"}
"""Family → `module:function`, called with the folder, its description and the serving options."""
REWRITER_PLUGINS = "anaphora.rewriters"
"""The entry points of other packages' families: called as ours are, and like them raising RunError."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How a rewriter is to be run.

    `timeout_seconds` bounds one turn, waiting for others included. `history_messages` is how many messages it may
    see, newest kept. `threshold` overrides the gate's: a question is rewritten where the calibrated probability that it
    needs it is at least this.
    """

    timeout_seconds: float = 2.0
    history_messages: int = 6
    threshold: float | None = None


def packaged_folder() -> Path | None:
    """Where the rewriter lies that comes with Anaphora; None where an installation has none."""
    folder = Path(str(files("rewriter") / "default"))
    return folder if (folder / DESCRIPTION).is_file() else None


def describe(folder: Path, kind: RunKind = REWRITERS) -> dict[str, Any]:
    """Read `rewriter.json` of a folder, or the description of another kind. Raises RunError where there is none or it
    is not ours."""
    path = folder / kind.description
    try:
        description = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise RunError(f"{folder} is no finished {kind.what}: it has no {kind.description}.") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}).") from error
    names = sorted({*FAMILIES, *plugins(REWRITER_PLUGINS)}) if kind == REWRITERS else [kind.folder.removesuffix("s")]
    if not isinstance(description, dict) or description.get("family") not in names:
        raise RunError(
            f"{path} names no family of {kind.what}s that is known here ({', '.join(names)}). "
            "Install the package that brings it, or choose another rewriter."
        )
    if description.get("format") != FORMAT:
        raise RunError(f"{path} has format {description.get('format')!r}; this version reads format {FORMAT}.")
    return description


def load_rewriter(folder: Path, serving: Serving = Serving()) -> Rewriter:
    """The rewriter that lies in `folder`, ready to serve.

    Raises RunError where the folder is unfinished, damaged, or its files do not fit together.
    """
    description = describe(folder)
    family = description["family"]
    if family in FAMILIES:
        module, _, function = FAMILIES[family].partition(":")
        loader = getattr(import_module(module), function)
    else:
        try:
            loader = load_plugin(REWRITER_PLUGINS, family, kind="rewriter", builtin=FAMILIES)
        except PluginError as error:
            raise RunError(str(error)) from error
    return cast("Callable[[Path, dict[str, Any], Serving], Rewriter]", loader)(folder, description, serving)


def write_description(
    folder: Path, description: dict[str, Any], served: Iterable[Path], kind: RunKind = REWRITERS
) -> None:
    """Write `rewriter.json`, or that of another kind, with size and SHA-256 of the files `served` from, in one step."""
    sums = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(served)
    }
    write_json(folder / kind.description, description | {"files": sums})


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(folder: Path, description: Mapping[str, Any]) -> None:
    """Raises RunError for the first file that is missing or not the one the run wrote."""
    for name, expected in dict(description.get("files", {})).items():
        path = folder / name
        if not path.is_file():
            raise RunError(
                f"{path} is missing: the rewriter {folder.name} is incomplete. Copy or train it again, or export "
                f"it from its weights: `anaphora models promote {folder.name} --export`."
            )
        if path.stat().st_size != expected["bytes"] or sha256(path) != expected["sha256"]:
            raise RunError(
                f"{path} is not the file this rewriter was made with: it is damaged or belongs to another run. "
                "Restore it, export the run again, or promote another one; what comes with Anaphora is installed again."
            )
