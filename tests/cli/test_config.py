"""Settings on the command line: what is in force, where it came from, and what is said about wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from cli import app
from cli.shared.error_handler import ExitCode
from cli.shared.reference import leaves, markdown
from index.stores import StoreSpec
from server.settings import IndexSettings, Settings

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "operate" / "configuration.md"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory has no settings file but those a test writes."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def shown(*arguments: str) -> dict[str, dict[str, str]]:
    result = CliRunner().invoke(app, [*arguments, "config", "--json"])
    assert result.exit_code == 0, result.output
    settings: dict[str, dict[str, str]] = json.loads(result.stdout)
    return settings


def test_every_setting_is_shown_with_its_default() -> None:
    settings = shown()
    assert list(settings) == [setting.name for setting in leaves(Settings)]
    assert settings["server.port"] == {"value": "7860", "source": "default"}


def test_each_value_names_the_strongest_source(
    tmp_path: Path, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "anaphora.toml").write_text('collection = "a"\n[server]\nport = 1\n[llm]\nmodel = "a"\n')
    (empty_folder / "anaphora.toml").write_text('[server]\nport = 2\n[llm]\nmodel = "b"\n')
    monkeypatch.setenv("ANAPHORA_LLM__MODEL", "c")
    settings = shown("--home", str(home))
    assert settings["home"] == {"value": str(home), "source": "flag"}
    assert settings["llm.model"] == {"value": "c", "source": "environment ANAPHORA_LLM__MODEL"}
    assert settings["server.port"] == {"value": "2", "source": "file anaphora.toml"}
    assert settings["collection"] == {"value": "a", "source": f"file {home / 'anaphora.toml'}"}


def test_a_named_file_replaces_the_one_in_the_folder(tmp_path: Path, empty_folder: Path) -> None:
    (empty_folder / "anaphora.toml").write_text("[server]\nport = 2\n")
    other = tmp_path / "other.toml"
    other.write_text("[server]\nport = 3\n")
    assert shown("--config", str(other))["server.port"] == {"value": "3", "source": f"file {other}"}


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAPHORA_LLM__API_KEY", "sk-very-secret")
    monkeypatch.setenv("ANAPHORA_LLM__MODEL", "http://someone:hunter2@llm.example/v1")
    for arguments in (["config"], ["config", "--json"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0
        assert "sk-very-secret" not in result.output
        assert "hunter2" not in result.output
        assert "http://***@llm.example/v1" in result.output.replace("\n", "")


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("[server]\nport = 99999\n", ["server.port", "file anaphora.toml", "65535"]),
        ("[server]\nprot = 1\n", ["server.prot", "file anaphora.toml"]),
        ('[retrieval]\nprofile = "no.toml"\n', ["retrieval.profile (file anaphora.toml)", "no.toml cannot be read"]),
        ("[server\n", ["anaphora.toml", "TOML"]),
        ('[llm]\nmodel = "für"\n', ["anaphora.toml", "UTF-8"]),
    ],
)
def test_a_wrong_file_is_named_in_one_line(empty_folder: Path, file: str, named: list[str]) -> None:
    (empty_folder / "anaphora.toml").write_text(file, encoding="latin-1")
    result = CliRunner().invoke(app, ["config"])
    assert result.exit_code == ExitCode.SETTINGS
    assert len(result.stderr.splitlines()) == 1
    assert all(word in result.stderr for word in named), result.stderr


def test_a_list_in_the_environment_that_is_no_json_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAPHORA_INDEX__EXCLUDE", "drafts/")
    result = CliRunner().invoke(app, ["config"])
    assert result.exit_code == ExitCode.SETTINGS
    assert "JSON" in result.stderr


def test_a_missing_named_file_is_an_error() -> None:
    result = CliRunner().invoke(app, ["--config", "nowhere.toml", "config"])
    assert result.exit_code == ExitCode.SETTINGS
    assert "nowhere.toml" in result.stderr


def test_the_reference_in_the_documentation_is_current() -> None:
    assert REFERENCE.read_text("utf-8").endswith(markdown(Settings)), "run `anaphora config docs`"


def test_a_wrong_setting_of_a_plugin_is_named_with_its_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAPHORA_PLUGINS__WIDGET__ORIGINS", '["nonsense"]')
    monkeypatch.setenv("ANAPHORA_PLUGINS__WIDGET__DAY", "3")
    result = CliRunner().invoke(app, ["config"])
    assert result.exit_code == ExitCode.SETTINGS
    printed = " ".join(result.stderr.split())
    assert "plugins.widget.origins (environment" in printed
    assert "did you mean plugins.widget.days?" in printed
    assert "Value error" not in printed


def test_a_plugins_list_that_is_no_json_is_named_and_a_secret_is_a_text_however_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANAPHORA_PLUGINS__HANDOFF__SECRET", "{hush")
    assert shown()["plugins.handoff.secret"]["value"] == "(set, hidden)"
    monkeypatch.setenv("ANAPHORA_PLUGINS__WIDGET__ORIGINS", '["https://x')
    result = CliRunner().invoke(app, ["config"])
    assert result.exit_code == ExitCode.SETTINGS
    assert "widget.origins is no JSON" in " ".join(result.stderr.split())
    assert "hush" not in result.stderr


def test_the_reference_describes_every_setting(empty_folder: Path) -> None:
    result = CliRunner().invoke(app, ["config", "docs", "reference.md"])
    assert result.exit_code == 0
    text = (empty_folder / "reference.md").read_text("utf-8")
    for setting in leaves(Settings):
        assert setting.description, setting.name
        assert f"### `{setting.name}`\n\n{setting.description}\n" in text


def test_a_table_of_names_is_given_as_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ISSUER": "https://x.example", "CLIENT_ID": "x", "GROUPS_CLAIM": "g"}.items():
        monkeypatch.setenv(f"ANAPHORA_PLUGINS__SSO__{name}", value)
    monkeypatch.setenv("ANAPHORA_PLUGINS__SSO__ROLES", '{"editors": "operator", "b": "agent"}')
    monkeypatch.setenv("ANAPHORA_PLUGINS__SSO__CLIENT_SECRET", "very-secret")
    settings = shown()
    assert settings["plugins.sso.roles"]["value"] == "editors = operator, b = agent"
    assert settings["plugins.sso.client_secret"]["value"] == "(set, hidden)"


def test_the_address_of_a_server_goes_with_a_store_that_has_one() -> None:
    newer = IndexSettings.model_validate({"store": "milvus", "store_url": "http://milvus:19530"})
    assert newer.vectors == StoreSpec("milvus", "http://milvus:19530")
    with pytest.raises(ValidationError, match="store is exact"):
        IndexSettings.model_validate({"store_url": "http://milvus:19530"})
