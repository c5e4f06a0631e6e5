"""Trials that read skills, with the steps in which they do: what the usage funnel is made of."""

from __future__ import annotations

from collections.abc import Sequence

from benchapp.models import Episode, SkillUse, Trial
from runner.base.types import Source, Step, ToolCall
from tests.worlds.factories import make_trial, record_steps


def skill(name: str, body: str = "Use the_tool.") -> dict[str, str]:
    return {f"{name}/SKILL.md": f"---\nname: {name}\n---\n\n{body}\n"}


def trial_of(episode: Episode, *, read: Sequence[str] = (), commands: Sequence[str] = (), **fields: object) -> Trial:
    """Reads at step 2 and on, as the factory has it; then does what `commands` say."""
    trial = make_trial(episode, read=read, **fields)  # type: ignore[arg-type]
    attempt = trial.counting_attempt()
    assert attempt is not None
    done = ["start", *(f"cat skills/{name}/SKILL.md" for name in read), *commands]
    steps = [
        Step(place, Source.AGENT, "", tool_calls=(ToolCall(f"c{place}", "shell", {"command": command}),))
        for place, command in enumerate(done, start=1)
    ]
    uses = list(attempt.skill_uses.all())
    trajectory = record_steps(attempt, steps)
    SkillUse.objects.bulk_create(
        SkillUse(attempt=attempt, trajectory=trajectory, step=use.step, skill=use.skill, kind=use.kind) for use in uses
    )
    return trial
