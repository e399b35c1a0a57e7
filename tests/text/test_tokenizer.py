from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text.words import tokenize


def test_words_are_folded_and_stemmed_and_stop_words_left_out() -> None:
    assert tokenize("How do I RENEW my licences?") == ["renew", "licenc"]
    assert tokenize("renewing") == tokenize("Renewed")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("pass --dry-run", {"dry-run", "dri", "run"}), ("call foo_bar()", {"foo_bar", "foo", "bar"}),
        ("since v1.2", {"v1.2", "v1", "2"}), ("C++ and C#", {"c++", "c#"}), ("form 4", {"form", "4"}),
    ],
)  # fmt: skip
def test_identifiers_are_found_whole_and_in_parts(text: str, terms: set[str]) -> None:
    assert terms <= set(tokenize(text))


def test_compatible_forms_are_one_word() -> None:
    assert tokenize("ﬁle Ｆｏｒｍ") == tokenize("file form")
    assert tokenize("STRASSE") == tokenize("straße")
    assert tokenize("soft\u00adware") == tokenize("software")
    assert tokenize("driver’s") == tokenize("driver's") == ["driver"]


def test_scripts_without_spaces_become_bigrams() -> None:
    assert tokenize("東京都の人口") == ["東京", "京都", "都の", "の人", "人口"]
    assert tokenize("水") == ["水"]
    assert tokenize("GPU加速") == ["gpu", "加速"]


def test_combining_marks_stay_in_their_word() -> None:
    assert tokenize("हिन्दी में खोज") == ["हिन्दी", "में", "खोज"]


def test_a_text_without_words_has_no_terms() -> None:
    assert tokenize("") == tokenize("?! ...") == tokenize("the of and") == []


@given(st.text())
def test_any_text_gives_terms_without_blanks(text: str) -> None:
    assert all(term and len(term.split()) == 1 for term in tokenize(text))


def test_threads_do_not_disturb_each_other() -> None:
    texts = [f"renewing licences {number} for vehicles" for number in range(200)]
    expected = [tokenize(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenize, texts * 4)) == expected * 4
