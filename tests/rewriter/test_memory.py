"""Running out of memory is told as one sentence with a way out."""

from __future__ import annotations

import pytest

from rewriter.families import out_of_memory
from rewriter.protocol import TrainingError

pytestmark = pytest.mark.extended


def test_what_does_not_fit_says_what_to_do() -> None:
    import torch

    with (
        pytest.raises(TrainingError, match=r"Stage pairs ran out of memory\. Set `batch` to 4\."),
        out_of_memory("Stage pairs", "Set `batch` to 4."),
    ):
        torch.empty(1 << 55)


def test_the_gpu_s_word_for_it_is_known_too() -> None:
    import torch

    with pytest.raises(TrainingError, match="ran out of memory"), out_of_memory("It", "Do less."):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
