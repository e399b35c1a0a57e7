"""Every route of the whole application, Gradio's included, as every role of two tenants and as nobody.

The tenant alpha fills everything with planted words; whoever is not of alpha gets none of them, whatever is asked, is
answered as if nothing of alpha were there, and sees its own lists unchanged. A route that no table here names, of the
application or of the API's description, fails: whoever adds one says who may use it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from reportlab.pdfgen.canvas import Canvas
from starlette.routing import Mount

from server.access import Role
from server.api.security import COOKIE
from server.store import credentials, schema
from tests.eventually import eventually
from ui.gate import PageGate

WORDS = {
    "body": "xylotheque",
    "heading": "Quokkary",
    "title": "Wombatorium",
    "question": "numbatious",
    "answer": "bilbyesque",
    "comment": "pademelonic",
    "search": "bettongish",
    "upload": "dunnartful",
    "key": "antechinoid",
}
NAMES = {
    "collection": "alpha-vault",
    "file": "zyzzyva.md",
    "uploaded": "kowari.md",
    "paged": "quoll.pdf",
    "group": "alpha-people",
    "source": "alpha-pushed",
}
BETA = "beta-shelf"
PLUGINS: dict[str, object] = {
    "widget": {"origins": ["https://www.example.org"]},
    "curated": {"enabled": True},
    "insights": {"enabled": True},
    "handoff": {"kind": "webhook", "address": "http://127.0.0.1:9/", "secret": "s"},
}
PEOPLE: dict[str, tuple[Role, str]] = {
    "beta visitor": ("visitor", "beta-people"),
    "beta reader": ("reader", "beta-people"),
    "beta agent": ("agent", "beta-people"),
    "beta operator": ("operator", "beta-people"),
    "alpha visitor": ("visitor", NAMES["group"]),
    "another alpha reader": ("reader", NAMES["group"]),
    "alpha reader": ("reader", NAMES["group"]),
    "alpha agent": ("agent", NAMES["group"]),
    "alpha operator": ("operator", NAMES["group"]),
    "root": ("operator", "*"),
}
OUTSIDERS = [who for who, (role, _) in PEOPLE.items() if who.startswith("beta") and role != "visitor"]
OK = 200
"""Any success, or what `ALLOWED` says of the route: what was asked for is allowed."""


def by_role(
    reader: int, agent: int, operator: int, *, foreign: int | None, root: int = OK, visitor: int = 403
) -> dict[str, int]:
    """The status each gets; with `foreign` whoever is not of alpha gets that one where the role would do."""
    statuses = {"nobody": 401, "root": root}
    for name, (role, group) in PEOPLE.items():
        if group != "*":
            status = {"visitor": visitor, "reader": reader, "agent": agent, "operator": operator}[role]
            outside = group != NAMES["group"] and foreign is not None and status != 403
            statuses[name] = foreign if outside and foreign is not None else status
    return statuses


def of_a_row(agent: int = OK, *, least: Role = "reader") -> dict[str, int]:
    """A row that belongs to `alpha reader`: another reader does not see it."""
    reader = OK if least == "reader" else 403
    return {**by_role(reader, OK, OK, foreign=404), "another alpha reader": 404 if reader == OK else 403} | (
        {"alpha agent": agent, "beta agent": 404}
    )


EVERYBODY = by_role(OK, OK, OK, foreign=None)
AGENTS = by_role(403, OK, OK, foreign=None)
OPERATORS = by_role(403, 403, OK, foreign=None)
THE_SERVER = by_role(403, 403, 403, foreign=None)
NO_RUN = by_role(403, 403, 403, foreign=None, root=404)
OF_ALPHA = by_role(OK, OK, OK, foreign=404)
OF_ALPHAS_AGENTS = by_role(403, OK, OK, foreign=404)
MANAGED = by_role(403, 403, OK, foreign=404)
OF_WHO_ASKED = {**of_a_row(403), "alpha operator": 403, "root": 403}
OPEN = {**by_role(OK, OK, OK, foreign=None, visitor=OK), "nobody": OK}
OF_VISITORS = by_role(403, 403, 403, foreign=404, root=403, visitor=OK)


@dataclass
class World:
    """A server with both tenants, and what alpha has made."""

    running: Any
    client: httpx.Client
    secrets: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """What those of beta could list before alpha made anything, and after."""

    def ask(self, who: str, method: str, url: str, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.secrets[who]}"} if who in self.secrets else {}
        headers |= {"Cookie": f"{COOKIE}={self.sessions[who]}"} if who in self.sessions else {}
        headers |= more.pop("headers", {})
        with self.client.stream(method, url, headers=headers, **more) as response:
            endless = "heartbeat" in url or "queue/data" in url
            if endless and response.status_code == OK:
                response._content = next(response.iter_bytes(), b"")
            else:
                response.read()
        return response

    def get(self, who: str, method: str, url: str, **more: Any) -> Any:
        """The JSON of an answer that must be a success."""
        answer = self.ask(who, method, url, **more)
        assert answer.is_success, (who, method, url, answer.text)
        return answer.json() if answer.content else None

    def conversation(self, who: str) -> str:
        """A new conversation with one turn; its turn is `ids["turn"]`."""
        body = {"collection": NAMES["collection"], "title": WORDS["title"]}
        made = str(self.get(who, "POST", "/v1/conversations", json=body)["id"])
        said = self.ask(who, "POST", f"/v1/conversations/{made}/turns", json=self.question)
        self.ids["turn"] = said.headers["x-turn-id"]
        assert "event: done" in said.text
        return made

    @property
    def question(self) -> dict[str, str]:
        return {"question": f"What does {WORDS['question']} wood cost?", "search_for": f"{WORDS['search']} wood"}

    def uploaded(self, who: str, collection: str, name: str) -> str:
        """The job of an upload, finished."""
        text = f"# Upload\n\nThe {WORDS['upload']} page says nothing else.\n".encode()
        job = self.get(who, "POST", f"/v1/collections/{collection}/documents", files={"file": (name, text)})
        assert self.running.finished(job["id"]).state == "done"
        return str(job["id"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from index import encoders
    from server.api import security
    from server.settings import Settings
    from tests.encoder import WordEncoder
    from tests.openai_server import FakeOpenAIServer
    from tests.serving import start_server

    home = tmp_path_factory.mktemp("walk")
    with pytest.MonkeyPatch.context() as patch, FakeOpenAIServer(pieces=(f"It is {WORDS['answer']}. ", "[1]")) as llm:
        patch.setattr(encoders, "load_encoder", lambda *_: WordEncoder())
        patch.setattr(security, "PER_ADDRESS", "100000/minute")
        patch.setattr(security, "IN_ALL", "100000/minute")
        settings = Settings(
            home=home,
            index={"encoder": str(home)},
            retrieval={"rerank": "never"},
            rewriter={"kind": "none"},
            llm={"model": llm.url},
            server={"share_days": 7},
            plugins=PLUGINS,
        )
        running = start_server(settings)
        try:
            with running.client() as client:
                yield filled(World(running, client), home)
        finally:
            running.stop()


def filled(world: World, home: Path) -> World:
    """Both tenants' collections, keys for everybody, and everything alpha can make."""
    running = world.running.mount_page()
    indexed(world, home, BETA, "beta-people", "shelf.md", "# Shelf\n\n## Wood\n\nA shelf of wood costs little.\n")
    others: dict[str, tuple[Role, str]] = {
        "newcomer": ("operator", "gamma-people"),
        "of default": ("operator", "default"),
    }
    for who, (role, group) in {**PEOPLE, **others}.items():
        label = f"{WORDS['key']} {who}" if who.startswith("alpha") else who
        _, secret = running.service.core.database.write_blocking(
            lambda c, r=role, g=group, n=label: credentials.create_key(c, n, r, frozenset({g}))  # type: ignore[misc]
        )
        world.secrets[who] = secret
    eventually(lambda: world.ask("nobody", "GET", "/v1/models").status_code == 401)
    for who in world.secrets:
        # The walk tries to sign in without a key, too; addresses with right keys are not kept out for that.
        world.ask(who, "GET", "/v1/models")
    world.lists = {who: [listed(world, who)] for who in OUTSIDERS}
    text = (
        f"# Wood\n\n## How do I polish {WORDS['heading']}?\n\n"
        f"The {WORDS['body']} holds wood of every kind. {WORDS['question']} wood costs much.\n"
    )
    indexed(world, home, NAMES["collection"], NAMES["group"], NAMES["file"], text)
    world.ids["conversation"] = world.conversation("alpha reader")
    world.ids["asked"] = world.ids["turn"]
    rating = {"turn_id": world.ids["turn"], "rating": "down", "comment": WORDS["comment"]}
    world.get("alpha agent", "POST", "/v1/feedback", json=rating)
    world.ids["job"] = world.uploaded("alpha operator", NAMES["collection"], NAMES["uploaded"])
    messages = [{"role": "user", "content": world.question["question"]}]
    stateless = world.get(
        "alpha reader", "POST", "/v1/chat/completions", json={"model": NAMES["collection"], "messages": messages}
    )
    world.ids["stateless"] = stateless["anaphora"]["turn_id"]
    curated = f"/v1/collections/{NAMES['collection']}/curated"
    world.ids["curated"] = world.get("alpha agent", "POST", curated, json=CURATED)["id"]
    pushed = {"name": NAMES["source"], "collection": NAMES["collection"], "kind": "push"}
    world.get("root", "POST", "/v1/sources", json=pushed)
    for who, before in world.lists.items():
        before.append(listed(world, who))
    return world


