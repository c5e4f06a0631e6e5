"""The scripted model at work on tasks: what it does follows from what it read, and errs as often as its table says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest

from demo.playbooks import LESSONS, PLAYBOOKS, Lesson, recognise
from demo.playbooks.habits import HABITS, HAND_CHECK, KEEP_FILES
from demo.playbooks.playbook import find_narrowing
from demo.scripted import Scripted
from demo.scripted_agent import ScriptedTurn, attempt, paragraphs
from demo.scripted_profile import PROFILES, Dice, ScriptedProfile
from demo.skill_text import add_citation, add_lesson, new_skill
from runner.agents import AgentJob, AgentRun
from runner.agents.shell import SYSTEM, Shell
from runner.agents.shell_tools import list_tools
from runner.base.errors import ModelRefused, SetupError
from runner.base.types import File, Files, ModelReply, ModelRequest, Phase, Step, Task, TrialSlot, Usage, Verdict
from runner.models import make_model
from runner.protocols.instruction import Notice, Trace, build_instruction
from runner.sandboxes.local import open_sandbox
from runner.suites.starter_suite import load_starter
from runner.suites.tasks.task_files import read_workspace_files
from runner.trajectories.compaction import ShownVerdict
from runner.verifying.verifier import run_verifier
from tests.cases import every

FAMILIES = {family.key: family for environment in load_starter().environments for family in environment.families}
TASKS = {task.key: task for family in FAMILIES.values() for task in family.tasks}
APPRENTICE, CAREFUL = PROFILES["apprentice"], PROFILES["careful"]
# Somebody who never errs and never finds anything out: what it knows, it has read.
READER = ScriptedProfile(
    skips_skills=0,
    opens_wrong_first=0,
    opens_second=1,
    follows_references=1,
    misapplies=0,
    learns_from_trace=1,
    stumbles=0,
    checks_by_hand=0,
    checks_when_asked=0,
    checks_after_failures=0,
    sees_gap=0,
    sees_trap=0,
    slips=0,
    drafts_badly=0,
    blunders=0,
    overlooks=0,
    leaks=0,
)


def skill(family: str, *lessons: str, narrow_to: str = "") -> str:
    known = FAMILIES[family]
    playbook = next(each for each in PLAYBOOKS if each.slug == known.slug)
    text = new_skill(known.slug, known.name, known.description, playbook, ())
    for key in lessons:
        text = add_lesson(text, LESSONS[key], narrow_to=narrow_to)
    return text


def complete_library(environment: str) -> dict[str, str]:
    """Both families' skills with every lesson."""
    return {
        f"{family.slug}/SKILL.md": skill(family.key, *(lesson.key for lesson in playbook.lessons))
        for family in FAMILIES.values()
        for playbook in PLAYBOOKS
        if family.environment == environment and playbook.slug == family.slug
    }


def play(
    task: str, seed: int, profile: ScriptedProfile, library: Mapping[str, str] | None = None, traces: str = ""
) -> list[ScriptedTurn]:
    """An attempt in which only the library answers; every other command stays silent."""
    text = build_instruction(TASKS[task], library=library is not None, frozen=False) + traces
    turns: list[ScriptedTurn] = []
    going = attempt(text, Dice(seed), profile)
    turns.append(next(going))
    while turns[-1].command is not None:
        command, observation = turns[-1].command, ""
        if command == "ls ../skills":
            observation = "\n".join(sorted({path.partition("/")[0] for path in library or {}})) or "[no output]"
        elif command.startswith("cat ../skills/"):
            observation = (library or {})[command.removeprefix("cat ../skills/")]
        turns.append(going.send(observation))
    return turns


def program(turns: list[ScriptedTurn]) -> str:
    written = [turn.command for turn in turns if turn.command and turn.command.startswith("cat > solve.py")]
    return written[-1].split("\n", 1)[1].removesuffix("EOF")


def handled_all(task: str, turns: list[ScriptedTurn]) -> bool:
    case = recognise(TASKS[task].instruction)[1]  # type: ignore[index]
    return program(turns) == case.program(frozenset(case.needs))


def commands(turns: list[ScriptedTurn]) -> list[str]:
    return [turn.command or "submit" for turn in turns]


# --- what it knows ----------------------------------------------------------------------------------------------


@every(*TASKS)
def test_it_falls_into_every_gap_that_nothing_it_read_closes(task: str) -> None:
    needs = recognise(TASKS[task].instruction)[1].needs  # type: ignore[index]
    curated = {path: file.content.decode() for path, file in FAMILIES[task[:6]].curated.items()}
    assert handled_all(task, play(task, 1, READER)) is not bool(needs)
    assert handled_all(task, play(task, 1, READER, library={})) is not bool(needs)
    assert handled_all(task, play(task, 1, READER, library=curated)) is not bool(needs)


