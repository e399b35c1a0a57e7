"""Indexing on a Ray cluster of this machine."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.index.test_workers import docs, run, written

__all__ = ["docs"]

INDEX = """
import sys
from pathlib import Path
from index.indexer import index_paths
from plugins.scale.ray_workers import RayWorkers
from testing.encoder import WordEncoder
with RayWorkers() as workers:
    index_paths(Path(sys.argv[1]), "docs", [Path(sys.argv[2])], WordEncoder(), workers=workers)
"""


@pytest.mark.extended
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed (extra `ray`)")
def test_ray_writes_what_one_process_writes(tmp_path: Path, docs: Path) -> None:
    run(tmp_path / "alone", docs)
    command = [sys.executable, "-P", "-c", INDEX, str(tmp_path / "shared"), str(docs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    assert written(tmp_path / "shared") == written(tmp_path / "alone")
