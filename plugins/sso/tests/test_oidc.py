"""Signing in with an OpenID Connect provider: who comes in as whom, and what nobody comes in with."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from pydantic import ValidationError

from plugins.sso import SsoSettings
from plugins.sso.authenticator import check_provider
from plugins.sso.tests.oidc_provider import FakeOidcProvider, sign, signing_key
from server.settings import Settings
from server.store import credentials
from tests.door import Door, OpenDoor, opened
from tests.serving import as_new

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ADDRESSES = itertools.count(1)


@pytest.fixture(scope="module")
def serving_provider() -> Iterator[FakeOidcProvider]:
    with FakeOidcProvider() as provider:
        yield provider


@pytest.fixture
def provider(serving_provider: FakeOidcProvider) -> FakeOidcProvider:
    """The provider as it is at first."""
    return as_new(serving_provider)


@pytest.fixture(scope="module")
def opened_door(serving_provider: FakeOidcProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    # A proxy is believed, so that each test's browsers have an address of their own: failures are counted by address.
    groups = {"plugins": {"sso": settings(serving_provider)}, "server": {"proxies": ["127.0.0.1"]}}
    with opened(tmp_path_factory.mktemp("door"), **groups) as door:
        yield door


@pytest.fixture
def door(opened_door: Door, provider: FakeOidcProvider) -> Door:
    opened_door.headers = {"X-Forwarded-For": f"192.0.2.{next(ADDRESSES)}"}
    return opened_door


@pytest.fixture
def new_door(open_door: OpenDoor, provider: FakeOidcProvider) -> Door:
    """A door that has not asked the provider anything yet."""
    return open_door(plugins={"sso": settings(provider)})


def settings(provider: FakeOidcProvider, **changes: object) -> dict[str, Any]:
    client = {"client_id": provider.client_id, "client_secret": provider.client_secret}
    return {"issuer": provider.issuer, **client, "groups_claim": "groups", **changes}


def to_provider(client: httpx.Client, following: str = "/") -> str:
    """Begin to sign in; the address at the provider."""
    sent = client.get("/login/oidc", params={"next": following})
    assert sent.status_code == 302, sent.text
    return sent.headers["location"]


def at_provider(address: str) -> str:
    """The parameters of the provider's redirect."""
    return httpx.get(address, verify=False).headers["location"]


def sign_in(client: httpx.Client, following: str = "/") -> httpx.Response:
    return client.get(at_provider(to_provider(client, following)))


def test_a_person_comes_in_by_the_provider(door: Door, provider: FakeOidcProvider) -> None:
    with door.client() as client:
        refused = client.get("/a?b=c", headers={"Accept": "text/html"})
        assert refused.headers["location"] == "/login?next=/a"
        page = client.get(refused.headers["location"])
        assert f"Sign in with {urlsplit(provider.issuer).netloc}" in page.text
        assert 'href="/login/oidc?next=/a"' in page.text
        address = to_provider(client, "/a")
        parameters = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
        assert parameters["redirect_uri"] == f"{door.url}/login/callback"
        assert parameters["scope"] == "openid profile email"
        assert parameters["code_challenge_method"] == "S256"
        assert len(parameters["nonce"]) >= 20
        assert len(parameters["state"]) >= 20
        done = client.get(at_provider(address))
        assert done.status_code == 200
        assert '<meta http-equiv="refresh" content="0;url=/a">' in done.text
        assert "anaphora_sign_in" not in client.cookies
        who = client.get("/").json()
    assert who["id"] == f"oidc:{provider.issuer}:u1"
    assert (who["name"], who["role"], who["groups"]) == ("Ada", "reader", ["docs"])
    assert who["origin"] == door.headers["X-Forwarded-For"]


def test_no_button_is_shown_where_no_provider_is_set(open_door: Door) -> None:
    with open_door().client() as client:
        assert "Sign in with" not in client.get("/login").text
        assert client.get("/login/oidc").status_code == 404
        assert client.get("/login/callback").status_code == 404


def test_cookies_are_kept_from_scripts_and_other_sites(door: Door) -> None:
    with door.client() as client:
        begun = client.get("/login/oidc").headers["set-cookie"]
        assert all(word in begun for word in ("HttpOnly", "Path=/login", "SameSite=lax", "Max-Age=600"))
        cookies = sign_in(client).headers.get_list("set-cookie")
        session = next(cookie for cookie in cookies if cookie.startswith("anaphora_session="))
        assert all(word in session for word in ("HttpOnly", "Path=/", "SameSite=strict", f"Max-Age={12 * 3600}"))
        secret = client.cookies["anaphora_session"]
    stored = door.database.read_blocking(
        lambda connection: connection.exec_driver_sql("SELECT * FROM sessions").fetchone()
    )
    assert secret not in [str(value) for value in stored]
    assert stored.expires == pytest.approx(time.time() + 12 * 3600, abs=30)


