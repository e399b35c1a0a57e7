"""`anaphora extract`: what indexing would read out of files, with the regions of PDFs, resumable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.shared.state import InputError, state_of


def extract(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to read.")],
    out: Annotated[Path, typer.Option(help="The JSON lines to write, one a file, in their order.")],
) -> None:
    """Write what would be indexed of each file: its text in reading order, and for a PDF its regions.

    What is finished is kept beside the output while the command runs. After an interruption the same command goes on
    where it stopped; a file that changed since is read again.
    """
    from cli.shared.console import progress
    from papers.document_reading.pages import extracted
    from text.files import text_writer

    state = state_of(context)
    wanted = state.settings().index
    partial = out.with_name(f"{out.name}.partial")
    known = _finished(out) | _finished(partial)
    left = [path for path in dict.fromkeys(files) if str(path) not in known]
    if len(left) < len(files):
        state.err.print(f"{len(files) - len(left)} of {len(files)} files were read before.")
    with (
        progress(state.err, "reading", len(left)) as advance,
        partial.open("a", encoding="utf-8") as kept,
    ):
        for path in left:
            found = extracted(path, wanted.max_file_mb, ocr_languages=wanted.ocr_languages)
            known[str(path)] = {"path": str(path), **found}
            kept.write(_line(known[str(path)]))
            kept.flush()
            advance()
    with text_writer(out) as target:
        target.writelines(_line(known[str(path)]) for path in files)
    partial.unlink(missing_ok=True)
    failed = sum(known[str(path)]["status"] != "ok" for path in files)
    state.err.print(f"Wrote {out}: {len(files)} files{f', {failed} of them with a problem' if failed else ''}.")
    if not any(known[str(path)]["text"] for path in files):
        raise InputError("No text was read; `status` in the lines says why.")


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _finished(path: Path) -> dict[str, dict[str, Any]]:
    """Whole rows of an output whose files are older than it, by path."""
    try:
        written = path.stat().st_mtime
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    rows: dict[str, dict[str, Any]] = {}
    for line in lines:
        try:
            row = json.loads(line)
            if Path(row["path"]).stat().st_mtime <= written:
                rows[row["path"]] = row
        except (ValueError, KeyError, TypeError, OSError):
            continue  # cut short, or of a file that is gone
    return rows