def indexed(world: World, home: Path, collection: str, group: str, file: str, text: str) -> None:
    """Index a folder of that file, and for alpha of one with pages."""
    running, folder = world.running, home / "files" / collection
    folder.mkdir(parents=True)
    (folder / file).write_text(text, encoding="utf-8")
    if collection == NAMES["collection"]:
        sheet = Canvas(str(folder / NAMES["paged"]))
        sheet.drawString(72, 700, f"The {WORDS['body']} has pages.")
        sheet.save()
    job = running.call(running.service.collections.index_paths(collection, [folder], group=group))
    assert running.finished(job.id).state == "done"


def listed(world: World, who: str) -> dict[str, str]:
    """Everything that can be asked for without naming anything; but nonces."""
    lists = [name for name in API if name.startswith("GET ") and "{" not in name]
    texts = dict[str, str]()
    for name in (*lists, "POST /mcp"):
        method, url = name.split(" ")
        _, more = API[name][1](world, who)
        answer = world.ask(who, method, url, **more)
        texts[name] = f"{answer.status_code} " + re.sub(r'nonce="[^"]*"', "", answer.text)
    return texts


Asked = tuple[str, dict[str, Any]]
Build = Callable[[World, str], Asked]


def at(url: str, **more: Any) -> Build:
    """A request of that URL, its `{names}` filled in from what alpha has made."""
    return lambda world, who: (url.format(**world.ids, **NAMES), told(more, world))


