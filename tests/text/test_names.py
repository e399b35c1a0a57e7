"""One rule for the names of collections and runs, for people, for the API and for the disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from index.errors import InvalidName
from index.version import CollectionFolder
from rewriter.protocol import RunError
from rewriter.runs import run_folder
from server.chat.base import InvalidRequest, checked_name
from text.files import NAME_CHARS, NAME_PATTERN, NAME_RULE, is_name

FIELD = TypeAdapter[str](Annotated[str, Field(pattern=NAME_PATTERN, max_length=NAME_CHARS)])
# What names of collections have always been: these are on disks.
BEFORE = re.compile(r"(?!.*\.\.)[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
NAMES = ["a", "Docs", "terms-20260101-120000", "v1.2", "a.-b", "a_.b", "a--b", "1", "x" * 64, "a." * 31 + "b"]
OTHERS = [
    "",
    ".",
    "..",
    "a..b",
    ".a",
    "a.",
    "-a",
    "a-",
    "a/b",
    "a\\b",
    "a b",
    "a\n",
    "ä",
    "x" * 65,
    "a\x00",
    "_a",
    "a_",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_everywhere(tmp_path: Path, name: str) -> None:
    assert BEFORE.fullmatch(name)
    assert is_name(name)
    assert FIELD.validate_python(name) == name
    assert CollectionFolder(tmp_path, name).path == tmp_path / name
    assert run_folder(tmp_path, name).name == checked_name(name) == name


@pytest.mark.parametrize("name", OTHERS, ids=ascii)
def test_what_is_no_name_is_none_anywhere(tmp_path: Path, name: str) -> None:
    assert not BEFORE.fullmatch(name)
    assert not is_name(name)
    with pytest.raises(ValidationError):
        FIELD.validate_python(name)
    with pytest.raises(InvalidName, match=NAME_RULE):
        CollectionFolder(tmp_path, name)
    with pytest.raises(RunError, match=NAME_RULE):
        run_folder(tmp_path, name)
    with pytest.raises(InvalidRequest, match=NAME_RULE):
        checked_name(name)
