"""Episodes of the starter suite worked on by the scripted model for real, each once for a module of tests;
golden histories."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.__main__ import chronicle
from runner.engine.engine import run_episode
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import toolbox_for
from runner.protocols.audit import audit
from runner.protocols.plan import EpisodePlan
from runner.suites.starter_suite import load_starter
from tests.runner.small_episode import ticking_clock

Play = Callable[[str], ListRecorder]
GOLDEN = Path(__file__).parents[1] / "golden"


def player(plan_of: Callable[[str], EpisodePlan], sandboxes: Callable[[str], Path]) -> Play:
    """condition -> the finished episode. `sandboxes` gives a new folder for the sandboxes of each."""
    done: dict[str, ListRecorder] = {}

    def play(condition: str) -> ListRecorder:
        if condition not in done:
            plan = plan_of(condition)
            recorder = ListRecorder(plan, ticking_clock())
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SKILLGLASS_SANDBOXES", str(sandboxes("boxes")))
                run_episode(plan, recorder, toolbox_for(plan, load_starter()))
            done[condition] = recorder
        return done[condition]

    return play


def check_history(recorder: ListRecorder, path: Path) -> None:
    """Compare a finished episode with its golden history. UPDATE_GOLDEN=1 rewrites the file."""
    text = chronicle(recorder.plan, recorder.history(), recorder.library, tuple(recorder.decisions))
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text(), path
    assert audit(recorder.plan, recorder.history()) == []
