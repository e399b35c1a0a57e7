"""Files put together from what formats are made of, and small files with bytes changed: nothing worse than LoadError.

The same files every time, in some seconds; `FUZZ_EXAMPLES=20000 pytest tests/index/test_loaders_fuzz.py` looks at
others, and at as many of each kind.
"""

from __future__ import annotations

import itertools
import os
import re
import time
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.constructs import CONSTRUCTS
from benchmarks.constructs.docx import docx
from benchmarks.constructs.pdf import pdf
from index.documents import Document
from index.errors import LoadError
from index.loaders import load
from index.passages import split
from text.sanitize import is_showable

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "20"))
bounded = settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES <= 100,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
# Of processor time, for files of a few kilobytes; what is broken takes far more.
MOST_SECONDS = 10.0
CHARACTERS = st.text(
    st.one_of(
        st.characters(), st.sampled_from("\x00\x1b\x85\u2028\u202e\u2066\ufeff\ud800\r\n\t\f -*`|:.#<>[]_\\'\"&")
    ),
    max_size=12,
)
_BODY = re.compile(rb"<w:body>(.*)</w:body>", re.DOTALL)


def body(made: bytes) -> bytes:
    """What stands in a Word document."""
    with zipfile.ZipFile(BytesIO(made)) as archive:
        found = _BODY.search(archive.read("word/document.xml"))
    assert found is not None
    return found[1]


MORE = {
    ".md": [
        b"---\ntitle: A \x1b title\nurl: https://example.org/\xe2\x80\xaex\ntags: [a]\nyear: 2020\n---\n# A\n\nB.\n"
    ],
    ".html": [
        b"<title>A</title><link rel=canonical href='https://example.org/&#x202e;'><main><h1>A</h1>B.</main>",
        b"<soup>a</soup><fn-cache>b</fn-cache><list>c</list><h99>d</h99><tag>e</tag><_document_>f</_document_>",
        "<ol start='²'><li>a</ol><ol start=99999999999999999999><li>b</ol><td colspan='²'>c</td>".encode(),
        b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><body><p>a</p></body></html>",
    ],
    ".jsonl": [
        b'{"_id": "\\u001b", "text": "\\u202e", "title": "\\u0000", "metadata": {"url": "https://a/\\u202e"}}\n'
    ],
}


def samples(ending: str) -> list[bytes]:
    """A small file of each construct, and some more; of Word documents their bodies."""
    made = [make(96)[:400] if ending not in (".docx", ".pdf") else make(96) for make in CONSTRUCTS[ending].values()]
    return [body(one) for one in made] if ending == ".docx" else made + MORE.get(ending, [])


def whole(ending: str) -> Callable[[bytes], bytes]:
    """Makes a file of what `samples` gives pieces of."""
    if ending == ".docx":
        return docx
    if ending == ".pdf":
        return lambda content: content if content.startswith(b"%PDF") else pdf([content])
    return lambda content: content


@st.composite
def composed(draw: st.DrawFn, ending: str) -> bytes:
    """Constructs and characters one after the other, some of them within others by indentation or by chance."""
    pieces = st.one_of(
        st.sampled_from(samples(ending)),
        st.sampled_from(samples(ending)).flatmap(lambda one: st.integers(0, len(one)).map(lambda at: one[at:])),
        CHARACTERS.map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.binary(max_size=4),
    )
    joint = draw(st.sampled_from([b"", b"\n", b"\n\n", b" ", b"\n    ", b"\n> "]))
    return whole(ending)(joint.join(draw(st.lists(pieces, min_size=1, max_size=8))))


@st.composite
def mutated(draw: st.DrawFn, ending: str) -> bytes:
    """A small file with bytes changed, left out, put in or repeated."""
    made = bytearray(draw(st.sampled_from(samples(ending))))
    packed = draw(st.booleans())  # the archive itself is hurt, rather than what is in it
    if packed:
        made = bytearray(whole(ending)(bytes(made)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(made)))
        length = draw(st.integers(0, 40))
        made[at : at + length] = draw(
            st.one_of(st.binary(max_size=6), st.just(bytes(made[at : at + length]) * 3), st.just(b""))
        )
    return bytes(made) if packed else whole(ending)(bytes(made))


def check(path: Path, data: bytes) -> None:
    """The file is read as it should be, or refused with words a person can be shown."""
    path.write_bytes(data)
    began = time.process_time()
    said: list[str] = []
    try:
        documents = load(path, path.name, warn=said.append)
    except LoadError as error:
        said.append(str(error))
        documents = []
    for document in documents:
        check_document(document)
    assert is_showable("".join(said)), said
    assert time.process_time() - began < MOST_SECONDS


def check_document(document: Document) -> None:
    assert is_showable(document.text)
    assert document.sections
    at = 0
    for section in document.sections:
        assert at <= section.start <= section.end <= len(document.text)
        assert section.start < section.end or document.verbatim
        at = section.end
        assert section.page is None or section.page >= 1
    shown = [document.id, document.title, *itertools.chain(*(section.heading for section in document.sections))]
    shown += [str(value) for value in document.metadata.values()]
    for line in shown:
        assert is_showable(line), line
    for passage in split(document, 40, lambda text: len(text.split())):
        assert document.text[passage.start : passage.end] == passage.text


@pytest.mark.parametrize("ending", CONSTRUCTS)
def test_whatever_constructs_meet_the_file_is_read_or_refused(tmp_path: Path, ending: str) -> None:
    @bounded
    @given(composed(ending))
    def read(data: bytes) -> None:
        check(tmp_path / f"corpus{ending}", data)

    read()


@pytest.mark.extended
@pytest.mark.parametrize("ending", CONSTRUCTS)
def test_whatever_bytes_are_hurt_the_file_is_read_or_refused(tmp_path: Path, ending: str) -> None:
    @bounded
    @given(mutated(ending))
    def read(data: bytes) -> None:
        check(tmp_path / f"corpus{ending}", data)

    read()
