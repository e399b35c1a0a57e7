"""The pages at the door, in the language of whoever comes: where a person signs in, and the one that leads on."""

from __future__ import annotations

import html
from urllib.parse import quote

from starlette.responses import HTMLResponse, Response

from text.translation import RIGHT_TO_LEFT, gettext, spoken

_PAGE = """<!doctype html><html lang="{language}" dir="{direction}"><meta charset="utf-8"><title>Anaphora</title>
<meta name="viewport" content="width=device-width, initial-scale=1">{head}
<style>:root{{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}}body{{display:grid;place-items:center;
min-height:90vh;margin:0 1rem}}main{{width:min(26rem,100%)}}input,button,.button{{font:inherit;width:100%;
box-sizing:border-box;padding:.5rem;margin:.25rem 0;display:block}}.button{{border:1px solid;border-radius:.25rem;
text-align:center;text-decoration:none;color:inherit}}.problem{{color:#c22}}</style>
<main><h1>Anaphora</h1>{body}</main></html>"""

_FORM = """<form method="post" action="/login">
<label>{key} <input name="key" type="password" autocomplete="current-password" required{focus}></label>
<input type="hidden" name="next" value="{following}"><button>{open}</button>
<p>{made}</p></form>"""


def sign_in_page(following: str, provider: str = "", problem: str = "", status: int = 200, wait: int = 0) -> Response:
    """Where a key is asked for, and a provider offered where there is one; `following` is where to go then."""
    parts = [f'<p class="problem">{html.escape(problem)}</p>'] if problem else []
    following = local_path(following)
    if provider:
        address = f"/login/oidc?next={quote(following, safe='/')}"
        label = html.escape(gettext("Sign in with %(name)s", name=provider))
        parts.append(f'<p><a class="button" href="{address}">{label}</a></p>')
    made = html.escape(gettext("Keys are made with %(command)s on the server."))
    parts.append(
        _FORM.format(
            key=html.escape(gettext("API key")),
            open=html.escape(gettext("Open")),
            made=made % {"command": "<code>anaphora keys create NAME</code>"},
            following=html.escape(following),
            focus="" if provider else " autofocus",
        )
    )
    headers = {"Retry-After": str(wait)} if wait else {}
    return _page("\n".join(parts), status, headers=headers)


def leading_on_page(following: str) -> Response:
    """A page that goes on to another here.

    It is no redirect, because at the end of a way that began at another site a browser leaves the session's cookie
    (SameSite=Strict) at home.
    """
    address = html.escape(quote(local_path(following), safe="/?&=%#:@,;+~!$'()*"))
    head = f'<meta http-equiv="refresh" content="0;url={address}">'
    said = html.escape(gettext("Signed in.")), html.escape(gettext("Go on"))
    return _page(f'<p>{said[0]} <a href="{address}">{said[1]}</a></p>', head=head)


def local_path(path: str) -> str:
    """`path` if it stays on this server, else the page."""
    stays = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and len(path) <= 1000
    return path if stays else "/"


def _page(body: str, status: int = 200, *, head: str = "", headers: dict[str, str] | None = None) -> Response:
    direction = "rtl" if spoken() in RIGHT_TO_LEFT else "ltr"
    page = _PAGE.format(language=spoken(), direction=direction, head=head, body=body)
    return HTMLResponse(page, status, {"Cache-Control": "no-store", **(headers or {})})
