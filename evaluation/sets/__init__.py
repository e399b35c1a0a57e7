"""Data sets by name: each module brings one kind of file into the form of `evaluation.sets.base`."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from pathlib import Path

from evaluation.errors import MissingSet
from evaluation.sets.base import EvalSet

NAMES = (
    "doc2dial",
    "doc2dial-spans",
    "doc2dial-propositions",
    "mtrag-cloud",
    "mtrag-govt",
    "synthetic",
    "product-uv",
    "product-mkdocs-material",
    "product-fastapi",
    "product-helm",
    "beir:FOLDER",
    "synth:FOLDER",
    "doc2dial-json:FOLDER",
)
"""What `load_set` understands; `mtrag-` takes the name of any domain that is there, `product-` of any product."""


def load_sets(names: Sequence[str], data: Path | None, every: int = 1, split: str = "dev") -> list[EvalSet]:
    """`load_set` for each; a name may be a pattern over `NAMES`, such as `product-*`. Every `every`th question only."""
    matching = (match for name in names for match in (fnmatch.filter(NAMES, name) or [name]))
    return [load_set(name, data, split).every(every) for name in dict.fromkeys(matching)]


def load_set(name: str, data: Path | None, split: str = "dev") -> EvalSet:
    """The set of that name below `data`, or in the folder after its colon; `split` where it has parts.

    Raises MissingSet or BadRow.
    """
    from evaluation.sets import beir, public

    kind, _, folder = name.partition(":")
    if folder:
        if kind == "beir":
            return beir.folder(Path(folder))
        if kind == "synth":
            return public.propositions(Path(folder), split, Path(folder).resolve().name)
        if kind == "doc2dial-json":
            return public.json_folder(Path(folder))
        raise _unknown(name)
    plain: dict[str, Callable[[Path], EvalSet]] = {
        "doc2dial": public.sections,
        "doc2dial-spans": public.spans,
        "doc2dial-propositions": public.document_propositions,
        "synthetic": lambda folder: public.shared(folder, split),
    }
    if kind not in plain and not kind.startswith(("mtrag-", "product-")):
        raise _unknown(name)
    if data is None:
        raise MissingSet(f"The set {name} is looked for in a folder of data sets: give it with --data.")
    if kind in plain:
        return plain[kind](data)
    if kind.startswith("product-"):
        return public.pages(data, kind.removeprefix("product-"), split)
    return public.passages(data, kind.removeprefix("mtrag-"))


def _unknown(name: str) -> MissingSet:
    return MissingSet(f"There is no set called {name!r}; known are {', '.join(NAMES)}.")
