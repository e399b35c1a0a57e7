"""GGUF files of the hub that are not registered: `hf:OWNER/REPO/FILE.gguf`, and which file each name stands for.

The first time the hub is asked for the file's SHA-256, size and commit, and `models/hub.json` of the home remembers
them: from then on the name stands for that file alone, and it is fetched and verified as a registered model is.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from server.registry import hub
from server.registry.catalogue import FetchError, Hub, ModelFile, RegisteredModel, UnknownModel
from text.files import write_json
from text.modules import unreachable

PREFIX = "hf:"
_REFERENCE = re.compile(r"hf:(\w[\w.-]*/\w[\w.-]*)/((?:\w[\w.-]*/)*(\w[\w.-]*\.gguf))", re.ASCII)


def memory(home: Path) -> Path:
    """The file that remembers."""
    return home / "models" / "hub.json"


def remembered(home: Path) -> dict[str, RegisteredModel]:
    """The models of the hub that were asked for in this home, by reference. Raises FetchError."""
    path = memory(home)
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return {reference: _model(reference, **facts) for reference, facts in content.items()}
    except (OSError, ValueError, TypeError) as error:
        raise FetchError(f"{path} cannot be read: {error}. Move it away to ask the hub again.") from error


def hub_model(reference: str, home: Path) -> RegisteredModel:
    """The model that a reference stands for; the hub is asked the first time. Raises UnknownModel, FetchError."""
    models = remembered(home)
    if reference not in models:
        repo, file, _ = _parts(reference)
        described = unreachable() or hub.describe(repo, file)
        if isinstance(described, str):
            raise FetchError(f"The hub was asked what {reference} is: {described}. Check the network and the name.")
        models[reference] = _model(reference, **described)
        memory(home).parent.mkdir(parents=True, exist_ok=True)
        facts = {name: _facts(model) for name, model in models.items()}
        write_json(memory(home), facts)
    return models[reference]


def demand_reference(reference: str) -> None:
    """Raise UnknownModel for a reference that is not written as one."""
    _parts(reference)


def _parts(reference: str) -> tuple[str, str, str]:
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise UnknownModel(f"{reference!r} names no file of the hub; write it as hf:OWNER/REPO/FILE.gguf.")
    return match[1], match[2], match[3]


def _model(reference: str, *, sha256: str, size: int, revision: str) -> RegisteredModel:
    repo, path, name = _parts(reference)
    return RegisteredModel(
        name=f"hf--{repo}/{path}".replace("/", "--"),
        kind="llm",
        licence="see the hub",
        description=f"{reference}, SHA-256 {sha256}",
        hub=Hub(repo=repo, revision=revision),
        packages=(),
        files=(ModelFile(path=name, size=size, sha256=sha256, hub=path),),
    )


def _facts(model: RegisteredModel) -> dict[str, object]:
    (file,), source = model.files, model.hub
    assert source is not None
    return {"sha256": file.sha256, "size": file.size, "revision": source.revision}
