"""Signing in with an OpenID Connect provider: the authorization code flow with PKCE, by Authlib.

It checks that the provider is the one of the settings, that its answer belongs to the flow this browser began, and the
ID token's signature, issuer, audience, times and nonce. Cookies and pages are `sign_in`'s.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from server.access.principals import NotAdmitted, Principal, person
from server.access.settings import OidcSettings, is_loopback
from text.sanitize import sanitize_line

log = logging.getLogger(__name__)


LEEWAY_SECONDS = 60
"""How far the clocks of the provider and of this server may be apart."""


PROVIDER_SECONDS = 10.0
"""How long the provider may take for one answer."""


DISCOVERY_SECONDS = 3600.0
"""After this the provider is asked for its addresses and keys again."""


ALGORITHMS = frozenset(f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in ("256", "384", "512")) | {
    "EdDSA",
    "Ed25519",
}
"""Signatures with a key that only the provider has: neither `none` nor a secret that is shared."""


RETRY_SECONDS = 2.0
"""So long after it failed the provider is not asked about itself again."""


_DOWN = "The sign-in service does not answer now. Try again later."


_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint")


class SignInFailed(Exception):
    """Nobody was signed in; the message says why to whoever tried, the log says more. `status` is HTTP's."""

    def __init__(self, message: str, status: int = 401) -> None:
        super().__init__(message)
        self.status = status


_Part = Annotated[str, Field(min_length=1)]


