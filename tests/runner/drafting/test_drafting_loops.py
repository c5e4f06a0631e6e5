"""Every loop to its end with the scripted model: what is asked, what it makes of the files,
and that the tasks are true."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo.scripted import Scripted
from demo.scripted_drafter import TRADES, TableRule, TableTask
from demo.scripted_profile import Dice
from runner.base.errors import SetupError
from runner.base.trees import write_tree
from runner.base.types import File, Files, ModelReply, ModelRequest
from runner.drafting import loops
from runner.drafting.draft import DraftBrief, Ended, Loop
from runner.screening.screening import screen_suite
from runner.suites import read_suite_folder
from runner.suites.workflows.workflow_file import read_workflows
from tests.cases import every
from tests.runner.drafts import CORPUS, PlayedDraft, go_on, make_brief, play, read_drafted, try_task


def seed_files(key: str = "fee-tables-1") -> Files:
    trade = TRADES[0]
    rule = TableRule("most", 90)
    task = TableTask("Parcels by depot", trade, rule, rule.sentence(trade.amount), 1)
    return {f"tasks/{key}/{path}": File(text.encode()) for path, text in task.files(Dice(3)).items()}


STARTS: dict[Loop, Files] = {
    Loop.EXPANSION: seed_files(),
    Loop.CORPUS: CORPUS,
    Loop.INSTANCES: seed_files(),
    Loop.REFERENCE: {**seed_files(), **seed_files("fee-tables-2")},
}


@pytest.mark.parametrize("loop", [Loop.EXPANSION, Loop.CORPUS, Loop.INSTANCES])
def test_drafted_tasks_are_solved_by_their_solution_and_neither_by_doing_nothing_nor_without_the_rule(
    loop: Loop, tmp_path: Path
) -> None:
    brief = make_brief(loop)
    draft = play(brief, STARTS[loop])
    assert draft.ended == Ended(True)
    tasks = read_drafted(brief, draft.files, tmp_path / "suite")
    assert [task.key for task in tasks] == loops.tasks_in(draft.files)
    for task in tasks:
        assert try_task(task, tmp_path / task.key / "solved", "solution/solve.sh") == "1", task.key
        assert try_task(task, tmp_path / task.key / "untouched") == "0", task.key
        assert try_task(task, tmp_path / task.key / "trapped", "trap/solve.sh") == "0", task.key


@pytest.mark.parametrize("loop", Loop)
def test_nothing_of_a_drafted_suite_is_found_to_leak(loop: Loop, tmp_path: Path) -> None:
    brief = make_brief(loop)
    read_drafted(brief, play(brief, STARTS[loop]).files, tmp_path / "suite")
    found = screen_suite(read_suite_folder(tmp_path / "suite"))
    expected = (
        {"same-task", "shared-answer-file", "shared-input"} if loop is Loop.REFERENCE else set()
    )  # one task twice
    assert {each.kind for each in found.findings} <= expected


@pytest.mark.parametrize("loop", Loop)
def test_a_loop_is_gone_on_with_by_its_files_and_answers_alone(loop: Loop) -> None:
    """Taken up again after any step, it asks what it would have asked, and ends with the same files."""
    brief, whole = make_brief(loop), play(make_brief(loop), STARTS[loop])
    for steps in range(len(whole.asks)):
        part = play(brief, STARTS[loop], most=steps)
        assert go_on(brief, PlayedDraft(part.files, answered=part.answered), Scripted().complete).files == whole.files


# --- expansion --------------------------------------------------------------------------------------------------------


def test_an_expansion_draws_a_workflow_and_goes_two_rounds_with_the_critic() -> None:
    draft = play(make_brief(Loop.EXPANSION), STARTS[Loop.EXPANSION])
    assert draft.keys == [
        *("workflow", "architect/1/1", "critic/1/1", "architect/1/2", "critic/1/2", "architect/2/1", "critic/2/1")
    ]
    assert [taken.accepts for taken in draft.taken] == [None, None, False, None, True, None, True]
    (filed,) = read_workflows(draft.files["workflow.json"].content, "workflow.json")
    assert [step.label for step in filed.workflow.steps] == ["read", "filter", "compare", "compute", "output"]
    assert loops.tasks_in(draft.files) == [f"fee-tables-{number}" for number in range(1, 6)]


def test_a_planted_defect_is_found_and_repaired_in_the_instruction_alone() -> None:
    first: list[Files] = []
    draft = play(
        make_brief(Loop.EXPANSION),
        STARTS[Loop.EXPANSION],
        between=lambda draft: first.append(draft.files) if draft.keys[-1].startswith("architect/1") else None,
    )
    path = "tasks/fee-tables-3/instruction.md"
    assert "-final.csv`" in first[0][path].content.decode()
    assert "-final.csv`" in draft.taken[2].words
    assert {name for name in first[1] if first[1][name] != first[0].get(name)} == {path}
    assert "-final" not in draft.text(path)


def test_a_critic_that_never_takes_ends_the_draft_after_as_many_revisions() -> None:
    brief = make_brief(Loop.EXPANSION, max_revisions=2)
    draft = play(brief, STARTS[Loop.EXPANSION], complete=_stubborn)
    assert [key for key in draft.keys if key.startswith("critic")] == ["critic/1/1", "critic/1/2", "critic/1/3"]
    assert draft.ended is not None
    assert not draft.ended.is_whole
    assert "round 1 3 times: Too easy." in draft.ended.reason


def _stubborn(request: ModelRequest) -> ModelReply:
    text = str(request.messages[1]["content"])
    if "mode: draft-review" in text:
        return ModelReply(json.dumps({"accepts": False, "reasons": "Too easy."}))
    if "## Critique" in text:
        return ModelReply(json.dumps({"files": {"tasks/fee-tables-2/instruction.md": "# Another\n"}}))
    return Scripted().complete(request)


def test_the_critique_and_what_people_made_of_the_tasks_are_in_the_next_prompt() -> None:
    path = "tasks/fee-tables-2/instruction.md"

    def edit(draft: PlayedDraft) -> None:
        if draft.keys[-1] == "critic/1/1":
            draft.files = {**draft.files, path: File(draft.files[path].content + b"\nWritten by a person.\n")}

    draft = play(make_brief(Loop.EXPANSION), STARTS[Loop.EXPANSION], between=edit)
    told = str(draft.asks[3].request.messages[1]["content"])
    assert draft.taken[2].words in told
    assert "Written by a person." in told
    assert "Written by a person." in draft.text(path), "a revision leaves what it does not name"


def test_a_given_workflow_is_kept_and_its_broken_file_ends_the_draft_until_it_is_right() -> None:
    drawn = play(make_brief(Loop.EXPANSION), STARTS[Loop.EXPANSION]).files["workflow.json"]
    brief = make_brief(Loop.EXPANSION)
    draft = play(brief, {"workflow.json": drawn}, most=1)
    assert draft.keys == ["architect/1/1"]
    assert "open the table of records" in str(draft.asks[0].request.messages[1]["content"])
    broken = {**draft.files, "workflow.json": File(drawn.content.replace(b'"read"', b'"reed"'))}
    ended = loops.next_ask(brief, broken, draft.answered)
    assert isinstance(ended, Ended)
    assert "workflow.json: families.fee-tables.fee-tables-1[1].steps[1].label" in ended.reason
    with pytest.raises(SetupError, match="label"):
        loops.check_start(brief, broken)


def test_tasks_of_an_expansion_are_ranked_by_difficulty(tmp_path: Path) -> None:
    brief = make_brief(Loop.EXPANSION)
    tasks = read_drafted(brief, play(brief, STARTS[Loop.EXPANSION]).files, tmp_path)
    assert [task.groups["rank"] for task in tasks] == [("1",), ("2",), ("3",), ("4",), ("5",)]
    assert [task.groups["difficulty"][0] for task in tasks[1:]] == ["easy", "medium", "hard", "hard"]


# --- corpus -----------------------------------------------------------------------------------------------------------


def test_a_corpus_becomes_units_scenarios_and_a_task_for_each() -> None:
    draft = play(make_brief(Loop.CORPUS), CORPUS)
    assert draft.keys == ["units", "scenarios", "task/parcels-1", "task/rainfall-2"]
    units = json.loads(draft.text("notes/units.json"))["units"]
    assert [unit["title"] for unit in units] == ["Weights", "Weights", "Opening hours", "Storage"]
    assert units[3]["text"].endswith("do not count as delivered.")
    told = draft.text("tasks/fee-tables-parcels-1/instruction.md")
    assert 'the source material says under "Weights"' in told
    assert "31500" not in told.replace(",", "")
    assert "31500" in draft.text("tasks/fee-tables-parcels-1/solution/solve.sh")


def test_what_people_make_of_units_and_scenarios_is_what_tasks_are_written_from() -> None:
    def edit(draft: PlayedDraft) -> None:
        files = dict(draft.files)
        if draft.keys[-1] == "units":
            text = draft.text("notes/units.json").replace("31,500", "2,000")
            files["notes/units.json"] = File(text.encode())
        if draft.keys[-1] == "scenarios":
            noted = json.loads(draft.text("notes/scenarios.json"))
            noted["scenarios"] = [*noted["scenarios"][:1], {**noted["scenarios"][1], "id": "meters-by-hand"}]
            files["notes/scenarios.json"] = File(json.dumps(noted).encode())
        draft.files = files

    draft = play(make_brief(Loop.CORPUS), CORPUS, between=edit)
    assert draft.keys[2:] == ["task/parcels-1", "task/meters-by-hand"]
    assert "amount > 2000" in draft.text("tasks/fee-tables-parcels-1/solution/solve.sh")


def test_a_task_that_a_person_wrote_for_a_scenario_is_not_asked_for() -> None:
    def edit(draft: PlayedDraft) -> None:
        if draft.keys[-1] == "scenarios":
            draft.files = {**draft.files, **seed_files("fee-tables-rainfall-2")}

    assert play(make_brief(Loop.CORPUS), CORPUS, between=edit).keys == ["units", "scenarios", "task/parcels-1"]


def test_a_corpus_with_its_tasks_is_read_as_a_corpus_with_a_reference_skill(tmp_path: Path) -> None:
    brief = make_brief(Loop.CORPUS)
    skill = {"skills/fee-tables/SKILL.md": File(b"---\nname: fee-tables\ndescription: Fees.\n---\n\n1. Add.\n")}
    write_tree(tmp_path, loops.suite_files(brief, {**play(brief, CORPUS).files, **skill}))
    (environment,) = read_suite_folder(tmp_path, strict=True).environments
    assert environment.corpus is not None
    assert list(environment.families[0].curated) == ["fee-tables/SKILL.md"]


@pytest.mark.parametrize("path", ["notes/units.json", "notes/scenarios.json"])
def test_notes_that_a_person_broke_end_the_draft_with_the_place(path: str) -> None:
    brief, draft = make_brief(Loop.CORPUS), play(make_brief(Loop.CORPUS), CORPUS, most=2)
    broken = {**draft.files, path: File(draft.files[path].content.replace(b'"id"', b'"name"', 1))}
    ended = loops.next_ask(brief, broken, draft.answered)
    assert isinstance(ended, Ended)
    assert ended.reason.startswith(f"{path}: ")
    assert "[1].id" in ended.reason


# --- instances and reference skills -----------------------------------------------------------------------------------


def test_instances_differ_in_data_and_keep_the_procedure() -> None:
    draft = play(make_brief(Loop.INSTANCES, tasks=3), STARTS[Loop.INSTANCES])
    assert draft.keys == ["instance/fee-tables-2", "instance/fee-tables-3", "instance/fee-tables-4"]
    data = [draft.text(f"tasks/fee-tables-{number}/environment/parcels.csv") for number in range(1, 5)]
    assert len(set(data)) == 4
    solutions = {draft.text(f"tasks/fee-tables-{number}/solution/solve.sh") for number in range(1, 5)}
    assert len(solutions) == 1
    assert "remark" in data[2]


def test_a_reference_skill_covers_the_canonical_task_and_names_its_gaps(tmp_path: Path) -> None:
    brief = make_brief(Loop.REFERENCE)
    draft = play(brief, STARTS[Loop.REFERENCE])
    noted = json.loads(draft.text("notes/gaps.json"))
    assert noted["covers"] == "fee-tables-1"
    assert [gap["tasks"] for gap in noted["gaps"]] == [["fee-tables-2"]]
    read_drafted(brief, draft.files, tmp_path)
    (environment,) = read_suite_folder(tmp_path).environments
    assert list(environment.families[0].curated) == ["fee-tables/SKILL.md"]


# --- the start --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loop", "needs"),
    [
        (Loop.EXPANSION, "a seed task (tasks/fee-tables-1/) or a workflow.json"),
        (Loop.CORPUS, "documents in corpus/"),
        (Loop.INSTANCES, "one task, tasks/fee-tables-1/; the draft begins with no task"),
        (Loop.REFERENCE, "at least one task"),
    ],
)
def test_a_loop_says_what_it_needs_to_begin_with(loop: Loop, needs: str) -> None:
    with pytest.raises(SetupError) as refused:
        loops.check_start(make_brief(loop), {})
    assert needs in str(refused.value)


def test_instances_are_not_made_of_two_tasks() -> None:
    with pytest.raises(SetupError, match="begins with 2 tasks"):
        loops.check_start(make_brief(Loop.INSTANCES), STARTS[Loop.REFERENCE])


@pytest.mark.parametrize("loop", [Loop.EXPANSION, Loop.INSTANCES])
def test_the_task_that_others_are_made_from_is_the_first_of_the_family(loop: Loop) -> None:
    brief, files = make_brief(loop), seed_files("fee-tables-2")
    with pytest.raises(SetupError, match="tasks/fee-tables-1/"):
        loops.check_start(brief, files)
    assert loops.tasks_in(loops.name_tasks(brief, files)) == ["fee-tables-1"]


def test_tasks_of_another_name_are_refused_and_can_be_given_one_that_fits() -> None:
    brief, files = make_brief(Loop.REFERENCE), {**seed_files("mold"), **seed_files("fee-tables-2")}
    with pytest.raises(SetupError, match="tasks/mold: expected a folder named fee-tables-<number>"):
        loops.check_start(brief, files)
    named = loops.name_tasks(brief, files)
    loops.check_start(brief, named)
    assert loops.tasks_in(named) == ["fee-tables-1", "fee-tables-2"]
    assert named["tasks/fee-tables-1/instruction.md"] == files["tasks/mold/instruction.md"]


@every("../corpus/a.md", "/corpus/a.md", "corpus/a\n.md", "corpus//a.md", "corpus/" + "a" * 300)
def test_a_start_with_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(SetupError, match="expected a path"):
        loops.check_start(make_brief(Loop.CORPUS), {**CORPUS, path: File(b"x")})


def test_a_brief_is_read_again_as_it_was_written() -> None:
    brief = DraftBrief(Loop.CORPUS, "fee-tables", "Fees.\nOf carriers.", 4, 2, "python:3.12-slim", 7)
    assert loops.brief_from_plain(json.loads(json.dumps(loops.brief_to_plain(brief)))) == brief
    assert loops.brief_from_plain({"loop": "corpus", "family": "fees"}) == DraftBrief(Loop.CORPUS, "fees")


@every(
    ("loop", "spiral"),
    ("family", "Fee Tables"),
    ("family", ""),
    ("family", "a" * 41),
    ("goal", 3),
    ("goal", "a\0b"),
    ("tasks", 0),
    ("tasks", True),
    ("tasks", "3"),
    ("max_revisions", -1),
    ("image", "two words"),
    ("seed", -1),
    ("colour", "red"),
)
def test_a_brief_with_a_wrong_field_names_it(field: str, value: object) -> None:
    with pytest.raises(SetupError, match=f"^{field}: "):
        loops.brief_from_plain({"loop": "corpus", "family": "fees", field: value})


@pytest.mark.parametrize("field", ["loop", "family"])
def test_a_brief_lacks_nothing_that_it_needs(field: str) -> None:
    plain = {"loop": "corpus", "family": "fees"}
    del plain[field]
    with pytest.raises(SetupError, match=f"^{field}: missing"):
        loops.brief_from_plain(plain)
