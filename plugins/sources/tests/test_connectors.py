"""Sources are mirrored: by every connector, and without losing what nobody has seen deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from plugins.sources.git import GitConnector
from plugins.sources.mirror import SourceMirror
from plugins.sources.source import Guard, Source, SourceError, kind_of
from plugins.sources.tests.connector import ConnectorContract, Place, listed
from plugins.sources.tests.web_servers import FakeBucket, git_server
from tests.web_site import FakeSite, Page, answer, serving


@dataclass
class FolderPlace(Place):
    root: Path

    @property
    def source(self) -> Source:
        return Source(name="handbook", collection="docs", kind="folder", location=str(self.root))

    def put(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, "utf-8")

    def delete(self, name: str) -> None:
        (self.root / name).unlink()

    def fail(self) -> None:
        """It is empty now, as a folder that is not mounted."""


@dataclass
class GitPlace(FolderPlace):
    """A repository: each change is a commit."""

    url: str = ""
    branch: str = ""

    @property
    def source(self) -> Source:
        link = "https://example.org/{path}"
        return Source(
            name="code", collection="docs", kind="git", location=self.url, branch=self.branch, path="docs", link=link
        )

    def git(self, *arguments: str, text: str = "") -> str:
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
        return subprocess.check_output(command, cwd=self.root, input=text, text=True, stderr=subprocess.PIPE).strip()

    def put(self, name: str, text: str) -> None:
        super().put(f"docs/{name}", text)
        self.git("add", "-A")
        self.git("commit", "-qm", "change")

    def delete(self, name: str) -> None:
        super().delete(f"docs/{name}")
        self.git("add", "-A")
        self.git("commit", "-qm", "delete")

    def fail(self) -> None:
        shutil.rmtree(self.root / ".git")


def repository(folder: Path) -> GitPlace:
    """An empty one."""
    place = GitPlace(folder / "served" / "code")
    place.root.mkdir(parents=True)
    place.git("init", "-q")
    return place


@dataclass
class WebPlace(Place):
    """A site whose first page links to all the others, which are Markdown files."""

    site: FakeSite
    names: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> Source:
        return Source(name="site", collection="docs", kind="web", location=f"{self.site.url}/docs/", delay=0)

    def put(self, name: str, text: str) -> None:
        self.names[name] = text
        self._publish()

    def delete(self, name: str) -> None:
        del self.names[name]
        self._publish()

    def _publish(self) -> None:
        self.site.pages.clear()
        self.site.html("/docs/", "<h1>Start</h1><p>Everything begins here.</p>", *self.names)
        for name, text in self.names.items():
            self.site.pages[f"/docs/{name}"] = Page(text.encode(), "text/markdown")

    def fail(self) -> None:
        self.site.status = 500


@dataclass
class BucketPlace(Place):
    bucket: FakeBucket

    @property
    def source(self) -> Source:
        endpoint = f"http://127.0.0.1:{self.bucket.port}"
        return Source(name="store", collection="docs", kind="s3", location="s3://docs/kept/", endpoint=endpoint)

    def put(self, name: str, text: str) -> None:
        self.bucket.objects |= {f"kept/{name}": text.encode(), "other.md": b"not below the prefix"}

    def delete(self, name: str) -> None:
        del self.bucket.objects[f"kept/{name}"]

    def fail(self) -> None:
        self.bucket.fails_after = self.bucket.answers + 1
        self.bucket.objects |= {f"kept/{n}.md": b"new" for n in range(5)}


class TestFolder(ConnectorContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        (tmp_path / "handbook").mkdir()
        return FolderPlace(tmp_path / "handbook")

    def test_pictures_come_along_and_links_out_of_it_do_not(self, place: FolderPlace, mirror: SourceMirror) -> None:
        (place.root / "logo.png").write_bytes(b"\x89PNG" + bytes(50_000))
        (place.root / "huge.bin").write_bytes(bytes(50_000))
        place.put(".hidden/secret.md", "hidden")
        (place.root.parent / "outside.md").write_text("outside")
        (place.root / "link.md").symlink_to(place.root.parent / "outside.md")
        self.run(place, mirror)
        assert set(mirror.state.documents) == {"one.md", "guide/two.md", "logo.png"}

    def test_a_name_that_is_no_utf_8_is_mirrored_under_one_that_is(
        self, place: FolderPlace, mirror: SourceMirror
    ) -> None:
        Path(os.fsdecode(os.fsencode(place.root) + b"/caf\xe9.md")).write_text("The cafe.")
        assert self.run(place, mirror).counts == {"new": 3}
        assert mirror.state.documents["caf\\xe9.md"].path == "handbook/caf_xe9.md"
        assert self.run(place, mirror).counts == {"unchanged": 3}

    def test_a_folder_that_holds_the_mirror_is_not_copied_into_itself(
        self, place: FolderPlace, mirror: SourceMirror
    ) -> None:
        place.root = mirror.folder.parent.parent
        assert "own home" in self.run(place, mirror).problem
        assert not mirror.state.documents

    def test_a_folder_below_that_cannot_be_listed_deletes_nothing(
        self, place: FolderPlace, mirror: SourceMirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.run(place, mirror)
        place.delete("one.md")
        real = os.scandir

        def refused(path: str) -> object:
            if str(path).endswith("guide"):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path)

        monkeypatch.setattr(os, "scandir", refused)
        assert "cannot be listed" in self.run(place, mirror).problem
        monkeypatch.undo()
        assert set(self.texts(mirror)) == {"one.md", "two.md"}


class TestGit(ConnectorContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[Place]:
        place = repository(tmp_path)
        with git_server(place.root.parent) as (url, _):
            place.url = f"{url}/code/.git"
            yield place

    def test_files_have_their_address_and_links_of_git_are_left_out(
        self, place: GitPlace, mirror: SourceMirror
    ) -> None:
        (place.root / "outside.md").write_text("# Outside\n\nNot below docs.\n")
        (place.root / "docs" / "link.md").symlink_to("../outside.md")
        place.put("a b&c.md", "# Signs\n\nA name with signs.\n")
        self.run(place, mirror)
        documents = mirror.state.documents
        assert set(documents) == {"docs/one.md", "docs/guide/two.md", "docs/a b&c.md"}
        assert documents["docs/a b&c.md"].url == "https://example.org/docs/a%20b%26c.md"


class TestWeb(ConnectorContract):
    @pytest.fixture
    def place(self) -> Iterator[Place]:
        with FakeSite() as site:
            yield WebPlace(site)


class TestBucket(ConnectorContract):
    @pytest.fixture
    def place(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
        with FakeBucket() as bucket:
            monkeypatch.setenv("ANAPHORA_SOURCE_STORE_KEY", bucket.key)
            monkeypatch.setenv("ANAPHORA_SOURCE_STORE_SECRET", bucket.secret)
            yield BucketPlace(bucket)

    def test_keys_with_signs_are_signed_and_stay_within_the_mirror(
        self, place: BucketPlace, mirror: SourceMirror
    ) -> None:
        for name in ("a b+c.md", "ü&=?#.md", "../../escape.md", "/etc/x.md", "one.md/below.md", "GUIDE/two.md"):
            place.put(name, f"# A\n\n{name}\n")
        report = self.run(place, mirror)
        assert not report.problem
        paths = {key: document.path for key, document in mirror.state.documents.items() if document.path}
        assert len({path.casefold() for path in paths.values()}) == len(paths) == 6
        assert all((mirror.files / path).resolve().is_relative_to(mirror.files.resolve()) for path in paths.values())
        failed = [document.key for document in report.changes if document.outcome == "failed"]
        assert failed == ["kept/one.md/below.md"]

    @pytest.mark.parametrize("page", [0, 1])
    def test_a_list_without_end_is_left(
        self, place: BucketPlace, mirror: SourceMirror, monkeypatch: pytest.MonkeyPatch, page: int
    ) -> None:
        for n in range(9):
            place.put(f"{n}.md", "# A")
        place.bucket.page = page
        monkeypatch.setattr("plugins.sources.s3._LIST_BYTES", 1000)
        report = self.run(place, mirror)
        assert "name a longer prefix" in report.problem
        assert not mirror.state.documents

    def test_a_wrong_secret_is_told(
        self, place: BucketPlace, mirror: SourceMirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ANAPHORA_SOURCE_STORE_SECRET", "wrong")
        problem = self.run(place, mirror).problem
        assert "HTTP 403" in problem
        assert "wrong" not in problem


def test_git_takes_no_other_transport_and_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for location in ("file:///etc", "ext::sh -c id", "--upload-pack=id", "git@example.org:x.git", "http://u:p@h/x.git"):
        with pytest.raises(ValueError, match=r"address"):
            Source(name="x", collection="docs", kind="git", location=location)
    for branch in ("--output=x", "a..b", "-x", "a b"):
        with pytest.raises(ValueError, match="branch"):
            Source(name="x", collection="docs", kind="git", location="https://example.org/x.git", branch=branch)
    for path in ("/etc", "../x", "--x", ":(glob)**"):
        with pytest.raises(ValueError, match="path"):
            Source(name="x", collection="docs", kind="git", location="https://example.org/x.git", path=path)


def test_git_sends_its_token_to_the_server_and_tells_it_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAPHORA_SOURCE_MY_CODE_TOKEN", "t0ken")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'protocol.file.allow=always'")
    with git_server(tmp_path, token="eC1hY2Nlc3MtdG9rZW46dDBrZW4=") as (url, requests):
        source = Source(name="my-code", collection="docs", kind="git", location=f"{url}/none.git")
        with pytest.raises(SourceError) as failed:
            listed(source, tmp_path / "cache")
        assert "not found" in str(failed.value), "it was let in"
        assert "t0ken" not in str(failed.value)
        assert "dDBrZW4" not in str(failed.value)
        assert requests
        before = len(requests)
        with pytest.raises(SourceError, match="private address"):
            listed(source, tmp_path / "cache", hosts=())
        assert len(requests) == before


def test_git_goes_to_the_address_that_was_checked_and_follows_no_redirect(tmp_path: Path) -> None:
    place = repository(tmp_path)
    place.put("one.md", "# One")

    def names(url: str) -> list[str]:
        source = Source(name="code", collection="docs", kind="git", location=url)
        guard = Guard(frozenset({"code.example", "xn--bcher-kva.example"}), lambda host, port: ["127.0.0.1"])
        return [item.key for item in GitConnector(source, tmp_path / "cache", guard, 10_000).items({}, lambda _: None)]

    with git_server(place.root.parent) as (url, requests):
        port = url.rpartition(":")[2]
        assert names(f"http://code.example:{port}/code/.git") == ["docs/one.md"]
        # Of a name in other letters nobody but the guard looks for the address.
        assert names(f"http://bücher.example:{port}/code/.git") == ["docs/one.md"]
        with pytest.raises(SourceError, match="other signs"):
            names(f"http://b%61echer.example:{port}/code/.git")
        requests.clear()
        with (
            serving(lambda request: answer(request, 302, b"", {"Location": f"{url}{request.path}"})) as other,
            pytest.raises(SourceError, match="git fetch failed"),
        ):
            names(f"http://code.example:{other}/code/.git")
        assert requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "bücher.example", "code.example."])
def test_git_asks_nobody_but_the_address_that_was_checked_whatever_the_server_says(tmp_path: Path, host: str) -> None:
    """A server without git's protocol may name others that have its objects; a name has more than one spelling."""
    other: list[str] = []

    def inner(request: Any) -> None:
        other.append(request.path)
        answer(request, 404, b"")

    def hostile(request: Any) -> None:
        path = request.path.partition("?")[0].removeprefix("/x.git")
        named = f"{url}/x.git/objects".encode()
        replies = {"/HEAD": b"ref: refs/heads/main\n", "/info/refs": b"a" * 40 + b"\trefs/heads/main\n"}
        replies |= dict.fromkeys(("/objects/info/http-alternates", "/objects/info/alternates"), named)
        answer(request, 200 if path in replies else 404, replies.get(path, b""))

    with serving(inner) as away, serving(hostile) as port:
        url = f"http://127.0.0.1:{away}"
        checked: list[str] = []

        def resolve(name: str, port: int) -> list[str]:
            checked.append(name)
            return ["::1" if ":" in name else "127.0.0.1"]

        source = Source(name="x", collection="docs", kind="git", location=f"http://{host}:{port}/x.git")
        guard = Guard(frozenset({"127.0.0.1", "::1", "xn--bcher-kva.example", "code.example"}), resolve)
        with pytest.raises(SourceError, match="git fetch failed") as failed:
            list(GitConnector(source, tmp_path / "cache", guard, 10_000).items({}, lambda _: None))
        assert "CURLOPT" not in str(failed.value)
    assert checked
    assert other == []


