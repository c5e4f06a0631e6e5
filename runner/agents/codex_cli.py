"""Codex, without a person: `codex exec`. OpenAI's Responses format.

Seen with 0.169.0: skills are read from ~/.agents/skills, and from skills/ in its own folder, which has its bundled
ones. Its session log (rollout) has prompt, times and tokens; its events on standard output do not. It has no option for
turns or output tokens: the gateway limits the turns, nothing limits the tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.agents import PROGRAM_FAILED
from runner.agents.agent_program import HOME, OUTPUT, ProgramAgent, ProgramLog, ProgramStart
from runner.base.text import cut
from runner.base.types import Failure, Source
from runner.sandboxes.needs import DUMMY_KEY

_CONFIG = """\
model_provider = "gateway"
check_for_update_on_startup = false
skills.bundled.enabled = false

[analytics]
enabled = false

[feedback]
enabled = false

[model_providers.gateway]
name = "gateway"
base_url = "{url}"
wire_api = "responses"
env_key = "GATEWAY_KEY"
supports_websockets = false
"""


class Codex(ProgramAgent):
    """Failures of its own: TurnLimit, and ProgramFailed with its last error."""

    name = "codex"
    provider_address = "https://api.openai.com/v1"
    wire = "responses"
    skill_folders = (f"{HOME}/.agents/skills",)
    known_options = frozenset({"reasoning_effort"})

    def command(self, start: ProgramStart) -> Sequence[str]:
        effort = start.option("reasoning_effort")
        return [
            start.program,
            "exec",
            "--json",
            "--strict-config",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",  # the container is the sandbox
            *("--model", start.preset.agent_model),
            *(("-c", f"model_reasoning_effort={effort}") if effort else ()),
            *(("-c", "web_search=disabled") if start.offline else ()),
            "-",
        ]

    def environment(self, start: ProgramStart) -> Mapping[str, str]:
        return {"CODEX_HOME": f"{start.folder}/codex", "GATEWAY_KEY": DUMMY_KEY}

    def files(self, start: ProgramStart) -> Mapping[str, str]:
        return {"codex/config.toml": _CONFIG.format(url=start.url)}

    def logs(self, names: Sequence[str]) -> Sequence[str]:
        """Take the first session, which is the agent's own; further ones are those of its sub-agents."""
        return [*(name for name in names if name.startswith("codex/sessions/")), OUTPUT]

    def failure(self, log: ProgramLog) -> Failure | None:
        """Read the exit code and standard error: the session log has no failures."""
        last = log.trajectories[0].steps[-1]
        if last.source is Source.SYSTEM and (last.extra or {}).get("event") in ("turn.failed", "error"):
            return Failure(PROGRAM_FAILED, cut(last.message, 2_000))
        return None