def fresh_conversation(world: World, who: str) -> Asked:
    mine = who.startswith(("alpha", "root")) and who != "alpha visitor"
    return f"/v1/conversations/{world.conversation(who) if mine else world.ids['conversation']}", {}


def fresh_upload(world: World, who: str) -> Asked:
    if who in ("alpha operator", "root"):
        world.uploaded("alpha operator", NAMES["collection"], "fresh.md")
    return f"/v1/collections/{NAMES['collection']}/documents/uploads/fresh.md", {}


def fresh_share(world: World, who: str) -> Asked:
    place = f"/v1/conversations/{world.ids['conversation']}/shares"
    return f"{place}/{world.get('alpha reader', 'POST', place, json={})['id']}", {}


def fresh_collection(world: World, who: str) -> Asked:
    if who in ("alpha operator", "root"):
        world.uploaded("alpha operator", "alpha-fresh", "fresh.md")
        return "/v1/collections/alpha-fresh", {}
    return f"/v1/collections/{NAMES['collection']}", {}


def fresh_curated(world: World, who: str) -> Asked:
    place = f"/v1/collections/{NAMES['collection']}/curated"
    return f"{place}/{world.get('alpha agent', 'POST', place, json=CURATED)['id']}", {}


def own_collection(world: World, who: str) -> str:
    return BETA if who.startswith("beta") else NAMES["collection"]


def new_conversation(world: World, who: str) -> Asked:
    return "/v1/conversations", {"json": {"collection": own_collection(world, who)}}


UPLOAD = {"file": ("n.md", b"# N")}
MESSAGES = [{"role": "user", "content": "What does wood cost?"}]
CURATED = {"questions": [f"Who polishes {WORDS['heading']}?"], "answer": f"The {WORDS['body']}."}
VAULT = "/v1/collections/{collection}"
LIST_RESOURCES = {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {}}

