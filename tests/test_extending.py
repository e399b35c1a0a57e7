"""Another package adds an engine or a rewriter by an entry point, and settings choose it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Declare
from rewriter.protocol import Conversation, Message, RunError
from server.engines import EngineError, open_engine
from server.installation import check_llm
from server.rewriters import open_rewriter
from server.settings import LLMSettings, RewriterSettings, Settings
from tests.serving import MakeSettings, Serve

ENGINE = """
from langchain_core.language_models import FakeListChatModel


class Parrot:
    def __init__(self, settings):
        self.says = settings.llm.model.partition(":")[2]
        self.name = f"parrot:{self.says}"
        self.started = False

    def start(self):
        self.started = True

    def stop(self):
        self.started = False

    async def aclose(self):
        pass

    def healthy(self):
        return self.started

    def chat_model(self, *_):
        return FakeListChatModel(responses=[self.says])
"""

REWRITER = """
from rewriter.protocol import Rewrite


class Shouting:
    name = "shouting"

    def __init__(self, mark):
        self.mark = mark

    def rewrite(self, conversation, question):
        return Rewrite(f"{conversation.messages[0].text} {question}{self.mark}".upper(), "rewrite")


def load(folder, description, serving):
    return Shouting(description["mark"])
"""


def test_another_packages_engine_answers(declare: Declare, serve: Serve, settings_for: MakeSettings) -> None:
    (declare("anaphora.engines", "aviary", parrot="aviary_engine:Parrot") / "aviary_engine.py").write_text(ENGINE)
    settings = settings_for("parrot:Parental leave lasts ten weeks. [1]")
    running = serve(settings)
    request = {"model": "docs", "messages": [{"role": "user", "content": "How long is parental leave?"}]}
    (found,) = check_llm(settings)
    assert (found.level, found.message) == ("ok", "parrot:Parental leave lasts ten weeks. [1]")
    with running.client() as client:
        answer = client.post("/v1/chat/completions", json=request).json()
    assert answer["choices"][0]["message"]["content"] == "Parental leave lasts ten weeks. [1]"
    assert answer["anaphora"]["status"] == "answered"


def test_an_engine_that_nobody_brings_is_told_with_what_there_is(declare: Declare, tmp_path: Path) -> None:
    declare("anaphora.engines", "aviary", parrot="aviary_engine:Parrot")
    with pytest.raises(EngineError, match=r"no engine 'parot'\. There are: http, https, none, parrot"):
        open_engine(Settings(home=tmp_path, llm=LLMSettings(model="parot:hello")))


def test_another_packages_rewriter_serves(declare: Declare, tmp_path: Path) -> None:
    (declare("anaphora.rewriters", "shouter", shouting="shouter_load:load") / "shouter_load.py").write_text(REWRITER)
    run = tmp_path / "rewriters" / "loud"
    run.mkdir(parents=True)
    (run / "rewriter.json").write_text(json.dumps({"family": "shouting", "format": 1, "mark": "!"}))
    rewriter = open_rewriter(Settings(home=tmp_path, rewriter=RewriterSettings(model="loud")))
    talk = Conversation((Message("user", "Parental leave"),))
    assert rewriter.rewrite(talk, "by fax?").text == "PARENTAL LEAVE BY FAX?!"


def test_a_family_that_nobody_brings_is_told_with_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "rewriter.json").write_text(json.dumps({"family": "shouting", "format": 1}))
    with pytest.raises(RunError, match=r"no family .* known here \(causal, (mamba, )?t5, terms\)"):
        open_rewriter(Settings(home=tmp_path, rewriter=RewriterSettings(model=str(tmp_path))))
