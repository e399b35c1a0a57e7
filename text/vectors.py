"""Vectors that one model makes for the index of another, and the space they live in, told by what a probe looks like.

Two encoders share a space where they give the same text the same vector. Their names do not tell that: one model has as
many names as folders and precisions. So a space is named by the signs of the vector of one fixed text. Another
precision flips a few of them, another model half.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROBE = "How do I renew my licence by mail, and what does it cost?"
"""Changing it makes every rewriter that names a space belong to none."""
ALIKE = 0.9
"""Share of signs that agree from which on it is one space: a cosine of about .95."""


@dataclass(frozen=True, slots=True, eq=False)
class QuestionVector:
    """The vector of a question, `(width,)` float32, normalised, and the space it lives in (`space_of`)."""

    values: NDArray[np.float32]
    space: str

    def as_text(self) -> str:
        """For a file, in half precision."""
        return f"{self.space}:{base64.b64encode(self.values.astype('<f2').tobytes()).decode()}"

    @classmethod
    def of_text(cls, text: str) -> QuestionVector:
        """What `as_text` wrote; raises ValueError."""
        import numpy as np

        space, _, values = text.partition(":")
        return cls(np.frombuffer(base64.b64decode(values, validate=True), "<f2").astype(np.float32), space)


def space_of(probe: NDArray[np.float32]) -> str:
    """The name of the space in which `PROBE` has this vector `(width,)`."""
    import numpy as np

    return np.packbits(probe > 0).tobytes().hex()


def same_space(one: str, other: str) -> bool:
    """Whether two names are of one space. What is no name is of none."""
    import numpy as np

    if len(one) != len(other):
        return False
    try:
        left, right = (np.frombuffer(bytes.fromhex(name), np.uint8) for name in (one, other))
    except ValueError:
        return False
    return bool(left.size) and 1 - np.bitwise_count(left ^ right).sum() / (8 * left.size) >= ALIKE
