"""Which vectors can be compared, whatever the model that made them is called."""

import numpy as np
import pytest

from text.vectors import QuestionVector, same_space, space_of

PROBE = np.random.default_rng(1).standard_normal(384).astype(np.float32)


def test_another_precision_of_a_model_is_the_same_space():
    noise = np.random.default_rng(2).standard_normal(384).astype(np.float32)
    assert same_space(space_of(PROBE), space_of(PROBE + 0.05 * noise))


def test_another_model_is_another_space():
    other = np.random.default_rng(3).standard_normal(384).astype(np.float32)
    assert not same_space(space_of(PROBE), space_of(other))
    assert not same_space(space_of(PROBE), space_of(PROBE[:128]))


@pytest.mark.parametrize("name", ["", "minilm", "zz" * 48])
def test_what_names_no_space_is_of_none(name: str):
    assert not same_space(name, name)


def test_a_vector_in_a_file_is_read_back():
    values = PROBE / np.linalg.norm(PROBE)
    kept = QuestionVector.of_text(QuestionVector(values, space_of(PROBE)).as_text())
    assert kept.space == space_of(PROBE)
    assert kept.values == pytest.approx(values, abs=1e-3)
    with pytest.raises(ValueError, match="base64"):
        QuestionVector.of_text("00:nothing of the kind")
