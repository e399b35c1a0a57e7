"""The description of the API is what the API does: any request that fits it is answered as it says."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyStrategyDefinition, Unsatisfiable

from server.store import keys

CASES = int(os.environ.get("ANAPHORA_TEST_CASES") or 150)
"""Requests in states that follow one another; to each operation by itself go a twenty-fifth of them.

Read at import, before the environment is cleaned for the first test.
"""
UPLOAD = "POST /v1/collections/{collection}/documents"

EXAMPLES = settings(
    max_examples=max(2, CASES // 25),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def operator_key(running: Any) -> str:
    """A key that may do everything."""
    _, secret = running.service.core.database.write_blocking(lambda connection: keys.create(connection, "tests"))
    return str(secret)


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
        UPLOAD: [positive_data_acceptance],
        # That a quote ends behind its start, within the document's text, neither.
        "POST /v1/standalone": [positive_data_acceptance],
        # Nor that a sentence has words.
        "POST /v1/why": [positive_data_acceptance],
        # Nor which fields a command has, and what they may be here.
        # Nor which options a kind of source has.
        "POST /v1/sources": [positive_data_acceptance],
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
            answer = case.call_and_validate(excluded_checks=excluded, headers=headers, timeout=30)
            assert answer.status_code != 401

        # An operation whose parameters may be any text cannot be asked wrongly.
        with suppress(Unsatisfiable):
            keeps_its_promise()
            tested += 1
    assert tested > (25 if mode is schemathesis.GenerationMode.POSITIVE else 12)


@pytest.mark.slow
@pytest.mark.timeout(0 if CASES > 1000 else 180)
def test_whatever_follows_whatever_the_server_does_not_fail(running: Any, llm: Any) -> None:
    """Conversations are asked in, rated, exported and deleted, documents uploaded and removed: by the links of the API.

    `ANAPHORA_TEST_CASES=10000 pytest -s tests/server/test_api_description.py -k follows` is the long form.
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
    statuses: Counter[int] = Counter()
    operations: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    began = time.monotonic()

    def honest(context: Any, response: Any, case: Any) -> None:
        if response.status_code >= 500:
            said = response.json()
            honestly = response.status_code == 503 and (said.get("problems") or said["error"]["message"])
            assert honestly, response.text[:500]

    checks = [honest, status_code_conformance, content_type_conformance, response_schema_conformance]

    class Machine(description.as_state_machine()):  # type: ignore[misc]
        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            options: dict[str, Any] = {"timeout": 30, "headers": headers}
            if case.operation.label == UPLOAD and len(repr(case.body)) % 2:
                # A schema cannot say which names a file may have.
                options["files"] = {"file": ("page.md", f"# Page\n\n{case.body!r}".encode())}
            return options

        def validate_response(self, response: Any, case: Any, *_: Any, **__: Any) -> None:
            statuses[response.status_code] += 1
            operations[case.operation.label] += 1
            try:
                case.validate_response(response, checks=checks)
            except (AssertionError, FailureGroup, KeyError, ValueError) as failure:
                failures[f"{case.operation.label}: {response.status_code} {failure} {response.text[:300]}"] += 1

    for round_ in count():
        # The server is not the same before every example, which hypothesis takes for a fault of ours.
        with suppress(FlakyStrategyDefinition):
            seed(round_)(Machine).run(settings=settings(EXAMPLES, derandomize=False, max_examples=5))
        print(f"{sum(statuses.values())} in {time.monotonic() - began:.0f} s: {dict(statuses)}", flush=True)
        if sum(statuses.values()) >= CASES and operations["POST /v1/feedback"]:
            break
    print(f"{sum(statuses.values())} requests in {time.monotonic() - began:.0f} s: {dict(statuses)}")
    print("\n".join(f"{times:6} {label}" for label, times in operations.most_common()))
    assert not failures, "\n".join(failures)
    assert not statuses[401]
    with running.client() as client:
        assert client.get("/health").status_code == 200