API: dict[str, tuple[dict[str, int], Build]] = {
    "GET /health": (OPEN, at("/health")),
    "GET /ready": ({**OPEN, **dict.fromkeys(OPEN, 503)}, at("/ready")),
    "GET /metrics": (THE_SERVER, at("/metrics")),
    "GET /openapi.json": (EVERYBODY, at("/openapi.json")),
    "POST /mcp": (EVERYBODY, at("/mcp", json=LIST_RESOURCES)),
    "GET /v1/models": (EVERYBODY, at("/v1/models")),
    "GET /v1/models/{model}": (OF_ALPHA, at("/v1/models/{collection}")),
    "POST /v1/chat/completions": (
        OF_ALPHA, at("/v1/chat/completions", json={"model": NAMES["collection"], "messages": MESSAGES})
    ),
    "POST /v1/search": (OF_ALPHA, at("/v1/search", json={"query": "wood", "collection": NAMES["collection"]})),
    "POST /v1/widget/turns": (
        OF_VISITORS,
        at("/v1/widget/turns", json={"question": "What does wood cost?", "collection": NAMES["collection"]}),
    ),
    "POST /v1/widget/feedback": (
        by_role(403, 403, 403, foreign=404, root=403, visitor=404),
        at("/v1/widget/feedback", json={"visitor": "0123456789abcdef", "turn_id": "nothing", "rating": "up"}),
    ),
    "POST /v1/widget/parts": (
        by_role(403, 403, 403, foreign=OK, root=403, visitor=OK),
        at("/v1/widget/parts", json={"visitor": "0123456789abcdef", "turn_id": "{stateless}"}),
    ),
    "DELETE /v1/widget/visitors/{visitor}": (
        by_role(403, 403, 403, foreign=OK, root=403, visitor=OK), at("/v1/widget/visitors/0123456789abcdef")
    ),
    "POST /v1/widget/search": (
        OF_VISITORS,
        at("/v1/widget/search", json={"question": "What does wood cost?", "collection": NAMES["collection"]}),
    ),
    "GET /v1/insights": (OF_ALPHAS_AGENTS, at("/v1/insights?collection={collection}")),
    "GET /v1/widget/welcome": (OF_VISITORS, at("/v1/widget/welcome?collection={collection}")),
    "GET /widget": (OPEN, at("/widget")),
    "GET /widget.js": (OPEN, at("/widget.js")),
    "POST /v1/standalone": (of_a_row(), at("/v1/standalone", json={"turn_id": "{turn}", "n": 1})),
    "POST /v1/why": (of_a_row(), at("/v1/why", json={"turn_id": "{turn}", "n": 1})),
    "GET /v1/conversations": (EVERYBODY, at("/v1/conversations?query=wood")),
    "POST /v1/conversations": (EVERYBODY, new_conversation),
    "GET /v1/conversations/{conversation_id}": (of_a_row(), at("/v1/conversations/{conversation}")),
    "PATCH /v1/conversations/{conversation_id}": (
        of_a_row(403), at("/v1/conversations/{conversation}", json={"title": "A title"})
    ),
    "DELETE /v1/conversations/{conversation_id}": (
        {**of_a_row(), "another alpha reader": 404}, fresh_conversation
    ),
    "POST /v1/conversations/{conversation_id}/turns": (
        of_a_row(403), at("/v1/conversations/{conversation}/turns", json={"question": "What does wood cost?"})
    ),
    "POST /v1/conversations/{conversation_id}/shares": (
        of_a_row(403), at("/v1/conversations/{conversation}/shares", json={})
    ),
    "DELETE /v1/conversations/{conversation_id}/shares/{share_id}": (of_a_row(403), fresh_share),
    "GET /locale.js": (EVERYBODY, at("/locale.js")),
    "GET /shared/{secret}": (dict.fromkeys(("nobody", *PEOPLE), 404), at("/shared/guessed")),
    "GET /v1/turns/{turn_id}": (of_a_row(), at("/v1/turns/{stateless}")),
    "POST /v1/turns/{turn_id}/handoff": (OF_WHO_ASKED, at("/v1/turns/{asked}/handoff", json={"consent": True})),
    "GET /v1/handoffs": (AGENTS, at("/v1/handoffs")),
    "GET /traces/{turn_id}": (of_a_row(least="agent"), at("/traces/{stateless}")),
    "GET /workbench": (EVERYBODY, at("/workbench")),
    "GET /workbench/review": (AGENTS, at("/workbench/review")),
    "POST /traces/{turn_id}": (of_a_row(least="agent"), at("/traces/{stateless}", data={"rewrite": "wood"})),
    "POST /v1/feedback": (
        of_a_row(least="agent"), at("/v1/feedback", json={"turn_id": "{stateless}", "rating": "up"})
    ),
    "GET /v1/reviews": (AGENTS, at("/v1/reviews?query=wood")),
    "GET /v1/reviews/{turn_id}": (of_a_row(least="agent"), at("/v1/reviews/{asked}")),
    "POST /v1/reviews/{turn_id}": (
        of_a_row(least="agent"), at("/v1/reviews/{asked}", json={"verdict": "corrected", "rewrite": WORDS["search"]})
    ),
    "GET /v1/collections": (EVERYBODY, at("/v1/collections")),
    "DELETE /v1/collections/{collection}": (MANAGED, fresh_collection),
    "POST /v1/collections/{collection}/reindex": (MANAGED, at(VAULT + "/reindex")),
    "GET /v1/collections/{collection}/documents": (OF_ALPHA, at(VAULT + "/documents")),
    "POST /v1/collections/{collection}/documents": (MANAGED, at(VAULT + "/documents", files=UPLOAD)),
    "GET /v1/collections/{collection}/documents/{document_id:path}": (
        OF_ALPHA, at(VAULT + "/documents/uploads/{uploaded}")
    ),
    "DELETE /v1/collections/{collection}/documents/{document_id:path}": (MANAGED, fresh_upload),
    "GET /v1/collections/{collection}/images/{document_id:path}": (OF_ALPHA, at(VAULT + "/images/{paged}?page=1")),
    "GET /v1/collections/{collection}/curated": (OF_ALPHAS_AGENTS, at(VAULT + "/curated")),
    "POST /v1/collections/{collection}/curated": (OF_ALPHAS_AGENTS, at(VAULT + "/curated", json=CURATED)),
    "DELETE /v1/collections/{collection}/curated/{answer}": (OF_ALPHAS_AGENTS, fresh_curated),
    "GET /v1/jobs": (OPERATORS, at("/v1/jobs")),
    "GET /v1/jobs/{job_id}": (MANAGED, at("/v1/jobs/{job}")),
    "POST /v1/jobs/{job_id}/cancel": (MANAGED, at("/v1/jobs/{job}/cancel")),
    "GET /v1/collections/{collection}/passages/{document_id:path}": (
        OF_ALPHA, at(VAULT + "/passages/uploads/{uploaded}")
    ),
    "GET /v1/statistics": (AGENTS, at("/v1/statistics")),
    "POST /workbench/passages": (AGENTS, at("/workbench/passages", json={"texts": []})),
    "GET /workbench/documents": (OPERATORS, at("/workbench/documents")),
    "GET /workbench/runs": (THE_SERVER, at("/workbench/runs")),
    "GET /workbench/health": (AGENTS, at("/workbench/health")),
    "GET /workbench/reports/{group}/{name}": (NO_RUN, at("/workbench/reports/eval/none")),
    "GET /v1/runs": (THE_SERVER, at("/v1/runs")),
    "GET /v1/runs/{group}/{name}": (NO_RUN, at("/v1/runs/synth/none")),
    "POST /v1/runs/promote": (NO_RUN, at("/v1/runs/promote", json={"name": "none"})),
    "GET /v1/sources": (OPERATORS, at("/v1/sources")),
    "POST /v1/sources": (THE_SERVER, at("/v1/sources", json={"name": "shelf", "collection": BETA, "kind": "push"})),
    "GET /v1/sources/{source}": (MANAGED, at("/v1/sources/{source}")),
    "POST /v1/sources/{source}/sync": (MANAGED, at("/v1/sources/{source}/sync")),
    "DELETE /v1/sources/{source}": (NO_RUN, at("/v1/sources/none")),
    "PUT /v1/sources/{source}/documents/{key:path}": (
        MANAGED, at("/v1/sources/{source}/documents/a/b", json={"text": f"# {WORDS['upload']}"})
    ),
    "DELETE /v1/sources/{source}/documents/{key:path}": (MANAGED, at("/v1/sources/{source}/documents/a/b")),
}  # fmt: skip

