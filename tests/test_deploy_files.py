"""compose.yaml, the Dockerfile and docs/how-to/deploy.md agree with each other and with what a team needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from django.core.management import get_commands, load_command_class

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = (ROOT / "compose.yaml").read_text()
FILE: dict[str, Any] = yaml.safe_load(COMPOSE)
DOCUMENT = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
SOCKET = "/var/run/docker.sock"


def mounts(service: str) -> list[str]:
    return [str(volume) for volume in FILE["services"][service].get("volumes", ())]


def test_only_workers_hold_the_engines_socket_and_the_providers_keys() -> None:
    assert [name for name in FILE["services"] if any(SOCKET in each for each in mounts(name))] == ["worker"]
    assert [name for name, service in FILE["services"].items() if "env_file" in service] == ["worker"]


def test_no_agent_runs_beside_a_worker_that_holds_the_socket() -> None:
    for name in ("web", "worker"):
        assert FILE["services"][name]["environment"]["SKILLGLASS_LOCAL_SANDBOX"] == "${LOCAL_SANDBOX:-0}"


def test_pages_and_workers_find_suites_at_the_same_path() -> None:
    shared = [each for each in mounts("web") if ":/data" in each]
    assert shared == ["${DATA:-./data}:/data:ro"]
    assert shared[0] in mounts("worker")


def test_one_image_is_built_once_and_pulled_by_nobody_else() -> None:
    ours = {name: each for name, each in FILE["services"].items() if "skillglass" in each.get("image", "")}
    assert sorted(ours) == ["migrate", "web", "worker"]
    assert [name for name, each in ours.items() if "build" in each] == ["web"]
    assert [name for name, each in ours.items() if each.get("pull_policy") != "never"] == ["web"]


def test_every_secret_is_made_by_the_commands_that_the_file_and_the_document_give() -> None:
    for text in (COMPOSE, DOCUMENT):
        made = set(re.findall(r"> secrets/([a-z_]+)\n", text))
        made |= set(re.search(r"for name in ([a-z_ ]+); do", text)[1].split())  # type: ignore[index]
        assert made == set(FILE["secrets"])


def test_what_the_document_sets_is_what_the_file_asks_for() -> None:
    asked = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE))
    block = DOCUMENT.partition("in a file `.env`")[2].partition("```sh\n")[2].partition("```")[0]
    assert set(re.findall(r"^([A-Z_]+)=", block, re.MULTILINE)) <= asked


def test_nothing_that_a_team_writes_beside_the_file_is_kept_by_git() -> None:
    ignored = (ROOT / ".gitignore").read_text().split()
    assert {"/secrets/", "/providers.env", "/.env", "/data/"} <= set(ignored)


# --- what schedulers start ------------------------------------------------------------------------------------------

RECIPES = sorted(path for path in (ROOT / "deploy").rglob("*") if path.is_file())


def list_objects() -> list[dict[str, Any]]:
    files = [path for path in RECIPES if path.parent.name == "kubernetes"]
    return [each for path in files for each in yaml.safe_load_all(path.read_text())]


def test_every_command_of_a_recipe_exists_with_its_options() -> None:
    found = 0
    for path in RECIPES:
        words = path.read_text().replace(",", " ").replace("[", " ").replace("]", " ").replace('"', " ")
        for line in re.findall(r"manage\.py ([^\n#]+)", words):
            name, *options = line.split()
            parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
            known = {option for action in parser._actions for option in action.option_strings}
            assert {option for option in options if option.startswith("--")} <= known, f"{path}: {line}"
            found += 1
    assert found >= 5


def test_a_burst_takes_as_many_trials_as_the_scheduler_counts_for_it() -> None:
    (burst,) = [each for each in list_objects() if each["kind"] == "ScaledJob"]
    (worker,) = burst["spec"]["jobTargetRef"]["template"]["spec"]["containers"]
    (trigger,) = burst["spec"]["triggers"]
    assert worker["command"][-1] == trigger["metadata"]["threshold"]
    assert "skillglass_episodes" in trigger["metadata"]["query"]


def test_only_the_engine_beside_a_burst_is_privileged_and_only_bursts_get_the_keys() -> None:
    for each in list_objects():
        spec = each.get("spec", {})
        pod = spec.get("jobTargetRef", spec).get("template", {}).get("spec", {})
        for container in pod.get("containers", ()):
            assert container["securityContext"]["runAsNonRoot"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        privileged = [one["name"] for one in pod.get("initContainers", ()) if one["securityContext"].get("privileged")]
        assert privileged == (["engine"] if each["kind"] == "ScaledJob" else [])
        assert ("skillglass-providers" in str(pod)) == (each["kind"] == "ScaledJob")
