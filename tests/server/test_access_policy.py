"""Who may do what: the one place that decides, and that nothing goes around it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import plugins.sources.service  # noqa: F401  (a service too)
from server import access as policy
from server.access import LOCAL, NOBODY, Principal, Role
from server.chat.base import ServiceBase

REPOSITORY = Path(__file__).resolve().parents[2]
OUTSIDE = [
    *(REPOSITORY / "server" / "api" / "routes").glob("*.py"),
    *(REPOSITORY / "ui").glob("*.py"),
]


def principal(role: Role, *groups: str) -> Principal:
    return Principal(f"key:{role}", role, role, frozenset(groups))


def services() -> list[type[ServiceBase]]:
    """Every class that is made of the base, with those of plugins that are imported."""
    return [service for base in (ServiceBase, *ServiceBase.__subclasses__()) for service in base.__subclasses__()]


def test_every_method_of_the_services_asks_the_policy() -> None:
    methods = {
        f"{service.__name__}.{name}": method
        for service in services()
        for name, method in vars(service).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    allowed = {"ConversationService.demand_change"}
    unasked = {name for name in methods if getattr(methods[name], "action", None) not in policy.NEEDS} - allowed
    assert not unasked, f"mark these with `requires`: {unasked}"
    assert len(methods) > 60


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_routes_and_the_page_have_only_the_service_of_whoever_asks(path: Path) -> None:
    reached = {
        ast.unparse(node) for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Attribute)
    }
    around = {name for name in reached if name.endswith(("service.core", "app.state", ".database"))}
    assert not around, "only `Service`, or `as_principal`, knows whom it acts for"


def test_roles_contain_one_another_and_groups_do_not() -> None:
    reader, agent, operator = principal("reader", "a"), principal("agent", "a"), principal("operator", "a")
    assert [policy.allows(one, "ask") for one in (reader, agent, operator)] == [True, True, True]
    assert [policy.allows(one, "review") for one in (reader, agent, operator)] == [False, True, True]
    assert [policy.allows(one, "documents") for one in (reader, agent, operator)] == [False, False, True]
    assert not policy.allows(operator, "server")
    assert policy.allows(LOCAL, "server")
    assert not policy.allows(principal("agent", "*"), "server")


def test_a_collection_is_reached_by_the_first_common_group() -> None:
    assert policy.group_of(principal("reader", "b", "c"), ["c", "a", "b"]) == "b"
    assert policy.group_of(principal("reader", "d"), ["a", "b"]) is None
    assert policy.group_of(principal("reader", "d"), []) is None
    assert policy.group_of(principal("reader", "default"), []) == "default"
    assert policy.group_of(LOCAL, ["b", "a"]) == "a"
    assert policy.group_of(LOCAL, []) == "default"
    assert policy.group_of(NOBODY, []) is None


def test_a_visitor_does_nothing_but_ask() -> None:
    allowed = {action for action in policy.NEEDS if policy.allows(principal("visitor", "*"), action)}
    assert allowed == {"ask", "ready"}
