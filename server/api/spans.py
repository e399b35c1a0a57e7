"""The span of a request, in the trace that its caller names (W3C `traceparent`)."""

from __future__ import annotations

from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.tracing import Tracing

TRACED = "/v1/"
"""Paths below it are traced; health checks and the page's files are not."""


class RequestSpans:
    """Makes a caller's trace the current one; where spans are sent to a collector, a request has its own."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(TRACED):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        caller = self._propagator.extract(headers) if "traceparent" in headers else context.Context()
        if not self._tracing.exports:
            token = context.attach(caller)
            try:
                await self._app(scope, receive, send)
            finally:
                context.detach(token)
            return
        method = scope["method"]
        span = self._tracing.tracer.start_span(
            method, caller, SpanKind.SERVER, {"http.request.method": method, "url.path": scope["path"]}
        )

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                span.set_attribute("http.response.status_code", message["status"])
                if message["status"] >= 500:
                    span.set_status(Status(StatusCode.ERROR))
            await send(message)

        with trace.use_span(span, end_on_exit=True):
            try:
                await self._app(scope, receive, watched)
            finally:
                if route := getattr(scope.get("route"), "path", ""):
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
