"""Where a failed trial parts from one of its task that passed: a skill that one alone opened,
else the first other action."""

from __future__ import annotations

import pytest
from django.urls import reverse

from benchapp.models import SkillUse
from runner.base.types import Observation, Source, Step, ToolCall
from tests.worlds.factories import make_trial, record_steps

pytestmark = pytest.mark.django_db


def shell(number, command, printed):
    call = ToolCall("c", "shell", {"command": command})
    return Step(number, Source.AGENT, tool_calls=(call,), observations=(Observation(printed, "c"),))


def meet(client, here, there, *, skills=((), ())):
    """Return a failed trial with these steps next to a passed one of its task; skills: (name, step) of each side."""
    failed = make_trial(success=False, phase="deployment", attempt={"steps": None})
    again = {"phase": "replay", "attempt": {"steps": None}}
    passed = make_trial(failed.episode, task=failed.task, success=True, **again)
    for trial, steps, used in zip((failed, passed), (here, there), skills, strict=True):
        record_steps(trial.counting_attempt(), steps)
        trajectory = trial.counting_attempt().trajectories.get()
        for skill, step in used:
            SkillUse.objects.create(
                attempt=trial.counting_attempt(), trajectory=trajectory, skill=skill, step=step, kind="read"
            )
    address = reverse("trial-parting", args=[failed.public_id, passed.public_id])
    return client.get(address, headers={"HX-Request": "true"}).text


def test_another_wording_that_prints_the_same_is_not_where_they_part(client):
    here = [shell(1, "ls data | sort", "one two three"), shell(2, "count rows with header", "9 rows")]
    there = [shell(1, "ls data", "one two three"), shell(2, "count rows without header", "8 rows")]
    assert 'data-parting="2"' in meet(client, here, there)
    assert 'data-parting="1"' in meet(client, here[:1], there[:1])  # nothing else tells them apart
    mine, theirs = (shell(1, f"cat > solve.py <<EOF\nprint({text})\nEOF", "exit 0") for text in ("total", "mean"))
    assert 'data-parting="1"' in meet(client, [mine, here[1]], [theirs, there[1]])  # what a file says shows later


def test_a_skill_that_one_of_them_alone_opened_is_where_they_part(client):
    look, opened, count = shell(1, "ls", "a"), shell(2, "cat skills/units/SKILL.md", "units"), shell(3, "wc -l", "9")
    mine = meet(client, [look, opened, count], [shell(1, "ls -la", "b"), count], skills=([("units", 2)], []))
    assert "Only this trial opened the skill <b>units</b>" in mine
    assert "<b>2</b> opened units, a pass did not" in mine
    theirs = meet(client, [look, count], [look, opened, count], skills=([], [("units", 2)]))
    assert "a pass opened units, this one did not" in theirs
    both = meet(client, [look, opened], [shell(1, "ls -la", "b"), opened], skills=([("units", 2)], [("units", 2)]))
    assert "opened" not in both