FRAME = {"/", "/config", "/theme.css", "/favicon.ico", "/manifest.json", "/robots.txt"}
SERVED = {f"/gradio_api{path}" for path in ("/app_id", "/startup-events", "/theme.css", "/component_server",
          "/component_server/", "/queue/join", "/queue/data", "/heartbeat/{session_hash}")}  # fmt: skip
FILES = {"/svelte/{path:path}", "/static/{path:path}", "/assets/{path:path}"}
GUARDED = {"POST /login", "POST /login/", "GET /logout", "GET /docs", "GET /redoc", "HEAD /openapi.json"}


def routes(app: Any, before: str = "", gradio: bool = False) -> Iterator[tuple[str, str, bool]]:
    """Method, path and whether it is Gradio's, of everything that is served."""
    for route in app.routes:
        if isinstance(route, Mount):
            inner = route.app._app if isinstance(route.app, PageGate) else route.app
            yield from routes(inner, before + route.path, True)
        elif router := getattr(route, "original_router", None):
            yield from routes(router, before + getattr(route.include_context, "prefix", ""), gradio)
        else:
            for method in sorted(route.methods):
                yield method, before + route.path, gradio


ALLOWED = {"GET /workbench": 303}
"""The status of a route for those to whom it is open, where that is no success."""


def judged(world: World, who: str, name: str, answer: httpx.Response, expected: int, asked: str) -> list[str]:
    """What is wrong with an answer: its status, or a word in it that was not asked for."""
    allowed = answer.status_code == ALLOWED[name] if name in ALLOWED else answer.is_success
    status = OK if allowed else answer.status_code
    wrong = (
        [] if status == expected else [f"{who}: {name} gives {answer.status_code}, not {expected}: {answer.text[:200]}"]
    )
    if not who.startswith(("alpha", "another alpha", "root")):
        told = answer.text + str(answer.headers)
        words = [word for word in (*WORDS.values(), *NAMES.values()) if word in told and word not in asked]
        wrong += [f"{who}: {name} tells of {word!r}" for word in words]
    return wrong


def test_nobody_sees_what_is_not_theirs(world: World) -> None:
    known = {f"{method} {path}" for method, path, gradio in routes(world.running.app) if not gradio}
    described = json.loads((Path(__file__).parents[2] / "docs/operate/openapi.json").read_text("utf-8"))["paths"]
    undescribed = re.compile(r":path(?=\})")
    assert {f"{method.upper()} {path}" for path, methods in described.items() for method in methods} <= {
        undescribed.sub("", name) for name in API
    }
    assert known - {f"HEAD {path[4:]}" for path in known if path.startswith("GET ")} == set(API), (
        "say in the table who may use it, or remove it"
    )
    wrong = list[str]()
    for name, (statuses, build) in API.items():
        method = name.partition(" ")[0]
        for who, expected in statuses.items():
            url, more = build(world, who)
            answer = world.ask(who, method, url, **more)
            wrong += judged(world, who, name, answer, expected, f"{url} {more}")
    assert not wrong, "\n".join(wrong)


def test_of_gradio_only_what_the_page_uses_is_there(world: World) -> None:
    inner = {(method, path) for method, path, gradio in routes(world.running.app) if gradio}
    assert len(inner) > 50, "the walk does not see Gradio's routes"
    wrong = list[str]()
    for method, path in sorted(inner):
        used = path in FRAME | SERVED | FILES
        url = path.replace("{session_hash}", "walk").replace(":path}", "}").replace("{path}", "nothing.js")
        url = "".join(
            part.partition("}")[2] if n else part for n, part in enumerate(url.replace("{", "\0{").split("\0"))
        )
        for who in ("nobody", "alpha visitor", "beta reader", "alpha reader"):
            answer = world.ask(who, method, url, params={"session_hash": "walk"} if "queue/data" in url else None)
            if f"{method} {path}" in GUARDED or path == "/openapi.json":
                continue
            if who == "nobody":
                fine = answer.status_code in (401, 303)
            elif who.endswith("visitor"):
                fine = answer.status_code == 403
            elif used:
                fine = (
                    answer.status_code in (200, 403, 404, 422)
                    if path in FILES
                    else answer.status_code in (200, 400, 422)
                )
            else:
                fine = answer.status_code == 404
            if not fine:
                wrong.append(f"{who}: {method} {path} gives {answer.status_code}")
            wrong += judged(world, who, path, answer, OK if answer.is_success else answer.status_code, url)
    assert not wrong, "\n".join(wrong)


