"""The connection to the Docker engine, and what each of its failures means for the attempt."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import docker
import requests
import urllib3
from docker import APIClient
from docker.errors import APIError, DockerException, NotFound

from runner.base.errors import SandboxError
from runner.base.text import cut
from runner.sandboxes.processes import this_process

LABEL = "skillglass"  # on everything we create
MARK_LABEL = "skillglass.mark"  # one per attempt: container, network and volumes of a sandbox share it
OWNER_LABEL = "skillglass.owner"  # the process that opened it, as ProcessName spells it
ATTEMPT_LABEL = "skillglass.attempt"
CARRIER_LABEL = "skillglass.carrier"  # a container that only loads a program into its volume
PREFIX = "skillglass-"
_NO_SSH = (
    "DOCKER_HOST: expected unix:// or tcp://, not ssh://. Forward the engine's socket, `ssh -N -L"
    " /run/skillglass/engine.sock:/var/run/docker.sock HOST`, and name the forwarded one (docs/how-to/deploy.md)"
)
_PAUSE = 0.2  # between two questions whether a container is gone
API_SECONDS = 120.0  # the longest silence of the engine on an ordinary request
# Errors of the connection to the engine; the last one comes from streams that are read to their end.
FAILURES = (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError)
_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


def _merge_settings(
    client: APIClient, url: str, proxies: object, stream: object, verify: object, cert: object
) -> object:
    """Trust what DOCKER_CERT_PATH says. In requests, REQUESTS_CA_BUNDLE (for the web) would take precedence."""
    chosen = client.verify if verify is None else verify
    return APIClient.merge_environment_settings(client, url, proxies, stream, chosen, cert)


EngineClient = type("EngineClient", (APIClient,), {"merge_environment_settings": _merge_settings})


def connect(timeout: float = API_SECONDS) -> APIClient:
    """Return a client of the engine that DOCKER_HOST names, or of this machine's. SandboxError if none answers."""
    if os.environ.get("DOCKER_HOST", "").startswith("ssh://"):
        raise SandboxError(_NO_SSH)
    try:
        client = EngineClient(**docker.utils.kwargs_from_env(), version="auto", timeout=timeout)
    except (DockerException, requests.RequestException, OSError) as error:
        raise SandboxError(f"no Docker engine answers; start it or set DOCKER_HOST: {first_line(error)}") from error
    return client


@contextmanager
def hold_lock(name: str) -> Iterator[None]:
    """Allow one holder of this name at a time, among the processes of this machine."""
    place = Path(tempfile.gettempdir(), f"{PREFIX}{os.getuid()}-{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock")
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn errors of the engine or the connection into SandboxError with the name of the operation."""
    try:
        yield
    except APIError as error:
        raise SandboxError(word_engine_error(doing, str(error.explanation or error))) from error
    except FAILURES as error:
        raise SandboxError(word_engine_error(doing, first_line(error))) from error


def word_engine_error(doing: str, said: str) -> str:
    if _FULL.search(said):
        return f"{doing}: the engine's disk is full: {said.strip()[:500]}"
    return f"{doing}: {cut(said.strip(), 2_000)}"


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]


@cache
def engine_id(base_url: str) -> str:
    """Identify the engine behind this address, so that nobody acts on another one's containers."""
    client = connect()
    try:
        with engine_errors("asking the engine for its name"):
            return str(client.info()["ID"])
    finally:
        client.close()


@cache
def processors(base_url: str) -> int:
    client = connect()
    try:
        with engine_errors("asking the engine for its processors"):
            return int(client.info()["NCPU"])
    finally:
        client.close()


def labels(mark: str, *, task: str = "", attempt: str = "") -> dict[str, str]:
    """Labels that mark an object as ours, and name its owner."""
    return {
        LABEL: "1",
        MARK_LABEL: mark,
        OWNER_LABEL: str(this_process()),
        ATTEMPT_LABEL: attempt,
        "skillglass.task": task[:200],
        "skillglass.host": socket.gethostname(),
    }


KINDS = ("container", "volume", "network")  # in this order: a container uses the others


def list_labelled(client: APIClient, kind: str, wanted: list[str]) -> list[tuple[str, dict[str, str]]]:
    """(name or id, labels) of all of `kind` that carry the wanted labels."""
    filters = {"label": wanted}
    with engine_errors(f"listing each {kind}"):
        if kind == "container":
            return [(row["Id"], row["Labels"] or {}) for row in client.containers(all=True, filters=filters)]
        if kind == "volume":
            return [(row["Name"], row["Labels"] or {}) for row in client.volumes(filters=filters)["Volumes"] or ()]
        return [(row["Id"], row["Labels"] or {}) for row in client.networks(filters=filters)]


def is_gone(client: APIClient, container: str) -> bool:
    """Was it removed, or is it being removed?"""
    with engine_errors("looking for the container"):
        try:
            state = client.inspect_container(container)["State"]
        except NotFound:
            return True
    return bool(state.get("Dead")) or state.get("Status") == "removing"


def remove(client: APIClient, kind: str, name: str) -> None:
    """Make sure that it is gone, whether we or another process removed it. SandboxError if it stays."""
    with engine_errors(f"removing the {kind} {name[:40]}"):
        try:
            if kind == "container":
                client.remove_container(name, force=True, v=True)
            elif kind == "volume":
                client.remove_volume(name, force=True)
            else:
                client.remove_network(name)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409 or "already in progress" not in str(error.explanation):
                raise
            _await_removal(client, name)


def _await_removal(client: APIClient, container: str) -> None:
    """Wait until a container that another process removes is gone: until then it holds its volumes and networks."""
    until = time.monotonic() + client.timeout
    while time.monotonic() < until:
        try:
            client.inspect_container(container)
        except NotFound:
            return
        time.sleep(_PAUSE)
    raise SandboxError(f"the container {container[:40]} is still being removed")
