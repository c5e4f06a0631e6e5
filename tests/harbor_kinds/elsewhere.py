"""A kind of environment for Harbor that is far away: Docker's, without what only an engine on this machine can do.

Run by Harbor's own Python. Nothing can be mounted, no compose file of ours is read, and it starts as Harbor starts it.
"""

from __future__ import annotations

from typing import Any

from harbor.environments.docker.docker import DockerEnvironment  # type: ignore[import-not-found]


class Elsewhere(DockerEnvironment):  # type: ignore[misc]
    @property
    def capabilities(self) -> Any:
        return super().capabilities.model_copy(update={"mounted": False, "docker_compose": False})

    def _validate_extra_docker_compose_support(self) -> None:
        assert not self.extra_docker_compose_paths


class Unfiltered(Elsewhere):
    """Its kernel filters nothing, wherever that is."""

    @classmethod
    def _egress_control_kernel_support(cls) -> bool:
        return False
