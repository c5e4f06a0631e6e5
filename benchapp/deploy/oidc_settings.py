"""Check the OIDC_* variables at the start, before anyone meets an error at the login form."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

LEVELS = ("none", "viewer", "reviewer", "operator")  # only an admin makes an admin
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MAX_ISSUER = 200  # characters; it is kept with each account


def check(issuer: str, client_id: str, client_secret: str, level: str) -> None:
    """Raise ImproperlyConfigured for settings that cannot work, by name and without the secret."""
    needed = {"OIDC_ISSUER": issuer, "OIDC_CLIENT_ID": client_id, "OIDC_CLIENT_SECRET": client_secret}
    missing = [name for name, value in needed.items() if not value]
    if missing and len(missing) < len(needed):
        raise ImproperlyConfigured(f"{' and '.join(missing)} not set: expected all of {', '.join(needed)}, or none")
    if level not in LEVELS:
        raise ImproperlyConfigured(f"OIDC_LEVEL={level!r}: expected one of {', '.join(LEVELS)}")
    if issuer:
        address = urlsplit(issuer)
        is_private = address.scheme == "https" or (address.scheme == "http" and address.hostname in LOOPBACK)
        if not is_private or not address.hostname or len(issuer) > MAX_ISSUER:
            raise ImproperlyConfigured(
                f"OIDC_ISSUER={issuer!r}: expected an address that begins with https://, at most {MAX_ISSUER} characters"
            )
