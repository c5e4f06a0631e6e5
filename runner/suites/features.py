"""What a task may ask for that cannot be done here: a code, and the reason as people count it."""

from __future__ import annotations

from collections.abc import Iterable

from runner.base.errors import SuiteError
from runner.suites.documents import FieldTable

# By priority, for a task with several.
FEATURES = {
    "windows": "needs Windows",
    "gpu": "needs a GPU",
    "tpu": "needs a TPU",
    "mcp-server": "needs an MCP server",
    "earlier-work": "needs an agent that continues earlier work",
    "allowed-hosts": "needs a list of hosts that may be reached",
    "several-networks": "needs different networks for its agent and its verifier",
    "agent-user": "needs an agent with a user of its own",
    "verifier-user": "needs a verifier with a user of its own",
    "agent-tools": "needs an agent without some of its tools",
    "collect": "needs results collected for its verifier by commands or from services",
    "step-verifier": "needs a verifier of its own in one of its steps",
    "healthcheck": "needs a health check before the agent starts",
    "privileged": "needs a privileged container",
    "capabilities": "needs further rights of the kernel",
    "devices": "needs devices of the host",
    "docker-socket": "needs the Docker engine of the host",
    "host-network": "needs the network of the host",
    "host-namespaces": "needs processes or users of the host",
    "host-mount": "needs files of the host",
    "own-program": "needs a program that starts with the agent's container",
    "shared-network": "needs the network of another container",
    "network-options": "needs a network with options of its own",
    "volume-options": "needs a volume with options of its own",
    "build-options": "needs a build with options of its own",
    "variable": "needs a variable that nothing sets",
    "compose": "needs a compose feature that is not supported",
}


def refuse(table: FieldTable, name: str, feature: str, found: str = "") -> None:
    """Set the task aside for its request in the field `name`. `found`: the relevant part of it."""
    table.raw(name)
    message = f"it {FEATURES[feature]}" + (f": {found}" if found else "")
    table.findings.problems.append(SuiteError(str(table.source), table.at(name), "", message, feature=feature))


def find_feature(problems: Iterable[SuiteError]) -> str:
    """Return the one reason that counts for a task with these problems, such as "needs a GPU", or "" without any."""
    found = {problem.feature for problem in problems}
    return next((reason for code, reason in FEATURES.items() if code in found), "")