def gradio(world: World) -> Any:
    """The page's blocks."""
    gate = next(route.app for route in world.running.app.routes if isinstance(route, Mount))
    return gate._app.get_blocks()


CALLS: dict[str, dict[str, Any]] = {
    "list_conversations": {"query": "wood"},
    "rename_conversation": {"id": "{conversation}", "title": "Mine"},
    "choose_model": {"id": "{conversation}", "model": ""},
    "share": {"id": "{conversation}"},
    "unshare": {"id": "{conversation}", "turn": "x"},
    "delete_conversation": {"id": "{conversation}"},
    "list_collections": {},
    "watch_jobs": {"jobs": {"{job}": "x"}},
    "stop": {"stream": "stream-of-alpha"},
    "open_conversation": {"id": "{conversation}"},
    "show_version": {"id": "{conversation}", "turn": "{asked}"},
    "welcome": {"id": "{collection}"},
    "filters": {"id": "{collection}"},
    "rate": {"turn": "{stateless}", "rating": "up"},
    "note_opened": {"turn": "{stateless}", "source": 1},
    "below_turn": {"id": "{asked}"},
    "hand_over": {"turn": "{asked}", "consent": True},
    "read_document": {"collection": "{collection}", "document": "uploads/{uploaded}"},
    "why_source": {"turn": "{stateless}", "n": 1},
    "make_readable": {"collection": "{collection}", "document": "uploads/{uploaded}", "start": 0, "end": 20},
    "why_linked": {"collection": "{collection}", "document": "uploads/{uploaded}", "text": "See the wood.", "at": 3},
}


def told(data: Any, world: World) -> Any:
    """`data` with its `{names}` filled in."""
    if isinstance(data, dict):
        return {told(name, world): told(value, world) for name, value in data.items()}
    if isinstance(data, list):
        return [told(value, world) for value in data]
    return data.format(**world.ids, **NAMES) if isinstance(data, str) else data


def components(world: World) -> dict[str, int]:
    """The part of the page that each of its calls belongs to."""
    return {
        name: block._id
        for block in gradio(world).blocks.values()
        for name, value in vars(block).items()
        if getattr(value, "_is_server_fn", False)
    }


def call(world: World, component: int, name: str) -> dict[str, Any]:
    return {
        "data": told(CALLS[name], world), "component_id": component, "fn_name": name, "session_hash": "walk",
    }  # fmt: skip


def test_the_pages_calls_tell_nobody_what_is_not_theirs(world: World) -> None:
    found = components(world)
    assert set(found) == set(CALLS)
    wrong = list[str]()
    for name, data in CALLS.items():
        body = call(world, found[name], name)
        for who in (*OUTSIDERS, "another alpha reader"):
            answer = world.ask(who, "POST", "/gradio_api/component_server", json=body)
            if not who.startswith("another"):
                wrong += judged(world, who, name, answer, OK, json.dumps(body))
            if "{conversation}" in str(data) and name != "delete_conversation":
                assert "error" in answer.json(), (who, name)
        for who in ("alpha reader", "alpha agent"):
            if name not in (
                "rename_conversation",
                "choose_model",
                "share",
                "unshare",
                "delete_conversation",
                "show_version",
                "watch_jobs",
                "rate",
                "note_opened",
                "hand_over",
            ):
                answer = world.ask(who, "POST", "/gradio_api/component_server", json=body)
                assert "error" not in answer.json(), (who, name)
    assert not wrong, "\n".join(wrong)
    assert world.ask("alpha reader", "GET", f"/v1/conversations/{world.ids['conversation']}").is_success


def test_a_session_of_the_page_is_nobody_elses(world: World) -> None:
    asked = {"stream": "stream-of-alpha", "question": "What does wood cost?", "collection": NAMES["collection"]}
    (ask,) = (fn for fn in gradio(world).config["dependencies"] if fn["targets"][0][1] == "ask")
    body = {
        "data": [None],
        "event_data": asked,
        "fn_index": ask["id"],
        "trigger_id": ask["targets"][0][0],
        "session_hash": "stolen",
    }
    assert world.ask("alpha reader", "POST", "/gradio_api/queue/join", json=body).is_success
    stolen = world.ask("beta reader", "GET", "/gradio_api/queue/data", params={"session_hash": "stolen"})
    assert WORDS["answer"] not in stolen.text
    world.ask("beta reader", "GET", "/gradio_api/heartbeat/stolen")
    url, headers = "/gradio_api/queue/data", {"Authorization": f"Bearer {world.secrets['alpha reader']}"}
    with world.client.stream("GET", url, params={"session_hash": "stolen"}, headers=headers) as own:
        said = "".join(own.iter_text())
    assert WORDS["answer"] in said
    continued = {**body, "event_data": {**asked, "conversation": world.ids["conversation"]}}
    assert world.ask("beta reader", "POST", "/gradio_api/queue/join", json=continued).is_success
    headers = {"Authorization": f"Bearer {world.secrets['beta reader']}"}
    with world.client.stream("GET", url, params={"session_hash": "stolen"}, headers=headers) as theirs:
        said = "".join(theirs.iter_text())
    assert "There is no conversation" in said
    assert WORDS["answer"] not in said


