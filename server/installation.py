"""Checks of a working installation, each problem with its remedy; `anaphora doctor` shows it."""

from __future__ import annotations

import errno
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Literal

from server.plugins import parts
from server.processes import has_gpu, machine_cores, machine_memory
from server.settings import SERVERS, IndexSettings, LLMSettings, Settings
from text.modules import unreachable
from text.sanitize import without_credentials

if TYPE_CHECKING:
    import httpx

    from index.collection import Collection
    from server.engines import RemoteEngine

LITTLE_ROOM = 2 << 30
NO_ROOM = 256 << 20
PACE_TOKENS, PACE_SECONDS = 64, 20.0
_WRITTEN = re.compile(r'"content":\s*"(?!")')


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a check. `remedy` says what to do where `level` is not `ok`."""

    what: str
    level: Literal["ok", "warn", "fail"]
    message: str
    remedy: str = ""


def check_installation(settings: Settings, describe: Callable[[BaseException], str]) -> Iterator[Finding]:
    """Every check's findings, each as soon as it is known. `describe` words what nobody foresaw."""
    yield from check_python()
    yield from check_home(settings)
    yield from check_database(settings)
    yield from check_workers(settings)
    silent = False
    for finding in check_models(settings):
        silent |= (finding.what, finding.level) == (LANGUAGE_MODEL, "fail")
        yield finding
    yield from check_rewriter(settings)
    yield from check_ocr(settings)
    yield from check_collections(settings, describe)
    if not silent:
        yield from check_llm(settings)
    yield from check_nearby(settings)
    for check in parts("checks"):
        yield from check(settings)


def check_python() -> Iterator[Finding]:
    """Which interpreter and which Anaphora run here; an older Python does not come this far."""
    from importlib.metadata import version

    yield Finding("anaphora", "ok", f"{version('anaphora')} on Python {'.'.join(map(str, sys.version_info[:3]))}")


def check_home(settings: Settings) -> Iterator[Finding]:
    """The home folder can be written to and has room."""
    home = settings.home
    try:
        home.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=home) as file:
            file.write(b"x")
    except OSError as error:
        # A full disk is told below.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            yield Finding(
                "home", "fail", f"{home} cannot be written to ({error.strerror or error})",
                "Give this user write access, or choose another folder with --home or ANAPHORA_HOME.",
            )  # fmt: skip
            return
    yield Finding("home", "ok", str(home))
    free = shutil.disk_usage(home).free
    level: Literal["ok", "warn", "fail"] = "fail" if free < NO_ROOM else "warn" if free < LITTLE_ROOM else "ok"
    remedy = "" if level == "ok" else "Free some space: the language model alone needs 1.2 GB, an index its own size."
    yield Finding("disk", level, f"{free / 1e9:.1f} GB free", remedy)


def check_database(settings: Settings) -> Iterator[Finding]:
    """The database, where there is one, can be read from its first page to its last."""
    from server.store import StoreError
    from server.store.database import find_damage, no_room, read_only

    path = settings.database_at
    if isinstance(path, Path):
        if not path.exists():
            return
        if problem := find_damage(path):
            remedy = (
                "Stop the server and restore a backup; without one, move the file away to start with an empty one, and "
                "keep it: `sqlite3 FILE .recover` gets out of it what is sound."
            )
            damaged = Finding("database", "fail", f"{path} is damaged ({problem})", remedy)
            full = f"{path} cannot be looked at ({problem}): the disk is full"
            yield Finding("database", "fail", full, "Free some space first.") if no_room(path) else damaged
            return
    try:
        with read_only(path) as connection:
            version = ".".join(map(str, connection.dialect.server_version_info or ()))
    except StoreError as error:
        yield Finding("database", "fail", str(error))
    else:
        server = f"PostgreSQL {version}, {connection.engine.url.database}"
        yield Finding("database", "ok", server if isinstance(path, str) else f"{path.stat().st_size / 1e6:.1f} MB")


def check_workers(settings: Settings) -> Iterator[Finding]:
    """Where servers leave jobs to workers, one runs."""
    from server.store.jobs import WORKERS, any_alive

    if settings.server.workers and any_alive(settings.home / "run", WORKERS):
        yield Finding("workers", "ok", "jobs are worked off")
    elif settings.server.workers:
        remedy = "Start `anaphora worker` on this home, or unset `server.workers`."
        yield Finding("workers", "warn", "none runs, and jobs wait for one", remedy)