class PendingSignIn(BaseModel):
    """State that a browser keeps while its person is at the provider."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: _Part
    nonce: _Part
    code_verifier: _Part
    redirect_uri: _Part
    following: _Part


class OidcProvider:
    """The provider of the settings. Its addresses are asked for when somebody signs in for the first time."""

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._client: Any = None
        self._lock = asyncio.Lock()
        self._discovered = self._failed = float("-inf")
        self._context: ssl.SSLContext | None = None

    @property
    def label(self) -> str:
        """The text on the sign-in button."""
        return self._settings.label or urlsplit(self._settings.issuer).netloc

    def signed_in(self, principal: Principal) -> bool:
        """Whether a principal came from this provider."""
        return principal.id.startswith(self._id(""))

    async def check(self) -> None:
        """Ask the provider what it says about itself. Raises SignInFailed, with the reason as its cause."""
        with self._explained():
            await self._ready()

    async def begin(self, redirect_uri: str, following: str) -> tuple[str, PendingSignIn]:
        """The address at the provider to go to, and what is needed when the person is back. Raises SignInFailed."""
        with self._explained():
            client = await self._ready()
            begun = await client.create_authorization_url(redirect_uri)
            values = {name: begun[name] for name in ("state", "nonce", "code_verifier")}
            return begun["url"], PendingSignIn(**values, redirect_uri=redirect_uri, following=following)

    async def finish(self, pending: PendingSignIn | None, answer: Mapping[str, str]) -> tuple[Principal, str]:
        """Return the person that the provider's answer names, and the ID token. Raises SignInFailed."""
        if pending is None or not hmac.compare_digest(pending.state.encode(), answer.get("state", "").encode()):
            raise SignInFailed("This sign-in was begun elsewhere, or too long ago. Start again.")
        with self._explained():
            client = await self._ready()
            issuer = answer.get("iss")
            if issuer != self._settings.issuer and (issuer is not None or client.server_metadata["names_itself"]):
                raise SignInFailed("The answer is not from the sign-in service of this server. Start again.")
            if "error" in answer:
                raise self._refused(answer)
            token = await client.fetch_access_token(
                redirect_uri=pending.redirect_uri,
                code=answer.get("code", ""),
                code_verifier=pending.code_verifier,
            )
            if "id_token" not in token:
                raise ValueError("there is no ID token; is openid among the scopes?")
            claims = await client.parse_id_token(
                token,
                nonce=pending.nonce,
                claims_options={
                    "iss": {"essential": True, "value": self._settings.issuer},
                    "aud": {"essential": True, "value": self._settings.client_id},
                    "sub": {"essential": True},
                },
                leeway=LEEWAY_SECONDS,
            )
            return await self._person(client, token, claims), token["id_token"]

    async def logout_address(self, id_token: str, back: str) -> str | None:
        """Where the provider ends its own session, None where it cannot, or does not answer now."""
        try:
            with self._explained():
                client = await self._ready()
                if "end_session_endpoint" not in client.server_metadata:
                    return None
                address = await client.create_logout_url(
                    post_logout_redirect_uri=back, id_token_hint=id_token, client_id=self._settings.client_id
                )
                return str(address["url"])
        except SignInFailed:
            return None

    async def _person(self, client: Any, token: Mapping[str, Any], claims: Mapping[str, Any]) -> Principal:
        rules = self._settings
        wanted = {rules.name_claim, rules.groups_claim} - {""}
        if wanted - set(claims) and "userinfo_endpoint" in client.server_metadata:
            more = await client.userinfo(token=token)
            if more.get("sub") != claims["sub"]:
                raise ValueError("its userinfo is about somebody else")
            claims = {**more, **claims}
        names = (claims.get(claim) for claim in (rules.name_claim, "preferred_username", "email"))
        name = next((name for name in names if isinstance(name, str) and name), claims["sub"])
        groups = None
        if rules.groups_claim:
            claimed = claims.get(rules.groups_claim)
            groups = [
                group for group in (claimed if isinstance(claimed, list) else [claimed]) if isinstance(group, str)
            ]
        try:
            return person(self._id(claims["sub"]), name, groups, rules)
        except NotAdmitted as refused:
            raise SignInFailed(str(refused), 403) from refused

    def _id(self, subject: str) -> str:
        return f"oidc:{self._settings.issuer}:{subject}"

    def _refused(self, answer: Mapping[str, str]) -> SignInFailed:
        code, description = (sanitize_line(answer.get(part, ""))[:200] for part in ("error", "error_description"))
        log.warning("the provider %s refused a sign-in: %s (%s)", self._settings.issuer, code, description)
        if code == "access_denied":
            return SignInFailed("The sign-in was cancelled, or the sign-in service does not let this account in.", 403)
        return SignInFailed("The sign-in service could not sign you in. Try again, or ask whoever runs this server.")

    async def _ready(self) -> Any:
        """Authlib's client, with what the provider says about itself, not older than an hour."""
        # One asks for all: a provider that is slow, or down, is not asked by everybody who knocks.
        async with self._lock:
            if time.monotonic() - self._discovered > DISCOVERY_SECONDS:
                if time.monotonic() - self._failed < RETRY_SECONDS:
                    raise SignInFailed(_DOWN, 502)
                self._failed = time.monotonic()
                self._client = self._made(await self._discover())
                self._discovered, self._failed = time.monotonic(), float("-inf")
        return self._client

    def _made(self, metadata: dict[str, Any]) -> Any:
        from authlib.integrations.starlette_client import OAuth

        settings = self._settings
        secret = settings.client_secret.get_secret_value()
        methods = metadata.pop("methods")
        method = "client_secret_basic" if secret else "none"
        if secret and methods and method not in methods and "client_secret_post" in methods:
            method = "client_secret_post"
        return OAuth().register(
            "provider",
            client_id=settings.client_id,
            client_secret=secret,
            authorize_url=metadata["authorization_endpoint"],
            access_token_url=metadata["token_endpoint"],
            client_kwargs={
                "scope": " ".join(settings.scopes),
                "code_challenge_method": "S256",
                "token_endpoint_auth_method": method,
                "timeout": PROVIDER_SECONDS,
                # The access token is used at once; some are good for a minute only.
                "leeway": 0,
                "verify": self._context,
            },
            **metadata,
        )

    async def _discover(self) -> dict[str, Any]:
        """Fetch the provider's metadata and keep the fields in use. Raises httpx2.HTTPError, ValueError or KeyError."""
        import httpx2

        issuer = self._settings.issuer
        if self._context is None:
            self._context = await asyncio.to_thread(_context, issuer)
        async with httpx2.AsyncClient(timeout=PROVIDER_SECONDS, verify=self._context) as http:
            answer = await http.get(issuer.rstrip("/") + "/.well-known/openid-configuration")
        answer.raise_for_status()
        document = answer.json()
        if document["issuer"] != issuer:
            raise ValueError(f"it calls itself {document['issuer']}; set oidc.issuer to exactly that if it is right")
        metadata = {name: document[name] for name in _ENDPOINTS if document.get(name)}
        for name in _ENDPOINTS[:3]:
            metadata.setdefault(name, document[name])
        for name, address in metadata.items():
            _demand_safe(address, f"its {name}", like=issuer)
        algorithms = ALGORITHMS.intersection(document.get("id_token_signing_alg_values_supported", ["RS256"]))
        return {
            **metadata,
            "issuer": issuer,
            "id_token_signing_alg_values_supported": sorted(algorithms) or ["RS256"],
            "names_itself": document.get("authorization_response_iss_parameter_supported") is True,
            "methods": document.get("token_endpoint_auth_methods_supported"),
        }

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns what can go wrong with a provider into what a person is told; the log says the rest."""
        import httpx2
        from authlib.integrations.starlette_client import OAuthError
        from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError

        issuer = self._settings.issuer
        try:
            yield
        except httpx2.HTTPError as error:
            log.warning("the provider %s cannot be used: %s (%s)", issuer, error, type(error).__name__)
            raise SignInFailed(_DOWN, 502) from error
        except OAuthError as error:
            log.warning("the provider %s gave no token: %s", issuer, sanitize_line(str(error))[:400])
            raise SignInFailed("The sign-in service did not accept this sign-in any more. Start again.") from error
        except JoseError as error:
            log.warning("the provider %s sent an ID token that is refused: %s", issuer, error)
            late = isinstance(error, ExpiredTokenError)
            early = isinstance(error, InvalidClaimError) and error.claim in ("iat", "nbf")
            if late or early:
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


def _demand_safe(address: object, what: str, like: str) -> None:
    """Refuse an address that is not encrypted, but on this machine where the issuer `like` it is. Raises ValueError."""
    parts = urlsplit(address) if isinstance(address, str) else None
    local = like.startswith("http://") and parts and parts.scheme == "http" and is_loopback(parts.hostname or "")
    if parts is None or not (parts.scheme == "https" or local):
        raise ValueError(f"{what} is no https:// address")


def _context(issuer: str) -> ssl.SSLContext:
    import httpx2

    # One for all requests, since it takes tens of milliseconds to make.
    return httpx2.create_ssl_context() if issuer.startswith("https") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