def test_calls_of_parts_that_the_page_has_not_and_sessions_that_are_gone_are_no_failures(world: World) -> None:
    for path, name in (("queue/join", "fn_index"), ("component_server", "component_id")):
        for part in (-1, 10**30, True, 1e9, None, [], {}, "0", 4242):
            body = {"data": [None], "trigger_id": 1, "fn_name": "list_collections", "session_hash": "walk", name: part}
            answer = world.ask("beta reader", "POST", f"/gradio_api/{path}", json=body)
            assert answer.status_code == 422, (path, part, answer.text)
    headers = {"Authorization": f"Bearer {world.secrets['beta reader']}"}
    gone = world.client.get("/gradio_api/queue/data", params={"session_hash": "gone"}, headers=headers)
    assert "404" in gone.text, "and the stream ends as streams end"


def test_who_has_no_collection_is_not_told_the_name_of_the_default_one(world: World) -> None:
    for url, body in (("/v1/conversations", {}), ("/v1/search", {"query": "wood"})):
        answer = world.ask("newcomer", "POST", url, json=body)
        assert answer.status_code == 404, answer.text
        assert "docs" not in answer.text


def test_what_others_do_changes_no_list(world: World) -> None:
    for who, (before, after) in world.lists.items():
        assert before == after, who


JSON_RPC = {"Accept": "application/json, text/event-stream"}


