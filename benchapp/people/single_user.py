"""Single-user mode means: whoever reaches the pages may do everything. So nothing but this machine may reach them."""

from __future__ import annotations

from ipaddress import ip_address

from django.conf import settings
from django.core.checks import Error, Tags, register

from runner.base.var_folder import MANAGE

# "testserver" is the name under which Django's own test client calls; no network resolves it.
LOOPBACK_NAMES = ("localhost", "testserver")


def strange_hosts() -> list[str]:
    """Those of ALLOWED_HOSTS that may name more than this machine. A bare domain of ours is one: anybody can resolve it."""
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
    """SINGLE_USER and a public name exclude each other."""
    hosts = strange_hosts() if settings.SINGLE_USER else []
    if not hosts:
        return []
    hint = f"Unset SINGLE_USER and make accounts with `{MANAGE} add_user`, or name loopback hosts alone."
    said = f"SINGLE_USER gives every visitor every right, but ALLOWED_HOSTS also names {', '.join(hosts)}."
    return [Error(said, hint=hint, id="skillglass.E001")]
