"""The model hub as a source: resumed download, and no byte fetched of a file known to be another.

Says nothing of where files end up; the caller verifies and moves them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server.registry.catalogue import Hub, ModelFile
from server.registry.watching import folder_size, watch
from text.modules import endpoint

log = logging.getLogger(__name__)


def describe(repo: str, file: str) -> dict[str, Any] | str:
    """`sha256`, `size` and `revision` of the newest version of a file, or in half a sentence why they are unknown."""
    import httpx
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError

    at = endpoint()
    try:
        metadata = get_hf_file_metadata(hf_hub_url(repo, file, endpoint=at), endpoint=at)
    except (HfHubHTTPError, httpx.HTTPError, OSError, ValueError) as error:
        return f"{repo} has no {file} for us ({' '.join(str(error).split()) or type(error).__name__})"
    if not re.fullmatch(r"[0-9a-f]{64}", metadata.etag or "") or metadata.size is None or not metadata.commit_hash:
        return f"it does not tell the SHA-256 of {file} in {repo}"
    return {"sha256": metadata.etag, "size": metadata.size, "revision": metadata.commit_hash}


def download(hub: Hub, file: ModelFile, folder: Path, progress: Callable[[int], None]) -> Path | str:
    """Fetch one file into `folder`, resuming what an earlier call left there.

    `progress` is called with the bytes so far. Returns the file's path, or in half a sentence why the
    hub could not deliver it.
    """
    import httpx
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    assert file.hub is not None
    at = endpoint()
    disable_progress_bars()
    try:
        url = hf_hub_url(hub.repo, file.hub, revision=hub.revision, endpoint=at)
        metadata = get_hf_file_metadata(url, endpoint=at)
        # The hub tags large files with their SHA-256, so another file is known before it is fetched.
        tagged = re.fullmatch(r"[0-9a-f]{64}", metadata.etag or "")
        if (tagged and tagged.group() != file.sha256) or metadata.size not in (None, file.size):
            return f"{hub.repo} now has another {file.hub}"
        with watch(lambda: progress(min(folder_size(folder), file.size))):
            return Path(hf_hub_download(hub.repo, file.hub, revision=hub.revision, local_dir=folder, endpoint=at))
    except (HfHubHTTPError, httpx.HTTPError, OSError, RuntimeError, ValueError) as error:
        log.info("hub download of %s failed", file.hub, exc_info=True)
        return f"{hub.repo} did not deliver {file.hub} ({' '.join(str(error).split()) or type(error).__name__})"
