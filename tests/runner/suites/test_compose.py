"""A task's compose file: read where it describes one container, refused by name where it asks for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.base.errors import SuiteError, SuiteProblems
from runner.base.types import MAIN_IMAGE, Task, Volume
from runner.suites import read_suite_folder
from runner.suites.compose import Compose, interpolate, read_compose
from runner.suites.documents import Findings
from runner.suites.features import FEATURES, find_feature
from runner.suites.tasks.task_toml import read_task_toml
from tests.cases import every

# The shape of a public release: the build that happens anyway, keys of the host, log folders of the runner, and a
# mount.
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


@every(
    (service("network_mode: none"), False),
    (service("network_mode: bridge"), True),
    (service("build: ."), None),
    (service("networks: [inside]") + "networks:\n  inside:\n    internal: true\n", False),
    (service("networks:\n  inside:") + "networks:\n  inside:\n    internal: true\n", False),
    (service("networks: [default]") + "networks:\n  default: {}\n", None),
    ('version: "3.8"\n' + service("network_mode: none\nports: ['80']\ncontainer_name: x\nx-mine: 1"), False),
)
def test_a_network_that_is_switched_off_stays_off(text: str, network: bool | None, tmp_path: Path) -> None:
    compose, findings = read(tmp_path, text)
    assert (compose.network, findings.problems) == (network, [])


@pytest.mark.parametrize(
    "text", ["environment: {A: 1, B: true, C: x, D: }", "environment: ['A=1', 'B=true', 'C=x', 'D']"]
)
def test_variables_are_read_in_both_spellings(tmp_path: Path, text: str) -> None:
    compose, findings = read(tmp_path, service(text))
    assert (compose.environment, findings.problems) == ({"A": "1", "B": "true", "C": "x", "D": "${D}"}, [])


@every(
    ("pa$$word", "pa$word"),
    ("$HOME/x", "${HOME}/x"),
    ("${A-1}", "${A:-1}"),
    ("${A:-1}", "${A:-1}"),
    ("${A:?must be set}", "${A}"),
    ("2025-01-31", "2025-01-31"),
)
def test_references_are_read_as_compose_reads_them(text: str, value: str, tmp_path: Path) -> None:
    compose, findings = read(tmp_path, service(f"environment:\n  V: {text}"))
    assert (compose.environment, findings.problems) == ({"V": value}, [])


@every(
    "sleep infinity",
    '["sleep", "infinity"]',
    '["/bin/sh", "-c", "sleep infinity"]',
    "bash -c 'tail -f /dev/null'",
    "/bin/bash",
    '["bash", "-c", "while true; do sleep 1000; done"]',
)
def test_a_container_that_only_waits_is_one(command: str, tmp_path: Path) -> None:
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


@every(
    ("services: {}", "services", "found 0"),
    (service("build: ./app"), "services.main.build", "found './app'"),
    (service("build: {context: .., dockerfile: Dockerfile}"), "services.main.build.context", "found '..'"),
    (service("build: {context: ., dockerfile: Dev.Dockerfile}"), "services.main.build", "a mapping"),
    (service("volumes: 5"), "services.main.volumes", "found 5"),
    (service("networks: 3"), "services.main.networks", "found 3"),
    (service("environment: A=b"), "services.main.environment", "found 'A=b'"),
    (service("environment: [{A: b}]"), "services.main.environment", "found a mapping"),
    ("services: {main: 5}", "services.main", "found 5"),
    ("services:\n  main: {}\n  db: {environment: {A: 1}}\n", "services.db.image", "there is none"),
)
def test_what_is_not_as_expected_is_named(text: str, place: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/Dockerfile").write_text("FROM scratch\n")
    (problem,) = read(tmp_path, text)[1].problems
    assert problem.path.endswith("docker-compose.yaml")
    assert (problem.place, said in problem.message) == (place, True)


@every(
    ("privileged: true", "privileged"),
    ("cap_add: [NET_ADMIN]", "capabilities"),
    ("security_opt: ['seccomp:unconfined']", "capabilities"),
    ("sysctls: {net.ipv4.ip_forward: 1}", "capabilities"),
    ("devices: ['/dev/kvm']", "devices"),
    ("runtime: nvidia", "gpu"),
    ("deploy: {resources: {reservations: {devices: [{driver: nvidia}]}}}", "gpu"),
    ("pid: host", "host-namespaces"),
    ("ipc: host", "host-namespaces"),
    ("cgroup_parent: /", "host-namespaces"),
    ("userns_mode: host", "host-namespaces"),
    ("network_mode: host", "host-network"),
    ("network_mode: 'service:db'", "shared-network"),
    ("network_mode: 'container:abc'", "shared-network"),
    ("extra_hosts: ['host.docker.internal:host-gateway']", "network-options"),
    ("networks: {default: {ipv4_address: 10.0.0.2}}", "network-options"),
    ("volumes: ['/var/run/docker.sock:/var/run/docker.sock']", "docker-socket"),
    ("volumes: [{type: bind, source: //run/docker.sock, target: /x}]", "docker-socket"),
    ("volumes: ['/etc:/host']", "host-mount"),
    ("volumes: ['~/.ssh:/root/.ssh']", "host-mount"),
    ("volumes: [{type: bind, source: ../x, target: /x}]", "host-mount"),
    ("volumes: ['./a/../../x:/x']", "host-mount"),
    ("volumes: ['./out:/x']", "host-mount"),
    ("volumes: ['hole:/x']", "volume-options"),
    ("volumes: ['others:/x']", "volume-options"),
    ("volumes_from: [db]", "volume-options"),
    ("env_file: /etc/passwd", "host-mount"),
    ("secrets: [key]", "compose"),
    ("extends: {file: other.yaml, service: x}", "compose"),
)
@every("main", "db")
def test_what_breaks_isolation_is_refused_by_its_name(name: str, text: str, feature: str, tmp_path: Path) -> None:
    """Of the agent's container and of every other."""
    (tmp_path / "out").symlink_to("/")
    volumes = "volumes: {hole: {driver_opts: {type: none, o: bind, device: /}}, others: {external: true}}\n"
    both = "services:\n  main: {}\n  db: {}\n".replace(f"{name}: {{}}", f"{name}: {{{text}}}")
    both = both.replace("db: {", "db: {image: x, " if text or name == "main" else "db: {image: x")
    _, findings = read(tmp_path, both + volumes)
    assert [problem.feature for problem in findings.problems] == [feature]
    assert find_feature(findings.problems) == FEATURES[feature]