@every(*TASKS)
def test_it_handles_everything_once_the_skills_say_it(task: str) -> None:
    assert handled_all(task, play(task, 1, READER, library=complete_library(task[:2])))


@pytest.mark.parametrize("task", ["E1-LS1-T6", "E1-LS2-T6", "E2-LS1-T6", "E2-LS2-T6"])
def test_it_needs_both_families_skills_for_a_composition(task: str) -> None:
    library = complete_library(task[:2])
    assert handled_all(task, play(task, 1, READER, library=library))
    for path in library:
        rest = {other: text for other, text in library.items() if other != path}
        assert not handled_all(task, play(task, 1, READER, library=rest))


def test_it_does_not_carry_over_a_lesson_that_names_another_tasks_file() -> None:
    narrow = {"null-safe-aggregation/SKILL.md": skill("E1-LS1", "missing-codes", narrow_to="visits.csv")}
    assert handled_all("E1-LS1-T2", play("E1-LS1-T2", 1, READER, library=narrow))
    turns = play("E1-LS1-T4", 1, READER, library=narrow)
    assert not handled_all("E1-LS1-T4", turns)
    assert any("visits.csv does not concern my files" in turn.text for turn in turns)


def test_it_reads_the_files_a_skill_cites_and_learns_from_them() -> None:
    base = skill("E1-LS1")
    reference = "# Odd values\n\n- " + LESSONS["missing-codes"].rule + "\n"
    library = {"null-safe-aggregation/SKILL.md": base, "null-safe-aggregation/references/odd-values.md": reference}
    assert not handled_all("E1-LS1-T2", play("E1-LS1-T2", 1, READER, library=library))
    library["null-safe-aggregation/SKILL.md"] = add_citation(base, "references/odd-values.md")
    assert handled_all("E1-LS1-T2", play("E1-LS1-T2", 1, READER, library=library))


def test_it_learns_from_an_earlier_trial_only_what_that_trial_shows() -> None:
    slot = TrialSlot(Phase.ACQUISITION, "E1-LS1-T2")

    def trace(text: str) -> str:
        whole = build_instruction(
            TASKS["E1-LS1-T4"],
            library=False,
            frozen=False,
            traces=(Trace(slot, ShownVerdict(Verdict("suite", True, 1.0)), text),),
        )
        return whole[whole.index("\n## Earlier trials") :]

    missing = LESSONS["missing-codes"].thought
    both = missing + "\n\n" + LESSONS["empty-groups"].thought
    assert not handled_all("E1-LS1-T4", play("E1-LS1-T4", 1, READER, traces=trace("I write the program.")))
    assert not handled_all("E1-LS1-T4", play("E1-LS1-T4", 1, READER, traces=trace(missing)))
    assert handled_all("E1-LS1-T4", play("E1-LS1-T4", 1, READER, traces=trace(both)))


@every(*LESSONS.values(), *HABITS)
def test_every_wording_of_a_lesson_teaches_it_and_the_narrow_one_names_its_file(lesson: Lesson) -> None:
    assert lesson.taught_by(lesson.rule)
    assert not find_narrowing(lesson.rule)
    assert lesson.taught_by(lesson.thought) or lesson in HABITS
    assert lesson.taught_by(lesson.surprise) or lesson in HABITS
    assert find_narrowing(lesson.narrow.format(file="visits.csv")) == {"visits.csv"}


@every(
    ("missing-codes", "Check the data dictionary: -999 means no reading, treat such sentinel values as null."),
    ("missing-codes", "Treat placeholder values like 999 as missing before aggregating."),
    ("empty-groups", "Emit every group, even groups without any valid values, with a null mean."),
    ("ready-made-figures", "Never trust a precomputed column; recompute from the raw values."),
    ("key-forms", "Normalize IDs on both sides (strip prefixes and leading zeros) before joining."),
    ("newest-entry", "If a key has several rows in the lookup, keep the most recent record."),
    ("never-by-position", "Join on the key, not by row position."),
    ("naive-times", "Naive timestamps must be interpreted in the source's local time zone."),
    ("clock-error", "Correct for clock skew: subtract the drift listed per device."),
    ("event-not-arrival", "Sort by when the event happened rather than the received timestamp."),
    ("identity-forms", "Canonicalize phone numbers: strip punctuation and spaces before comparing."),
    ("field-by-field", "Merge each field separately and prefer the latest non-empty value."),
    ("names-are-not-identities", "Do not merge by name; only the identifier is unique."),
)
def test_it_understands_other_authors_words(key: str, words: str) -> None:
    assert [
        paragraph
        for paragraph in paragraphs(f"## Steps\n\n1. Read.\n2. {words}\n")
        if LESSONS[key].taught_by(paragraph)
    ]


