"""An OpenID Connect provider on a real port, for one person: discovery, code flow with PKCE, userinfo, logout."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from tests.http_server import FakeHandler, ServedFake

SECONDS = 300
"""How long an ID token is good."""


@cache
def signing_key() -> RSAKey:
    """The key of every provider of this process; making one takes a while."""
    return RSAKey.generate_key(2048, {"kid": "fake", "use": "sig"})


def sign(claims: dict[str, Any]) -> str:
    """An ID token as a provider makes it."""
    return jwt.encode({"alg": "RS256", "kid": "fake"}, claims, signing_key())


@dataclass
class FakeOidcProvider(ServedFake):
    """`with FakeOidcProvider() as provider:` serves at `provider.issuer` until the end of the block.

    Every visitor of its authorization endpoint is the person of `claims` and is sent back at once, or with `asks` by a
    page of its own; with the error `denied` if that is set. `tamper` changes the claims of an ID token, `signed` how it
    is signed, `metadata` what discovery says; another `status` than 200 refuses everything. All of it may be changed
    while it serves. `requests` keeps each path with its parameters, `issued` the ID tokens.
    """

    client_id: str = "anaphora"
    client_secret: str = "shared-secret"
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "u1", "name": "Ada", "groups": ["docs"]})
    userinfo: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    tamper: Callable[[dict[str, Any]], dict[str, Any]] = field(default=lambda claims: claims)
    signed: Callable[[dict[str, Any]], str] = field(default=sign)
    denied: str = ""
    asks: bool = False
    status: int = 200
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list, init=False)
    issued: list[str] = field(default_factory=list, init=False)
    codes: dict[str, dict[str, str]] = field(default_factory=dict, init=False)

    @property
    def issuer(self) -> str:
        """Where it serves, while it does."""
        return f"http://127.0.0.1:{self.port}"

    def handler(self) -> type[FakeHandler]:
        return _handler(self)

    def discovery(self) -> dict[str, Any]:
        """Return the discovery document."""
        ends = {
            "authorization_endpoint": "/authorize",
            "token_endpoint": "/token",
            "jwks_uri": "/jwks",
            "userinfo_endpoint": "/userinfo",
            "end_session_endpoint": "/logout",
        }
        return {
            "issuer": self.issuer,
            **{name: self.issuer + path for name, path in ends.items()},
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Where the authorization endpoint sends a browser."""
        back = {"state": query["state"], "iss": self.issuer}
        if self.denied:
            back["error"] = self.denied
        else:
            back["code"] = secrets.token_urlsafe(16)
            self.codes[back["code"]] = query
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def exchange(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Tokens for a code; None where the code is used up, or the client or its proof is not right."""
        credentials = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        begun = self.codes.pop(form.get("code", ""), None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).decode()
        if (
            begun is None
            or authorization != f"Basic {credentials}"
            or form.get("redirect_uri") != begun["redirect_uri"]
            or (begun["code_challenge"], begun["code_challenge_method"]) != (proof.rstrip("="), "S256")
        ):
            return None
        now = int(time.time())
        about = {"iss": self.issuer, "aud": self.client_id, "iat": now, "exp": now + SECONDS, "nonce": begun["nonce"]}
        self.issued.append(self.signed(self.tamper({**about, **self.claims})))
        return {"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": self.issued[-1]}


def _handler(provider: FakeOidcProvider) -> type[FakeHandler]:
    class Handler(FakeHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = _flat(parts.query)
            provider.requests.append((parts.path, query))
            if provider.status != 200:
                self.answer(provider.status, {"error": "told to fail"})
            elif parts.path == "/authorize" and provider.asks:
                page = f'<a href="{escape(provider.authorize(query))}">Go on</a>'.encode()
                self.answer(200, page, {"Content-Type": "text/html"})
            elif parts.path == "/authorize":
                self.answer(302, {}, {"Location": provider.authorize(query)})
            elif parts.path == "/logout":
                self.answer(302, {}, {"Location": query["post_logout_redirect_uri"]})
            elif parts.path == "/userinfo":
                authorised = self.headers["Authorization"] == "Bearer access"
                self.answer(200 if authorised else 401, {"sub": provider.claims["sub"], **provider.userinfo})
            elif parts.path == "/jwks":
                self.answer(200, dict(KeySet([signing_key()]).as_dict(private=False)))
            else:
                self.answer(200, provider.discovery())

        def do_POST(self) -> None:
            form = _flat(self.rfile.read(int(self.headers["Content-Length"])).decode())
            provider.requests.append((self.path, form))
            if provider.status != 200:
                self.answer(provider.status, {"error": "told to fail"})
                return
            tokens = provider.exchange(form, self.headers["Authorization"] or "")
            self.answer(200 if tokens else 400, tokens or {"error": "invalid_grant"})

    return Handler


def _flat(query: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
