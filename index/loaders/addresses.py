"""Where people open the files of a folder: by the address of its site, or by a note beside them.

The setting `index.site_urls` names sites. Folders of it may be `{version}` or the like, which becomes metadata. The
note is for folders that hold copies of what lies elsewhere: `.addresses.json` lies in the folder that is indexed and
says of files below it, by relative path, their `url`, the `title`, the day on which they `changed`, and metadata by
`field.NAME`. It is as little trusted as the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote as percent

from index.documents import Document
from index.loaders.files import SourceFile
from index.loaders.reading import one_line
from text.files import resolved, write_json
from text.sanitize import web_address

_FILE = ".addresses.json"
_FIELD, _FIELD_CHARS = "field.", 100
_NAME = re.compile(r"\{(\w+)\}")

About = Mapping[str, str]
NOTHING: About = {}


def write_addresses(folder: Path, about: Mapping[str, About]) -> None:
    """Note where the files of a folder can be opened, in place of what was noted. Raises OSError."""
    write_json(folder / _FILE, about)


def page_address(site: str, path: str) -> str:
    """Return where a file is opened on a site: `page_address("https://x.org/docs", "use/index.md")` ends with `/use/`.

    `path` is relative, with forward slashes. In `site` `{path}` stands for it, and `{page}` for it without its ending,
    and without a last `index` or `README`; a site with neither ends with `/{page}/`.
    """
    page = re.sub(r"(^|/)(?:_?index|readme)$", "", path.rpartition(".")[0] or path, flags=re.IGNORECASE)
    template = site if "{path}" in site or "{page}" in site else f"{site.rstrip('/')}/{{page}}/"
    for name, value in (("{path}", path), ("{page}", page)):
        template = template.replace(name, percent(value, errors="replace"))
    return template if page else re.sub(r"(?<!:)/(?:/|\.html$)", "/", template)


def spellings(url: str) -> list[str]:
    """Return the addresses that a site gives the page at `url`, with and without its ending; none if it is no page."""
    page = re.sub(r"(/index)?\.html?$|/$", "", re.split(r"[?#]", web_address(url), maxsplit=1)[0])
    return [page + ending for ending in ("/", "", ".html", "/index.html")] if page else []


class Addresses:
    """The notes of the folders of one run, each read once, and the sites of folders, by their resolved paths."""

    def __init__(self, sites: Mapping[Path, str] = MappingProxyType({})) -> None:
        self._by_root: dict[Path, dict[str, About]] = {}
        self._sites = dict(sorted(sites.items(), key=lambda site: (-len(site[0].parts), str(site[0]).count("{"))))

    def of(self, source: SourceFile) -> About:
        """Return the address recorded for a file, if any."""
        if source.root not in self._by_root:
            self._by_root[source.root] = _read(source.root / _FILE)
        rules = self._by_root[source.root]
        about = rules.get(source.path.relative_to(source.root).as_posix()) if rules else None
        return about if isinstance(about, dict) else self._on_site(resolved(source.path))

    def _on_site(self, path: Path) -> About:
        for folder in self._sites:
            below = path.parts[len(folder.parts) :]
            fields = _named(folder.parts, path.parts) if below else None
            if fields is not None:
                site = self._sites[folder]
                for name, value in fields.items():
                    site = site.replace(f"{{{name}}}", percent(value, errors="replace"))
                return {"url": page_address(site, "/".join(below)), **{_FIELD + name: fields[name] for name in fields}}
        return NOTHING


def _named(wanted: Sequence[str], parts: Sequence[str]) -> dict[str, str] | None:
    """Return what the `{names}` among wanted folders stand for in a path; None for another path."""
    fields = {}
    for folder, part in zip(wanted, parts, strict=False):
        if match := _NAME.fullmatch(folder):
            fields[match[1]] = part
        elif folder != part:
            return None
    return fields


def addressed(document: Document, about: About) -> Document:
    """The document with what is noted of its file. A row of a corpus, or front matter, names its own address."""
    url, title = web_address(about.get("url")), one_line(str(about.get("title", "")))
    metadata = dict(document.metadata)
    if url and (metadata.get("format") == "html" or not web_address(metadata.get("source"))):
        metadata["source"] = url
    if about.get("changed"):
        metadata["changed"] = str(about["changed"])[:10]
    metadata = {**fields_of(about), **metadata}
    return replace(document, title=title or document.title, metadata=metadata)


def fields_of(about: About) -> dict[str, str]:
    """Return the metadata that is noted of a file."""
    fields = {name.removeprefix(_FIELD): value for name, value in about.items() if name.startswith(_FIELD)}
    return {name: one_line(str(value))[:_FIELD_CHARS] for name, value in fields.items() if name and value}


def _read(path: Path) -> dict[str, About]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
