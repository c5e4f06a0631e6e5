"""Slow down password guessing. Tries are counted in the broker, where all web processes see them.

One counter is per account and address, so that nobody locks out others by guessing from elsewhere. One is per address,
which may not try a password on many accounts. Names share a fixed number of counters that expire, so that no flood of
names fills the broker. While the broker is offline, tries are not limited but logins still work.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv6Address, ip_address, ip_network
from unicodedata import normalize

from django.conf import settings
from django.utils.crypto import salted_hmac
from redis import Redis
from redis.exceptions import RedisError

from benchapp.models import User

log = logging.getLogger(__name__)

PER_ACCOUNT = 10  # tries at one account from one address, in the window
PER_ADDRESS = 100  # failed tries from one address
WINDOW_SECONDS = 900
COUNTERS = 2**16
BROKER_SECONDS = 2.0  # to wait for the broker


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """One try to log in as `name` from `address`."""

    name: str
    address: str

    def begin(self) -> int:
        """Count the try before the password is checked. Return the seconds to wait after too many, else 0."""
        try:
            pipeline = _broker().pipeline()
            pipeline.set(self._of_account, 0, ex=WINDOW_SECONDS, nx=True)
            pipeline.incr(self._of_account)
            pipeline.get(self._of_address)
            pipeline.ttl(self._of_account)
            pipeline.ttl(self._of_address)
            _, tries, failures, account_ends, address_ends = pipeline.execute()
        except (RedisError, OSError) as error:
            log.warning("tries to log in are not counted: %s", error)
            return 0
        waits = [account_ends] if tries > PER_ACCOUNT else []
        waits += [address_ends] if int(failures or 0) >= PER_ADDRESS else []
        if waits:
            self._tell("not looked at after too many tries")
        return max(1, *waits) if waits else 0

    def fail(self) -> None:
        """Record that the password was wrong."""
        self._tell("failed")
        with contextlib.suppress(RedisError, OSError):  # `begin` said so
            pipeline = _broker().pipeline()
            pipeline.set(self._of_address, 0, ex=WINDOW_SECONDS, nx=True)
            pipeline.incr(self._of_address)
            pipeline.execute()

    def succeed(self) -> None:
        """Record that the password was right: the count of this account starts again."""
        with contextlib.suppress(RedisError, OSError):
            _broker().delete(self._of_account)

    def _tell(self, how: str) -> None:
        """Log the account's number: people type passwords where the name belongs."""
        account = User.objects.filter(username=self.name).values_list("pk", flat=True).first()
        facts = {"account": account, "address": self.address}
        named = f"number {account}" if account else "unknown"
        log.warning("login %s: account %s, from %s", how, named, self.address, extra={"facts": facts})

    @property
    def _of_account(self) -> str:
        return _counter("account", normalize("NFKC", self.name).casefold(), _network(self.address))

    @property
    def _of_address(self) -> str:
        return _counter("address", _network(self.address))


def client_address(remote: str, forwarded: str) -> str:
    """Return the client's address: of the connection, or from X-Forwarded-For of a proxy in FORWARDED_ALLOW_IPS.

    Only the last address of that header is the proxy's own word; those before it are the client's.
    """
    address = forwarded.rpartition(",")[2].strip()
    return address if address and _is_address(address) and _is_trusted(remote) else remote


def _is_trusted(remote: str) -> bool:
    """Is it a trusted proxy? Without an address, the connection is a socket file that only a local proxy opens."""
    if not remote or "*" in settings.TRUSTED_PROXIES:
        return True
    return any(ip_address(remote) in ip_network(each, strict=False) for each in settings.TRUSTED_PROXIES)


def _is_address(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


def _network(address: str) -> str:
    """Return the network that counts as one: a household has 2^64 addresses of IPv6."""
    if not _is_address(address):
        return address
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or ip_network(f"{address}/64", strict=False))
    return address


def _counter(*words: str) -> str:
    """Return the counter's key. It depends on the secret key, so that nobody can aim at another one's."""
    digest = salted_hmac("login attempts", "\x00".join(words)).digest()
    return f"skillglass:login:{words[0]}:{int.from_bytes(digest[:8], 'big') % COUNTERS}"


@cache
def _client(url: str) -> Redis:
    return Redis.from_url(url, socket_timeout=BROKER_SECONDS, socket_connect_timeout=BROKER_SECONDS)


def _broker() -> Redis:
    return _client(settings.REDIS_URL)
