"""Drives Harbor's environments for one worker. Harbor's own Python runs it as a program, so it imports no
module of this project.

One JSON object a line on standard input asks for something, one a line on standard output answers it, by its `id`.
Many questions may be under way at once. At the end of the input, also that of a killed worker, it removes every
environment that it started, and ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TextIO

FIRST = "while :; do sleep 3600 & wait $$!; done"  # as a compose file spells a dollar
ENDING_SECONDS = 120.0
BY_COMPOSE = {"docker", "podman"}  # these read compose files, and can be cut off by one where no kernel filters
Json = dict[str, object]
environments: dict[str, Any] = {}  # Harbor's BaseEnvironment, whose package only its own Python has
answers: TextIO


async def start(name: str, kind: str, folder: str, machine: Json, mounts: list[object], seconds: float) -> Json:
    """Start an environment for the files in `folder`/environment. `kind`: a type of Harbor, or "module:Class"."""
    from harbor.environments.factory import EnvironmentFactory
    from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
    from harbor.models.trial.config import EnvironmentConfig as TrialEnvironmentConfig
    from harbor.models.trial.paths import TrialPaths

    base = Path(folder)
    online = machine.pop("network")
    named = {"import_path": kind} if ":" in kind else {"type": kind}
    made = {
        "environment_dir": base / "environment",
        "environment_name": machine.pop("name"),
        "session_id": name,
        "trial_paths": TrialPaths(base / "trial"),
        "task_env_config": EnvironmentConfig(**machine),
        "enable_environment_dir_upload": False,  # we put the files in ourselves
    }
    config = TrialEnvironmentConfig(**named)
    create = EnvironmentFactory.create_environment_from_config
    probe = create(config, **made)
    # Known only of an environment that exists.
    settings: dict[str, object] = {"mounts": mounts if probe.capabilities.mounted else []}
    # No signal from inside ends this first process, and it reaps orphans. It ignores SIGTERM, so nothing waits for it.
    main: dict[str, object] = {"command": ["sh", "-c", FIRST], "stop_grace_period": "0s"}
    if not online:
        offline = NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)
        try:
            create(config, **made, network_policy=offline, phase_network_policies=[offline])
            settings |= {"network_policy": offline, "phase_network_policies": [offline]}
        except ValueError:
            if kind not in BY_COMPOSE:
                raise
            main["network_mode"] = "none"
    if kind in BY_COMPOSE:
        overlay = base / "compose.json"
        overlay.write_text(json.dumps({"services": {"main": main}}))
        settings["extra_docker_compose"] = [overlay]
    environment = create(config, **made, **settings)
    environments[name] = environment
    await asyncio.wait_for(environment.start(force_build=False), seconds)
    return {"mounted": bool(settings["mounts"]), "survives": kind in BY_COMPOSE}


async def execute(
    name: str,
    command: str,
    seconds: float,
    user: str | None = None,
    folder: str | None = None,
    variables: dict[str, str] | None = None,
) -> Json:
    done = await environments[name].exec(
        command, cwd=folder, env=variables or None, timeout_sec=int(seconds) + 1, user=user
    )
    return {"code": done.return_code, "output": done.stdout or "", "errors": done.stderr or ""}


async def upload(name: str, here: str, there: str, seconds: float) -> Json:
    await asyncio.wait_for(environments[name].upload_file(Path(here), there), seconds)
    return {}


async def download(name: str, there: str, here: str, seconds: float) -> Json:
    await asyncio.wait_for(environments[name].download_file(there, Path(here)), seconds)
    return {}


async def stop(name: str, seconds: float) -> Json:
    environment = environments.pop(name, None)
    if environment is not None:
        await asyncio.wait_for(environment.stop(delete=True), seconds)
    return {}


ACTIONS: dict[str, Callable[..., Awaitable[Json]]] = {
    "start": start,
    "execute": execute,
    "upload": upload,
    "download": download,
    "stop": stop,
}


async def answer(line: str) -> None:
    question = json.loads(line)
    number, action = question.pop("id"), ACTIONS[question.pop("do")]
    try:
        reply = {"id": number, "done": await action(**question)}
    except BaseException as error:  # SystemExit too: Harbor raises it for a program that is not installed
        reply = {"id": number, "error": str(error) or type(error).__name__, "type": type(error).__name__}
    answers.write(json.dumps(reply) + "\n")
    answers.flush()


async def main() -> None:
    global answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what Harbor prints must not be read as an answer
    under_way: set[asyncio.Task[None]] = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.create_task(answer(line))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    for task in under_way:
        task.cancel()
    left = [stop(name, ENDING_SECONDS) for name in list(environments)]
    await asyncio.gather(*left, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
