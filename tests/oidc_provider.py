"""A provider of OpenID Connect on this machine: real HTTP, keys and tokens of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests
from oidc_provider_mock import run_server_in_thread

SECRET_METHOD = "client_secret_post"


@dataclass(frozen=True, slots=True)
class OidcProvider:
    issuer: str
    client_id: str
    client_secret: str

    def configure(self, settings: Any) -> None:
        """Let the installation under test use this provider, and let everybody in as viewer."""
        settings.OIDC_ISSUER = self.issuer
        settings.OIDC_CLIENT_ID = self.client_id
        settings.OIDC_CLIENT_SECRET = self.client_secret
        settings.OIDC_NAME = "Example ID"
        settings.OIDC_LEVEL = "viewer"
        settings.OIDC_DOMAINS = []

    def add_person(self, subject: str, **claims: object) -> None:
        requests.put(f"{self.issuer}/users/{subject}", json=claims, timeout=10).raise_for_status()

    def answer(self, address: str, **form: str) -> str:
        """Do at the provider's page what a person does there. Return the address that it leads to."""
        response = requests.post(address, data=form, allow_redirects=False, timeout=10)
        assert response.status_code == 302, response.text
        return response.headers["Location"]


@contextmanager
def run_provider(callback: str) -> Iterator[OidcProvider]:
    """A provider that knows one client, with this callback address alone."""
    with run_server_in_thread(require_client_registration=True) as server:
        issuer = f"http://localhost:{server.server_port}"
        wanted = {"redirect_uris": [callback], "token_endpoint_auth_method": SECRET_METHOD}
        client = requests.post(f"{issuer}/oauth2/clients", json=wanted, timeout=10).json()
        yield OidcProvider(issuer, client["client_id"], client["client_secret"])
