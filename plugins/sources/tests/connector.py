"""Contract of a source's connector: a suite that a connector's own tests inherit.

class TestMine(ConnectorContract):
    @pytest.fixture
    def place(self, ...) -> Place: ...
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from index.errors import IndexingCancelled
from plugins.sources.mirror import SourceMirror, SyncReport
from plugins.sources.service import open_connector
from plugins.sources.source import Item, Source, SourceError


class Place:
    """The tested place: documents can be put into it and taken out, and it can fail from the next request on."""

    source: Source

    def put(self, name: str, text: str) -> None: ...

    def delete(self, name: str) -> None: ...

    def fail(self) -> None: ...


def opened(source: Source, cache: Path, max_bytes: int = 1 << 20, hosts: tuple[str, ...] = ("127.0.0.1",)) -> closing:
    """A source's connector, as a context."""
    return closing(open_connector(source, cache, private_hosts=hosts, max_bytes=max_bytes))


def listed(source: Source, cache: Path, **how: object) -> list[Item]:
    """The documents of a source that is read for the first time."""
    with opened(source, cache, **how) as connector:
        return list(connector.items({}, lambda _: None))


def synced(mirror: SourceMirror, *, dry_run: bool = False, **how: object) -> SyncReport:
    """One run of a mirror's source."""
    with opened(mirror.source, mirror.cache, **how) as connector, mirror.hold():
        items = connector.items(mirror.known(), lambda _: None)
        return mirror.sync(items, complete=connector.lists_all, dry_run=dry_run)


class ConnectorContract:
    """Inherit it and give `place`; names are paths such as `guide/one.md`."""

    @pytest.fixture
    def place(self) -> Place:
        raise NotImplementedError("give the place to be read")

    @pytest.fixture
    def mirror(self, place: Place, tmp_path: Path) -> SourceMirror:
        mirror = SourceMirror(tmp_path / "sources", place.source.name)
        mirror.write(place.source)
        place.put("one.md", "# One\n\nThe first document.\n")
        place.put("guide/two.md", "# Two\n\nThe second document.\n")
        return mirror

    def run(self, place: Place, mirror: SourceMirror, **how: object) -> SyncReport:
        """One run of the place as it is now."""
        mirror.write(place.source)
        return synced(mirror, **how)

    def texts(self, mirror: SourceMirror) -> dict[str, str]:
        """The mirrored texts by the last part of their keys."""
        paths = {key: mirror.files / row.path for key, row in mirror.state.documents.items() if row.path}
        below = {path for path in mirror.files.rglob("*") if path.is_file() and not path.name.startswith(".")}
        assert below == set(paths.values()), "what the mirror holds is what it says it holds"
        return {key.rpartition("/")[2]: path.read_text("utf-8") for key, path in paths.items() if key.endswith(".md")}

    def test_everything_is_read_once_and_then_only_what_changed(self, place: Place, mirror: SourceMirror) -> None:
        assert self.run(place, mirror).counts["new"] >= 2
        assert "The second document" in self.texts(mirror)["two.md"]
        assert set(self.run(place, mirror).counts) == {"unchanged"}
        place.put("one.md", "# One\n\nAnother text.\n")
        place.put("guide/three.md", "# Three\n\nThe third document.\n")
        report = self.run(place, mirror)
        outcomes = {change.key.rpartition("/")[2]: change.outcome for change in report.changes}
        assert outcomes["one.md"] == "changed"
        assert outcomes["three.md"] == "new"
        assert "two.md" not in outcomes
        assert "Another text" in self.texts(mirror)["one.md"]

    def test_what_is_deleted_there_is_deleted_here(self, place: Place, mirror: SourceMirror) -> None:
        self.run(place, mirror)
        place.delete("one.md")
        assert self.run(place, mirror).counts["deleted"] == 1
        assert set(self.texts(mirror)) == {"two.md"}

    def test_a_dry_run_says_what_would_be_done_and_does_nothing(self, place: Place, mirror: SourceMirror) -> None:
        assert self.run(place, mirror, dry_run=True).counts["new"] >= 2
        assert not mirror.state.documents
        self.run(place, mirror)
        place.delete("one.md")
        place.put("guide/two.md", "# Two\n\nNew words.\n")
        outcomes = {
            change.key.rpartition("/")[2]: change.outcome for change in self.run(place, mirror, dry_run=True).changes
        }
        assert (outcomes["one.md"], outcomes["two.md"]) == ("deleted", "changed")
        assert "The second document" in self.texts(mirror)["two.md"]

    def test_a_source_that_fails_or_is_empty_all_at_once_deletes_nothing(
        self, place: Place, mirror: SourceMirror
    ) -> None:
        self.run(place, mirror)
        place.delete("one.md")
        place.delete("guide/two.md")
        place.fail()
        report = self.run(place, mirror)
        assert report.problem
        assert "deleted" not in report.counts
        assert set(self.texts(mirror)) == {"one.md", "two.md"}

    def test_what_is_too_large_is_told_and_the_rest_is_read(self, place: Place, mirror: SourceMirror) -> None:
        place.put("large.md", "word " * 40_000)
        report = self.run(place, mirror, max_bytes=100_000)
        assert [change.key.rpartition("/")[2] for change in report.changes if change.outcome == "failed"] == [
            "large.md"
        ]
        assert set(self.texts(mirror)) == {"one.md", "two.md"}

    def test_a_run_that_is_stopped_keeps_what_was_there(self, place: Place, mirror: SourceMirror) -> None:
        self.run(place, mirror)
        place.put("one.md", "# One\n\nAnother text.\n")

        def stop(seconds: float) -> None:
            raise IndexingCancelled("stopped")

        with opened(place.source, mirror.cache) as connector, mirror.hold(), pytest.raises(IndexingCancelled):
            mirror.sync(connector.items(mirror.known(), stop), complete=connector.lists_all)
        assert set(self.texts(mirror)) == {"one.md", "two.md"}

    def test_one_run_at_a_time(self, place: Place, mirror: SourceMirror) -> None:
        with mirror.hold(), pytest.raises(SourceError, match="another process"), mirror.hold():
            pass