def test_a_repository_of_endless_trees_and_a_server_that_chats_for_ever_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = repository(tmp_path)
    place.put("one.md", "# One")
    tree = place.git("rev-parse", "HEAD:docs")
    for _ in range(9):
        tree = place.git("mktree", text="".join(f"040000 tree {tree}\td{n}\n" for n in range(10)))
    place.git("update-ref", "HEAD", place.git("commit-tree", "-m", "A thousand million files", tree))

    def chatting(request: Any) -> None:
        answer(request, 403, b"Words without end.\n" * 10_000, {"Content-Type": "text/plain"})

    monkeypatch.setattr("plugins.sources.git._OUTPUT_BYTES", 100_000)
    with git_server(place.root.parent) as (url, _), serving(chatting) as port:
        for location in (f"{url}/code/.git", f"http://127.0.0.1:{port}/x.git"):
            source = Source(name="x", collection="docs", kind="git", location=location)
            cache = tmp_path / source.location[-6:-4]
            with pytest.raises(SourceError, match="names more than"):
                listed(source, cache)
            with monkeypatch.context() as full:
                full.setattr("plugins.sources.git._FREE_BYTES", 1 << 60)
                with pytest.raises(SourceError, match="left on the disk"):
                    listed(source, cache)


def test_the_kind_is_told_by_the_location() -> None:
    assert kind_of("/srv/docs") == "folder"
    assert kind_of("s3://bucket/docs") == "s3"
    assert kind_of("https://example.org/docs/") == "web"
    assert kind_of("https://github.com/owner/name") == kind_of("https://example.org/x.git") == "git"
    assert kind_of("https://github.com/owner/name/wiki") == "web"
    with pytest.raises(ValueError, match="kind web has no branch"):
        Source(name="x", collection="docs", kind="web", location="https://example.org", branch="main")
