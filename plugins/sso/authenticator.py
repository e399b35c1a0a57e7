"""Two ways to sign in: `/login/oidc` and `/login/callback` for a provider, and the headers of a trusted proxy.

Authlib does state, nonce, PKCE, discovery, keys and the ID token's signature and claims. `OidcProvider` demands that
the provider is the one of the settings, at encrypted addresses, and explains what goes wrong.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from plugins.sso import SsoSettings, is_safe
from server.access import Principal, SignInFailed
from server.api.security import Authenticator, SignIn, here, local_path, onward_page, set_cookie
from server.installation import Finding
from server.settings import Settings
from text.modules import need_extra
from text.sanitize import sanitize_line

log = logging.getLogger(__name__)

LEEWAY_SECONDS = 60
"""How far the clocks of the provider and of this server may be apart."""

PROVIDER_SECONDS = 10.0
"""How long the provider may take for one answer."""

RETRY_SECONDS = 2.0
"""So long after it failed the provider is not asked about itself again."""

ALGORITHMS = frozenset(f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in ("256", "384", "512")) | {
    "EdDSA",
    "Ed25519",
}
"""Signatures with a key that only the provider has: neither `none` nor a secret that is shared."""

_DOWN = "The sign-in service does not answer now. Try again later."
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint")
_NEEDED = 3
"""So many of them every provider has."""


class OidcProvider:
    """The provider of the settings. Its addresses are asked for when somebody signs in for the first time.

    Raises MissingExtra where Authlib is not installed.
    """

    def __init__(self, settings: SsoSettings) -> None:
        need_extra("sso", "Signing in with OpenID Connect", "authlib", "httpx2")
        self._settings = settings
        self._lock = asyncio.Lock()
        self._checked = False
        self._failed = float("-inf")

    @property
    def label(self) -> str:
        """The provider's host, for the sign-in button."""
        return urlsplit(self._settings.issuer).netloc

    def principal_id(self, subject: str) -> str:
        """Return the id of a principal that this provider names `subject`."""
        return f"oidc:{self._settings.issuer}:{subject}"

    async def check(self) -> None:
        """Ask the provider what it says about itself. Raises SignInFailed, with the reason as its cause."""
        with self._explained():
            await self._ready()

    async def begin(self, request: Request, redirect_uri: str) -> Response:
        """Return the redirect to the provider; the flow is kept in `request.session`. Raises SignInFailed."""
        with self._explained():
            client = await self._ready()
            response: Response = await client.authorize_redirect(request, redirect_uri)
            return response

    async def finish(self, request: Request) -> tuple[Principal, str]:
        """Return the person that the provider's answer names, and the ID token. Raises SignInFailed."""
        with self._explained():
            client = await self._ready()
            issuer = request.query_params.get("iss")
            names_itself = client.server_metadata.get("authorization_response_iss_parameter_supported") is True
            # A code of another provider is shown to nobody (RFC 9207).
            if issuer != self._settings.issuer and (issuer is not None or names_itself):
                raise SignInFailed("The answer is not from the sign-in service of this server. Start again.")
            token = await client.authorize_access_token(
                request,
                claims_options={
                    "iss": {"essential": True, "value": self._settings.issuer},
                    "aud": {"essential": True, "value": self._settings.client_id},
                    "sub": {"essential": True},
                },
                leeway=LEEWAY_SECONDS,
            )
            if "id_token" not in token:
                raise ValueError("there is no ID token")
            return await self._person(client, token), token["id_token"]

    async def logout_address(self, id_token: str, back: str) -> str | None:
        """Return where the provider ends its own session; None where it cannot, or does not answer now."""
        try:
            with self._explained():
                client = await self._ready()
                if not client.server_metadata.get("end_session_endpoint"):
                    return None
                address = await client.create_logout_url(
                    post_logout_redirect_uri=back, id_token_hint=id_token, client_id=self._settings.client_id
                )
                return str(address["url"])
        except SignInFailed:
            return None

    async def _person(self, client: Any, token: dict[str, Any]) -> Principal:
        claims, groups_claim = token["userinfo"], self._settings.groups_claim
        if {"name", groups_claim} - {"", *claims} and client.server_metadata.get("userinfo_endpoint"):
            more = await client.userinfo(token=token)
            if more.get("sub") != claims["sub"]:
                raise ValueError("its userinfo is about somebody else")
            claims = {**more, **claims}
        names = (claims.get(claim) for claim in ("name", "preferred_username", "email"))
        name = next((name for name in names if isinstance(name, str) and name), claims["sub"])
        groups = None
        if groups_claim:
            claimed = claims.get(groups_claim)
            groups = [
                group for group in (claimed if isinstance(claimed, list) else [claimed]) if isinstance(group, str)
            ]
        return self._settings.person(self.principal_id(claims["sub"]), name, groups)

    async def _ready(self) -> Any:
        """Return Authlib's client, once the provider is known to be the one of the settings."""
        import httpx2

        async with self._lock:
            client = self._client
            if not self._checked:
                if time.monotonic() - self._failed < RETRY_SECONDS:
                    raise SignInFailed(_DOWN, 502)
                try:
                    client.server_metadata.clear()
                    # Reading certificates takes tens of milliseconds.
                    make: Callable[[], Any] = httpx2.create_ssl_context
                    encrypted = self._settings.issuer.startswith("https")
                    client.client_kwargs["verify"] = encrypted and await asyncio.to_thread(make)
                    await client.load_server_metadata()
                    self._check(client)
                    self._checked = True
                finally:
                    # Not everybody who knocks waits for a provider that is slow or down.
                    self._failed = time.monotonic()
        return client

    @cached_property
    def _client(self) -> Any:
        from authlib.integrations.starlette_client import OAuth

        settings = self._settings
        secret = settings.client_secret.get_secret_value()
        return OAuth().register(
            "provider",
            client_id=settings.client_id,
            client_secret=secret,
            server_metadata_url=settings.issuer.rstrip("/") + "/.well-known/openid-configuration",
            client_kwargs={
                "scope": "openid profile email",
                "code_challenge_method": "S256",
                "token_endpoint_auth_method": "client_secret_basic" if secret else "none",
                "timeout": PROVIDER_SECONDS,
                # The access token is used at once; some are good for a minute only.
                "leeway": 0,
            },
        )

    def _check(self, client: Any) -> None:
        """Check what the provider says about itself, and choose what it understands. Raises ValueError or KeyError."""
        issuer, metadata = self._settings.issuer, client.server_metadata
        if metadata["issuer"] != issuer:
            raise ValueError(
                f"it calls itself {metadata['issuer']}; set plugins.sso.issuer to exactly that if it is right"
            )
        for n, name in enumerate(_ENDPOINTS):
            if n < _NEEDED or metadata.get(name):
                address = metadata[name]
                if not (isinstance(address, str) and is_safe(address, local=issuer.startswith("http://"))):
                    raise ValueError(f"its {name} is no https:// address")
        algorithms = ALGORITHMS.intersection(metadata.get("id_token_signing_alg_values_supported", ["RS256"]))
        metadata["id_token_signing_alg_values_supported"] = sorted(algorithms) or ["RS256"]
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if self._settings.client_secret.get_secret_value() and "client_secret_basic" not in methods:
            client.client_kwargs["token_endpoint_auth_method"] = "client_secret_post"
        if self._settings.groups_claim and "groups" in metadata.get("scopes_supported", ()):
            client.client_kwargs["scope"] = "openid profile email groups"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what can go wrong with a provider into what a person is told; the log says the rest."""
        import httpx2
        from authlib.integrations.base_client import MismatchingStateError
        from authlib.integrations.starlette_client import OAuthError
        from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError

        issuer = self._settings.issuer
        try:
            yield
        except httpx2.HTTPError as error:
            log.warning("the provider %s cannot be used: %s (%s)", issuer, error, type(error).__name__)
            raise SignInFailed(_DOWN, 502) from error
        except MismatchingStateError as error:
            raise SignInFailed("This sign-in was begun elsewhere, or too long ago. Start again.") from error
        except OAuthError as error:
            log.warning("the provider %s refused a sign-in: %s", issuer, sanitize_line(str(error))[:400])
            raise _refused(str(error.error)) from error
        except JoseError as error:
            log.warning("the provider %s sent an ID token that is refused: %s", issuer, error)
            early = isinstance(error, InvalidClaimError) and error.claim in ("iat", "nbf")
            if early or isinstance(error, ExpiredTokenError):
                raise SignInFailed(
                    "The sign-in is expired or from the future: the clocks of this server and of the sign-in service "
                    "differ by more than a minute. Tell whoever runs this server."
                ) from error
            raise SignInFailed(
                "The answer of the sign-in service cannot be trusted; the server's log says why."
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning(
                "the provider %s says something else than expected: %s (%s)", issuer, error, type(error).__name__
            )
            raise SignInFailed("The sign-in service cannot be used; the server's log says why.", 502) from error


def _refused(code: str) -> SignInFailed:
    match code:
        case "access_denied":
            return SignInFailed("The sign-in was cancelled, or the sign-in service does not let this account in.", 403)
        case "invalid_grant" | "invalid_client":
            return SignInFailed("The sign-in service did not accept this sign-in any more. Start again.")
    return SignInFailed("The sign-in service could not sign you in. Try again, or ask whoever runs this server.")


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


def open_authenticator(settings: Settings) -> SsoAuthenticator | None:
    """Return the authenticator of the settings; None where they name no way to sign in."""
    return SsoAuthenticator(settings) if settings.of(SsoSettings).signs_in else None