@pytest.mark.parametrize(
    ("changes", "claims", "role", "groups"),
    [
        ({}, {"groups": ["/docs", "b", "a b", "..", "x" * 65, "*", 7, ""]}, "reader", ["b", "docs"]),
        ({}, {"groups": "docs"}, "reader", ["docs"]),
        ({"roles": {"lead": "operator", "docs": "agent"}}, {"groups": ["docs", "lead"]}, "operator", ["docs", "lead"]),
        ({"roles": {"The Team": "agent"}}, {"groups": ["docs", "The Team"]}, "agent", ["docs"]),
        ({"every_group": ["root"], "roles": {"root": "operator"}}, {"groups": ["root"]}, "operator", ["*"]),
        ({"groups_claim": "", "default_role": "agent"}, {"groups": ["root"]}, "agent", ["default"]),
        ({"groups_claim": "https://x.example/teams"}, {"https://x.example/teams": ["b"]}, "reader", ["b"]),
        ({}, {"groups": [f"g{n:04}" for n in range(1000)]}, "reader", [f"g{n:04}" for n in range(200)]),
    ],
)
def test_claims_become_a_role_and_groups(
    open_door: Door, provider: FakeOidcProvider, changes: dict[str, Any], claims: dict[str, Any], role: str, groups: Any
) -> None:
    provider.claims |= claims
    with open_door(plugins={"sso": settings(provider, **changes)}).client() as client:
        assert sign_in(client).status_code == 200
        who = client.get("/").json()
    assert (who["role"], who["groups"]) == (role, groups)


def test_what_the_id_token_leaves_out_is_in_the_userinfo(door: Door, provider: FakeOidcProvider) -> None:
    provider.claims = {"sub": "u1"}
    provider.userinfo = {"name": "A\u202e\n" * 500, "groups": ["docs"]}
    with door.client() as client:
        assert sign_in(client).status_code == 200
        who = client.get("/").json()
        assert who["groups"] == ["docs"]
        assert 0 < len(who["name"]) <= 100
        assert "\u202e" not in who["name"]
        provider.userinfo["sub"] = "somebody else"
        assert sign_in(client).status_code == 502


@pytest.mark.parametrize("claims", [{"groups": []}, {"groups": ["no group"]}, {"groups": None}, {"sub": "u" * 1000}])
def test_who_is_in_no_group_is_told_so(door: Door, provider: FakeOidcProvider, claims: dict[str, object]) -> None:
    provider.claims |= claims
    with door.client() as client:
        refused = sign_in(client)
        assert refused.status_code == 403
        assert "This account" in refused.text or "this account" in refused.text
        assert client.get("/").status_code == 401


def by_public_key(claims: dict[str, Any]) -> str:
    token = encoded({"alg": "HS256", "kid": "fake"}, claims)
    signature = hmac.digest(signing_key().as_pem(private=False), token.encode(), hashlib.sha256)
    return f"{token}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def with_key_inside(claims: dict[str, Any]) -> str:
    own = RSAKey.generate_key(2048)
    return jwt.encode({"alg": "RS256", "jwk": own.as_dict(private=False)}, claims, own)


def encoded(*parts: dict[str, Any]) -> str:
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


KID = {"kid": "fake"}
FORGED: dict[str, Callable[[dict[str, Any]], str]] = {
    "public key": by_public_key,
    "client secret": lambda claims: jwt.encode({"alg": "HS256"}, claims, OctKey.import_key("shared-secret")),
    "own key": lambda claims: jwt.encode({"alg": "RS256", **KID}, claims, RSAKey.generate_key(2048, {**KID})),
    "key inside": with_key_inside,
    "none": lambda claims: encoded({"alg": "none", **KID}, claims) + ".",
    "changed": lambda claims: sign(claims)[:-4] + "AAAA",
    "no token": lambda claims: "no token",
    "empty": lambda claims: "",
}


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
@pytest.mark.parametrize("signed", FORGED.values(), ids=FORGED)
def test_only_the_providers_signature_counts(
    door: Door, provider: FakeOidcProvider, signed: Callable[[dict[str, Any]], str]
) -> None:
    provider.signed = signed
    with door.client() as client:
        refused = sign_in(client)
        assert refused.status_code == 401
        assert "log says why" in refused.text
        assert "anaphora_session" not in client.cookies


