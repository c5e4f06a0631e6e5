"""Kimi Code CLI, without a person: `kimi --prompt`. OpenAI's chat format, with Moonshot's additions for its own
address.

Seen with 2.1.0: skills are read from ~/.kimi-code/skills and ~/.agents/skills; its session log (wire.jsonl) has prompt,
tokens, results and one file per sub-agent, its events on standard output have no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.agents.agent_program import HOME, OUTPUT, ProgramAgent, ProgramStart
from runner.sandboxes.needs import DUMMY_KEY

# The program takes its prompt as an argument, which Linux caps at 128 KiB. So it is passed after the start, and child
# processes must not inherit it.
_PROMPT = """\
import { readFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

delete process.env.NODE_OPTIONS;
if (isMainThread) process.argv.push("--prompt", readFileSync(0, "utf8"));
"""
_OWN_PROVIDERS = ("moonshot", "kimi")


class KimiCode(ProgramAgent):
    """Its log does not give the reason for an early end, so every failure is ProgramFailed."""

    name = "kimi-code"
    provider_address = "https://api.moonshot.ai/v1"
    wire = "chat/completions"
    skill_folders = (f"{HOME}/.kimi-code/skills",)
    moving_variables = ("KIMI_CODE_HOME",)
    known_options = frozenset({"temperature", "top_p", "max_context_size"})

    def command(self, start: ProgramStart) -> Sequence[str]:
        """Put sessions where the program's output is kept."""
        prepare = 'mkdir -p "$1" "$HOME/.kimi-code" && ln -sfn "$1" "$HOME/.kimi-code/sessions" && shift && exec "$@"'
        return [
            *("sh", "-c", prepare, "sh", f"{start.folder}/sessions"),
            start.program,
            *("--output-format", "stream-json"),
        ]

    def environment(self, start: ProgramStart) -> Mapping[str, str]:
        options = {f"KIMI_MODEL_{name.upper()}": start.option(name) for name in sorted(self.known_options)}
        return {
            "KIMI_MODEL_NAME": start.preset.agent_model,
            "KIMI_MODEL_PROVIDER_TYPE": "kimi" if start.preset.provider in _OWN_PROVIDERS else "openai",
            "KIMI_MODEL_API_KEY": DUMMY_KEY,
            "KIMI_MODEL_BASE_URL": start.url,
            "KIMI_MODEL_MAX_COMPLETION_TOKENS": str(start.job.limits.max_output_tokens),
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
            "KIMI_DISABLE_TELEMETRY": "1",
            "KIMI_DISABLE_CRON": "1",
            "NODE_OPTIONS": f"--import={start.folder}/prompt.mjs",
            "NO_COLOR": "1",
            **{name: value for name, value in options.items() if value is not None},
        }

    def files(self, start: ProgramStart) -> Mapping[str, str]:
        return {"prompt.mjs": _PROMPT}

    def logs(self, names: Sequence[str]) -> Sequence[str]:
        return [*(name for name in names if name.endswith("/agents/main/wire.jsonl")), OUTPUT]

    def subagent_logs(self, names: Sequence[str]) -> Sequence[str]:
        return [name for name in names if name.endswith("/wire.jsonl") and not name.endswith("/agents/main/wire.jsonl")]
