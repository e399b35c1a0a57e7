"""The description of the API is what the API does: any request that fits it is answered as it says."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

EXAMPLES = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["POSITIVE", "NEGATIVE"])
def test_the_api_keeps_what_its_description_promises(running: Any, name: str) -> None:
    # Here, because every process of a test run looks into this file.
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    unsaid = {
        # That the last message is the user's, and which names a file may have, are no matter of a schema.
        "POST /v1/chat/completions": [positive_data_acceptance],
        "POST /v1/collections/{collection}/documents": [positive_data_acceptance],
        # 503 is what it says while something is loading.
        "GET /ready": [not_a_server_error],
    }
    mode = schemathesis.GenerationMode[name]
    running.call(running.service.core.warm())
    description = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
    tested = 0
    for found in description.get_all_operations():
        operation = found.ok()

        @EXAMPLES
        @given(case=operation.as_strategy(mode))
        def keeps_its_promise(case: Any) -> None:
            case.call_and_validate(excluded_checks=unsaid.get(case.operation.label, []), timeout=30)

        # An operation whose parameters may be any text cannot be asked wrongly.
        with suppress(Unsatisfiable):
            keeps_its_promise()
            tested += 1
    assert tested > (25 if mode is schemathesis.GenerationMode.POSITIVE else 12)
