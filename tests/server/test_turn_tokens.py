"""The guess of tokens leans high, in any language."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from server.turn.models import count_tokens

# Tokens as the tokenizer of Qwen2.5 counts them.
# ruff: noqa: E501
COUNTED = [
    (
        50,
        "FastAPI 是一个用于构建 API 的现代、快速（高性能）的 web 框架，使用 Python 并基于标准的 Python 类型提示。自动生成的交互式文档可以直接在浏览器中调用和测试你的接口。",
    ),
    (
        39,
        "このドキュメントでは、依存性注入の仕組みと、テストの書き方について説明します。まず最初にパッケージをインストールしてください。",
    ),
    (31, "이 문서에서는 의존성 주입의 작동 방식과 테스트 작성 방법을 설명합니다. 먼저 패키지를 설치하세요."),
    (33, "В этом документе описано, как работает внедрение зависимостей и как писать тесты. Сначала установите пакет."),
    (
        40,
        "In diesem Dokument wird beschrieben, wie die Abhängigkeitsinjektion funktioniert und wie man Tests schreibt. Installieren Sie zuerst das Paket.",
    ),
    (41, "Tässä asiakirjassa kuvataan, miten riippuvuuksien injektointi toimii ja miten testejä kirjoitetaan."),
    (34, "يصف هذا المستند كيفية عمل حقن التبعية وكيفية كتابة الاختبارات. قم بتثبيت الحزمة أولاً."),
    (101, "यह दस्तावेज़ बताता है कि निर्भरता इंजेक्शन कैसे काम करता है और परीक्षण कैसे लिखें। पहले पैकेज स्थापित करें।"),
    (45, "เอกสารนี้อธิบายวิธีการทำงานของการฉีดการพึ่งพาและวิธีเขียนการทดสอบ ติดตั้งแพ็คเกจก่อน"),
    (76, "ይህ ሰነድ የጥገኝነት መርፌ እንዴት እንደሚሰራ እና ሙከራዎችን እንዴት እንደሚጽፉ ይገልጻል።"),
    (
        28,
        "Este documento descreve como funciona a injeção de dependências e como escrever testes. Instale o pacote primeiro.",
    ),
    (
        41,
        "W tym dokumencie opisano, jak działa wstrzykiwanie zależności i jak pisać testy. Najpierw zainstaluj pakiet.",
    ),
    (77, "Αυτό το έγγραφο περιγράφει πώς λειτουργεί η έγχυση εξαρτήσεων και πώς να γράψετε δοκιμές."),
    (
        33,
        "Dokumen ini menjelaskan cara kerja injeksi dependensi dan cara menulis pengujian. Pasang paket terlebih dahulu.",
    ),
]


@pytest.mark.parametrize(("counted", "text"), COUNTED)
def test_no_language_costs_more_than_guessed(counted: int, text: str) -> None:
    assert counted <= count_tokens(text) <= 3 * counted


def test_nothing_costs_nothing() -> None:
    assert count_tokens("") == 0


_ENGLISH = ("the", "of", "to", "and", "is", "a", "in", "for", "it", "you", "with")


def _one_by_one(text: str) -> float:
    """The guess spelt out, character run by character run."""
    words = regex.findall(r"\w+", text)
    english = [word for word in words if word.lower() in _ENGLISH]
    step = 0.25 if words and len(english) / len(words) >= 0.08 else 0.6
    cost = 0.0
    for run in regex.findall(r"[A-Za-z]+|[0-9]|\s+|.", text, regex.DOTALL):
        if run.isascii() and run.isalpha():
            cost += 1 + max(len(run) - 4, 0) * step
        elif regex.fullmatch(r"\s+", run):
            cost += 0 if run == " " else -(-len(run) // 16)
        elif regex.fullmatch(r"[0-9]", run):
            cost += 1
        elif regex.fullmatch(r"[\x21-\x7e]", run):
            cost += 0.6
        elif regex.fullmatch(r"[\u0e00-\u0e7f\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7af\uff00-\uffef]", run):
            cost += 0.75
        elif regex.fullmatch(r"\p{Greek}", run):
            cost += 1.1
        else:
            cost += 0.7 if "\x80" <= run <= "\u07ff" else 1.8
    return cost


@given(st.lists(st.sampled_from([*" \n\tabOF019.,-_'\"éßжאمहไ中ア한𝕏\xa0\x85\x00\x7fΑω…", "the", "\n\n", "      "])))
def test_the_quick_way_counts_what_the_slow_one_does(pieces: list[str]) -> None:
    text = "".join(pieces)
    slow = _one_by_one(text)
    blanks = sum(max(run.count("\n") - 1, 0) for run in regex.findall(r"\s+", text))
    assert slow - 0.001 <= count_tokens(text) <= slow + 1.001 + 3 * blanks
