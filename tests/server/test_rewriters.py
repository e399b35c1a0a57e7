"""Which rewriter a server has, and what happens when one cannot be opened."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rewriter.load import packaged_folder
from rewriter.protocol import Conversation, Message, PassThroughRewriter, RunError
from server.engines import open_engine
from server.installation import check_llm
from server.rewriters import RewriterManager, chosen_folder, open_rewriter
from server.settings import LLMSettings, RewriterSettings, Settings
from tests.openai_server import FakeOpenAIServer
from tests.rewriter.terms_fakes import write_run
from tests.serving import MakeSettings, Serve

TALK = Conversation((Message("user", "renew the passport"), Message("assistant", "By fax.")))


def settings_of(home: Path, **rewriter: object) -> Settings:
    return Settings(home=home, rewriter=RewriterSettings(**rewriter))  # type: ignore[arg-type]


def promote(home: Path, run: str, at: int) -> None:
    path = home / "rewriters" / "promoted.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"run": run}))
    os.utime(path, ns=(at, at))


def test_none_leaves_it_to_the_legs(tmp_path: Path) -> None:
    assert isinstance(open_rewriter(settings_of(tmp_path, kind="none")), PassThroughRewriter)


def test_auto_takes_the_packaged_one_until_a_run_is_promoted(tmp_path: Path) -> None:
    assert chosen_folder(settings_of(tmp_path)) == packaged_folder()
    write_run(tmp_path / "rewriters" / "first")
    promote(tmp_path, "first", 1)
    assert chosen_folder(settings_of(tmp_path)) == tmp_path / "rewriters" / "first"


def test_a_run_can_be_named_by_id_or_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "rewriters" / "first")
    assert open_rewriter(settings_of(tmp_path, model="first")).name == "terms"
    assert open_rewriter(settings_of(tmp_path / "elsewhere", model=str(folder))).name == "terms"
    with pytest.raises(RunError, match="neither such a folder nor such a run"):
        open_rewriter(settings_of(tmp_path, model="second"))


def test_a_promoted_run_serves_without_a_restart_and_a_damaged_one_does_not(tmp_path: Path) -> None:
    keeper = RewriterManager(settings_of(tmp_path))
    before = keeper.rewriter()
    write_run(tmp_path / "rewriters" / "first")
    assert keeper.rewriter() is before
    promote(tmp_path, "first", 1)
    assert not keeper.is_loaded
    first = keeper.rewriter()
    assert first.name == "terms"
    assert first is not before
    assert keeper.is_loaded
    assert keeper.rewriter() is first

    broken = write_run(tmp_path / "rewriters" / "second")
    (broken / "model.onnx").write_bytes(b"damaged")
    promote(tmp_path, "second", 2)
    assert keeper.rewriter() is first
    assert "cannot be opened" in keeper.problem
    assert keeper.rewriter().rewrite(TALK, "and it?").decision in ("keep", "expand")

    promote(tmp_path, "first", 3)
    assert keeper.rewriter().name == "terms"
    assert keeper.problem == ""


def test_a_server_that_begins_with_a_damaged_run_takes_the_packaged_one(tmp_path: Path) -> None:
    promote(tmp_path, "absent", 1)
    keeper = RewriterManager(settings_of(tmp_path))
    expected = "none" if packaged_folder() is None else "terms"
    assert keeper.rewriter().name == expected
    assert "absent" in keeper.problem
    (tmp_path / "rewriters" / "promoted.json").write_text("{")
    os.utime(tmp_path / "rewriters" / "promoted.json", ns=(2, 2))
    assert keeper.rewriter().name == expected
    assert "promoted.json" in keeper.problem


def test_an_adapter_rewrites_and_the_base_answers(
    settings_for: MakeSettings, serve: Serve, llm: FakeOpenAIServer
) -> None:
    llm.pieces = lambda request: (
        ["REWRITE: Can form PL-7 be sent ", "by fax?"] if request["model"] == "adapter" else ["It may be. ", "[1]"]
    )
    settings = settings_for(llm.url, llm={"model_name": "base"}, rewriter={"kind": "prompted", "model_name": "adapter"})
    with serve(settings).client() as client:
        conversation = client.post("/v1/conversations", json={"collection": "docs"}).json()["id"]
        for question in ("How do I apply for parental leave with form PL-7?", "and by fax?"):
            turn = client.post(f"/v1/conversations/{conversation}/turns", json={"question": question})
            assert turn.status_code == 200
    assert [request["model"] for request in llm.requests] == ["base", "adapter", "base"]
    assert "Can form PL-7 be sent by fax?" in turn.text


def test_a_served_model_writes_a_follow_up_in_full_beside_the_trained_rewriter(
    settings_for: MakeSettings, serve: Serve, llm: FakeOpenAIServer
) -> None:
    llm.pieces = lambda request: (
        ["REWRITE: Can form PL-7 be sent ", "by fax?\n"] if request["model"] == "adapter" else ["It may be. ", "[1]"]
    )
    settings = settings_for(llm.url, llm={"model_name": "base"}, rewriter={"kind": "auto", "model_name": "adapter"})
    with serve(settings).client() as client:
        conversation = client.post("/v1/conversations", json={"collection": "docs"}).json()["id"]
        for question in ("How do I apply for parental leave with form PL-7?", "and by fax?", "What is a sabbatical?"):
            turn = client.post(f"/v1/conversations/{conversation}/turns", json={"question": question})
            assert turn.status_code == 200
            if question == "and by fax?":
                assert "Can form PL-7 be sent by fax?" in turn.text
                assert "terms+prompted" in turn.text
        told = [
            {"role": "user", "text": "How do I apply for leave with form PL-7?"},
            {"role": "assistant", "text": "By mail."},
        ]
        search = {"query": "and by fax?", "collection": "docs", "history": told}
        assert client.post("/v1/search", json=search).json()["rewrite"]["text"] == "Can form PL-7 be sent by fax?"
    assert [request["model"] for request in llm.requests] == ["base", "adapter", "base", "base", "adapter"]


def test_a_served_model_reads_what_was_said_nine_turns_ago(tmp_path: Path, llm: FakeOpenAIServer) -> None:
    llm.pieces = ("REWRITE: Where do I send form PL-7?\n",)
    told = [Message("user", "Where is form PL-7?"), Message("assistant", f"{'It is long. ' * 50} In the cellar.")]
    told += [Message("user", "Thanks."), Message("assistant", "You are welcome.")] * 9
    settings = Settings(home=tmp_path, llm=LLMSettings(model=llm.url))
    engine = open_engine(settings)
    engine.start()
    rewriter = open_rewriter(settings, engine.chat_model())
    assert rewriter.rewrite(Conversation(tuple(told)), "and where do I send it?").decision == "rewrite"
    engine.stop()
    (request,) = llm.requests
    assert "Where is form PL-7?" in request["messages"][1]["content"]
    assert "In the cellar." in request["messages"][1]["content"]


def test_a_served_model_that_writes_no_sentence_in_time_holds_up_no_turn(
    settings_for: MakeSettings, serve: Serve, llm: FakeOpenAIServer, tmp_path: Path
) -> None:
    hangs = threading.Event()

    def pieces(request: dict[str, Any]) -> Iterator[str]:
        if request["model"] == "adapter":
            hangs.wait(60)
        yield "It may be. [1]"

    llm.pieces = pieces
    profile = tmp_path / "profile.toml"
    profile.write_text("sentence_seconds = 0.2\n")
    settings = settings_for(
        llm.url,
        llm={"model_name": "base"},
        rewriter={"kind": "auto", "model_name": "adapter"},
        retrieval={"profile": str(profile)},
    )
    with serve(settings).client() as client:
        conversation = client.post("/v1/conversations", json={"collection": "docs"}).json()["id"]
        for question in ("How do I apply for parental leave with form PL-7?", "and by fax?"):
            turn = client.post(f"/v1/conversations/{conversation}/turns", json={"question": question})
            assert "It may be." in turn.text
    hangs.set()
    assert '"decision":"expand"' in turn.text.replace(" ", "")


def test_doctor_says_how_fast_a_server_writes(llm: FakeOpenAIServer, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, llm=LLMSettings(model=llm.url))
    (found,) = check_llm(settings)
    assert found.level == "ok"
    assert re.search(r"^fake at \S+, a first token after \d+\.\d s, then \d+ a second$", found.message)
    llm.pieces = ()
    (found,) = check_llm(settings)
    assert found.level == "warn"
    llm.status = 500
    (found,) = check_llm(settings)
    assert (found.level, "wrote nothing" in found.message) == ("warn", True)


def test_doctor_asks_for_the_adapter_too(llm: FakeOpenAIServer, tmp_path: Path) -> None:
    rewriter = RewriterSettings(kind="prompted", model_name="adapter")
    (found,) = check_llm(Settings(home=tmp_path, llm=LLMSettings(model=llm.url), rewriter=rewriter))
    assert (found.level, found.remedy) == ("fail", "Set rewriter.model_name to one of fake.")
