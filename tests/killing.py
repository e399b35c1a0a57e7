"""Killing servers at random moments, and looking whether anything is lost that they had acknowledged.

`Home` is a home folder with a ledger of what its servers acknowledged. A round starts a server, checks the ledger
against it, keeps it busy (chatting, rating, deleting, uploading, indexing) and kills it; other rounds kill the making
of keys, or a backup and its restoring. A request without a response may or may not have had its effect.
`tests/server/test_killed.py` runs a few rounds, `benchmarks/bad_days.py` a hundred.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from tests.encoder import WordEncoder
from tests.eventually import eventually
from tests.openai_server import FakeOpenAIServer

if TYPE_CHECKING:
    from server.settings import Settings

# Children start at once, with everything imported and no thread of ours: as cheap as a fork, as clean as a spawn.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["server.api.app", "server.chat.service", "index.indexer", "langchain_openai"])


class Forgetful(WordEncoder):
    """Keeps no record of what it was asked."""

    def encode(self, texts: Any) -> Any:
        self.encoded.clear()
        return super().encode(texts)


def serve(settings: str, source: str, ready: Connection) -> None:
    """A server as `anaphora serve --docs SOURCE` starts it, which sends its address once it listens."""
    from index import encoders
    from server.api.app import Server, address, create_app, listen
    from server.chat import open_service
    from server.settings import Settings

    encoders.load_encoder = lambda *_: Forgetful()

    async def main() -> None:
        made = Settings.model_validate_json(settings)
        async with open_service(made, warm=False) as service:
            await service.collections.resume_uploads()
            await service.collections.index_paths("docs", [Path(source)], replace=True)
            sock = listen(made.server)
            ready.send(address(sock))
            await Server(create_app(service, made), made.server).serve(sockets=[sock])

    asyncio.run(main())


def make_keys(path: str, ready: Connection) -> None:
    """Make and revoke keys without end, telling of each once it is done."""
    from server.store import Database, credentials

    database = Database(Path(path))

    def make_and_revoke(connection: sqlite3.Connection) -> str:
        key, secret = credentials.create_key(connection, "gone")
        credentials.revoke_key(connection, key.id)
        return secret

    while True:
        ready.send(("made", database.write_blocking(lambda connection: credentials.create_key(connection, "kept"))[1]))
        ready.send(("revoked", database.write_blocking(make_and_revoke)))


def back_up_and_restore(home: str, file: str, ready: Connection) -> None:
    """Back a home up beside `file`, and restore `file` into it."""
    from server.store.home import back_up, restore

    ready.send("backing up")
    other = Path(file).with_name("other.tar")
    other.unlink(missing_ok=True)
    back_up(Path(home), other)
    restore(Path(home), Path(file))


@contextmanager
def child(target: Callable[..., None], *arguments: object) -> Iterator[tuple[BaseProcess, Connection]]:
    """A process that is killed at the end of the block, and what it sends."""
    ours, theirs = processes.Pipe()
    process = processes.Process(target=target, args=(*arguments, theirs))
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
        ours.close()


def client_of(url: str) -> httpx.Client:
    """A client that keeps no connection for as long as a server does, and so never meets one that it is closing."""
    return httpx.Client(base_url=url, timeout=90, verify=False, limits=httpx.Limits(keepalive_expiry=1.0))


class Home:
    """A home whose servers are killed. `acknowledged` counts by kind; `lost` says what is not as acknowledged."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.acknowledged: Counter[str] = Counter()
        self.rounds: Counter[str] = Counter()
        self.lost: list[str] = []
        self._choose = random.Random(seed)
        self._lock = threading.Lock()
        self._serial = 0
        self._conversations: dict[str, dict[str, str]] = {}
        self._ratings: dict[str, str] = {}
        self._uploads: dict[str, dict[str, str]] = {}
        self._deleted: list[str] = []
        """Paths of the API that must answer 404."""
        self._edition = 0
        self.source = folder / "handbook"
        self.source.mkdir(parents=True)
        self._write_edition()

    def check(self, good: bool, what: str) -> None:
        """Note a loss."""
        if not good:
            self.lost.append(what)

    def _next(self) -> int:
        with self._lock:
            self._serial += 1
            return self._serial

    def _write_edition(self) -> None:
        self._edition += 1
        for n in range(30):
            (self.source / f"page{n}.md").write_text(f"# Page {n}\n\nThe wording of edition{self._edition} on {n}.\n")

    # One round of a server.

    def settings(self, llm: FakeOpenAIServer) -> Settings:
        """Of every server of this home."""
        from server.settings import Settings

        return Settings(
            home=self.home,
            index={"encoder": "words"},
            retrieval={"rerank": "never"},
            rewriter={"kind": "none"},
            llm={"model": llm.url},
            server={"port": 0, "concurrent_turns": 16},
        )

    def serving(self, llm: FakeOpenAIServer, seconds: float, *, kill: bool = True) -> None:
        """Start a server, see that nothing is lost, keep it busy for a while, and kill it."""
        self.rounds["serving"] += 1
        settings = self.settings(llm)
        with child(serve, settings.model_dump_json(), str(self.source)) as (process, said):
            if kill and self._choose.random() < 0.15:
                # While it starts, with what the one before has left.
                time.sleep(self._choose.uniform(0, 0.5))
                return
            assert said.poll(60), "the server does not start"
            url = str(said.recv())
            with client_of(url) as client:
                self._settle(client)
                self._look(client, everything=not kill)
                workers = [self._chat, self._chat, self._upload, self._index]
                threads = [threading.Thread(target=self._work, args=(url, worker)) for worker in workers if kill]
                for thread in threads:
                    thread.start()
                time.sleep(seconds * self._choose.random())
                process.kill()
                for thread in threads:
                    thread.join()

    def _work(self, url: str, work: Callable[[httpx.Client], None]) -> None:
        with client_of(url) as client, suppress(httpx.TransportError):
            while True:
                work(client)

    def _chat(self, client: httpx.Client) -> None:
        made = client.post("/v1/conversations", json={"collection": "docs"})
        if made.status_code != 201:
            self.check(False, f"a conversation is refused: {made.text[:200]}")
            return
        conversation = made.json()["id"]
        turns = self._conversations[conversation] = {}
        self.acknowledged["conversations"] += 1
        for _ in range(2):
            serial = self._next()
            asked = client.post(f"/v1/conversations/{conversation}/turns", json={"question": f"What is page {serial}?"})
            ending = asked.text.rstrip().rsplit("data: ", 1)[-1]
            if '"type":"done"' in ending:
                turns[asked.headers["x-turn-id"]] = json.loads(ending)["answer"]
                self.acknowledged["turns"] += 1
            else:
                # Before the first edition is indexed there is nothing to ask.
                self.check(asked.status_code == 404, f"a turn is refused: {asked.text[:200]}")
        for turn in turns:
            comment = f"comment {self._next()}"
            if client.post("/v1/feedback", json={"turn_id": turn, "rating": "up", "comment": comment}).is_success:
                self._ratings[turn] = comment
                self.acknowledged["feedback"] += 1
        if self._serial % 3 == 0:
            for turn in turns:
                self._ratings.pop(turn, None)
            del self._conversations[conversation]
            if client.delete(f"/v1/conversations/{conversation}").status_code == 204:
                self._deleted += [f"/v1/conversations/{conversation}", *(f"/v1/turns/{turn}" for turn in turns)]
                self.acknowledged["deletions"] += 1

    def _upload(self, client: httpx.Client) -> None:
        collection = next(iter(self._uploads), None) or f"box{self._next()}"
        files = self._uploads.setdefault(collection, {})
        serial = self._next()
        name, text = f"file{serial}.md", f"# File {serial}\n\nIts word is word{serial}.\n"
        answer = client.post(f"/v1/collections/{collection}/documents", files={"file": (name, text.encode())})
        if answer.status_code == 202:
            files[name] = text
            self.acknowledged["uploads"] += 1
        else:
            self.check(False, f"an upload is refused: {answer.text[:200]}")
        if serial % 3 == 0 and files:
            name, text = next(iter(files.items()))
            del files[name]
            path = f"/v1/collections/{collection}/documents/uploads/{name}"
            if client.delete(path).status_code == 202:
                self._deleted.append(path)
                self.acknowledged["deletions"] += 1
            else:
                # It is not indexed yet.
                files[name] = text
        if len(files) > 12:
            del self._uploads[collection]
            if client.delete(f"/v1/collections/{collection}").status_code == 204:
                self._deleted.append(f"/v1/collections/{collection}/documents")
                self.acknowledged["deletions"] += 1
            else:
                self._uploads[collection] = files

    def _index(self, client: httpx.Client) -> None:
        self._write_edition()
        job = client.post("/v1/collections/docs/reindex").json()
        while client.get(f"/v1/jobs/{job['id']}").json()["state"] in ("queued", "running"):
            time.sleep(0.02)
        self.acknowledged["editions"] += 1

    # What a server must still have.

    def _settle(self, client: httpx.Client) -> None:
        unfinished = ("queued", "running")
        eventually(lambda: not any(job["state"] in unfinished for job in client.get("/v1/jobs").json()["data"]))

    def _look(self, client: httpx.Client, everything: bool = False) -> None:
        for conversation in self._some(list(self._conversations), everything):
            self._look_at_conversation(client, conversation)
        for path in self._some(self._deleted, everything):
            status = client.get(path).status_code
            self.check(status == 404, f"{path} was deleted, and answers {status}")
        for collection, files in self._uploads.items():
            listed = client.get(f"/v1/collections/{collection}/documents").json().get("data", [])
            there = {document["id"] for document in listed}
            for name in files:
                self.check(f"uploads/{name}" in there, f"the upload {name} is not in {collection}")
        for n in self._choose.sample(range(30), 3):
            page = client.get(f"/v1/collections/docs/documents/page{n}.md")
            edition = f"edition{self._edition} "
            self.check(edition in page.text, f"page {n} is not of {edition}: {page.text[:200]}")

    def _some(self, keys: list[str], everything: bool) -> list[str]:
        """The newest, and a few of the others."""
        return keys if everything or len(keys) < 40 else [*self._choose.sample(keys[:-20], 20), *keys[-20:]]

    def _look_at_conversation(self, client: httpx.Client, conversation: str) -> None:
        found = client.get(f"/v1/conversations/{conversation}")
        self.check(found.status_code == 200, f"the conversation {conversation} answers {found.status_code}")
        messages = {turn["id"]: turn for turn in found.json().get("messages", [])}
        self.check(all(turn["status"] != "pending" for turn in messages.values()), f"{conversation} waits for ever")
        for turn, answer in self._conversations[conversation].items():
            kept = messages.get(turn, {}).get("answer")
            self.check(kept == answer, f"turn {turn} answers {kept!r}")
            rating = (messages.get(turn, {}).get("feedback") or {}).get("comment", "")
            self.check(rating == self._ratings.get(turn, rating), f"the feedback on {turn} is {rating!r}")

    def finish(self, llm: FakeOpenAIServer) -> None:
        """See once more that everything is there, also what no round has looked at."""
        self.serving(llm, 0, kill=False)

    # Rounds without a server.

    def making_keys(self) -> None:
        """Kill who makes and revokes keys."""
        from server.store import Database, credentials

        self.rounds["making keys"] += 1
        path = self.folder / "keys.db"
        told = list[tuple[str, str]]()
        with child(make_keys, str(path)) as (process, said):
            assert said.poll(60)
            time.sleep(self._choose.uniform(0, 0.2))
            process.kill()
            with suppress(EOFError):
                while True:
                    told.append(said.recv())
        database = Database(path)
        try:
            for what, secret in told:
                self.acknowledged["keys"] += 1
                good = (
                    database.read_blocking(lambda connection, key=secret: credentials.check_key(connection, key))
                    is not None
                )
                self.check(good == (what == "made"), f"a key that was {what} is {'good' if good else 'no good'}")
        finally:
            database.close()

    def restoring(self) -> None:
        """Kill a backup and its restoring; what was backed up comes back with the next attempt."""
        from server.store import Database
        from server.store.home import back_up, restore, undo, unfinished

        self.rounds["restoring"] += 1
        copy, file = self.folder / "copy", self.folder / "backup.tar"
        shutil.rmtree(copy, ignore_errors=True)
        file.unlink(missing_ok=True)
        shutil.copytree(self.home, copy)
        back_up(copy, file)

        def state() -> tuple[object, ...]:
            database = Database(copy / "anaphora.db")
            try:
                rows = database.read_blocking(
                    lambda connection: connection.exec_driver_sql(
                        "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM turns), "
                        "(SELECT count(*) FROM feedback), (SELECT integrity_check FROM pragma_integrity_check)"
                    ).fetchone()
                )
            finally:
                database.close()
            uploads = sorted(path.relative_to(copy) for path in (copy / "uploads").rglob("*.md"))
            current = sorted((path.parent.name, path.read_text()) for path in copy.glob("collections/*/current"))
            return tuple(rows), uploads, current

        before = state()
        with child(back_up_and_restore, str(copy), str(file)) as (_, said):
            assert said.poll(60)
            time.sleep(self._choose.uniform(0, 0.4))
        if unfinished(copy):
            self.acknowledged["restorings cut short"] += 1
            if self._choose.random() < 0.5:
                undo(copy)
            else:
                restore(copy, file)
        self.acknowledged["restorings"] += 1
        self.check(state() == before, f"restored: {before} became {state()}")
