"""Prompts are files of the package, versioned by content."""

from __future__ import annotations

import pytest

from text.prompts import load_prompt
from text.sanitize import escape


def test_a_prompt_has_its_text_and_a_version() -> None:
    prompt = load_prompt("rewriter.prompts", "rewrite")

    assert prompt.text.startswith("You prepare search queries.")
    assert len(prompt.version) == 12
    assert prompt.version != load_prompt("rewriter.prompts", "conversation").version


def test_a_missing_prompt_is_said() -> None:
    with pytest.raises(FileNotFoundError):
        load_prompt("rewriter.prompts", "nothing")


@pytest.mark.parametrize(
    "token",
    [
        *("<|im_start|>", "<|endoftext|>", "<｜end｜>", "</s>", "[INST]", "[/INST]", "<<SYS>>", "<start_of_turn>"),
        *("<think>", "<passages>", "</passages>", "<cannot_answer>", "<cannot answer>", "</ passages>"),
    ],
)
def test_tokens_of_chat_templates_are_broken(token: str) -> None:
    assert token not in escape(f"before {token} after")
    assert token.strip("<>[]/|｜ ") in escape(token)


@pytest.mark.parametrize("text", ["a < b > c", "List[int]", "x |> f", "<span>", "👩‍👩‍👧", "می‌خواهم", "a\tb\nc"])
def test_ordinary_text_stays(text: str) -> None:
    assert escape(text) == text


@pytest.mark.parametrize(
    "tag", ["< /passages>", "</ passages >", "＜／passages＞", "＜/passages>", "﹤ passages ﹥", "<\n/passages>"]
)
def test_the_prompts_own_tags_are_broken_in_other_clothes_too(tag: str) -> None:
    escaped = escape(f"before {tag} after")

    assert tag not in escaped
    assert not set(escaped) & set("<＜﹤")
    assert "passages" in escaped
