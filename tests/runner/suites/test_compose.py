"""A task's compose file: read where it describes one container, refused by name where it asks for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.base.errors import SuiteProblems
from runner.base.types import Task
from runner.suites import read_suite_folder
from runner.suites.compose import Compose, read_compose
from runner.suites.findings import Findings

# The shape of a public release: the build that happens anyway, keys of the host, log folders of the runner, and a mount.
RELEASED = """
services:
  main:
    build:
      context: ${CONTEXT_DIR}
    image: ${MAIN_IMAGE_NAME}
    command: [ "sh", "-c", "sleep infinity" ]
    environment:
      - API_TOKEN=${API_TOKEN}
      - MODE=offline
    volumes:
      - ${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}
      - ${HOME}/.config/cloud:/root/.config/cloud:ro
"""


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


def read(folder: Path, text: str) -> tuple[Compose, Findings]:
    findings, source = Findings(), folder / "docker-compose.yaml"
    source.write_text(text)
    return read_compose(source, findings, "a"), findings


def service(text: str) -> str:
    return "services:\n  main:\n" + "".join(f"    {line}\n" for line in text.splitlines())


def test_the_one_service_of_a_release_is_read(tmp_path: Path) -> None:
    compose, findings = read(tmp_path, RELEASED)
    assert compose == Compose(None, None, {"API_TOKEN": "${API_TOKEN}", "MODE": "offline"})
    assert findings.problems == []
    assert findings.notes() == ("The compose file asks for a mount, which is ignored: a ('${HOME}/.config/cloud')",)


@pytest.mark.parametrize(
    ("text", "network"),
    [
        (service("network_mode: none"), False),
        (service("network_mode: bridge"), True),
        (service("build: ."), None),
        (service("networks: [inside]") + "networks:\n  inside:\n    internal: true\n", False),
        (service("networks:\n  inside:") + "networks:\n  inside:\n    internal: true\n", False),
        (service("networks: [default]") + "networks:\n  default: {}\n", None),
        ('version: "3.8"\n' + service("network_mode: none\nports: ['80']\ncontainer_name: x\nx-mine: 1"), False),
    ],
)
def test_a_network_that_is_switched_off_stays_off(tmp_path: Path, text: str, network: bool | None) -> None:
    compose, findings = read(tmp_path, text)
    assert (compose.network, findings.problems) == (network, [])


@pytest.mark.parametrize(
    "text", ["environment: {A: 1, B: true, C: x, D: }", "environment: ['A=1', 'B=true', 'C=x', 'D']"]
)
def test_variables_are_read_in_both_spellings(tmp_path: Path, text: str) -> None:
    compose, findings = read(tmp_path, service(text))
    assert (compose.environment, findings.problems) == ({"A": "1", "B": "true", "C": "x", "D": "${D}"}, [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pa$$word", "pa$word"),
        ("$HOME/x", "${HOME}/x"),
        ("${A-1}", "${A:-1}"),
        ("${A:-1}", "${A:-1}"),
        ("${A:?must be set}", "${A}"),
        ("2025-01-31", "2025-01-31"),
    ],
)
def test_references_are_read_as_compose_reads_them(tmp_path: Path, text: str, value: str) -> None:
    compose, findings = read(tmp_path, service(f"environment:\n  V: {text}"))
    assert (compose.environment, findings.problems) == ({"V": value}, [])


@pytest.mark.parametrize(
    "command",
    [
        "sleep infinity",
        '["sleep", "infinity"]',
        '["/bin/sh", "-c", "sleep infinity"]',
        "bash -c 'tail -f /dev/null'",
        "/bin/bash",
        '["bash", "-c", "while true; do sleep 1000; done"]',
    ],
)
def test_a_container_that_only_waits_is_one(tmp_path: Path, command: str) -> None:
    assert read(tmp_path, service(f"command: {command}"))[1].problems == []


def test_what_is_switched_off_asks_for_nothing(tmp_path: Path) -> None:
    text = service("privileged: false\nread_only: false\ncap_add: []\nextra_hosts: []\ndevices:")
    assert read(tmp_path, text)[1].problems == []


@pytest.mark.parametrize(
    ("image", "name"),
    [("debian:12", "debian:12"), ("${IMG:-ubuntu:24.04}", "ubuntu:24.04"), ("${MAIN_IMAGE_NAME}", None)],
)
def test_an_image_is_taken_with_its_default(tmp_path: Path, image: str, name: str | None) -> None:
    compose, findings = read(tmp_path, service(f"image: {image}"))
    assert (compose.image, findings.problems) == (name, [])


@pytest.mark.parametrize(
    "build", ["build: .", "build: ./", "build: ${CONTEXT_DIR}", "build: {context: ., dockerfile: ./Dockerfile}"]
)
def test_the_build_that_happens_anyway_is_no_problem(tmp_path: Path, build: str) -> None:
    assert read(tmp_path, service(build))[1].problems == []


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("services: {api: {}, db: {}, main: {}}", "services", "found 3: 'api, db, main'"),
        ("services: {}", "services", "found 0"),
        (service("privileged: true"), "services.main.privileged", "it is not supported"),
        (service("command: ./serve.sh"), "services.main.command", "starts a program of its own"),
        (service("entrypoint: [nginx]"), "services.main.entrypoint", "starts a program of its own"),
        (service("build: ./app"), "services.main.build.context", "found './app'"),
        (service("build: {context: .., dockerfile: Dockerfile}"), "services.main.build.context", "found '..'"),
        (service("build: {context: ., dockerfile: Dev.Dockerfile}"), "services.main.build.dockerfile", "Dev."),
        (service("build: {context: ., target: test}"), "services.main.build.target", "build option"),
        (service("volumes: ['./data:/data']"), "services.main.volumes[0]", "it mounts './data'"),
        (service("volumes: [{type: bind, source: ../x, target: /x}]"), "services.main.volumes[0]", "it mounts '../x'"),
        (service("command: bash -c 'service redis start && sleep infinity'"), "services.main.command", "of its own"),
        (service("command: /start.sh; tail -f /dev/null"), "services.main.command", "of its own"),
        (
            service("volumes: ['${CONTEXT_DIR}/data:/data']"),
            "services.main.volumes[0]",
            "it mounts '${CONTEXT_DIR}/data'",
        ),
        (service("volumes: ['$PWD/data:/data']"), "services.main.volumes[0]", "it mounts '$PWD/data'"),
        (service("volumes: 5"), "services.main.volumes", "found 5"),
        (service("networks: 3"), "services.main.networks", "found 3"),
        (service("environment: A=b"), "services.main.environment", "found 'A=b'"),
        (service("environment: [{A: b}]"), "services.main.environment", "found a mapping"),
        (service("image: $IMG"), "services.main.image", "depends on the host"),
        ("include: [other.yaml]\n" + service("build: ."), "include", "it is not supported"),
        ("services: {main: 5}", "services.main", "found 5"),
        (service("network_mode: 'service:db'"), "services.main.network_mode", "found 'service:db'"),
    ],
)
def test_what_would_change_the_task_and_is_not_done_is_named(tmp_path: Path, text: str, place: str, said: str) -> None:
    (problem,) = read(tmp_path, text)[1].problems
    assert problem.path.endswith("docker-compose.yaml")
    assert (problem.place, said in problem.message) == (place, True)


def task_with(folder: Path, compose: str) -> Task:
    for name, text in {
        "task.toml": 'version = "0.0"\n[environment.env]\nMODE = "of the toml"\n',
        "instruction.md": "Do it.\n",
        "environment/Dockerfile": "FROM scratch\n",
        "environment/docker-compose.yaml": compose,
        "tests/test.sh": "#!/bin/sh\n",
    }.items():
        (folder / "s/a" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "s/a" / name).write_text(text)
    (task,) = read_suite_folder(folder / "s").environments[0].families[0].tasks
    return task


def test_a_task_runs_as_its_compose_file_says_and_its_toml_counts_first(tmp_path: Path) -> None:
    machine = task_with(tmp_path, RELEASED.replace("    volumes", "    network_mode: none\n    volumes")).machine
    assert (machine.network, machine.context) == (False, tmp_path / "s/a/environment")
    assert machine.environment == {"API_TOKEN": "${API_TOKEN}", "MODE": "of the toml"}


def test_a_compose_file_that_cannot_be_read_sets_its_task_aside(tmp_path: Path) -> None:
    with pytest.raises(SuiteProblems, match=r"docker-compose\.yaml: file: .*readable YAML"):
        task_with(tmp_path, "services: [")