def test_paragraphs_are_joined_however_they_are_wrapped() -> None:
    text = "# Title\nintro goes\non here\n\n1. first\n   wrapped\n2. second\n- bullet\n"
    assert list(paragraphs(text)) == ["# Title intro goes on here", "1. first wrapped", "2. second", "- bullet"]


def test_it_hands_in_an_unknown_task_undone() -> None:
    assert [turn.command for turn in attempt("Write a poem.", Dice(1), APPRENTICE)] == ["ls", None]


# --- how often it errs ------------------------------------------------------------------------------------------

SEEDS = range(250)


def share(
    profile: ScriptedProfile, happened: Any, task: str = "E1-LS1-T2", library: Mapping[str, str] | None = None
) -> float:
    return sum(bool(happened(play(task, seed, profile, library))) for seed in SEEDS) / len(SEEDS)


@pytest.mark.parametrize("profile", [APPRENTICE, CAREFUL], ids=["apprentice", "careful"])
def test_it_leaves_skills_unread_as_often_as_its_table_says(profile: ScriptedProfile) -> None:
    unread = share(profile, lambda turns: "cat ../skills" not in str(commands(turns)), library=complete_library("E1"))
    assert unread == pytest.approx(profile.skips_skills, abs=0.05)


def test_it_forgets_less_with_a_skill_of_the_family_and_nothing_when_told_to_keep_its_files() -> None:
    def slipped(turns: list[ScriptedTurn]) -> bool:
        return "rm -f solve.py" in str(commands(turns)) or "notes.md" not in program(turns)

    told = {"null-safe-aggregation/SKILL.md": skill("E1-LS1") + f"\n- {KEEP_FILES.rule}\n"}
    always = replace(APPRENTICE, skips_skills=0)
    assert share(always, slipped) == pytest.approx(APPRENTICE.slips, abs=0.04)
    assert share(always, slipped, library={"null-safe-aggregation/SKILL.md": skill("E1-LS1")}) < share(always, slipped)
    assert share(always, slipped, library=told) == 0


def test_it_gets_out_of_a_trap_more_often_when_a_skill_asks_for_a_check_by_hand() -> None:
    asks = {"null-safe-aggregation/SKILL.md": skill("E1-LS1") + f"\n- {HAND_CHECK.rule}\n"}

    def escaped(turns: list[ScriptedTurn]) -> bool:
        return handled_all("E1-LS1-T5", turns)

    alone = share(APPRENTICE, escaped, "E1-LS1-T5")
    assert 0.05 < alone < 0.3
    assert share(APPRENTICE, escaped, "E1-LS1-T5", asks) > alone + 0.15


def test_it_solves_more_of_a_context_shift_with_lessons_than_without_but_not_all() -> None:
    def solved(turns: list[ScriptedTurn]) -> bool:
        return handled_all("E1-LS1-T4", turns)

    assert share(APPRENTICE, solved, "E1-LS1-T4", {}) < 0.15
    assert 0.5 < share(APPRENTICE, solved, "E1-LS1-T4", complete_library("E1")) < 0.9
    assert share(CAREFUL, solved, "E1-LS1-T4", complete_library("E1")) > 0.8


def test_it_takes_between_five_and_sixteen_turns() -> None:
    lengths = {len(play(task, seed, APPRENTICE, complete_library(task[:2]))) for task in TASKS for seed in range(20)}
    assert min(lengths) >= 5
    assert max(lengths) <= 16


# --- as a completion --------------------------------------------------------------------------------------------


def request(task: str = "E1-LS1-T1", seed: int | None = 5, *more: Mapping[str, Any]) -> ModelRequest:
    opening = ({"role": "system", "content": SYSTEM}, {"role": "user", "content": TASKS[task].instruction})
    return ModelRequest(messages=(*opening, *more), tools=list_tools(library=True), seed=seed)


