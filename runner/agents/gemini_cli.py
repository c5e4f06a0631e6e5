"""Gemini CLI, without a person: it reads the instruction from standard input. Google's generateContent format.

Seen with 0.61.0: skills are read from ~/.gemini/skills and ~/.agents/skills (the latter wins). Its session log below
~/.gemini/tmp has the thinking and its tokens, the results as the model saw them and the sub-agents. Its events on
standard output have none of these. It also lists two skills of its own unless they are switched off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from runner.agents.agent_program import HOME, ProgramAgent, ProgramStart
from runner.base.types import JsonValue
from runner.sandboxes.needs import DUMMY_KEY

_PROVIDER_TOOLS = ["google_web_search", "web_fetch"]  # run by the provider, so a closed network stops neither
# Side calls (loop detection, edit correction, summaries of the conversation) and some of its sub-agents have models of
# their own. These names send them all to the model under test, and to no other.
_SIDE_CALLS = (
    "base",  # which most others are made from
    *(f"chat-compression-{model}" for model in ("default", "3-pro", "3-flash", "3.1-flash-lite")),
    *(f"chat-compression-{model}" for model in ("2.5-pro", "2.5-flash", "2.5-flash-lite")),
    "agent-history-provider-summarizer",
)
_OWN_SKILLS = ["skill-creator", "antigravity-support"]

# The session log is in the program's folder for temporary files, which is redirected to where its output is kept.
# Settings are the user's: other settings files are read only from folders that nobody else may write to.
_PREPARE = """\
set -e
mkdir -p "$1/sessions" "$HOME/.gemini"
ln -sfn "$1/sessions" "$HOME/.gemini/tmp"
cp "$1/settings.json" "$HOME/.gemini/settings.json"
shift
exec "$@"
"""


class GeminiCli(ProgramAgent):
    """Its log does not give the reason for an early end, so every failure is ProgramFailed."""

    name = "gemini-cli"
    provider_address = "https://generativelanguage.googleapis.com"
    wire = "generateContent"
    skill_folders = (f"{HOME}/.gemini/skills",)
    moving_variables = ("GEMINI_CLI_HOME", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "GEMINI_CLI_SYSTEM_SETTINGS_PATH")

    def command(self, start: ProgramStart) -> Sequence[str]:
        return [
            *("sh", "-c", _PREPARE, "sh", start.folder),
            start.program,
            *("--model", start.preset.agent_model),
            *("--approval-mode", "yolo"),
            *("--output-format", "stream-json"),
        ]

    def environment(self, start: ProgramStart) -> Mapping[str, str]:
        return {
            "GEMINI_API_KEY": DUMMY_KEY,
            "GOOGLE_GEMINI_BASE_URL": start.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_CLI_NO_RELAUNCH": "true",  # else it restarts itself, only to have more memory
            "NO_COLOR": "1",
        }

    def files(self, start: ProgramStart) -> Mapping[str, str]:
        settings = {
            "general": {
                "enableAutoUpdate": False,
                "enableAutoUpdateNotification": False,
                "sessionRetention": {"enabled": False},
            },
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "skills": {"enabled": True, "disabled": _OWN_SKILLS},
            "modelConfigs": {
                "customOverrides": [_build_override(name, start.preset.agent_model) for name in _SIDE_CALLS]
            },
            "tools": {"exclude": _PROVIDER_TOOLS if start.offline else []},
        }
        return {"settings.json": json.dumps(settings, indent=1)}

    def base_address(self, address: str) -> str:
        """Return the address without the API version, which the program names in each call."""
        return re.sub(r"/v[0-9]+(?:(?:alpha|beta)[0-9]*)?/*\Z", "", address)

    def logs(self, names: Sequence[str]) -> Sequence[str]:
        return [name for name in _sessions(names) if name.rpartition("/")[0].endswith("/chats")]

    def subagent_logs(self, names: Sequence[str]) -> Sequence[str]:
        """Those in a subfolder, which is named after the session that started them."""
        return [name for name in _sessions(names) if not name.rpartition("/")[0].endswith("/chats")]


def _build_override(name: str, model: str) -> dict[str, JsonValue]:
    return {"match": {"model": name}, "modelConfig": {"model": model}}


def _sessions(names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith("sessions/") and "/chats/" in name and name.endswith(".jsonl")]