LANGUAGE_MODEL = "language model"


def check_models(settings: Settings) -> Iterator[Finding]:
    """The models the settings name are there, and are what was fetched."""
    from server.registry import hub_reference, registered_models, remembered
    from server.registry.fetching import sha256
    from server.rewriters import DEFAULT

    models = {**registered_models(), **remembered(settings.home)}
    wanted = [("embedding model", settings.index.encoder)]
    if settings.retrieval.rerank != "never":
        wanted.append(("reranker", settings.retrieval.reranker or DEFAULT))
    if settings.llm.model in models or hub_reference(settings.llm.model):
        wanted.append((LANGUAGE_MODEL, hub_reference(settings.llm.model) or settings.llm.model))
    for what, name in wanted:
        fetch = f"Run `anaphora models fetch {name}`."
        if model := models.get(name):
            folder = model.folder(settings.home)
            if not model.fetched(settings.home):
                yield Finding(what, "fail", f"{name} is not fetched ({model.size / 1e6:.0f} MB)", fetch)
            elif changed := [file.path for file in model.files if sha256(folder / file.path) != file.sha256]:
                remedy = f"Delete {folder} and run `anaphora models fetch {name}`."
                yield Finding(what, "fail", f"{name} is damaged: {', '.join(changed)}", remedy)
            else:
                yield Finding(what, "ok", name)
        elif hub_reference(name):
            yield Finding(what, "fail", f"{name} is not fetched", fetch)
        elif Path(name).expanduser().exists():
            yield Finding(what, "ok", f"{name} (a folder)")
        elif reason := unreachable():
            remedy = "Unless it was fetched from the hub before, name one that `anaphora models` lists, or a folder."
            problem = f"{name} is no registered name and no folder, and of the hub: {reason}"
            yield Finding(what, "warn", problem, remedy)
        else:
            yield Finding(what, "ok", f"{name} (from the hub, fetched when it is needed)")


def check_rewriter(settings: Settings) -> Iterator[Finding]:
    """The rewriter that serves has the files it was made with."""
    from rewriter.load import describe, verify
    from rewriter.protocol import RunError
    from server.rewriters import chosen_folder

    if settings.rewriter.kind != "auto":
        return
    try:
        folder = chosen_folder(settings)
        if folder is not None:
            verify(folder, describe(folder))
    except RunError as error:
        yield Finding(
            "rewriter", "fail", str(error), "Until that is mended, the one that comes with Anaphora serves, or none."
        )
    else:
        yield Finding("rewriter", "ok", folder.name if folder else "none")


def check_ocr(settings: Settings) -> Iterator[Finding]:
    """Check that a program or package reads pages of a PDF that are pictures; none is needed."""
    from index.loaders.pdf.recognising import Recogniser
    from index.loaders.reading import find_recogniser

    recogniser = Recogniser(find_recogniser(), settings.index.ocr_languages)
    read = f"read by {recogniser.name} ({recogniser.languages})"
    yield Finding("scanned pages", "ok", f"not read: {recogniser.problem}" if recogniser.problem else read)


def check_collections(settings: Settings, describe: Callable[[BaseException], str]) -> Iterator[Finding]:
    """Every collection can be opened and searched."""
    from index.collection import list_collections
    from index.documents import Query
    from server.chat.admin import SEARCH_FAILURES
    from server.chat.loaded_models import Collections, Models
    from server.registry import registered_models

    root = settings.home / "collections"
    infos = list_collections(root)
    if not any(info.name == settings.collection for info in infos):
        yield Finding(
            "collections", "warn", f"there is no collection {settings.collection!r}, the one asked by default",
            f"Run `anaphora index PATH --collection {settings.collection}`.",
        )  # fmt: skip
    encoder = settings.index.encoder
    if encoder in (models := registered_models()) and not models[encoder].fetched(settings.home):
        return
    collections = Collections(settings, Models(settings))
    try:
        for info in infos:
            try:
                collection = collections.get(info.name)
                collection.search([Query("test")], k=1)
            except SEARCH_FAILURES as error:  # one broken collection must not hide the others
                yield Finding(
                    f"collection {info.name}", "fail", describe(error),
                    f"Index it again, or delete it with `anaphora collections delete {info.name}`.",
                )  # fmt: skip
            else:
                held = f"{info.documents} documents, {info.passages} passages"
                if problem := collection.problem or collections.outdated(info.name):
                    yield Finding(f"collection {info.name}", "warn", problem, "Index it again.")
                elif advice := language_advice(collection, settings.index):
                    yield Finding(f"collection {info.name}", "warn", *advice)
                else:
                    yield Finding(f"collection {info.name}", "ok", held)
    finally:
        collections.close()


