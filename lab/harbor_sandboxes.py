"""Runs the suite of first steps in our own containers and in Harbor's environments, and compares how trials ended.

    .venv/bin/python lab/harbor_sandboxes.py [--kinds docker podman] [--agents shell claude-code] [--replicates 2]
        [--kill]

Each agent runs in the sandbox `docker` and, by Harbor, in each kind of environment that is named, in a record of its
own. A server on this machine answers in the agent's wire format, by nothing but the conversation. `--kill`: by
Harbor, the worker gets kill -9 halfway and is started again. Verdict, steps, tokens and dollars of every trial must
be equal, no slot may have two counting attempts, and no container of Docker may be left. Exit status 1 where not.

It needs Harbor (SKILLGLASS_HARBOR), the base image of the tests on each engine, and for Claude Code `install_program
claude-code node` (SKILLGLASS_PROGRAMS).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from lab.chaos import Broker, _manage  # noqa: E402
from lab.kill_workers import outcome  # noqa: E402
from lab.many_trials import Answer, SlotServer, call_ourselves  # noqa: E402
from tests.providers.anthropic_provider import AnthropicProvider  # noqa: E402
from tests.providers.scripted_server import Call, Turn  # noqa: E402

SUITE = ROOT / "examples" / "suites" / "harbor" / "first-steps"
DEADLINE_SECONDS = 900
COMMANDS = {  # by a word of the instruction
    "hello": "printf hello > /app/hello.txt",
    "poem": "awk 'length > n { n = length; line = $0 } END { print line }' /app/poem.txt > /app/answer.txt",
}
AGENTS = ("shell", "claude-code")


def main() -> int:
    options = _options()
    if options.folder:
        print(json.dumps(run_world(options)))
        return 0
    problems = []
    for agent in options.agents:
        ours = _run(options, agent, "docker", "")
        for kind in options.kinds:
            theirs = _run(options, agent, "harbor", kind)
            problems += [f"{agent} in {kind}: not every trial ended as in our container"] * (
                theirs["trials"] != ours["trials"]
            )
            problems += [f"{agent} in {kind}: {theirs['most_counting']} counting attempts"] * (
                theirs["most_counting"] > 1
            )
            problems += [f"{agent} in {kind}: {theirs['containers']} containers left"] * bool(theirs["containers"])
    print("\n".join(problems) if problems else "equal: how every trial ended; nothing is left")
    return 1 if problems else 0


def _run(options: argparse.Namespace, agent: str, sandbox: str, kind: str) -> dict[str, Any]:
    kill = ["--kill"] if options.kill and kind else []
    world = call_ourselves(
        __file__,
        "--agents",
        agent,
        "--sandbox",
        sandbox,
        "--kinds",
        kind,
        "--replicates",
        str(options.replicates),
        *kill,
    )
    passed = sum(bool(trial[3]) for trial in world["trials"])
    print(
        f"{agent} in {f'Harbor, {kind}' if kind else sandbox}: {passed} of {len(world['trials'])} passed,"
        f" attempts {world['attempts']}, {world['seconds']:.0f} s",
        flush=True,
    )
    return world


def run_world(options: argparse.Namespace) -> dict[str, Any]:
    folder, agent = options.folder, options.agents[0]
    os.environ["SKILLGLASS_HARBOR_ENVIRONMENT"] = options.kinds[0] or "docker"
    os.environ["SKILLGLASS_SANDBOXES"] = str(folder / "sandboxes")
    os.environ["SCRIPTED_KEY"] = "a key that must not be seen"
    server = scripted(agent)
    (folder / "presets").mkdir()
    preset = {
        "provider": "here",
        "agent_model": "scripted-model",
        "host_model": "openai/scripted-model",
        "key_variable": "SCRIPTED_KEY",
        "prices": {"input": 3.0, "output": 15.0, "cached": 0.3},
        **(
            {"api_base": f"http://127.0.0.1:{server.server_port}/v1", "context_window": 32_000}
            if agent == "shell"
            else {"api_base": server.url, "harness": agent, "key_header": "x-api-key"}
        ),
    }
    (folder / "presets" / "here.yaml").write_text(json.dumps(preset))
    broker = Broker(folder / "valkey")
    broker.start()
    try:
        _manage("migrate", "-v", "0")
        _manage("load_suite", str(SUITE), "--key", "first")
        began = time.monotonic()
        experiment = _work(options, agent)
        return {
            **outcome(experiment),
            "trials": _ends(experiment),
            "seconds": time.monotonic() - began,
            "containers": _containers(folder),
        }
    finally:
        broker.stop()
        server.server_close() if agent == "shell" else server.close()


def scripted(agent: str) -> Any:
    """A server whose answer depends on nothing but the conversation, in the wire format of the agent."""
    if agent == "shell":
        server = SlotServer(0.0)
        server.RequestHandlerClass = ShellAnswer
        return server
    return MessagesServer()


def command_for(messages: list[Any]) -> str:
    return COMMANDS["poem" if "poem.txt" in json.dumps(messages) else "hello"]


class ShellAnswer(Answer):
    def call(self, asked: dict[str, Any], turns: int) -> tuple[str, dict[str, Any]]:
        if turns:
            return "submit", {}
        return asked["tools"][0]["function"]["name"], {"command": command_for(asked["messages"])}


class MessagesServer(AnthropicProvider):
    def reply(self, path: str, request: dict[str, Any], key: str) -> tuple[Turn, int]:
        if not self.is_main(path, request):
            return super().reply(path, request, key)
        if any(message["role"] == "assistant" for message in request["messages"]):
            return Turn("Done.", fresh=10, cached=150, output=5), 2
        call = Call("Bash", {"command": command_for(request["messages"])})
        return Turn("I do it.", (call,), fresh=100, cached=50, output=20), 1


def _work(options: argparse.Namespace, agent: str) -> Any:
    import django

    django.setup()
    from benchapp.experiments.launch import launch
    from benchapp.models import Attempt, Trial

    experiment = launch(
        {
            "name": "First steps",
            "suite": "first",
            "protocol": "skillflow",
            "conditions": ["no-skill"],
            "replicates": options.replicates,
            "agent": agent,
            "agent_model": "here",
            "sandbox": options.sandbox,
            "limits": {"max_turns": 6, "timeout_seconds": 120},
        }
    )
    planned, killed = Trial.objects.count(), not options.kill
    worker, until = _start(options.folder), time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < until:
        time.sleep(0.5)
        experiment.refresh_from_db(fields=["status"])
        if experiment.status not in ("waiting", "running"):
            worker.terminate()
            worker.wait(120)
            return experiment
        if not killed and 2 * Attempt.objects.filter(status="finished").count() >= planned:
            killed = True
            worker.kill()
            worker.wait()
            worker = _start(options.folder)
    raise SystemExit(f"not within {DEADLINE_SECONDS} s: {(options.folder / 'work.log').read_text()[-3000:]}")


def _start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(ROOT / "manage.py"), "work", "--trials", "2"]
    with (folder / "work.log").open("ab") as log:
        environment = {**os.environ, "LEASE_SECONDS": "10"}
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)


def _ends(experiment: Any) -> list[list[Any]]:
    from benchapp.models import Trial

    fields = (
        "task__key",
        "episode__run__replicate",
        "status",
        "success",
        "steps",
        "input_tokens",
        "output_tokens",
        "cost_usd",
    )
    trials = Trial.objects.filter(episode__run__experiment=experiment)
    return [list(row) for row in trials.order_by(*fields[:2]).values_list(*fields)]


def _containers(folder: Path) -> int:
    """Containers of Docker that belong to a sandbox below this folder, once those that are going have gone."""
    for _ in range(60):
        asked = ["docker", "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project.working_dir"]
        listed = subprocess.run(
            [*asked, "--no-trunc", "--format", "{{.Labels}}"], capture_output=True, text=True
        ).stdout
        left = sum(str(folder) in line for line in listed.splitlines())
        if not left:
            return 0
        time.sleep(1.0)
    return left


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=["docker", "podman"], help="of Harbor's environments")
    parser.add_argument("--agents", nargs="+", default=AGENTS, choices=AGENTS)
    parser.add_argument("--replicates", type=int, default=2)
    parser.add_argument("--kill", action="store_true", help="kill -9 the worker halfway, once")
    parser.add_argument("--sandbox", default="docker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # one installation, called by ourselves
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
