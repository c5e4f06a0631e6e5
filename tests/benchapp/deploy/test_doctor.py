"""`manage.py doctor`: what is there, what is missing, and never a secret."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from benchapp.deploy import embedded_broker as embedded
from benchapp.management.commands import doctor as doctor_checks
from benchapp.management.commands.doctor import KEYS, DoctorFinding, findings
from runner.programs import find_installed, pin_of
from runner.sandboxes.docker import docker_builds
from runner.sandboxes.docker.docker_programs import volume_name

pytestmark = pytest.mark.django_db

SECRET = "sk-never-to-be-shown"


def doctor() -> tuple[str, int]:
    out = StringIO()
    try:
        call_command("doctor", stdout=out, no_color=True)
    except SystemExit as error:
        return out.getvalue(), int(error.code or 0)
    return out.getvalue(), 0


def found(name: str) -> DoctorFinding:
    return next(finding for finding in findings() if finding.name == name)


@pytest.fixture(autouse=True)
def _no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> str:
        raise ConnectionError("no engine at the socket")

    monkeypatch.setattr(doctor_checks, "_base_image_there", away)
    monkeypatch.setattr(doctor_checks, "connect", lambda **_: away())


@pytest.fixture
def embedded_broker(settings: Any, tmp_path: Path) -> None:
    settings.REDIS_URL, settings.EMBEDDED_BROKER = embedded.broker_url(tmp_path), True


def test_it_is_content_with_what_the_demo_needs(embedded_broker: None) -> None:
    text, status = doctor()
    assert status == 0
    assert "The demo has everything it needs." in text
    assert "embedded Valkey, not running" in text


def test_a_named_broker_that_does_not_answer_is_fatal() -> None:
    text, status = doctor()
    assert status == 1
    assert "missing  Broker: REDIS_URL does not answer" in text
    assert "The demo cannot run: Broker." in text


def test_every_missing_thing_says_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    missing = [finding for finding in findings() if not finding.is_there]
    assert {"Docker", *KEYS} <= {finding.name for finding in missing}
    assert all(finding.cost for finding in missing)


@pytest.mark.parametrize("suffix", ["", "_FILE"])
def test_keys_are_told_by_name_only(monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setenv(f"OPENAI_API_KEY{suffix}", SECRET)
    text, _ = doctor()
    assert "OPENAI_API_KEY: set\n" in text
    assert SECRET not in text


def test_a_missing_engine_is_named_with_its_reason() -> None:
    docker = found("Docker")
    assert (docker.is_there, docker.detail, docker.is_fatal) == (False, "no engine at the socket", False)


def test_a_missing_base_image_says_what_it_costs() -> None:
    image = found("Base image")
    assert (image.is_there, image.is_fatal) == (False, False)
    assert "SKILLGLASS_BASE_IMAGE" in image.cost


class Engine:
    """Answers as an engine would whose kernel lacks the accounting of swap."""

    told: dict[str, Any] = {
        "Name": "elsewhere",
        "Driver": "overlay2",
        "DriverStatus": [["Backing Filesystem", "extfs"]],
        "DockerRootDir": "/var/lib/docker",
        "NCPU": 2,
        "MemTotal": 8 * 1024**3,
        "MemoryLimit": True,
        "CpuCfsQuota": True,
        "PidsLimit": True,
    }

    def __init__(self, volumes: list[str] | None = None) -> None:
        self.names = volumes or []

    def info(self) -> dict[str, Any]:
        return self.told

    def version(self) -> dict[str, Any]:
        return {"Version": "28.0.0", "ApiVersion": "1.48"}

    def volumes(self) -> dict[str, Any]:
        return {"Volumes": [{"Name": name} for name in self.names]}

    def close(self) -> None: ...


def test_it_tells_where_the_engine_is_and_how_it_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "connect", lambda **_: Engine())
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert found("Docker").detail == "engine 28.0.0 on elsewhere"
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.7:2376")
    assert found("Docker").detail == "engine 28.0.0 on elsewhere, by tcp://10.0.0.7:2376"


def test_it_tells_the_engines_storage_and_the_limits_it_does_not_enforce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "connect", lambda **_: Engine())
    assert found("Docker storage").detail == "overlay2 on extfs, in /var/lib/docker; 2 processors, 8.0 GiB of memory"
    limits = found("Docker limits")
    assert (limits.is_there, limits.detail) == (False, "the engine does not enforce: swap")


def test_it_tells_how_well_the_disk_is_watched_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_checks, "connect", lambda **_: Engine())
    ours, anothers = tmp_path / "ours", tmp_path / "anothers"
    for folder, name in ((ours, "1f"), (anothers, "2e")):
        folder.mkdir()
        (folder / "engine-id").write_text(name)
    unseen = "cannot be read from here"
    for root, told in ((ours, "disk watched from outside"), (anothers, unseen), (tmp_path / "x", unseen)):
        answer = {**Engine.told, "SwapLimit": True, "DockerRootDir": str(root), "ID": "1f"}
        monkeypatch.setattr(Engine, "told", answer)
        assert found("Docker limits").detail.endswith(told)


def test_without_an_engine_its_storage_and_limits_are_missing_too() -> None:
    assert {found("Docker storage").detail, found("Docker limits").detail} == {"no engine at the socket"}


def test_it_tells_whether_buildkit_is_there_and_what_its_absence_costs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plugin = tmp_path / "cli-plugins" / "docker-buildx"
    plugin.parent.mkdir()
    plugin.write_text("")
    plugin.chmod(0o755)
    monkeypatch.setattr(doctor_checks, "connect", lambda **_: Engine())
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert found("BuildKit").detail == f"the engine's own, through {plugin}"
    monkeypatch.setattr(Engine, "version", lambda self: {"Version": "20.10.24", "ApiVersion": "1.41"})
    old = found("BuildKit")
    assert (old.is_there, old.detail) == (False, "update the engine to Docker 23.0 or newer")
    assert "heredocs" in old.cost
    plugin.unlink()
    monkeypatch.setattr(docker_builds, "_ROOTS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found("BuildKit").detail.startswith("install buildx where the worker runs")


def test_it_says_whether_tasks_of_several_services_can_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plugin = tmp_path / "cli-plugins" / "docker-compose"
    plugin.parent.mkdir()
    plugin.write_text("")
    plugin.chmod(0o755)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert found("Compose").detail == str(plugin)
    plugin.unlink()
    monkeypatch.setattr(docker_builds, "_ROOTS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = found("Compose")
    assert (missing.is_there, missing.detail.startswith("install Docker's plugin compose")) == (False, True)
    assert missing.cost == "tasks of several services cannot run"


def test_it_tells_which_programs_are_installed_and_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKILLGLASS_PROGRAMS", str(tmp_path))
    pin = pin_of("codex")
    told = f"{pin.version} ({pin.digest[:12]})"
    missing = found("Program codex")
    assert (missing.is_there, missing.detail) == (False, f"pinned {told}, not installed")
    assert missing.cost.endswith("manage.py install_program codex")
    start = tmp_path / pin.installation / "bin" / "codex"
    start.parent.mkdir(parents=True)
    start.write_text("#!/bin/sh\n")
    assert found("Program codex").detail == f"{told}, installed; no engine to load it into"
    monkeypatch.setattr(doctor_checks, "connect", lambda **_: Engine())
    assert found("Program codex").detail.endswith("no volume on the engine yet: the first trial loads it")
    monkeypatch.setattr(doctor_checks, "connect", lambda **_: Engine([volume_name(find_installed("codex"))]))
    assert found("Program codex").detail == f"{told}, installed; its volume is on the engine"


def test_an_old_python_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks.sys, "version_info", (3, 10, 4))
    assert (found("Python").is_fatal, found("Python").detail) == (True, "3.10.4")


def test_a_data_folder_that_cannot_be_written_is_fatal(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(doctor_checks.os, "access", lambda *_: False)
    assert found("Data folder").is_fatal


def test_a_data_folder_that_is_not_made_yet_is_judged_by_where_it_will_lie(settings: Any, tmp_path: Path) -> None:
    settings.VAR_DIR = tmp_path / "not" / "yet"
    assert found("Data folder").is_there
    assert found("Disk").detail.endswith("GiB free")
