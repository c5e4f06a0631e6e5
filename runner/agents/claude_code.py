"""Claude Code, without a person: `claude -p`, its events as JSON lines. Anthropic's Messages format.

Seen with 2.1.330: skills are read from ~/.claude/skills. As root it bypasses permissions only if IS_SANDBOX is set. Two
of its own skills stay listed with bundled skills off and are switched off by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from runner.agents import PROGRAM_FAILED
from runner.agents.agent_program import HOME, ProgramAgent, ProgramLog, ProgramStart
from runner.base.text import cut
from runner.base.types import Failure
from runner.models.preset import Preset
from runner.sandboxes.needs import DUMMY_KEY

_SETTINGS = {
    "enabledPlugins": {"cc-plugin-plugin-authoring@builtin": False},
    "skillOverrides": {"doctor": "off"},
}


class ClaudeCode(ProgramAgent):
    """Failures of its own: TurnLimit, and ProgramFailed with what its last event says."""

    name = "claude-code"
    provider_address = "https://api.anthropic.com"
    wire = "messages"
    skill_folders = (f"{HOME}/.claude/skills",)
    moving_variables = (
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_MANAGED_SETTINGS_PATH",
        "CLAUDE_CODE_PLUGIN_CACHE_DIR",
        "CLAUDE_CODE_PLUGIN_DIRS",
        "CLAUDE_CODE_PLUGIN_SEED_DIR",
    )
    known_options = frozenset({"reasoning_effort"})

    def command(self, start: ProgramStart) -> Sequence[str]:
        effort = start.option("reasoning_effort")
        return [
            start.program,
            "--print",
            "--verbose",
            *("--output-format", "stream-json"),
            *("--permission-mode", "bypassPermissions"),
            *("--max-turns", str(start.job.limits.max_turns)),
            *("--model", start.preset.agent_model),
            *("--settings", json.dumps(_SETTINGS)),
            *(("--effort", effort) if effort else ()),
            *(("--disallowedTools", "WebSearch,WebFetch") if start.offline else ()),
        ]

    def environment(self, start: ProgramStart) -> Mapping[str, str]:
        """Set all model variables, so that helper calls, sub-agents and skills that name a model by its family
        ("opus") use the model under test and no other."""
        return {
            "ANTHROPIC_BASE_URL": start.url,
            "ANTHROPIC_API_KEY": DUMMY_KEY,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": start.preset.agent_model,
            "ANTHROPIC_DEFAULT_SONNET_MODEL": start.preset.agent_model,
            "ANTHROPIC_DEFAULT_OPUS_MODEL": start.preset.agent_model,
            "CLAUDE_CODE_SUBAGENT_MODEL": start.preset.agent_model,
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(start.job.limits.max_output_tokens),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",  # updates, telemetry, error reports, surveys
            "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",  # what is listed is the library, not the vendor's
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",  # would be a second memory next to the one under test
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }

    def models(self, preset: Preset) -> frozenset[str]:
        """Without the mark for a long context, which is the program's own and not part of the name."""
        return frozenset({preset.agent_model.removesuffix("[1m]")})

    def failure(self, log: ProgramLog) -> Failure | None:
        results = log.facts.get("results")
        last = results[-1] if isinstance(results, list) and results else {}
        if last.get("subtype") == "error_max_turns":
            return Failure("TurnLimit", f"Not done after {last.get('num_turns', 'the allowed')} turns.")
        if last.get("is_error") is True or last.get("subtype") not in (None, "success"):
            message = log.trajectories[0].steps[-1].message or log.errors
            return Failure(PROGRAM_FAILED, cut(message, 2_000))
        return None
