"""Entry points of other distributions: found by group, loaded by name, told of when they are not there."""

from __future__ import annotations

import pytest

from conftest import Declare
from text.modules import PluginError, load_plugin, plugins


def test_what_another_distribution_declares_is_found_and_loaded(declare: Declare) -> None:
    declare("anaphora.tests", ordered="collections:OrderedDict", joined="os.path:join")
    assert set(plugins("anaphora.tests")) == {"ordered", "joined"}
    assert load_plugin("anaphora.tests", "joined", kind="joiner")("a", "b") == "a/b"


def test_the_first_distribution_on_the_path_wins(declare: Declare) -> None:
    declare("anaphora.tests", "first", name="os.path:join")
    declare("anaphora.tests", "second", name="os.path:split")
    assert plugins("anaphora.tests")["name"].value == "os.path:join"


def test_a_name_nobody_declares_is_told_with_what_there_is(declare: Declare) -> None:
    declare("anaphora.tests", ordered="collections:OrderedDict")
    with pytest.raises(PluginError, match=r"no shelf 'orderd'\. There are: built, ordered\..*'anaphora\.tests'"):
        load_plugin("anaphora.tests", "orderd", kind="shelf", builtin=("built",))


@pytest.mark.parametrize("value", ["no_such_module:thing", "collections:NoSuchThing"])
def test_what_cannot_be_loaded_names_its_distribution(declare: Declare, value: str) -> None:
    declare("anaphora.tests", broken=value)
    with pytest.raises(PluginError, match=r"shelf 'broken' that shelf declares as '.*:.*' cannot be loaded \(.+\)"):
        load_plugin("anaphora.tests", "broken", kind="shelf")