UNTRUSTED: list[dict[str, object]] = [
    *({"nonce": nonce} for nonce in ("another", None)),
    *({"aud": audience} for audience in ("another", ["anaphora", "another"], None)),
    *({"iss": issuer} for issuer in ("https://evil.example", None)),
    {"azp": "another"}, {"sub": None}, {"exp": None}, {"exp": "soon"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        *((change, "cannot be trusted") for change in UNTRUSTED),
        ({"exp": 1}, "clocks"),
        ({"iat": 4102444800, "exp": 4102444900}, "clocks"),
    ],
)
def test_an_id_token_for_somebody_or_something_else_is_refused(
    door: Door, provider: FakeOidcProvider, change: dict[str, object], reason: str
) -> None:
    provider.tamper = lambda claims: {name: value for name, value in {**claims, **change}.items() if value is not None}
    with door.client() as client:
        refused = sign_in(client)
        assert refused.status_code == 401
        assert reason in refused.text
        assert "anaphora_session" not in client.cookies
        assert client.get("/").status_code == 401


def test_clocks_may_be_a_minute_apart(door: Door, provider: FakeOidcProvider) -> None:
    now = int(time.time())
    with door.client() as client:
        for shift in (-45, 45):
            provider.tamper = lambda claims, shift=shift: {**claims, "iat": now + shift, "exp": now + shift + 1}
            assert sign_in(client).status_code == 200


def test_a_way_back_counts_once_and_only_for_the_browser_that_began(door: Door, provider: FakeOidcProvider) -> None:
    with door.client() as victim, door.client() as attacker:
        back = at_provider(to_provider(attacker))
        assert "begun elsewhere" in victim.get(back).text
        to_provider(victim)
        assert "begun elsewhere" in victim.get(back).text
        assert "anaphora_session" not in victim.cookies
        begun = dict(attacker.cookies)
        assert attacker.get(back).status_code == 200
        again = attacker.get(back)
        assert again.status_code == 401
        assert "begun elsewhere" in again.text
        # Nor with the cookie kept: the provider knows the code no more.
        replayed = door.get(back, cookies=begun)
        assert replayed.status_code == 401
        assert "Start again" in replayed.text


@pytest.mark.parametrize("cookie", ["", "x", "e30", base64.b64encode(b'{"state": 1}').decode(), "~~~", "W10"])
def test_a_cookie_of_ones_own_making_is_no_beginning(door: Door, cookie: str) -> None:
    with door.client() as client:
        answer = client.get("/login/callback?code=x&state=", headers={"Cookie": f"anaphora_sign_in={cookie}"})
        assert answer.status_code == 401


@pytest.mark.parametrize("issuer", ["https://evil.example", ""])
def test_an_answer_of_another_provider_is_refused(door: Door, provider: FakeOidcProvider, issuer: str) -> None:
    """A code is not shown to this provider's token endpoint if another one may have given it (RFC 9207)."""
    with door.client() as client:
        back = httpx.URL(at_provider(to_provider(client)))
        parameters = back.params.set("iss", issuer) if issuer else back.params.remove("iss")
        assert client.get(back.copy_with(params=parameters)).status_code == 401
    assert "/token" not in [path for path, _ in provider.requests]


@pytest.mark.parametrize(
    "following", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/\n/evil", "x"]
)
def test_nobody_is_led_away(door: Door, following: str) -> None:
    with door.client() as client:
        done = sign_in(client, following)
    assert 'content="0;url=/"' in done.text
    assert "evil" not in done.text


def test_where_a_person_goes_on_is_no_html(door: Door) -> None:
    with door.client() as client:
        done = sign_in(client, '/"><script>alert(1)</script>')
        page = client.get("/login", params={"next": '/"><script>alert(1)</script>'})
    assert "<script>" not in done.text + page.text


def test_a_session_laid_under_a_browser_is_not_the_persons(door: Door) -> None:
    with door.client() as attacker, door.client() as victim:
        sign_in(attacker)
        planted = attacker.cookies["anaphora_session"]
        victim.cookies.set("anaphora_session", planted)
        to_begin = sign_in(victim)
        assert to_begin.status_code == 200
        header = to_begin.headers.get_list("set-cookie")
        assert not any(planted in cookie for cookie in header)
        assert door.get("/", cookies={"anaphora_session": planted}).status_code == 401


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"denied": "access_denied"}, 403, "cancelled"),
        ({"denied": "server_error"}, 401, "could not sign you in"),
        ({"client_secret": "another"}, 401, "did not accept"),
    ],
)
def test_a_refusal_of_the_provider_is_explained(
    door: Door, provider: FakeOidcProvider, change: dict[str, str], status: int, reason: str
) -> None:
    for name, value in change.items():
        setattr(provider, name, value)
    with door.client() as client:
        refused = sign_in(client)
    assert (refused.status_code, reason in refused.text) == (status, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("issuer", "https://evil.example"), ("token_endpoint", "http://evil.example/token"), ("jwks_uri", None),
     ("authorization_endpoint", "javascript:alert(1)")],
)  # fmt: skip
def test_a_provider_that_is_not_the_one_of_the_settings_is_not_used(
    new_door: Door, provider: FakeOidcProvider, name: str, value: str | None
) -> None:
    provider.metadata = {name: value}
    with new_door.client() as client:
        refused = client.get("/login/oidc")
    assert refused.status_code == 502
    assert "log says why" in refused.text


