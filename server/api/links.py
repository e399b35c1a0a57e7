"""What may be asked after what: the links of the API's description, in one table.

`$response.body#/id` and its like are OpenAPI's runtime expressions. Programs that read the description follow them, and
so does the test that asks the API thousands of questions one after the other.
"""

from __future__ import annotations

from typing import Any

_CONVERSATION = {"conversation_id": "$response.body#/id"}
_SAME_CONVERSATION = {"conversation_id": "$request.path.conversation_id"}
_TURN = {"turn_id": "$response.header.X-Turn-Id"}
_JOB = {"job_id": "$response.body#/id"}
_COLLECTION = {"collection": "$request.path.collection"}
_DOCUMENT = {**_COLLECTION, "document_id": "$response.body#/data/0/id"}

# Path and method of what was asked, its status, and what may follow: path, method, parameters, fields of its body.
_Following = tuple[str, str, dict[str, str], dict[str, str]]
LINKS: dict[tuple[str, str, str], tuple[_Following, ...]] = {
    ("/v1/conversations", "post", "201"): (
        ("/v1/conversations/{conversation_id}/turns", "post", _CONVERSATION, {"question": "How long is it?"}),
        ("/v1/conversations/{conversation_id}", "get", _CONVERSATION, {}),
        ("/v1/conversations/{conversation_id}", "patch", _CONVERSATION, {}),
        ("/v1/conversations/{conversation_id}/export", "get", _CONVERSATION, {}),
        ("/v1/conversations/{conversation_id}", "delete", _CONVERSATION, {}),
    ),
    ("/v1/conversations", "get", "200"): (
        ("/v1/conversations/{conversation_id}", "get", {"conversation_id": "$response.body#/data/0/id"}, {}),
    ),
    ("/v1/conversations/{conversation_id}", "get", "200"): (
        ("/v1/turns/{turn_id}", "get", {"turn_id": "$response.body#/messages/0/id"}, {}),
    ),
    ("/v1/conversations/{conversation_id}/turns", "post", "200"): (
        ("/v1/turns/{turn_id}", "get", _TURN, {}),
        ("/v1/turns/{turn_id}/trace", "get", _TURN, {}),
        ("/v1/feedback", "post", {}, {"turn_id": "$response.header.X-Turn-Id", "rating": "up"}),
        (
            "/v1/conversations/{conversation_id}/turns",
            "post",
            _SAME_CONVERSATION,
            {"question": "And by fax?", "regenerate_of": "$response.header.X-Turn-Id"},
        ),
        (
            "/v1/conversations/{conversation_id}/versions",
            "post",
            _SAME_CONVERSATION,
            {"turn_id": "$response.header.X-Turn-Id"},
        ),
        ("/v1/conversations/{conversation_id}/export", "get", _SAME_CONVERSATION, {}),
        ("/v1/conversations/{conversation_id}", "delete", _SAME_CONVERSATION, {}),
    ),
    ("/v1/chat/completions", "post", "200"): (
        ("/v1/feedback", "post", {}, {"turn_id": "$response.body#/anaphora/turn_id", "rating": "down"}),
        ("/v1/turns/{turn_id}/trace", "get", {"turn_id": "$response.body#/anaphora/turn_id"}, {}),
    ),
    ("/v1/feedback", "post", "201"): (
        ("/v1/turns/{turn_id}", "get", {"turn_id": "$response.body#/turn_id"}, {}),
        ("/v1/feedback/{turn_id}", "delete", {"turn_id": "$response.body#/turn_id"}, {}),
    ),
    ("/v1/collections", "get", "200"): (
        ("/v1/collections/{collection}/documents", "get", {"collection": "$response.body#/data/0/name"}, {}),
        ("/v1/collections/{collection}/reindex", "post", {"collection": "$response.body#/data/0/name"}, {}),
    ),
    ("/v1/collections/{collection}/documents", "post", "202"): (
        ("/v1/jobs/{job_id}", "get", _JOB, {}),
        ("/v1/jobs/{job_id}/cancel", "post", _JOB, {}),
        ("/v1/collections/{collection}/documents", "get", _COLLECTION, {}),
        ("/v1/collections/{collection}", "delete", _COLLECTION, {}),
    ),
    ("/v1/collections/{collection}/documents", "get", "200"): (
        ("/v1/collections/{collection}/documents/{document_id}", "get", _DOCUMENT, {}),
        ("/v1/collections/{collection}/documents/{document_id}", "delete", _DOCUMENT, {}),
    ),
    ("/v1/collections/{collection}/documents/{document_id}", "delete", "202"): (
        ("/v1/jobs/{job_id}", "get", _JOB, {}),
    ),
    ("/v1/collections/{collection}/reindex", "post", "202"): (
        ("/v1/jobs/{job_id}", "get", _JOB, {}),
        ("/v1/jobs/{job_id}/cancel", "post", _JOB, {}),
    ),
    ("/v1/jobs", "get", "200"): (("/v1/jobs/{job_id}", "get", {"job_id": "$response.body#/data/0/id"}, {}),),
    ("/v1/models", "get", "200"): (("/v1/models/{model}", "get", {"model": "$response.body#/data/0/id"}, {}),),
}


def add_links(description: dict[str, Any]) -> None:
    """Write the links into an OpenAPI description. KeyError names what is in the table and not in the API."""
    paths = description["paths"]
    for (path, method, status), following in LINKS.items():
        links = paths[path][method]["responses"][status].setdefault("links", {})
        for target, verb, parameters, body in following:
            operation = paths[target][verb]
            link = {"operationId": operation["operationId"], "parameters": parameters, "requestBody": body}
            links[operation["summary"]] = {key: value for key, value in link.items() if value}
