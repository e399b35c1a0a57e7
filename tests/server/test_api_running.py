"""The listening socket and uvicorn as they are set up for streams."""

from __future__ import annotations

import asyncio
import socket
import threading

import httpx
from fastapi import FastAPI

from server.api.app import Server, address, listen
from server.settings import ServerSettings


def test_small_writes_leave_at_once_on_a_kept_connection() -> None:
    """Without TCP_NODELAY each response on a kept connection waits 40 ms for an acknowledgement."""
    sock = listen(ServerSettings(port=0))
    server = Server(FastAPI(), ServerSettings())
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[sock])))
    thread.start()
    try:
        with httpx.Client(base_url=address(sock), verify=False) as client:
            assert [client.get("/openapi.json").status_code for _ in range(2)] == [200, 200]
            (connection,) = server.server_state.connections
            accepted = connection.transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    finally:
        server.should_exit = True
        thread.join(120)
        sock.close()
