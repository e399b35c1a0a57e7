"""Whether the model hub answers: asked once and briefly, where its own libraries try again for minutes."""

from __future__ import annotations

import os

PROBE_SECONDS = 3.0
"""A hub that has not answered by then counts as unreachable: on many machines there is none."""


def unreachable() -> str | None:
    """Why the hub cannot be used now, as half a sentence; None when it answers."""
    import httpx

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        return "HF_HUB_OFFLINE is set"
    try:
        httpx.head(endpoint(), timeout=PROBE_SECONDS, follow_redirects=True).raise_for_status()
    except httpx.HTTPError as error:
        return f"it does not answer ({str(error) or type(error).__name__})"
    return None


def endpoint() -> str:
    """Where the hub is."""
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT", constants.ENDPOINT).rstrip("/")
