"""Workers of a Ray cluster that read and embed for an indexing run."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from index.errors import IndexingError
from text.modules import need_extra

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 20_000
"""Items handed to the cluster together, which hold them in the driver's memory: 640,000 passages."""

_BLOCK = 8


class RayWorkers:
    """The workers of the Ray cluster that `RAY_ADDRESS` names, or of one on this machine, as a context.

    They find files and models at the paths that this process has. A worker that dies is replaced, and its work done
    again.
    """

    def __enter__(self) -> RayWorkers:
        need_extra("ray", "Indexing on Ray", "ray")
        # Ray reports how it is used to its makers otherwise.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # Workers on this machine stand back for nobody: their driver only waits for them.
        os.environ.setdefault("RAY_worker_niceness", "0")
        import ray

        local: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"include_dashboard": False}
        ray.init(log_to_driver=False, logging_level="ERROR", **local)
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        ray.shutdown()

    def map(self, work: Callable[[T], R], items: Sequence[T], *, gpu: bool = False) -> Iterator[R]:
        import ray.data

        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        there = ray.cluster_resources()
        gpus = 1 if gpu and there.get("GPU") else 0
        most = max(1, int(there["GPU"] if gpus else there["CPU"]))
        for start in range(0, len(items), _AT_ONCE):
            rows = [{"item": pickle.dumps(item)} for item in items[start : start + _AT_ONCE]]
            blocks = -(-len(rows) // _BLOCK)
            done = ray.data.from_items(rows, override_num_blocks=blocks).map(
                _RayActor,
                fn_constructor_args=(pickle.dumps(work),),
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(most, blocks)),
                num_gpus=gpus,
            )
            try:
                for row in done.iter_rows():
                    yield pickle.loads(row["result"])
            except ray.exceptions.RayError as error:
                raise IndexingError(
                    f"work on Ray failed ({getattr(error, 'cause', None) or error}): what was embedded is kept; "
                    "see to the cluster and index again"
                ) from error


class _RayActor:
    """One process of the cluster, with what it is to do."""

    def __init__(self, work: bytes) -> None:
        self._work = pickle.loads(work)

    def __call__(self, row: dict[str, bytes]) -> dict[str, bytes]:
        return {"result": pickle.dumps(self._work(pickle.loads(row["item"])))}
