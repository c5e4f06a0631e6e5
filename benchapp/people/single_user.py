"""In single-user mode everybody who reaches the pages may do everything, so only this machine may reach them."""

from __future__ import annotations

from ipaddress import ip_address

from django.conf import settings
from django.core.checks import Error, Tags, register

from runner.base.var_folder import MANAGE

# Django's own test client calls as "testserver"; no network resolves it.
LOOPBACK_NAMES = ("localhost", "testserver")


def strange_hosts() -> list[str]:
    """List the ALLOWED_HOSTS that may be more than this machine, such as a domain that anybody can resolve."""
    return [host for host in settings.ALLOWED_HOSTS if not is_loopback(host)]


def is_loopback(host: str) -> bool:
    """Does the host name this machine and nothing else?"""
    if host in LOOPBACK_NAMES or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@register(Tags.security)
def check_single_user(app_configs: object = None, **kwargs: object) -> list[Error]:
    """Return an error where SINGLE_USER is combined with a public name."""
    hosts = strange_hosts() if settings.SINGLE_USER else []
    if not hosts:
        return []
    hint = f"Unset SINGLE_USER and make accounts with `{MANAGE} add_user`, or name loopback hosts alone."
    said = f"SINGLE_USER gives every visitor every right, but ALLOWED_HOSTS also names {', '.join(hosts)}."
    return [Error(said, hint=hint, id="skillglass.E001")]
