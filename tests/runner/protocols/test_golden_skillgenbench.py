"""SkillGenBench's tables: one corpus in both settings under each condition, worked on by the scripted model for real.

UPDATE_GOLDEN=1 writes the files anew; read the difference before committing it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runner.engine.engine import run_episode
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import toolbox_for
from runner.protocols.conditions import conditions_of
from tests.cases import every
from tests.runner.playing import GOLDEN, check_history
from tests.runner.small_episode import ticking_clock
from tests.worlds.corpora import AGNOSTIC, CONDITIONED, handbook_suite, plan_for

# A pass@3 of one of them; the others try each task once.
CASES = [
    (protocol, name) for protocol in (CONDITIONED, AGNOSTIC) for name in (*conditions_of(protocol), "naive-prompt@600")
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], ListRecorder]:
    """Setting and condition -> the finished episode."""

    def play(protocol: str, condition: str) -> ListRecorder:
        samples = 3 if (protocol, condition) == (CONDITIONED, "iterative") else 1
        plan = plan_for(condition, protocol, samples=samples)
        recorder = ListRecorder(plan, ticking_clock())
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path_factory.mktemp("boxes")))
            run_episode(plan, recorder, toolbox_for(plan, handbook_suite()))
        return recorder

    return play


@pytest.mark.slow
@every(*CASES)
def test_the_history_of_one_corpus_is_exactly_this(
    protocol: str, condition: str, played: Callable[[str, str], ListRecorder]
) -> None:
    check_history(played(protocol, condition), GOLDEN / protocol / f"{condition}.txt")


@pytest.mark.parametrize("protocol", [CONDITIONED, AGNOSTIC])
def test_every_condition_has_its_golden_history_and_no_other_file_lies_there(protocol: str) -> None:
    wanted = {f"{name}.txt" for setting, name in CASES if setting == protocol}
    assert {path.name for path in (GOLDEN / protocol).iterdir()} == wanted