_READ_DOCUMENTS = 40
_FOREIGN_SHARE = 0.1


def language_advice(collection: Collection, index: IndexSettings) -> tuple[str, str] | None:
    """Say that documents are in a language that the embedding model does not read, and what to do about it.

    None where less than a tenth of the documents are, of which some are looked at, and where the model reads many
    languages or is not a registered one. Blocks.
    """
    from server.registry import find, registered_models
    from server.turn.system_messages import MULTILINGUAL
    from text.languages import AUTO, ENGLISH, NAMES, language_of

    encoder = registered_models().get(Path(index.encoder).name)
    if encoder is None or encoder.multilingual or index.languages:
        return None
    documents = collection.documents()
    sample = documents[:: -(-len(documents) // _READ_DOCUMENTS) or 1]
    languages_found = Counter(language_of(collection.document(document.id).text[:2_000]) for document in sample)
    foreign = {code: count for code, count in languages_found.most_common() if code not in ("", ENGLISH)}
    if not sample or sum(foreign.values()) < _FOREIGN_SHARE * len(sample):
        return None
    share = "all" if len(sample) == sum(foreign.values()) else f"{sum(foreign.values())} of {len(sample)}"
    languages = [NAMES[code] for code in list(foreign)[:3]]
    problem = (
        f"{share} documents{' looked at' * (len(sample) < len(documents))} are in {' and '.join(languages)}, which the "
        f"embedding model {encoder.name} does not read: they are found by their words, and hardly by their meaning."
    )
    size = find(MULTILINGUAL).size / 1e6
    return problem, (
        f'Put encoder = "{MULTILINGUAL}" ({size:.0f} MB, fetched when it is needed) and language = "{AUTO}" under '
        f"[index] of anaphora.toml, or set ANAPHORA_INDEX__ENCODER={MULTILINGUAL} ANAPHORA_INDEX__LANGUAGE={AUTO}, and "
        "index again."
    )


def check_llm(settings: Settings) -> Iterator[Finding]:
    """Something can write answers."""
    from server.engines import EngineError, open_engine, plugin_name

    model = settings.llm.model
    if model == "none":
        yield Finding("answers", "ok", "no language model: the best sentences are quoted")
    elif settings.llm.remote:
        yield _remote(settings)
    elif plugin_name(model):
        try:
            yield Finding("answers", "ok", open_engine(settings).name)
        except EngineError as error:
            yield Finding("answers", "fail", str(error), "Correct llm.model, or install what brings that engine.")
    else:
        from importlib.util import find_spec

        from server.registry import hub_reference, registered_models

        if not (model in registered_models() or hub_reference(model) or Path(model).expanduser().exists()):
            remedy = "Name a file that is there, or one that `anaphora models` lists."
            yield Finding("answers", "fail", f"there is no model {model!r}", remedy)
        elif find_spec("xllamacpp") is None:
            yield Finding("answers", "fail", "the local engine is not installed", "Run `make install` again.")
        else:
            yield Finding("answers", "ok", f"{model} on this machine")


def check_nearby(settings: Settings) -> Iterator[Finding]:
    """Other model servers of this machine could answer."""
    for seen in nearby_servers():
        if seen.url != settings.llm.address:
            yield Finding("on this machine", "ok", str(seen))


SERVER_MEMORY = 2 << 30
"""Bytes that the server takes beside a language model, with some to spare."""


def recommendation(settings: Settings) -> str:
    """Return what would answer better on this machine than the settings' model, and the command for it.

    Empty where the settings name one of those models, or a server.
    """
    from server.registry import hub_reference, recommended_models

    if hub_reference(settings.llm.model) or settings.llm.remote:
        return ""
    memory, cores = machine_memory(), machine_cores()
    machine = f"{memory / 1e9:.0f} GB of memory and {cores} core{'s' if cores > 1 else ''}"
    fitting = [model for model in recommended_models().values() if model.memory + SERVER_MEMORY <= memory]
    if fitting:
        best = fitting[0]
        text = (
            f"This machine ({machine}) can run a model that should answer better: {best.name}, "
            f"{best.size / 1e9:.1f} GB from the hub, {best.licence}, {best.needs(cores)}. "
            f"`anaphora models fetch {best.name}` fetches it; `make run MODEL={best.name}`, or `anaphora serve --model "
            f"{best.name}`, uses it."
        )
    else:
        text = f"The local models that answer better need more than this machine has ({machine})."
    if has_gpu():
        text += " It has a GPU: a model that vLLM serves answers best; see docs/operate/vllm.md, then `--model vllm`."
    return text


LOOK_SECONDS = 0.5
OTHERS = ("http://127.0.0.1:8080/v1", "http://127.0.0.1:1234/v1")
"""Where llama.cpp's server and LM Studio listen."""


@dataclass(frozen=True, slots=True)
class NearbyServer:
    """A server and the models it lists; `models` are written as `llm.model` would name them."""

    url: str
    models: tuple[str, ...]

    def __str__(self) -> str:
        if not self.models:
            return f"A model server runs at {self.url}, without a model yet; `ollama pull NAME` fetches one."
        return f"A model server runs at {self.url}; use it with MODEL={' or MODEL='.join(self.models[:5])}."


def nearby_servers() -> Iterator[NearbyServer]:
    """Yield the model servers of this machine that answer within half a second at their usual addresses."""
    import httpx

    urls = [*SERVERS.values(), *OTHERS]
    # Nothing here is encrypted, and loading certificates would take longer than the answers.
    with httpx.Client(timeout=LOOK_SECONDS, trust_env=False, verify=False) as client, ThreadPoolExecutor(8) as pool:
        for server in pool.map(lambda url: _look(client, url), urls):
            if server is not None:
                yield server


def _look(client: httpx.Client, url: str) -> NearbyServer | None:
    import httpx

    try:
        rows = client.get(f"{url}/models").raise_for_status().json()["data"] or []
        names = [(str(row["id"]), row.get("owned_by")) for row in rows]
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if any(owner == "anaphora" for _, owner in names):
        return None  # one of us
    if url == SERVERS["ollama"]:
        return NearbyServer(url, tuple(f"ollama:{name}" for name, _ in names))
    if url == SERVERS["vllm"] and any(owner == "vllm" for _, owner in names):
        return NearbyServer(url, ("vllm",))
    return NearbyServer(url, (url,)) if names else None


def _remote(settings: Settings) -> Finding:
    import httpx

    from server.engines import EngineError, RemoteEngine

    llm, engine = settings.llm, RemoteEngine(settings)
    try:
        engine.start()
    except EngineError as error:
        return Finding("answers", "fail", without_credentials(str(error)))
    finally:
        engine.stop()
    address = without_credentials(engine.address)
    rewriting = settings.rewriter.model_name if settings.rewriter.kind != "none" else ""
    for setting, name in (("llm", "" if llm.server else llm.asked_name), ("rewriter", rewriting)):
        if name and name not in engine.listed:
            remedy = f"Set {setting}.model_name to one of {', '.join(engine.listed)}."
            return Finding("answers", "fail", f"{address} has no model {name!r}", remedy)
    try:
        return Finding("answers", "ok", f"{engine.model} at {address}, {_pace(llm, engine)}")
    except httpx.HTTPError as error:
        what = f"{engine.model} at {address} wrote nothing within {PACE_SECONDS:.0f} s ({error})"
        return Finding("answers", "warn", what, "Look into that server's log, or choose another model.")


def _pace(llm: LLMSettings, engine: RemoteEngine) -> str:
    """Say how fast a model at an address writes, by a short answer of its. Raises httpx.HTTPError."""
    import httpx

    key = llm.api_key.get_secret_value()
    task = {"role": "user", "content": "Count from 1 to 40."}
    began, times = time.monotonic(), list[float]()
    with httpx.stream(
        "POST",
        f"{engine.address}/chat/completions",
        json={"model": engine.model, "messages": [task], "max_tokens": PACE_TOKENS, "temperature": 0, "stream": True},
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=PACE_SECONDS,
    ) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if _WRITTEN.search(line):
                times.append(time.monotonic())
            if time.monotonic() - began > PACE_SECONDS:
                break
    if not times:
        raise httpx.RemoteProtocolError("the stream held no text")
    rate = (len(times) - 1) / max(times[-1] - times[0], 0.001) if len(times) > 2 else 0.0
    return f"a first token after {times[0] - began:.1f} s" + (f", then {rate:.0f} a second" if rate else "")
