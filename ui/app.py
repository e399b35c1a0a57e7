"""The page: a Gradio app of three parts (conversations, chat, sources) mounted beside the API.

Each part is a fixed skeleton with a script; texts reach it ready and escaped from the modules
beside this one. Answers stream through Gradio's queue, everything else are single calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import gradio as gr
from fastapi import FastAPI
from starlette.routing import Mount
from starlette.types import Scope

from server.api.dependencies import show_as_pages
from server.chat import ChatService, Principal
from server.plugins import page_calls, parts, standing_messages
from text.languages import LANGUAGES, speak, wanted
from ui.calls import Answer, answered
from ui.chat import LiveTurns, Picture, ask
from ui.gate import PageGate
from ui.routes import error_page, router
from ui.templates import FOLDER, render, static

TABS = 200
"""Streams that may run through Gradio's queue at once; the service's own limits are the narrower ones."""

_POLLED = frozenset({"watch_jobs"})
"""What the page asks by itself again and again does not count as a request."""


def build(service: ChatService) -> gr.Blocks:
    """The page as Gradio blocks, reading everything from `service`."""
    live = LiveTurns(service.going_on)

    async def answer(event: gr.EventData, request: gr.Request) -> AsyncIterator[Picture]:
        who = _principal(request)
        _speak(request)
        async for picture in ask(service.as_principal(who), live, who.id, event._data):
            yield picture
            # What comes next may run in another context.
            _speak(request)

    async def stop(data: object, request: gr.Request) -> dict[str, bool]:
        stream = str(data.get("stream", "")) if isinstance(data, dict) else ""
        return {"stopped": live.stop(_principal(request).id, stream)}

    def calls(names: str) -> list[Callable[..., Awaitable[Answer]]]:
        return [call(name) for name in names.split()]

    def call(name: str) -> Callable[..., Awaitable[Answer]]:
        """The call of that name, of whoever makes it."""

        async def called(data: object, request: gr.Request) -> Answer:
            _speak(request)
            return await answered(service.as_principal(_principal(request)), name, data, admit=name not in _POLLED)

        called.__name__ = name
        return called

    def part(name: str, *functions: Callable[..., Awaitable[Answer]], **values: object) -> gr.HTML:
        """A part of the page: its skeleton, its script, and the functions that the script may call."""
        return gr.HTML(
            html_template=render(f"{name}.html", **values),
            js_on_load=static(f"{name}.js"),
            apply_default_css=False,
            elem_id=name,
            server_functions=list(functions),
        )

    plugin_calls = " ".join(page_calls())
    with gr.Blocks(title="Anaphora", analytics_enabled=False, fill_width=True) as blocks:
        conversations = "list_conversations rename_conversation delete_conversation list_collections watch_jobs"
        part("rail", *calls(conversations), languages=LANGUAGES)
        turns = "open_conversation show_version choose_model share unshare welcome filters rate note_opened below_turn"
        messages = standing_messages(service.settings.plugins)
        chat = part("chat", stop, *calls(f"{turns} {plugin_calls}"), standing=messages)
        part("panel", *calls(f"read_document {plugin_calls}"))
        chat.ask(
            answer,
            outputs=chat,
            show_progress="hidden",
            trigger_mode="multiple",
            concurrency_limit=TABS,
            api_visibility="private",
        )
    blocks.queue(max_size=TABS, default_concurrency_limit=TABS, api_open=False)
    page: gr.Blocks = blocks
    return page


def _principal(request: gr.Request) -> Principal:
    """Return the principal of a request: Gradio hands over a request of its own, or Starlette's."""
    return _admitted(getattr(request, "request", request).scope)


def _admitted(scope: Scope) -> Principal:
    principal: Principal = scope["state"]["principal"]
    return principal


def _speak(request: gr.Request) -> None:
    """Answer in the language of a request: Gradio's queue runs in a context of its own."""
    origin = getattr(request, "request", request)
    speak(wanted(origin.cookies, origin.headers.get("accept-language")))


def mount_page(app: FastAPI, service: ChatService) -> FastAPI:
    """Mount the page at `/`, behind its gate; routes that `app` has already stay in front of it."""
    app.include_router(router)
    show_as_pages(app, error_page(service))
    for add_page in parts("pages"):
        add_page(app, service)
    blocks = build(service)
    mounted: FastAPI = gr.mount_gradio_app(
        app,
        blocks,
        path="/",
        ssr_mode=False,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        show_error=False,
        favicon_path=str(FOLDER / "static" / "icon.png"),
        theme=gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
        head=f"<style>{static('page.css', 'prose.css', 'text.css')}</style><script>{static('page.js')}</script>",
    )
    for route in mounted.routes:
        if isinstance(route, Mount) and route.path == "":
            route.app = PageGate(route.app, _admitted, blocks)
    return mounted
