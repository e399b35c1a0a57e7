"""The description of the API is what the API does: any request that fits it is answered as it says."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies
from hypothesis.errors import Unsatisfiable

from server.store import credentials

pytestmark = pytest.mark.extended

CASES = int(os.environ.get("ANAPHORA_TEST_CASES") or 150)
"""Requests of the random walk; each operation by itself gets a fiftieth of them.

Read at import, before the environment is cleaned for the first test.
"""
STEPS = 30
"""Requests in one example of the random walk."""
UPLOAD = "POST /v1/collections/{collection}/documents"

EXAMPLES = settings(
    max_examples=max(2, CASES // 50),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def operator_key(running: Any) -> str:
    """A key that may do everything."""
    _, secret = running.service.core.database.write_blocking(
        lambda connection: credentials.create_key(connection, "tests")
    )
    return str(secret)


@pytest.mark.parametrize("name", ["POSITIVE", "NEGATIVE"])
def test_the_api_keeps_what_its_description_promises(running: Any, name: str) -> None:
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    unsaid = {
        # That the last message is the user's, and which names a file may have, are no matter of a schema.
        "POST /v1/chat/completions": [positive_data_acceptance],
        UPLOAD: [positive_data_acceptance],
        # That a quote ends behind its start, within the document's text, neither.
        "POST /v1/standalone": [positive_data_acceptance],
        # Nor that a sentence has words.
        "POST /v1/why": [positive_data_acceptance],
        # Nor which options a kind of source has.
        "POST /v1/sources": [positive_data_acceptance],
        # Nor that a filter in an address is JSON.
        "GET /v1/insights": [positive_data_acceptance],
        "GET /v1/widget/welcome": [positive_data_acceptance],
        # 503 is what it says while something is loading.
        "GET /ready": [not_a_server_error],
    }
    mode = schemathesis.GenerationMode[name]
    running.call(running.service.core.warm())
    # The first key that a request makes would shut all later ones out.
    headers = {"Authorization": f"Bearer {operator_key(running)}"}
    description = schemathesis.openapi.from_url(f"{running.url}/openapi.json", headers=headers)
    tested = 0
    for found in description.get_all_operations():
        operation = found.ok()

        @EXAMPLES
        @given(case=operation.as_strategy(mode))
        def keeps_its_promise(case: Any) -> None:
            excluded = unsaid.get(case.operation.label, [])
            answer = case.call_and_validate(excluded_checks=excluded, headers=headers, timeout=90)
            assert answer.status_code != 401

        # An operation whose parameters may be any text cannot be asked wrongly.
        with suppress(Unsatisfiable):
            keeps_its_promise()
            tested += 1
    assert tested > (25 if mode is schemathesis.GenerationMode.POSITIVE else 12)


@pytest.mark.timeout(0 if CASES > 1000 else 600)
def test_operations_in_any_order_never_fail_the_server(running: Any, llm: Any) -> None:
    """Walk through the API at random: each step may use any id that an earlier response named.

    `ANAPHORA_TEST_CASES=10000 pytest -s tests/server/test_api_description.py -k any_order` is the long form.
    """
    import schemathesis
    from schemathesis.core.failures import FailureGroup
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    running.call(running.service.core.warm())
    headers = {"Authorization": f"Bearer {operator_key(running)}"}
    description = schemathesis.openapi.from_url(f"{running.url}/openapi.json", headers=headers)
    operations = [result.ok() for result in description.get_all_operations()]
    statuses: Counter[int] = Counter()
    failures: Counter[str] = Counter()
    ids: defaultdict[str, list[str]] = defaultdict(list)

    def check_errors(context: Any, response: Any, case: Any) -> None:
        if response.status_code >= 500:
            body = response.json()
            has_reason = response.status_code == 503 and (body.get("problems") or body["error"]["message"])
            assert has_reason, response.text[:500]

    def remember(value: Any, own: str) -> None:
        """Keep each `id` under the path parameter it fills, and each `…_id` under its own name."""
        for item in value if isinstance(value, list) else []:
            remember(item, own)
        for key, item in value.items() if isinstance(value, dict) else []:
            if isinstance(item, str) and (key == "id" or key.endswith("_id")):
                ids[own if key == "id" else key].append(item)
            remember(item, own)

    checks = [check_errors, status_code_conformance, content_type_conformance, response_schema_conformance]

    @settings(EXAMPLES, max_examples=max(2, CASES // STEPS))
    @given(data=strategies.data())
    def walk(data: strategies.DataObject) -> None:
        for _ in range(STEPS):
            operation = data.draw(strategies.sampled_from(operations))
            case = data.draw(operation.as_strategy())
            for name in case.path_parameters or {}:
                # Drawn without regard to the ids, which differ between runs.
                choice = data.draw(strategies.integers(0, 19))
                if choice and ids[name]:
                    case.path_parameters[name] = ids[name][-(choice % len(ids[name])) - 1]
            options: dict[str, Any] = {"timeout": 90, "headers": headers}
            if operation.label == UPLOAD and data.draw(strategies.booleans()):
                # A schema cannot say which names a file may have.
                options["files"] = {"file": ("page.md", f"# Page\n\n{case.body!r}".encode())}
            response = case.call(**options)
            statuses[response.status_code] += 1
            try:
                case.validate_response(response, checks=checks)
            except (AssertionError, FailureGroup, KeyError, ValueError) as failure:
                failures[f"{operation.label}: {response.status_code} {failure} {response.text[:300]}"] += 1
            if response.status_code < 300 and response.headers.get("content-type") == "application/json":
                resources = [part for part in operation.path.split("/") if part and "{" not in part]
                remember(response.json(), resources[-1].removesuffix("s") + "_id")

    walk()
    print(f"\n{statuses.total()} requests: {dict(statuses)}")
    assert not failures, "\n".join(failures)
    assert not statuses[401]
    assert statuses[200] > statuses.total() // 10
    with running.client() as client:
        assert client.get("/health").status_code == 200