@every(
    (service("command: ./serve.sh"), "own-program", "'./serve.sh'"),
    (service("entrypoint: [nginx]"), "own-program", "'nginx'"),
    (service("command: bash -c 'service redis start && sleep infinity'"), "own-program", "service redis"),
    (service("command: /start.sh; tail -f /dev/null"), "own-program", "/start.sh"),
    (service("user: agent"), "agent-user", ""),
    (service("build: {context: ., target: test}"), "build-options", "target"),
    (service("image: $IMG"), "variable", "'IMG'"),
    (service("image: '${IMG}:1'"), "variable", "'IMG'"),
    ("include: [other.yaml]\n" + service("build: ."), "compose", "include"),
    ("secrets: {a: {file: ./a}}\n" + service("build: ."), "compose", "secrets"),
)
def test_what_is_not_done_here_is_named(text: str, feature: str, said: str, tmp_path: Path) -> None:
    (problem,) = read(tmp_path, text)[1].problems
    assert (problem.feature, said in problem.message) == (feature, True)


# --- variables ---------------------------------------------------------------------------------------------------


@every(
    ("pa$$word", "pa$word"),
    ("$SET/x", "given/x"),
    ("${SET}", "given"),
    ("${SET:-other}", "given"),
    ("${EMPTY:-other}|${EMPTY-other}", "other|"),
    ("${NONE-other}", "other"),
    ("${NONE:-${SET}}-${NONE:-${NONE-deep}}", "given-deep"),
    ("${SET:+yes}${NONE:+no}${NONE+no}", "yes"),
    ("${NONE:-}", ""),
    ("${NONE:-a:b/c}", "a:b/c"),
    ("$$$SET", "$given"),
    ("${SET?needed}", "given"),
    ("$NONE ${NONE?needed}", "<NONE> <NONE>"),
)
def test_a_reference_is_answered_as_compose_answers_it(text: str, answer: str) -> None:
    def unknown(name: str, default: str | None) -> str:
        return f"<{name}>" if default is None else default

    assert interpolate(text, known={"SET": "given", "EMPTY": ""}, unknown=unknown) == answer


@every("$", "${", "${}", "$(ls)", "${A", "${A:-${B}", "${A!x}", "$1")
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="reference|brace"):
        interpolate(text, known={}, unknown=lambda name, default: "")


def test_a_file_with_what_is_no_reference_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="not a reference"):
        read(tmp_path, service("environment: {A: '${1x}'}"))


