"""The documentation says what is there: its links, commands, endpoints and codes are checked against the code."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from cli import add_plugin_commands, app
from cli.shared.error_handler import ExitCode
from cli.shared.reference import leaves
from server.settings import Settings

add_plugin_commands()
REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "plugins").glob("*/README.md"),
        *(REPOSITORY / "papers").glob("*/README.md"),
        *(REPOSITORY / "papers").glob("*/tables.md"),
        *(page for page in REPOSITORY.glob("[A-Z]*.md") if page.name != "CHANGELOG.md"),
    ]
)
GUIDES = [page for page in PAGES if page.parent.name != "lab" and "papers" not in page.parts]
"""Pages of the lab and of papers tell what was run, with the commands of their time."""
CLI, API, OPERATIONS, SECURITY = (
    REPOSITORY / "docs" / "operate" / f"{name}.md" for name in ("cli", "api", "operations", "security")
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_has_a_place_in_the_site() -> None:
    named = re.findall(r"[\w./-]+\.md$", (REPOSITORY / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted({name_of(page) for page in PAGES} - set(named)) == []
    assert [name for name in named if not (REPOSITORY / name).is_file()] == []


def told(wrong: Callable[[Path], Iterable[str]], pages: Sequence[Path] = PAGES) -> list[str]:
    """What is wrong with each of the pages."""
    return [f"{name_of(page)}: {one}" for page in pages for one in wrong(page)]


def test_links_lead_somewhere() -> None:
    def dead(page: Path) -> Iterator[str]:
        for match in LINK.finditer(FENCE.sub("", page.read_text("utf-8"))):
            target = match[1] or match[2]
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            there = file.exists() and (not anchor or anchor in anchors(file))
            if not there and not target.startswith(("http://", "https://")):
                yield target

    assert told(dead) == []


def commands_in(page: Path) -> Iterator[list[str]]:
    """Every `anaphora …` command line in code blocks and code spans."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    spans = re.findall(r"`(anaphora [^`]+)`", FENCE.sub("", text))
    for line in [*lines, *(" ".join(span.split()) for span in spans)]:
        if line.startswith("anaphora ") and "…" not in line:
            yield shlex.split(line, comments=True)[1:]


@cache
def program() -> Any:
    """The command line, built once."""
    return get_command(app)


def check(words: list[str]) -> str:
    """What is wrong with a command line, or nothing; arguments are not looked at."""
    command: Any = program()
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word.startswith("-"):
            options = {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}
            known = word.partition("=")[0]
            if known in ("--help", "-h"):
                continue
            if known not in options:
                return f"{command.name} has no {word}"
            if not getattr(options[known], "is_flag", False) and waiting and "=" not in word:
                waiting.pop(0)
        elif hasattr(command, "commands"):
            if word not in command.commands and hasattr(command, "default"):
                command = command.commands[command.default]
                continue
            if word not in command.commands:
                return f"{command.name} has no command {word}"
            command = command.commands[word]
    return ""


def test_commands_and_their_options_exist() -> None:
    assert told(lambda page: filter(None, map(check, commands_in(page))), GUIDES) == []


def test_a_wrong_command_would_be_seen() -> None:
    assert check(["--home", "x", "index", "docs", "--collection", "c"]) == ""
    assert check(["index", "docs", "--colection", "c"]) == "index has no --colection"
    assert check(["synth", "docs", "--out", "d"]) == ""
    assert check(["synth", "docs", "--ot", "d"]) == "synth has no --ot"
    assert check(["indx", "docs"]) == "anaphora has no command indx"
    assert any(words[0] == "ask" for words in commands_in(CLI))


def test_every_command_is_described() -> None:
    described = set(re.findall(r"^## anaphora (\w+)$", CLI.read_text("utf-8"), re.M))
    assert described == set(program().commands)


def test_exit_codes_are_those_of_the_program() -> None:
    text = CLI.read_text("utf-8").partition("## Exit codes")[2]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == [code.value for code in ExitCode]


def test_every_endpoint_is_described(tmp_path: Path) -> None:
    from server.api.app import create_app
    from server.chat import ChatService
    from server.chat.service import ServiceCore
    from server.store import Database, Runner
    from server.tracing import Tracing

    settings = Settings(home=tmp_path)
    database, runner = Database(tmp_path / "anaphora.db"), Runner(tmp_path / "run")
    try:
        core = ServiceCore(settings, database, runner, Tracing(content=False))
        paths = create_app(ChatService(core), settings).openapi()["paths"]
    finally:
        runner.close()
        database.close()
    served = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    table = API.read_text("utf-8").partition("## Endpoints")[2].partition("\n## ")[0]
    table += "".join(page.read_text("utf-8") for page in (REPOSITORY / "plugins").glob("*/README.md"))
    assert set(re.findall(r"^\| `([A-Z]+ /v1\S*|[A-Z]+ /\w+)` \|", table, re.MULTILINE)) >= served


def test_probes_that_are_named_exist() -> None:
    named = re.compile(r"`(?:GET )?/((?:health|ready|live|metrics)\w*)`")
    assert told(lambda page: {*named.findall(page.read_text("utf-8"))} - {"health", "ready", "metrics"}) == []


def test_metrics_are_described() -> None:
    from server.tracing import Metrics

    text = OPERATIONS.read_text("utf-8")
    # A Counter's series end in _total.
    names = {
        f"{metric.name}_total" if metric.type == "counter" else metric.name for metric in Metrics().registry.collect()
    }
    assert names <= set(re.findall(r"`(anaphora_\w+)`", text))


def test_settings_that_are_named_exist() -> None:
    known = {setting.name for setting in leaves(Settings)}
    groups = "|".join({name.partition(".")[0] for name in known if "." in name} - {"index"})
    named, known = rf"`((?:{groups})\.(?!json`|py`)[a-z_]+)`", known | {name.rpartition(".")[0] for name in known}
    assert told(lambda page: {*re.findall(named, FENCE.sub("", page.read_text("utf-8")))} - known, GUIDES) == []


def test_blocks_of_json_and_of_settings_can_be_read() -> None:
    known = {setting.name for setting in leaves(Settings)}

    def unknown(values: dict[str, Any], above: str = "") -> Iterator[str]:
        for key, value in values.items():
            if (name := f"{above}{key}") not in known:
                yield from unknown(value, f"{name}.") if isinstance(value, dict) else [name]

    def wrong(page: Path) -> Iterator[str]:
        for kind, block in re.findall(
            r"^ *```(json|toml)\n(.*?)^ *```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        ):
            values = (json.loads if kind == "json" else tomllib.loads)(block)
            if kind == "toml" and "project" not in values:
                yield from unknown(values)

    assert told(wrong, GUIDES) == []


def test_variables_that_are_named_are_settings() -> None:
    known, named = {setting.variable for setting in leaves(Settings)}, r"\b(ANAPHORA_[A-Z_]*__[A-Z_]*[A-Z])\b"
    assert told(lambda page: {*re.findall(named, page.read_text("utf-8"))} - known, GUIDES) == []


def test_recipes_that_are_named_exist() -> None:
    known = {path.stem for path in (REPOSITORY / "rewriter" / "recipes").glob("*.toml")}

    def named(page: Path) -> set[str]:
        return {word for words in commands_in(page) if words[0] == "train" for word in words[1:2] if word[0] != "-"}

    assert told(lambda page: named(page) - known, GUIDES) == []


ACCOUNTS = (
    "note",
    "audit",
    "_noted",
    "_note_read",
    "account",
    "_account",
    "entry",
    "write_down",
    "wrong",
    "AuditEntry",
)
"""Functions whose first text is an act."""


def test_every_act_in_the_audit_log_is_described() -> None:
    written = set()
    for room in ("server", "cli", "plugins"):
        for path in (REPOSITORY / room).rglob("*.py"):
            if "tests" in path.relative_to(REPOSITORY).parts:
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
                if called in ACCOUNTS:
                    written |= {value for one in node.args if isinstance(value := getattr(one, "value", None), str)}
    text = SECURITY.read_text("utf-8").partition("## Who did what?")[2].partition("\n## ")[0]
    acts = {act for line in text.splitlines() if line.startswith("| `") for act in re.findall(r"`(\w+\.\w+)`", line)}
    assert acts == {act for act in written if re.fullmatch(r"[a-z]+\.[a-z]+", act)}
