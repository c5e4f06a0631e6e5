"""Qwen Code, without a person: it reads the instruction from standard input. OpenAI's chat format.

Seen with 0.24.4: skills are read from ~/.qwen/skills. Its session log has the results as the model saw them. Its events
on standard output have what a screen would show. Most of its bundled skills cannot be switched off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from runner.agents.agent_program import HOME, OUTPUT, ProgramAgent, ProgramStart
from runner.sandboxes.needs import DUMMY_KEY


class QwenCode(ProgramAgent):
    """Its log does not give the reason for an early end, so every failure is ProgramFailed."""

    name = "qwen-code"
    provider_address = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"
    wire = "chat/completions"
    skill_folders = (f"{HOME}/.qwen/skills",)
    moving_variables = ("QWEN_HOME", "QWEN_CODE_SYSTEM_DEFAULTS_PATH")
    known_options = frozenset({"temperature", "top_p"})

    def command(self, start: ProgramStart) -> Sequence[str]:
        return [
            start.program,
            *("--auth-type", "openai"),
            *("--model", start.preset.agent_model),
            *("--approval-mode", "yolo"),
            *("--output-format", "stream-json"),
        ]

    def environment(self, start: ProgramStart) -> Mapping[str, str]:
        return {
            "OPENAI_API_KEY": DUMMY_KEY,
            "OPENAI_BASE_URL": start.url,
            "QWEN_CODE_SYSTEM_SETTINGS_PATH": f"{start.folder}/settings.json",
            "QWEN_RUNTIME_DIR": f"{start.folder}/qwen",
            "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
            "NO_COLOR": "1",
        }

    def files(self, start: ProgramStart) -> Mapping[str, str]:
        asked = {name: start.preset.options.get(name) for name in sorted(self.known_options)}
        sampling = {name: value for name, value in asked.items() if value is not None}
        sampling["max_tokens"] = start.job.limits.max_output_tokens
        settings = {
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "security": {"folderTrust": {"enabled": False}},
            "model": {"generationConfig": {"samplingParams": sampling}},
        }
        return {"settings.json": json.dumps(settings, indent=1)}

    def logs(self, names: Sequence[str]) -> Sequence[str]:
        return [*(name for name in names if "/chats/" in name and name.endswith(".jsonl")), OUTPUT]

    def subagent_logs(self, names: Sequence[str]) -> Sequence[str]:
        return [name for name in names if "/subagents/" in name and name.endswith(".jsonl")]
