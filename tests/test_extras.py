"""A plain installation serves; what it leaves out is asked for by the name of the extra that brings it."""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from cli import app
from cli.shared.error_handler import ExitCode
from tests.installed import ROOT, brought, left_out
from text.modules import MissingExtra, need_extra

RECIPE = '[model]\nbase = "nowhere"\n[stage]\nsteps = 2\ndata = [{ path = "rows.jsonl" }]\n'
LINE = {
    "id": "q",
    "history": [{"role": "user", "text": "How long is parental leave?"}],
    "text": "and by fax?",
    "question": "fax?",
    "rewrite": "Fax?",
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with what the commands below are given."""
    (tmp_path / "tiny.toml").write_text(f'name = "tiny"\n{RECIPE}', "utf-8")
    (tmp_path / "q.jsonl").write_text(json.dumps(LINE), "utf-8")
    (tmp_path / "guide.md").write_text("# Guide\n\nA badge costs twenty euros.\n", "utf-8")
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "modules.json").write_text("[]", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


JUDGED = ("--questions", "q.jsonl")


@pytest.mark.usefixtures("files", "command_home")
@pytest.mark.parametrize(
    ("command", "missing", "extra", "code"),
    [
        (("train", "tiny.toml"), "torch", "train", ExitCode.BAD_INPUT),
        (("train", "tiny.toml"), "peft", "train", ExitCode.BAD_INPUT),
        (("train", "terms"), "torch", "train", ExitCode.BAD_INPUT),
        (("adapt", "guide.md"), "torch", "train,eval", ExitCode.BAD_INPUT),
        (("adapt", "guide.md"), "ir_measures", "train,eval", ExitCode.BAD_INPUT),
        (("eval", "calibrate", *JUDGED), "ir_measures", "eval", ExitCode.BAD_INPUT),
        (("eval", "retrieval", "--questions", "q.jsonl", "-c", "docs"), "ir_measures", "eval", ExitCode.BAD_INPUT),
        (("index", "guide.md", "-c", "other"), "sentence_transformers", "hub", ExitCode.MODEL),
    ],
)
def test_a_command_names_the_extra_it_needs(
    command: tuple[str, ...], missing: str, extra: str, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    if extra == "hub":
        monkeypatch.setenv("ANAPHORA_INDEX__ENCODER", "encoder")
    result = CliRunner().invoke(app, list(command))
    assert f"make install EXTRAS={extra}" in result.stderr, result.output
    assert missing in result.stderr
    assert result.exit_code == code


@pytest.mark.parametrize(
    ("name", "missing"), [("a.html", "bs4"), ("a.rst", "docutils"), ("a.docx", "mammoth"), ("a.pdf", "pypdfium2")]
)
def test_a_file_names_the_extra_its_loader_needs(
    name: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from index.errors import LoadError
    from index.loaders.files import load

    monkeypatch.setitem(sys.modules, missing, None)
    (tmp_path / name).write_text("x", "utf-8")
    with pytest.raises(LoadError, match=rf"Reading {name} needs {missing}, .*EXTRAS=standard"):
        load(tmp_path / name, name)


def test_a_plain_installation_shows_formulas_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from ui.safe_html import render_markdown

    monkeypatch.setitem(sys.modules, "latex2mathml", None)
    page = render_markdown("Take $x^{17}$.")
    assert "<math" not in page
    assert "x^{17}" in page


def test_several_missing_libraries_are_told_at_once() -> None:
    with pytest.raises(MissingExtra, match=r"^Juggling needs no_club, no_ring, which .* EXTRAS=circus`"):
        need_extra("circus", "Juggling", "no_club", "sys", "no_ring")


def asked_for() -> Iterator[tuple[str, str, str]]:
    """Where, extra and module of every `need_extra` of the rooms, where they are written out."""
    for path in sorted(ROOT.glob("[a-z]*/**/*.py")):
        text = path.read_text("utf-8")
        if "need_extra(" not in text or "tests" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "need_extra":
                extra, *modules = (ast.literal_eval(one) for one in node.args if isinstance(one, ast.Constant))
                # What stands second is the sentence's beginning, where it is a plain string.
                yield from ((f"{path.name}:{node.lineno}", extra, one) for one in modules if one.islower())


@pytest.mark.extended
def test_the_extra_that_is_named_brings_the_library() -> None:
    asked = list(asked_for())
    assert len(asked) > 10
    of_module = packages_distributions()
    wrong = [
        (where, extra, name)
        for where, extra, name in asked
        if not {canonicalize_name(one) for one in of_module.get(name, [name])} & set(brought(*extra.split(",")))
    ]
    assert wrong == []


def test_a_plain_installation_leaves_out_what_serving_does_without() -> None:
    assert {"torch", "transformers", "sentence_transformers", "scipy", "langchain", "chromadb", "mcp"} <= left_out()
    assert not {"onnxruntime", "tokenizers", "gradio", "langchain_core", "xllamacpp"} & left_out()


ROOMS = ("cli", "evaluation", "index", "plugins", "rewriter", "server", "synth", "text", "ui")


def imported() -> Iterator[tuple[Path, str, bool]]:
    """File, top-level module, and whether it is imported with the file, for every import of the product."""
    for room in ROOMS:
        for path in (path for path in (ROOT / room).rglob("*.py") if "tests" not in path.relative_to(ROOT).parts):
            tree = ast.parse(path.read_text("utf-8"))
            for node in ast.walk(tree):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [str(node.module)] if isinstance(node, ast.ImportFrom) and not node.level else []
                yield from ((path.relative_to(ROOT), name, node in tree.body) for name in names)


@pytest.mark.extended
def test_every_library_that_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [name for extra, names in project["optional-dependencies"].items() if extra != "dev" for name in names]
    plain, optional = (
        {canonicalize_name(Requirement(name).name) for name in names} for names in (project["dependencies"], extras)
    )
    brings = packages_distributions()
    for path, module, at_once in imported():
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names or top in {*ROOMS, "testing", "tests", "papers", "ray"}:
            continue
        # A namespace such as `opentelemetry` is of several distributions.
        from_ = {canonicalize_name(name) for name in brings.get(top, [])}
        assert from_ & (plain | optional), f"{path} imports {module}, which pyproject.toml does not declare"
        # A loader is imported once `need_extra` has seen its libraries.
        if at_once and path.parts[0] not in ("rewriter", "plugins") and path.parts[:2] != ("index", "loaders"):
            assert from_ & plain, f"{path} imports {module} at once, which a plain installation may not have"
