"""The page: a Gradio app of three parts (conversations, chat, sources) mounted beside the API.

Each part is a fixed skeleton with a script; texts reach it ready and escaped from the modules
beside this one. Answers stream through Gradio's queue, everything else are single calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import gradio as gr
from fastapi import FastAPI

from server.chat import ChatService
from ui.calls import Calls, guarded
from ui.chat import Picture, ask
from ui.live import LiveTurns
from ui.templates import FOLDER, render, static

TABS = 200
"""Streams that may run through Gradio's queue at once; the service's own limits are the narrower ones."""

_HOUR = 3600


def build(service: ChatService) -> gr.Blocks:
    """The page as Gradio blocks, reading everything from `service`."""
    live = LiveTurns()
    calls = Calls(service)

    async def answer(event: gr.EventData, request: gr.Request) -> AsyncIterator[Picture]:
        async for picture in ask(service, live, request.session_hash or "", event._data):
            yield picture

    async def stop(data: object) -> dict[str, bool]:
        return {"stopped": live.stop(str(data.get("stream", "")) if isinstance(data, dict) else "")}

    def disconnect(request: gr.Request) -> None:
        live.disconnect(request.session_hash or "")

    with gr.Blocks(title="Anaphora", analytics_enabled=False, fill_width=True, delete_cache=(_HOUR, _HOUR)) as blocks:
        gr.HTML(
            html_template=render("rail.html"),
            js_on_load=static("rail.js"),
            apply_default_css=False,
            elem_id="rail",
            server_functions=[
                guarded(calls.list_conversations),
                guarded(calls.rename_conversation),
                guarded(calls.delete_conversation),
                guarded(calls.list_collections),
                guarded(calls.upload_file),
                guarded(calls.watch_jobs),
            ],
        )
        chat = gr.HTML(
            html_template=render("chat.html"),
            js_on_load=static("chat.js"),
            apply_default_css=False,
            elem_id="chat",
            server_functions=[stop, guarded(calls.open_conversation), guarded(calls.welcome), guarded(calls.rate)],
        )
        gr.HTML(
            html_template=render("panel.html"),
            js_on_load=static("panel.js"),
            apply_default_css=False,
            elem_id="panel",
            server_functions=[guarded(calls.read_document)],
        )
        chat.ask(
            answer,
            outputs=chat,
            show_progress="hidden",
            trigger_mode="multiple",
            concurrency_limit=TABS,
            api_visibility="private",
        )
        blocks.unload(disconnect)
    blocks.queue(max_size=TABS, default_concurrency_limit=TABS, api_open=False)
    page: gr.Blocks = blocks
    return page


def mount_page(app: FastAPI, service: ChatService) -> FastAPI:
    """Mount the page at `/`; routes that `app` has already stay in front of it."""
    limit = service.settings.server.max_body_mb * 1024 * 1024
    mounted: FastAPI = gr.mount_gradio_app(
        app,
        build(service),
        path="/",
        ssr_mode=False,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        show_error=False,
        max_file_size=limit,
        favicon_path=str(FOLDER / "static" / "icon.png"),
        theme=gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
        head=f"<style>{static('page.css')}{static('text.css')}</style><script>{static('page.js')}</script>",
    )
    return mounted
