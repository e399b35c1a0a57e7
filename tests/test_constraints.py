"""`constraints.txt` names one version of everything that `.[dev]` brings, and it is the one at work."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from tests.installed import ROOT, brought


def pins() -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def test_everything_installed_is_pinned_as_it_is() -> None:
    pinned = pins()
    different = {name: version for name, version in brought("dev").items() if pinned.get(name) != version}
    assert different == {}, "pin these in constraints.txt"


def test_the_image_installs_the_same_versions_by_their_hashes() -> None:
    text = (ROOT / "deploy" / "requirements.lock").read_text("utf-8")
    locked = dict(re.findall(r"^([a-z0-9.-]+)(?:\[[^\]]*\])?==(\S+)", text, re.MULTILINE))
    pinned = pins()
    # Some are for other systems than this one.
    assert {name: version for name, version in locked.items() if pinned.get(name, version) != version} == {}
    needed = brought("standard", "postgres", "sources").keys()
    assert needed - locked.keys() == set(), "`make lock` writes the list anew"
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) >= len(locked)
