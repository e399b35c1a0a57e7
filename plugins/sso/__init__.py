"""Single sign-on: people come in by an OpenID Connect provider, or by a proxy that has signed them in."""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(
    name="sso",
    summary="Sign people in by OpenID Connect or by the headers of a proxy.",
    settings="plugins.sso.settings:SsoSettings",
    authenticators=("plugins.sso.authenticator:SsoAuthenticator",),
    checks=("plugins.sso.authenticator:check_provider",),
)