def follow_up(reply: ModelReply, result: str) -> tuple[Mapping[str, Any], ...]:
    call = reply.tool_calls[0]
    function = {"name": call.name, "arguments": "{}"}
    return (
        {
            "role": "assistant",
            "content": reply.text,
            "tool_calls": [{"id": call.id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call.id, "content": result},
    )


def test_it_answers_equal_requests_equally_whichever_instance_is_asked() -> None:
    first = make_model("scripted/apprentice").complete(request())
    assert first == Scripted().complete(request())
    assert first.model == "scripted/apprentice"
    assert first.finish_reason == "tool_calls"


def test_it_has_dice_even_without_a_seed_and_keeps_them_over_turns() -> None:
    model = Scripted()
    first = model.complete(request(seed=None))
    assert model.complete(request(seed=None)) == first
    second = model.complete(request("E1-LS1-T1", None, *follow_up(first, "rain.csv")))
    assert second.tool_calls[0].id != first.tool_calls[0].id


def test_its_usage_counts_characters_and_what_the_last_turn_had_sent_already() -> None:
    model = Scripted()
    first = model.complete(request())
    second = model.complete(request("E1-LS1-T1", 5, *follow_up(first, "x" * 400)))
    assert first.usage.cached_tokens == 0
    assert second.usage.cached_tokens == pytest.approx(first.usage.input_tokens, abs=1)
    assert second.usage.input_tokens > first.usage.input_tokens + 100  # type: ignore[operator]
    assert first.usage.output_tokens
    assert first.usage.cost_usd is None


def test_it_submits_again_when_asked_to_go_on_after_the_end() -> None:
    model, messages = Scripted(), ()
    for _ in range(30):
        reply = model.complete(request("E1-LS1-T1", 5, *messages))
        messages += follow_up(reply, "")
    assert reply.tool_calls[0].name == "submit"


@pytest.mark.parametrize(
    "refused",
    [
        replace(request(), tools=()),
        replace(request(), tools=({"type": "function", "function": {"name": "browse"}},)),
        replace(request(), messages=({"role": "system", "content": "Hello"},)),
    ],
    ids=["plain text", "other tools", "no instruction"],
)
def test_it_refuses_what_it_has_no_answer_to(refused: ModelRequest) -> None:
    with pytest.raises(ModelRefused, match="scripted/apprentice"):
        Scripted().complete(refused)


def test_it_names_the_known_ones_when_asked_for_an_unknown_one() -> None:
    with pytest.raises(SetupError, match="scripted/apprentice, scripted/careful"):
        make_model("scripted/genius")


# --- in a real shell --------------------------------------------------------------------------------------------


class Steady(Scripted):
    """The model with another table of rates."""

    def __init__(self, profile: ScriptedProfile) -> None:
        super().__init__()
        self.profile = profile


def work(
    task: Task,
    profile: ScriptedProfile,
    library: Mapping[str, str] | None = None,
    seed: int = 3,
    notice: Notice = "ours",
) -> tuple[AgentRun, Verdict]:
    """The attempt with the real agent, a real sandbox and the real verifier."""
    files: Files = {path: File(text.encode()) for path, text in (library or {}).items()}
    sandbox = open_sandbox(task, name="test")
    try:
        sandbox.put("workspace", read_workspace_files(task))
        sandbox.put("skills", files)
        text = build_instruction(task, library=library is not None, frozen=False, notice=notice)
        steps: list[Step] = []
        job = AgentJob(task, text, (), seed, library=library is not None)
        run = Shell().run(job, sandbox, Steady(profile), steps.append)
        return run, run_verifier(task, sandbox)
    finally:
        sandbox.close()


def observations(run: AgentRun) -> Iterator[str]:
    for step in run.trajectories[0].steps:
        for observation in step.observations:
            yield observation.content


@pytest.mark.parametrize("notice", get_args(Notice))
def test_it_reads_its_skills_under_every_notice(notice: Notice) -> None:
    run, verdict = work(TASKS["E1-LS1-T4"], READER, complete_library("E1"), notice=notice)
    assert verdict.success
    commands = [call.arguments.get("command", "") for step in run.trajectories[0].steps for call in step.tool_calls]
    assert "ls ../skills" in commands


@pytest.mark.parametrize("task", ["E1-LS1-T4", "E2-LS2-T6"])
def test_it_passes_with_the_lessons_and_fails_without_them(task: str) -> None:
    run, verdict = work(TASKS[task], READER, complete_library(task[:2]))
    assert verdict.success
    assert run.failure is None
    _, without = work(TASKS[task], READER)
    assert without.success is False


def test_it_repairs_a_draft_that_crashed() -> None:
    run, verdict = work(TASKS["E1-LS1-T1"], replace(READER, drafts_badly=1))
    assert any("NameError" in text and "[exit code" in text for text in observations(run))
    assert verdict.success


def test_it_finds_a_trap_by_a_check_and_writes_its_program_anew() -> None:
    run, verdict = work(TASKS["E1-LS1-T5"], replace(READER, checks_by_hand=1, sees_trap=1))
    assert verdict.success
    steps = run.trajectories[0].steps
    assert sum("cat > solve.py" in str(step.tool_calls) for step in steps) == 2
    assert LESSONS["ready-made-figures"].surprise in [step.message for step in steps]


def test_a_trial_says_the_same_each_time() -> None:
    runs = [work(TASKS["E2-LS1-T4"], APPRENTICE, complete_library("E2"))[0] for _ in range(2)]
    said = [[replace(step, timestamp=None) for step in run.trajectories[0].steps] for run in runs]
    assert said[0] == said[1]
    assert runs[0].usage == runs[1].usage != Usage()
