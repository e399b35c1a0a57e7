"""Prometheus metrics: one registry for each service, never the global one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 240.0)


class Metrics:
    """Counters of turns and requests. Labels are names from our own code, never text from outside."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.turns = Counter("anaphora_turns", "Turns by how they ended.", ["status"], registry=registry)
        self.stage_seconds = Histogram(
            "anaphora_turn_stage_seconds",
            "Seconds of a turn by stage; first_token and total count from its beginning, waiting left out.",
            ["stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.tokens = Counter("anaphora_tokens", "Tokens read and written by the model.", ["kind"], registry=registry)
        self.dropped_citations = Counter(
            "anaphora_citations_dropped", "Markers removed because they cited nothing.", registry=registry
        )
        self.unsupported = Counter(
            "anaphora_unsupported_sentences", "Sentences without support in what they cite.", registry=registry
        )
        self.rewrites = Counter("anaphora_rewrites", "Rewrites by decision.", ["decision"], registry=registry)
        self.errors = Counter("anaphora_errors", "Turns that ended in an error, by code.", ["code"], registry=registry)
        self.store_failures = Counter(
            "anaphora_store_failures", "Turns that could not be stored, such as on a full disk.", registry=registry
        )
        self.running = Gauge("anaphora_turns_running", "Turns that are being answered now.", registry=registry)
        self.waiting = Gauge("anaphora_turns_waiting", "Turns that wait for their place now.", registry=registry)
        self.refused = Counter("anaphora_turns_turned_away", "Turns refused: the queue was full.", registry=registry)
        self.requests = Counter(
            "anaphora_http_requests", "HTTP requests by route and status.", ["route", "status"], registry=registry
        )

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)
