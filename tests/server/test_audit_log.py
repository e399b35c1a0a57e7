"""Entries of the audit log: what they hold of texts from outside, and whom a command acts for."""

from __future__ import annotations

import os

import pytest

from server.access import LOCAL, MAX_CHARS, at_terminal, entry


def test_texts_from_outside_are_cut() -> None:
    cut = entry(LOCAL, "login", "x" * 10_000, outcome="refused", detail={"agent": "y" * 10_000})
    assert len(cut.about) == MAX_CHARS
    assert cut.detail == {"agent": "y" * MAX_CHARS}


def test_a_command_acts_for_the_account_it_runs_under(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    assert at_terminal() == LOCAL
    assert at_terminal().origin == "terminal of ann"
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 3)
    assert at_terminal().origin == "terminal of unknown"
