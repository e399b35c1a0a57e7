"""The retrieval profile: the packaged numbers, a file with some of them, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.settings import Settings
from server.settings.profile import packaged_profile


def test_a_file_changes_only_the_keys_that_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    path.write_text("depth = 7\n[variants]\ntyped = { dense = 9 }\n")
    profile = Settings(retrieval={"profile": str(path)}).retrieval.profile
    packaged = packaged_profile()
    assert (profile.depth, profile.variants.typed.dense) == (7, 9)
    assert profile.variants.typed.lexical == packaged.variants.typed.lexical
    assert profile.model_copy(update={"depth": packaged.depth, "variants": packaged.variants}) == packaged.model_copy(
        update={"file": str(path)}
    )


def test_a_profile_is_written_as_it_is_read(tmp_path: Path) -> None:
    changed = packaged_profile().weighed({"exchange.dense": 0.125}).model_copy(update={"rewrite_threshold": 0.35})
    path = tmp_path / "profile.toml"
    path.write_text(changed.toml())
    read = Settings(retrieval={"profile": str(path)}).retrieval.profile
    assert read == changed.model_copy(update={"file": str(path)})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("dept = 7", "dept in the retrieval profile .*: there is no such key"),
        ("depth = 0", "depth in the retrieval profile .*greater than or equal to 1"),
        ("[variants]\ntyped = { dense = -1 }", r"variants\.typed\.dense in the retrieval profile"),
        ("depth =", "cannot be read as TOML"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "profile.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=named):
        Settings(retrieval={"profile": str(path)})


def test_a_weight_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match=r"no weight 'typed\.sparse'"):
        packaged_profile().weighed({"typed.sparse": 1.0})
