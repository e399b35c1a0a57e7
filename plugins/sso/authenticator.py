"""Two ways to sign in: `/login/oidc` and `/login/callback` for a provider, and the headers of a trusted proxy."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from plugins.sso.provider import OidcProvider
from plugins.sso.settings import SsoSettings
from server.access import Principal, SignInFailed
from server.api.security.sign_in import Authenticator, SignIn, here, local_path, onward_page, set_cookie
from server.installation import Finding
from server.settings import Settings

PENDING_COOKIE = "anaphora_sign_in"
PENDING_SECONDS = 600
"""How long a person may take at the provider."""

_NEXT = "next"


class SsoAuthenticator(Authenticator):
    """Signs people in by the provider and by the proxy of the settings, as far as they name any."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.of(SsoSettings)
        self._provider = OidcProvider(self._settings) if self._settings.issuer else None
        self.links = {self._provider.label: "/login/oidc"} if self._provider else {}
        self.identity_headers = self._settings.headers

    def identify(self, headers: Mapping[str, Sequence[str]]) -> Principal | None:
        settings = self._settings
        users = headers.get(settings.user_header.lower(), ())
        if not any(users):
            return None
        for header in settings.headers:
            if len(headers.get(header.lower(), ())) > 1:
                raise SignInFailed(f"The proxy sent {header} twice, and perhaps only one of them is its own.", 403)
        groups = None
        if settings.groups_header:
            groups = re.split("[,|]", "".join(headers.get(settings.groups_header.lower(), ())))
        return settings.person(f"proxy:{users[0]}", users[0], groups)

    def admits(self, principal: Principal) -> bool:
        return self._provider is not None and principal.id.startswith(self._provider.principal_id(""))

    async def answer(self, request: Request, sign_in: SignIn) -> Response | None:
        if self._provider is None or request.method != "GET":
            return None
        match request.url.path.rstrip("/"):
            case "/login/oidc":
                return await self._to_provider(request, self._provider, sign_in)
            case "/login/callback":
                return await self._from_provider(request, self._provider, sign_in)
        return None

    async def logout_address(self, id_token: str, back: str) -> str | None:
        return await self._provider.logout_address(id_token, back) if self._provider else None

    async def _to_provider(self, request: Request, provider: OidcProvider, sign_in: SignIn) -> Response:
        # Authlib keeps the flow in the request's session, which here is one cookie for ten minutes.
        flow = request.scope["session"] = {_NEXT: local_path(request.query_params.get("next", "/"))}
        try:
            response = await provider.begin(request, here(request, "/login/callback"))
        except SignInFailed as failed:
            return sign_in.problem(request, failed, flow[_NEXT])
        value = base64.urlsafe_b64encode(json.dumps(flow).encode()).decode()
        # The way back begins at another site, so that a strict cookie would not come along.
        set_cookie(response, request, PENDING_COOKIE, value, PENDING_SECONDS, "/login", "lax")
        return response

    async def _from_provider(self, request: Request, provider: OidcProvider, sign_in: SignIn) -> Response:
        flow = request.scope["session"] = _unpacked(request.cookies.get(PENDING_COOKIE, ""))
        following = str(flow.get(_NEXT, "/"))
        try:
            if _NEXT not in flow:
                raise SignInFailed("This sign-in was begun elsewhere, or too long ago. Start again.")
            principal, id_token = await provider.finish(request)
        except SignInFailed as failed:
            response = sign_in.problem(request, failed, following)
        else:
            response = onward_page(following)
            await sign_in.begin(request, response, principal, self._settings.session_hours * 3600, id_token=id_token)
        response.delete_cookie(PENDING_COOKIE, "/login", httponly=True, samesite="lax")
        return response


def _unpacked(text: str) -> dict[str, Any]:
    """Return the flow that the browser keeps; empty for anything else."""
    try:
        flow = json.loads(base64.urlsafe_b64decode(text))
    except ValueError:
        return {}
    return flow if isinstance(flow, dict) else {}


def check_provider(settings: Settings) -> Iterator[Finding]:
    """Check that the provider by which people sign in is the one of the settings and answers."""
    sso = settings.of(SsoSettings)
    if not sso.issuer:
        return
    try:
        asyncio.run(OidcProvider(sso).check())
    except SignInFailed as failed:
        why = f"{sso.issuer} cannot be used: {failed.__cause__}"
        yield Finding(
            "signing in", "fail", why, "Correct plugins.sso.issuer, or see why that provider does not answer."
        )
    else:
        yield Finding("signing in", "ok", f"with {sso.issuer}")