def rpc(method: str, **params: Any) -> Build:
    """A call of the tools for agents."""
    return at("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers=JSON_RPC)


IN_VAULT = {"collection": NAMES["collection"]}
TOOLS: dict[str, Build] = {
    "MCP search": rpc("tools/call", name="search", arguments={"query": "wood", **IN_VAULT}),
    "MCP ask": rpc("tools/call", name="ask", arguments={"question": "What does wood cost?", **IN_VAULT}),
    "MCP open_source": rpc(
        "tools/call", name="open_source", arguments={"document_id": f"uploads/{NAMES['uploaded']}", **IN_VAULT}
    ),
    "MCP resources/read": rpc("resources/read", uri=f"anaphora://collections/{NAMES['collection']}"),
}
NAMED: dict[str, Build] = {
    "POST /v1/conversations": at("/v1/conversations", json=IN_VAULT),
    "GET /v1/conversations": at("/v1/conversations?query={collection}"),
    "GET /v1/reviews": at("/v1/reviews?collection={collection}"),
    "GET /v1/statistics": at("/v1/statistics?collection={collection}"),
    "GET /v1/jobs": at("/v1/jobs?collection={collection}"),
    "POST /v1/collections/{collection}/curated": at(VAULT + "/curated", json={"id": "{curated}", "keeper": "Ada"}),
    "POST /v1/sources": at("/v1/sources", json={"name": NAMES["source"], "kind": "push", **IN_VAULT}),
    "GET /v1/collections/{collection}/images/{document_id:path}": at(VAULT + "/images/{paged}?name=a.png"),
    "POST /v1/feedback": at("/v1/feedback", json={"turn_id": "{asked}", "rating": None}),
    "POST /v1/widget/parts": at(
        "/v1/widget/parts", json={"visitor": "0123456789abcdef", "turn_id": "{asked}", "call": "hand_over"}
    ),
    "POST /v1/why": at(
        "/v1/why",
        json={"citance": "The wood costs little [1].", "document_id": f"uploads/{NAMES['uploaded']}", **IN_VAULT},
    ),
    "GET /traces/{turn_id}": at("/traces/{stateless}?with={asked}"),
}
"""Further requests that name something of alpha."""


@pytest.mark.extended
def test_what_is_not_theirs_is_answered_as_what_is_not_there(world: World) -> None:
    names = "|".join(map(re.escape, NAMES.values()))
    of_alpha, backwards = re.compile(rf"{names}|\b[0-9a-f]{{8,32}}\b"), dict[str, str]()

    def absent(value: Any) -> Any:
        """`value` with each name and id of alpha written backwards, which names nothing."""
        if isinstance(value, dict):
            return {name: absent(one) for name, one in value.items()}
        if isinstance(value, list):
            return [absent(one) for one in value]
        if not isinstance(value, str):
            return value
        backwards.update((found[::-1], found) for found in of_alpha.findall(value))
        return of_alpha.sub(lambda found: found[0][::-1], value)

    makes = "POST /v1/collections/{collection}/documents"
    requests = [(name, build) for name, (_, build) in API.items()] + [*TOOLS.items(), *NAMED.items()]
    for name, component in components(world).items():
        requests.append((f"POST {name}", at("/gradio_api/component_server", json=call(world, component, name))))
    wrong, compared = list[str](), 0
    for name, build in requests:
        method = "POST" if name.startswith("MCP") else name.partition(" ")[0]
        for who in (*OUTSIDERS, "beta visitor", "newcomer", "of default"):
            url, more = build(world, who)
            # Whoever uploads into a new collection learns whether its name is taken.
            if [url, more] == absent([url, more]) or (name == makes and who not in OUTSIDERS[:2]):
                continue
            theirs, other = world.ask(who, method, url, **more), world.ask(who, method, absent(url), **absent(more))
            compared, text = compared + 1, other.text
            for there, here in backwards.items():
                text = text.replace(there, here)
            if (theirs.status_code, theirs.text) != (other.status_code, text):
                wrong.append(f"{who}: {name}: {theirs.status_code} {theirs.text[:200]} / {other.text[:200]}")
            wrong += judged(world, who, name, theirs, OK if theirs.is_success else theirs.status_code, f"{url} {more}")
    assert not wrong, "\n".join(wrong)
    assert compared > 240, compared


def test_agents_tools_answer_those_to_whom_the_collection_is_granted(world: World) -> None:
    for name, build in TOOLS.items():
        for who in ("nobody", *PEOPLE):
            url, more = build(world, who)
            answer = world.ask(who, "POST", url, **more)
            if who == "nobody":
                assert answer.status_code == 401, name
                continue
            refused = '"isError":true' in answer.text or '"error":' in answer.text
            assert refused == (who.startswith("beta") or who.endswith("visitor")), (who, name, answer.text)


def test_keys_and_sessions_that_have_ended_open_nothing(world: World) -> None:
    database = world.running.service.core.database

    def made(connection: Any) -> None:
        def session(key: Any) -> str:
            return credentials.begin_session(connection, key.principal, 1e6, key.id)

        for name, expires in (("alive", None), ("revoked", None), ("expired", time.time() + 1e6)):
            group = frozenset({NAMES["group"]})
            key, world.secrets[name] = credentials.create_key(connection, name, "operator", group, expires)
            world.sessions[f"session of {name}"] = session(key)
            world.sessions[f"{name}, left"] = session(key)

    database.write_blocking(made)
    ended = [*(who for who in world.sessions if who != "session of alive"), "revoked", "expired"]
    for who in ("alive", "session of alive", *ended):
        assert world.ask(who, "GET", f"/v1/collections/{NAMES['collection']}/documents").is_success, who
        if who.endswith("left"):
            assert world.ask(who, "GET", "/logout").status_code == 303

    def end(connection: Any) -> None:
        connection.exec_driver_sql("UPDATE keys SET revoked = 1 WHERE name = 'revoked'")
        connection.exec_driver_sql("UPDATE keys SET expires = 1 WHERE name = 'expired'")

    database.write_blocking(end)
    wrong, pages = list[str](), [f"GET {path}" for path in (*FRAME, *SERVED - {"/gradio_api/queue/data"})]
    for name in (*API, *pages):
        method = name.partition(" ")[0]
        for who in ended if name == "GET /v1/collections" else ("session of revoked", "expired"):
            url, more = API[name][1](world, "nobody") if name in API else (name.partition(" ")[2], {})
            answer = world.ask(who, method, url.replace("{session_hash}", "walk"), **more)
            expected = API[name][0]["nobody"] if name in API else 401
            wrong += judged(world, who, name, answer, expected, f"{url} {more}")
    assert not wrong, "\n".join(wrong)
    for who in ("alive", "session of alive"):
        assert world.ask(who, "GET", f"/v1/collections/{NAMES['collection']}/documents").is_success, who


def test_a_grant_that_is_taken_back_takes_everything_with_it(world: World) -> None:
    """Also what those of beta made themselves while they had it, and the links that they gave."""
    database = world.running.service.core.database
    database.write_blocking(schema.grant, NAMES["collection"], "beta-people")
    mine = f"/v1/conversations/{world.conversation('beta reader')}"
    link = world.get("beta reader", "POST", f"{mine}/shares", json={})["path"]
    job = world.uploaded("beta operator", NAMES["collection"], "theirs.md")
    rating = {"turn_id": world.ids["turn"], "rating": "up"}
    world.get("beta agent", "POST", "/v1/feedback", json=rating)
    places = [
        ("beta reader", "GET", mine, {}),
        ("beta reader", "GET", f"/v1/turns/{world.ids['turn']}", {}),
        ("nobody", "GET", link, {}),
        ("beta agent", "GET", f"/traces/{world.ids['turn']}", {}),
        ("beta agent", "GET", f"/v1/reviews/{world.ids['turn']}", {}),
        ("beta operator", "GET", f"/v1/jobs/{job}", {}),
        ("beta visitor", "POST", "/v1/widget/turns", {"json": {"question": "What does wood cost?", **IN_VAULT}}),
        ("beta reader", "POST", "/v1/search", {"json": {"query": "wood", **IN_VAULT}}),
    ]
    for who, method, url, more in places:
        assert world.ask(who, method, url, **more).is_success, url
    database.write_blocking(schema.revoke_grant, NAMES["collection"], "beta-people")
    for who, method, url, more in places:
        assert world.ask(who, method, url, **more).status_code == 404, url
    assert world.ask("beta reader", "POST", f"{mine}/turns", json=world.question).status_code == 404
    for who in OUTSIDERS:
        for name, text in listed(world, who).items():
            assert not [word for word in (*WORDS.values(), *NAMES.values()) if word in text], (who, name)