def test_defaults_hold_in_every_field(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db/Dockerfile").write_text("FROM scratch\n")
    text = """
services:
  main: {working_dir: "${WHERE:-/srv}", depends_on: [db]}
  db:
    build: "./${FOLDER-db}"
    command: ["serve", "--port=${PORT:-5432}", "$$HOME"]
    healthcheck: {test: ["CMD-SHELL", "ping -p ${PORT:-5432}"], interval: "${PAUSE:-1s}"}
    user: "${DB_USER:-0}"
    volumes: ["${DATA:-data}:/data"]
volumes: {data: {}}
"""
    compose, findings = read(tmp_path, text)
    assert findings.problems == []
    assert compose.workdir == "/srv"
    assert compose.services is not None
    (db,) = compose.services.others
    assert db.context == tmp_path / "db"
    assert db.settings["command"] == ["serve", "--port=5432", "$HOME"]
    assert db.settings["healthcheck"] == {"test": ["CMD-SHELL", "ping -p 5432"], "interval": "1s"}
    assert (db.settings["user"], db.volumes) == ("0", (Volume("/data", "data"),))


def test_variables_of_the_task_are_known_to_its_compose_file(tmp_path: Path) -> None:
    text = 'services:\n  main: {}\n  db: {image: "db:${VERSION}", environment: {V: "$VERSION", W: "${HOST_GIVES}"}}\n'
    (tmp_path / "docker-compose.yaml").write_text(text)
    (tmp_path / "task.toml").write_text('[environment.env]\nVERSION = "16"\n')
    findings = Findings()
    toml = read_task_toml(tmp_path / "task.toml", "a", findings)
    services = read_compose(tmp_path / "docker-compose.yaml", findings, "a", toml).services
    assert services is not None
    (db,) = services.others
    assert (findings.problems, db.image, db.environment) == ([], "db:16", {"V": "16", "W": "${HOST_GIVES}"})


def test_aliases_that_unfold_to_gigabytes_are_refused(tmp_path: Path) -> None:
    levels = "\n".join(f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
    for services in ("{main: {}, db: {image: x, command: *a11}}", "{main: {command: *a11}}", "{main: {deploy: *a11}}"):
        with pytest.raises(SuiteError, match="at most 10,000 values"):
            read(tmp_path, f"x-0: &a0 [x, x]\n{levels}\nservices: {services}\n")
    once = f"x-0: &a0 {'x' * 50_000}\nx-1: &a1 [{', '.join(['*a0'] * 300)}]\nservices: {{main: {{command: *a1}}}}\n"
    with pytest.raises(SuiteError, match="at most 10,000 values"):
        read(tmp_path, once)


# --- several services --------------------------------------------------------------------------------------------

SEVERAL = """
services:
  main:
    build: .
    depends_on: {db: {condition: service_healthy}}
    networks: [front]
    volumes: ["./data:/data", "shared:/shared"]
  db:
    image: ${MAIN_IMAGE_NAME}
    container_name: the-db
    ports: ["5432:5432"]
    privileged: false
    restart: always
    depends_on: [main, proxy]
    networks: {front: {aliases: [database]}, back: {}}
    volumes: ["./db.conf:/etc/db.conf:ro", "shared:/shared", "/anonymous"]
    env_file: db.env
  proxy: {image: "proxy:1", networks: [back]}
  debug: {image: "tools:1", profiles: [debug]}
networks: {front: {}, back: {internal: true}}
volumes: {shared: }
"""


def test_services_are_read_with_their_networks_and_volumes(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "db.conf").write_text("x")
    (tmp_path / "db.env").write_text("# comment\nexport A=1\nB='two'\n")
    compose, findings = read(tmp_path, SEVERAL)
    assert (findings.problems, findings.notes()) == ([], ())
    services = compose.services
    assert services is not None
    assert services.main.networks == {"front": ()}
    assert services.main.volumes == (Volume("/data", "files-data", tmp_path / "data"), Volume("/shared", "shared"))
    assert services.closed == frozenset({"back"})
    db, proxy = services.others
    assert (db.name, db.image, db.environment) == ("db", MAIN_IMAGE, {"A": "1", "B": "two"})
    assert db.networks == {"front": ("database", "the-db"), "back": ("the-db",)}
    assert db.volumes == (
        Volume("/etc/db.conf", source=tmp_path / "db.conf"),
        Volume("/shared", "shared"),
        Volume("/anonymous", "db-2"),
    )
    assert db.settings == {"depends_on": {"proxy": {"condition": "service_started"}}, "restart": "always"}
    assert (proxy.image, proxy.settings) == ("proxy:1", {"depends_on": {}})


def test_a_file_of_services_without_main_leaves_the_agents_container_to_its_dockerfile(tmp_path: Path) -> None:
    compose, findings = read(tmp_path, "services: {redis: {image: 'redis:7'}}")
    assert (findings.problems, compose.image) == ([], None)
    assert compose.services is not None
    assert [each.name for each in compose.services.others] == ["redis"]
    assert compose.services.main.networks == {"default": ()}


def test_a_folder_of_the_task_is_no_reason_for_further_containers(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for source in ("./data", "${CONTEXT_DIR}/data", "$PWD/data"):
        compose, findings = read(tmp_path, service(f"volumes: ['{source}:/data']"))
        assert findings.problems == []
        assert compose.services is not None
        assert (compose.services.main.volumes[0].source, compose.services.others) == (tmp_path / "data", ())


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
