"""Read typed settings from the environment. An invalid value stops the start, by name: nobody should meet an error of
the OIDC_* variables at the login form."""

from __future__ import annotations

import os
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def flag(name: str) -> bool:
    value = text(name)
    if value.lower() in {"1", "true", "yes", "on"}:
        return True
    if value.lower() in {"", "0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name}={value!r}: expected one of 1, true, yes, on, 0, false, no, off")


def number(name: str, default: int) -> int:
    value = text(name)
    try:
        return int(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name}={value!r}: expected a whole number") from None


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str, default: str = "") -> list[str]:
    """Parse addresses and networks (`10.0.0.0/8`), or `*` for all."""
    found = words(name, default)
    for word in found:
        try:
            if word != "*":
                ip_network(word, strict=False)
        except ValueError:
            raise ImproperlyConfigured(f"{name}: {word!r} is not an address, a network or *") from None
    return found


def secret(name: str) -> str:
    """Return the value of NAME, or the content of the file that NAME_FILE points at."""
    path = text(f"{name}_FILE")
    if not path:
        return text(name)
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE={path!r}: {error.strerror}") from None


def parse_database(url: str) -> dj_database_url.DBConfig:
    """Parse the address of the database. It may name several hosts, each with a port, as libpq's does."""
    address = urlsplit(url)
    login, at, places = address.netloc.rpartition("@")
    each = [place.partition(":") for place in places.split(",")]
    alone = address._replace(netloc=f"{login}{at}{places.partition(',')[0]}").geturl() if len(each) > 1 else url
    # Health checks: a restarted server costs no request.
    parsed = dj_database_url.parse(alone, conn_max_age=60, conn_health_checks=True)
    if len(each) > 1:
        parsed["HOST"] = ",".join(host for host, _, _ in each)
        parsed["PORT"] = ",".join(port or "5432" for _, _, port in each)
    return parsed


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
                f"OIDC_ISSUER={issuer!r}: expected an address that begins with https://, at most {MAX_ISSUER} "
                "characters"
            )