def test_a_provider_that_is_down_leaves_the_key_and_is_found_when_it_is_back(
    new_door: Door, provider: FakeOidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_door.client() as client:
        provider.status = 503
        for _ in range(3):
            refused = client.get("/login/oidc")
            assert refused.status_code == 502
            assert "does not answer now" in refused.text
        assert len(provider.requests) == 1
        monkeypatch.setattr("plugins.sso.authenticator.RETRY_SECONDS", 0.0)
        provider.status = 200
        assert sign_in(client).status_code == 200
        back = at_provider(to_provider(client))
        provider.status = 503
        assert "does not answer now" in client.get(back).text
    with new_door.client() as client:
        assert client.post("/login", data={"key": new_door.key()}).status_code == 303
        assert client.get("/").status_code == 200


def test_failed_ways_back_from_a_provider_count_too(open_door: OpenDoor) -> None:
    door = open_door(plugins={"sso": {"issuer": "https://login.example", "client_id": "x"}})
    with door.client() as client:
        statuses = [client.get("/login/callback?code=x&state=y").status_code for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2


def test_who_leaves_here_leaves_the_provider_too(door: Door, provider: FakeOidcProvider) -> None:
    with door.client() as client:
        sign_in(client)
        session = {"anaphora_session": client.cookies["anaphora_session"]}
        left = client.get("/logout")
        assert left.status_code == 303
        assert left.headers["location"].startswith(f"{provider.issuer}/logout?")
        assert httpx.get(left.headers["location"], verify=False).headers["location"] == f"{door.url}/login"
        assert provider.requests[-1][1]["id_token_hint"] == provider.issued[-1]
        assert door.get("/", cookies=session).status_code == 401


def test_a_provider_without_a_logout_is_left_alone(new_door: Door, provider: FakeOidcProvider) -> None:
    provider.metadata = {"end_session_endpoint": None}
    with new_door.client() as client:
        sign_in(client)
        assert client.get("/logout").headers["location"] == "/login"
        assert client.get("/").status_code == 401


def test_sessions_of_a_provider_that_was_taken_out_of_the_settings_end(
    open_door: Door, provider: FakeOidcProvider
) -> None:
    from server.access import Principal

    door = open_door(plugins={"sso": settings(provider, issuer="https://new.example")})
    old = Principal(f"oidc:{provider.issuer}:u1", "Ada", "reader", frozenset({"docs"}))
    session = door.database.write_blocking(lambda connection: credentials.begin_session(connection, old, 60))
    with door.client(cookies={"anaphora_session": session}) as client:
        assert client.get("/").status_code == 401


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://login.example", "client_id": "x"},
        {"issuer": "login.example", "client_id": "x"},
        {"issuer": "https://login.example"},
        {"issuer": "https://login.example", "client_id": "x", "roles": {"a": "operator"}},
        {"issuer": "https://login.example", "client_id": "x", "groups_claim": "g", "roles": {"a": "king"}},
        {"user_header": "Remote User"},
        {"user_header": "Cookie"},
        {"user_header": "Remote-User", "every_group": ["lead"]},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SsoSettings(**wrong)


def test_doctor_asks_the_provider(provider: FakeOidcProvider, tmp_path: Path) -> None:
    configured = Settings(home=tmp_path, plugins={"sso": settings(provider)})
    (finding,) = check_provider(configured)
    assert (finding.level, provider.issuer in finding.message) == ("ok", True)
    provider.metadata = {"issuer": "https://evil.example"}
    (finding,) = check_provider(configured)
    assert finding.level == "fail"
    assert "it calls itself https://evil.example" in finding.message
    assert list(check_provider(Settings(home=tmp_path))) == []


@pytest.mark.browser
def test_a_person_signs_in_at_another_site_and_leaves_it(browser: Browser, open_door: OpenDoor) -> None:
    with FakeOidcProvider(asks=True) as provider:
        door = open_door(plugins={"sso": settings(provider, groups_claim="")})
        # The provider is at 127.0.0.1, which a browser takes for another site.
        here = door.url.replace("127.0.0.1", "localhost")
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{here}/a")
        assert page.url == f"{here}/login?next=/a"
        page.get_by_text("Sign in with").click()
        page.get_by_text("Go on").click()
        page.wait_for_url(f"{here}/a")
        assert f'"id":"oidc:{provider.issuer}:u1"' in page.content()
        page.goto(f"{here}/logout")
        page.wait_for_url(f"{here}/login**")
        assert [path for path, _ in provider.requests][-1] == "/logout"
        assert page.goto(f"{here}/a").url == f"{here}/login?next=/a"  # type: ignore[union-attr]
        context.close()
