"""task.toml: every dialect, its defaults, and what cannot be carried out."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.base.errors import SetupError
from runner.base.host_variables import resolve_variables
from runner.suites.documents import Findings
from runner.suites.tasks.task_toml import StepToml, TaskToml, read_task_toml
from tests.cases import every


def read(folder: Path, text: str | bytes) -> tuple[TaskToml, Findings]:
    source = folder / "task.toml"
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    findings = Findings()
    return read_task_toml(source, "t", findings), findings


def clean(folder: Path, text: str | bytes) -> TaskToml:
    toml, findings = read(folder, text)
    assert findings.problems == []
    return toml


def test_an_empty_file_gives_harbors_defaults(tmp_path: Path) -> None:
    toml = clean(tmp_path, "")
    assert (toml.agent_timeout_seconds, toml.verifier_timeout_seconds, toml.build_timeout_seconds) == (600, 600, 600)
    assert (toml.cpus, toml.memory_mb, toml.storage_mb, toml.network, toml.image) == (1.0, 2048, 10240, True, None)


@every('version = "1.0"', *(f'schema_version = "1.{minor}"' for minor in range(5)), "version = 1.0")
def test_every_version_is_read(head: str, tmp_path: Path) -> None:
    toml = clean(tmp_path, head + "\n[environment]\ncpus = 2\nmemory_mb = 4096\nbuild_timeout_sec = 900.0\n")
    assert (toml.cpus, toml.memory_mb, toml.build_timeout_seconds) == (2.0, 4096, 900.0)


@pytest.mark.parametrize(
    ("head", "name"), [('version = "0.0"', "version"), ('schema_version = "2.0"', "schema_version")]
)
def test_a_version_that_nobody_knows_is_told_and_costs_nothing(tmp_path: Path, head: str, name: str) -> None:
    """Public sets number their tasks "0.0"."""
    toml, findings = read(tmp_path, head + "\n[environment]\ncpus = 2\n")
    assert (toml.cpus, findings.problems) == (2.0, [])
    (note,) = findings.notes()
    assert note.startswith(f"task.toml: {name} is ")


@every(
    ('"2G"', 2048),
    ('"512M"', 512),
    ('"1.5g"', 1536),
    ('"2GB"', 2048),
    ('"4GiB"', 4096),
    ('"1T"', 1048576),
    ("1073741824", 1024),
)
def test_legacy_sizes_are_read(size: str, mebibytes: int, tmp_path: Path) -> None:
    toml = clean(tmp_path, f"[environment]\nmemory = {size}\nstorage = {size}\n")
    assert (toml.memory_mb, toml.storage_mb) == (mebibytes, mebibytes)


@every('"lots"', '"-1G"', '""', "0", "true", "[1]", '"99999999T"', '"1K"')
def test_a_size_that_is_none_is_refused(size: str, tmp_path: Path) -> None:
    _, findings = read(tmp_path, f"[environment]\nmemory = {size}\n")
    assert [each.place for each in findings.problems] == ["environment.memory"]


@every(
    ("", True),
    ("[environment]\nallow_internet = false", False),
    ("[environment]\nallow_internet = true", True),
    ('[environment]\nnetwork_mode = "public"', True),
    ('[environment]\nnetwork_mode = "no-network"', False),
    ('[environment]\nnetwork_mode = "no-network"\n[agent]\nnetwork_mode = "no-network"', False),
)
def test_the_network_is_open_unless_the_task_closes_it(text: str, network: bool, tmp_path: Path) -> None:
    assert clean(tmp_path, text).network is network


@every(
    ('[environment]\nnetwork_mode = "allowlist"', "environment.network_mode", "list of hosts"),
    ('[environment]\nnetwork_mode = "some"', "environment.network_mode", "found 'some'"),
    ('[environment]\nallow_internet = true\nnetwork_mode = "no-network"', "environment.network_mode", "network_mode"),
    ('[agent]\nnetwork_mode = "public"\n[verifier]\nnetwork_mode = "no-network"', "environment.network_mode", "agent"),
    ('[environment]\nos = "windows"', "environment.os", "needs Windows"),
    ("[environment]\ngpus = 1", "environment.gpus", "needs a GPU: 1"),
    ('[environment.tpu]\ntype = "v4"', "environment.tpu", "a TPU"),
    ('[[environment.mcp_servers]]\nname = "x"', "environment.mcp_servers", "an MCP server"),
    ('[environment.healthcheck]\ncommand = "true"', "environment.healthcheck", "health check"),
    ('[environment]\nworkdir = "x"', "environment.workdir", "found 'x'"),
    ('[verifier]\nenvironment_mode = "elsewhere"', "verifier.environment_mode", "found 'elsewhere'"),
    ('[verifier]\nenvironment_mode = "shared"\nenvironment = {cpus = 1}', "verifier.environment_mode", "'shared'"),
    ('[[steps]]\nname = "../x"', "steps[0].name", "found '../x'"),
    ('[[steps]]\nname = "a"\n[steps.healthcheck]\ncommand = "true"', "steps[0].healthcheck", "health check"),
    ('[[steps]]\nname = "a"\n[steps.verifier.environment]\ncpus = 1', "steps[0].verifier.environment", "of its own"),
    ('[[steps]]\nname = "a"\nmin_reward = "all"', "steps[0].min_reward.reward", "found 'all'"),
    ("steps = 3", "steps", "found 3"),
    (
        'artifacts = [{source = "/x", service = "db"}]\n[verifier]\nenvironment_mode = "separate"',
        "artifacts",
        "collected",
    ),
    ('artifacts = ["../x"]\n[verifier]\nenvironment_mode = "separate"', "artifacts", "found '../x'"),
    ('[[verifier.collect]]\ncommand = "x"', "verifier.collect", "collect"),
    ('[agent]\nuser = "agent"', "agent.user", "user of its own"),
    ('[agent]\ndisallowed_tools = ["Bash"]', "agent.disallowed_tools", "without some of its tools"),
    ('[environment]\nallowed_hosts = ["a.org"]', "environment.allowed_hosts", "hosts"),
)
def test_what_cannot_be_carried_out_is_named(text: str, place: str, said: str, tmp_path: Path) -> None:
    _, findings = read(tmp_path, text)
    assert [each.place for each in findings.problems] == [place]
    assert said in findings.problems[0].message


@every(
    ('[agent]\ntimeout_sec = "long"', "agent.timeout_sec"),
    ("[agent]\ntimeout_sec = true", "agent.timeout_sec"),
    ("[agent]\ntimeout_sec = inf", "agent.timeout_sec"),
    ("[agent]\ntimeout_sec = nan", "agent.timeout_sec"),
    ("[verifier]\ntimeout_sec = 0", "verifier.timeout_sec"),
    ("[verifier]\ntimeout_sec = 1" + "0" * 400, "verifier.timeout_sec"),
    ("[environment]\ncpus = -1", "environment.cpus"),
    ("[environment]\ncpus = [1]", "environment.cpus"),
    ("environment = 3", "environment"),
    ("[environment]\nenv = 3", "environment.env"),
    ("[environment]\nenv = { A = [1] }", "environment.env.A"),
    ('[environment]\n[environment.env]\n"A=B" = "x"', "environment.env.A=B"),
    ('[environment]\nrequired_env = ["A B"]', "environment.required_env"),
    ('[environment]\nallow_internet = "yes"', "environment.allow_internet"),
    ("[environment]\ndocker_image = 7", "environment.docker_image"),
)
def test_a_value_of_another_kind_is_named(text: str, place: str, tmp_path: Path) -> None:
    _, findings = read(tmp_path, text)
    assert [each.place for each in findings.problems] == [place]
    assert len(str(findings.problems[0])) < 500


def test_what_only_describes_is_taken_in_silence(tmp_path: Path) -> None:
    text = """
        multi_step_reward_strategy = "mean"
        [task]
        name = "org/x"
        authors = [{ name = "A", email = "a@example.org" }]
        [metadata]
        anything = ["goes", { at = "all" }]
        [environment]
        os = "linux"
        gpus = 0
        gpu_types = []
        mcp_servers = []
        [agent]
        user = "root"
        [solution]
        timeout_sec = 5
        env = { A = "b" }
    """
    toml, findings = read(tmp_path, text)
    assert (findings.problems, findings.notes()) == ([], ())
    assert toml.solution_environment == {"A": "b"}


def test_what_nobody_knows_is_told(tmp_path: Path) -> None:
    toml, findings = read(tmp_path, 'color = "red"\n[environment]\nspeed = 3\nskills_dir = "/task/skills/"\n')
    assert toml.skills_dir == "/task/skills"
    assert findings.problems == []
    assert findings.notes() == (
        "task.toml: environment.skills_dir has no effect, the library is mounted where each agent looks for it, and"
        " skills at that place are left out: t",
        "task.toml: color is unknown and has no effect: t",
        "task.toml: environment.speed is unknown and has no effect: t",
    )


def test_variables_that_the_host_should_give_are_told(tmp_path: Path) -> None:
    text = '[environment]\nrequired_env = ["GH_TOKEN"]\n[verifier.env]\nA = "${GH_TOKEN}"\nB = "${JUDGE_KEY}"\nC = "${D:-e}"\n'  # noqa: E501
    toml, findings = read(tmp_path, text)
    assert toml.host_variables == ("GH_TOKEN",)
    assert findings.notes() == (
        "Needs GH_TOKEN of the host; list it in SKILLGLASS_TASK_VARIABLES of every worker: t",
        "Names JUDGE_KEY of the host, passed on only if SKILLGLASS_TASK_VARIABLES lists it: t",
    )


@every(b"", b"\xef\xbb\xbf")
@every(b"\r", b"\r\n", b"\n", b"\r\n\r")
def test_a_byte_order_mark_and_any_line_ends_are_taken(end: bytes, mark: bytes, tmp_path: Path) -> None:
    assert clean(tmp_path, mark + end.join([b"# a comment", b"[environment]", b"cpus = 4", b""])).cpus == 4.0


def test_a_working_directory_is_taken(tmp_path: Path) -> None:
    assert clean(tmp_path, '[environment]\nworkdir = "/srv/app/"\n').workdir == "/srv/app"


STEPS = """
multi_step_reward_strategy = "final"
[agent]
timeout_sec = 50
[verifier]
timeout_sec = 60
env = { A = "task", B = "task" }
[[steps]]
name = "first"
min_reward = 0.5
[steps.agent]
timeout_sec = 5
[steps.verifier]
timeout_sec = 6
env = { B = "step" }
[[steps]]
name = "second one"
min_reward = { reward = 1, speed = 0.2 }
"""


def test_steps_are_read_and_have_the_tasks_settings_where_they_have_none(tmp_path: Path) -> None:
    toml = clean(tmp_path, STEPS)
    assert toml.last_step_decides
    assert toml.steps == (
        StepToml("first", 5.0, 6.0, {"A": "task", "B": "step"}, {"reward": 0.5}),
        StepToml("second one", 50.0, 60.0, {"A": "task", "B": "task"}, {"reward": 1.0, "speed": 0.2}),
    )


def test_a_verifiers_own_place_is_read(tmp_path: Path) -> None:
    text = """
        artifacts = ["/srv/out/", { source = "/logs/artifacts" }]
        [environment]
        memory_mb = 100
        network_mode = "no-network"
        [verifier]
        network_mode = "public"
        [verifier.environment]
        docker_image = "grader:1"
        memory_mb = 300
    """
    toml = clean(tmp_path, text)
    assert toml.verifier_place is not None
    place = toml.verifier_place
    assert (toml.network, toml.memory_mb, toml.artifacts) == (False, 100, ("/srv/out", "/logs/artifacts"))
    assert (place.network, place.memory_mb, place.image) == (True, 300, "grader:1")
    same = clean(tmp_path, '[environment]\nmemory_mb = 100\n[verifier]\nenvironment_mode = "separate"\n').verifier_place
    assert same is not None
    assert same.memory_mb == 100


# --- values of the host -----------------------------------------------------------------------------------------


def test_nothing_of_the_host_is_given_unless_the_operator_named_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY_OF_OURS", "secret")
    monkeypatch.delenv("SKILLGLASS_TASK_VARIABLES", raising=False)
    values = {"A": "${SECRET_KEY_OF_OURS}", "B": "x${SECRET_KEY_OF_OURS:-y}z", "C": "$SECRET_KEY_OF_OURS", "D": "plain"}
    assert resolve_variables(values) == {"B": "xyz", "C": "$SECRET_KEY_OF_OURS", "D": "plain"}
    monkeypatch.setenv("SKILLGLASS_TASK_VARIABLES", "OTHER, SECRET_KEY_OF_OURS")
    assert resolve_variables(values)["A"] == "secret"


def test_an_answer_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "${TWO}")
    monkeypatch.setenv("TWO", "two")
    monkeypatch.setenv("SKILLGLASS_TASK_VARIABLES", "ONE,TWO")
    assert resolve_variables({"A": "${ONE}-${TWO}"}) == {"A": "${TWO}-two"}


def test_what_a_task_requires_is_given_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_TOKEN", "t")
    monkeypatch.setenv("SKILLGLASS_TASK_VARIABLES", "GH_TOKEN")
    assert resolve_variables({}, ["GH_TOKEN"]) == {"GH_TOKEN": "t"}
    with pytest.raises(SetupError, match="asks for NPM_TOKEN"):
        resolve_variables({}, ["GH_TOKEN", "NPM_TOKEN"])
