"""How tests are shared out among the processes of `pytest -n`: by file, those that load the training stack together.

A file's tests share fixtures, so they stay in one process. Loading torch, transformers and what belongs to them costs
some five seconds of processor time, so whatever trains runs in one process too. Files with a slow test come first:
nothing long is left for the end, when only one process still works.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

TRAINING = ("tests/rewriter/", "tests/cli/test_adapt.py", "tests/cli/test_train.py")

# Models of tests are small: threads would only wait for each other and for those of the processes beside them. Read by
# OpenMP when the first library that uses it is loaded, here and in processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Share out by file, whatever `--dist` says."""
    from xdist.scheduler import LoadFileScheduling

    class Sharing(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "training" if nodeid.startswith(TRAINING) else str(super()._split_scope(nodeid))

    config.option.loadscopereorder = False
    return Sharing(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process of `pytest -n`, files with a slow test first."""
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("browser")}
        items.sort(key=lambda item: item.path not in slow)
