"""Outside generators: how they are found and read, what they are given, and what becomes of what they leave."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runner.authoring.occasion import Occasion
from runner.base.errors import ModelRefused, NotOnThisMachine, SandboxError, SetupError
from runner.base.types import AuthorMode, DecisionStatus, ModelRequest
from runner.engine.engine import advance, run_episode
from runner.engine.generator_step import run_name
from runner.engine.recorders import ListRecorder
from runner.engine.setup import describe_setup
from runner.engine.toolbox import Toolbox, toolbox_for
from runner.generators import find_generator, generator_folders
from runner.generators.generator_program import input_files
from runner.models import make_model
from runner.protocols import next_step
from runner.protocols.plan import Ask, EpisodePlan
from runner.sandboxes import local
from runner.suites.tasks.task_files import read_workspace_files
from tests.cases import every
from tests.runner.small_episode import ticking_clock
from tests.worlds.corpora import AGNOSTIC, CONDITIONED, COUNTED, HANDBOOK, handbook_suite, plan_for

EXAMPLES = Path(__file__).parents[3] / "examples" / "generators"
TEXT = r"---\nname: tidy\ndescription: Sort tables. Use for tables.\n---\n\n# Tidy\n\n1. Sort.\n"
Write = Callable[..., Path]
SKILL = f"mkdir -p output/skills/tidy; printf -- '{TEXT}' > output/skills/tidy/SKILL.md"


OCCASION = Occasion(
    AuthorMode.OUTSIDE, plan_for("plug-in").environment.families[0], False, None, "none", "paper", {}, (), ()
)


def setup_of(plan: EpisodePlan) -> dict[str, Any]:
    return describe_setup(
        handbook_suite(),
        protocol=plan.protocol,
        agent=plan.agent,
        agent_model=plan.agent_model,
        author_model=plan.author_model,
        sandbox="docker",
        feedback=plan.feedback,
        profile=plan.profile,
        answers=1,
        samples=1,
        limits=plan.limits,
    )


@pytest.fixture(autouse=True)
def _boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a generator of one shell script, name its folder in SKILLGLASS_GENERATORS and return that folder."""
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(tmp_path / "generators"))
    return partial(_write, tmp_path / "generators")


def _write(root: Path, script: str, folder: str = "own", **fields: Any) -> Path:
    place = root / folder
    place.mkdir(parents=True, exist_ok=True)
    values = {"name": folder, "version": "1", "command": ["sh", "program/run.sh"], "timeout_seconds": 20, **fields}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
    (place / "generator.toml").write_text("\n".join(lines) + "\n")
    (place / "run.sh").write_text(script)
    return root


def tools(plan: EpisodePlan) -> Toolbox:
    """Those of the plan, with its generator taken for a bundled one: the local sandbox runs no other."""
    return replace(toolbox_for(plan_for("plug-in"), handbook_suite()), author_model=make_model(str(plan.author_model)))


def answered(script: str, write: Write, **fields: Any) -> ListRecorder:
    """The episode up to the answer of this program."""
    write(script, **fields)
    plan = plan_for("plug-in", author_model="generator/own", answers=1)
    recorder = ListRecorder(plan, ticking_clock())
    advance(plan, recorder, tools(plan))
    return recorder


# --- finding and reading ------------------------------------------------------------------------------------------


def test_those_that_come_along_are_found_and_those_of_a_named_folder_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SKILLGLASS_GENERATORS", raising=False)
    assert set(generator_folders()) == {"outline"}
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    assert set(generator_folders()) == {"outline", *(folder.name for folder in EXAMPLES.iterdir())}
    assert find_generator("outline").bundled
    assert not find_generator("sections").bundled


def test_a_name_that_two_have_and_a_place_that_is_none_are_refused(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("", "outline")
    with pytest.raises(SetupError, match="two generators are called 'outline'"):
        generator_folders()
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(tmp_path / "nowhere"))
    with pytest.raises(SetupError, match="nowhere: expected a folder that holds generators"):
        generator_folders()


@every(
    ({"version": None}, r"generator\.toml: version: it is missing"),
    ({"name": "other"}, r"name: found 'other' \(expected the name of its folder"),
    ({"command": "sh run.sh"}, r"command: found .* \(expected a list of words\)"),
    ({"command": []}, r"expected a list of words"),
    ({"timeout_seconds": 1_801}, r"timeout_seconds: found 1801 \(expected 1 to 1800 seconds\)"),
    ({"timeout_seconds": True}, r"timeout_seconds"),
    ({"network": "yes"}, r"network: found 'yes' \(expected true or false\)"),
    ({"image": ""}, r"image"),
    ({"memory": 1}, r"memory: there is no such field"),
    ({"model": True}, r"model: found True \(expected one of chat/completions, responses, messages, generateContent\)"),
    ({"model": "openai"}, r"model: found 'openai'"),
    ({"model": "messages", "network": True}, r"network: a generator that calls a model reaches this model alone"),
)
def test_a_manifest_says_where_it_is_wrong(fields: dict[str, Any], told: str, write: Write) -> None:
    write("", **fields)
    with pytest.raises(SetupError, match=told):
        find_generator("own")


def test_a_manifest_may_come_from_an_editor_of_windows(write: Write) -> None:
    root = write("true\n")
    path = root / "own" / "generator.toml"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert find_generator("own").name == "own"


def test_a_folder_with_a_link_and_a_manifest_that_is_no_toml_are_refused(write: Write) -> None:
    root = write("")
    (root / "own" / "secrets").symlink_to("/etc")
    with pytest.raises(SetupError, match="it is a link"):
        find_generator("own")
    (root / "own" / "generator.toml").write_text("name = ")
    with pytest.raises(SetupError, match="expected a TOML file"):
        find_generator("own")


def test_an_unknown_one_is_answered_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKILLGLASS_GENERATORS", raising=False)
    with pytest.raises(SetupError, match="unknown generator 'outlin'; known: outline"):
        make_model("generator/outlin")


def test_its_version_changes_with_any_of_its_files_and_with_it_the_setup(write: Write) -> None:
    root = write("true\n")

    def version() -> str:
        return str(setup_of(plan_for("plug-in", author_model="generator/own"))["author"]["model_version"])

    before = version()
    (root / "own" / "run.sh").write_text("false\n")
    assert before.startswith("1+")
    assert version() != before


@every(
    ("chat/completions", "generator/own", r"calls a model \(expected generator/own\+<name of a preset>\)"),
    ("chat/completions", "generator/own+", r"expected generator/own\+<name of a preset>"),
    ("chat/completions", "generator/own+scripted/apprentice", r"expected generator/own\+<name of a preset>"),
    ("chat/completions", "generator/own+gpt-9000", r"unknown preset 'gpt-9000'"),
    (
        "chat/completions",
        "generator/own+claude-opus-4.6",
        r"preset claude-opus-4\.6 is of anthropic \(expected a preset",
    ),
    ("messages", "generator/own+gpt-5.4", r"calls messages, as anthropic has it, and preset gpt-5\.4 is of openai"),
    (None, "generator/own+gpt-5.4", r"calls no model \(expected generator/own\)"),
    (None, "generator/own+", r"calls no model \(expected generator/own\)"),
)
def test_a_name_goes_with_a_preset_where_and_only_where_the_generator_calls_a_model(
    wire: str | None, name: str, told: str, write: Write
) -> None:
    """A preset's key is never sent to another provider than its own."""
    write("", model=wire)
    with pytest.raises(SetupError, match=told):
        make_model(name)


@every(
    ("messages", "claude-opus-4.6"),
    ("chat/completions", "gpt-5.4"),
    ("responses", "gpt-5.3-codex"),
    ("generateContent", "gemini-2.5-pro"),
    ("chat/completions", "kimi-k2.5"),  # an address of its own
)
def test_its_model_is_a_part_of_the_setup(wire: str, preset: str, write: Write) -> None:
    write("", model=wire)
    setup = setup_of(plan_for("plug-in", author_model=f"generator/own+{preset}"))
    assert setup["author"]["model"] == f"generator/own+{preset}"
    assert setup["author"]["preset"]["name"] == preset
    model = make_model(f"generator/own+{preset}")
    assert (model.priced, model.price_table) == (make_model(preset).priced, make_model(preset).price_table)


def test_without_a_model_the_setup_names_none() -> None:
    assert "preset" not in setup_of(plan_for("plug-in"))["author"]
    assert "model" not in json.loads(input_files(OCCASION, seed=1)["input/request.json"].content)


def test_one_that_calls_a_model_needs_a_container_even_where_it_comes_along(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(SKILL, model="chat/completions")
    plan = plan_for("plug-in", author_model="generator/own+gpt-5.4")
    model = make_model("generator/own+gpt-5.4")
    model.generator.bundled = True  # type: ignore[attr-defined]
    assert model.container_reason == "it calls a model through a gateway"  # type: ignore[attr-defined]
    recorder = ListRecorder(plan, ticking_clock())
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    with pytest.raises(SetupError, match="needs a sandbox that gives it a way to its model"):
        advance(plan, recorder, tools(plan))


def test_a_model_whose_key_is_not_here_is_missed_before_anything_runs(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(SKILL, model="chat/completions")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    plan = plan_for("plug-in", author_model="generator/own+gpt-5.4")
    with pytest.raises(NotOnThisMachine, match="OPENAI_API_KEY is not set"):
        advance(plan, ListRecorder(plan, ticking_clock()), tools(plan))


def test_it_is_never_asked_for_a_completion() -> None:
    with pytest.raises(ModelRefused, match="answers no completion"):
        make_model("generator/outline").complete(ModelRequest(()))


# --- who may run where --------------------------------------------------------------------------------------------


def test_only_what_comes_along_runs_beside_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    with pytest.raises(SetupError, match=r"generator/sections: .* \(expected 'docker', not 'local'\)"):
        toolbox_for(plan_for("plug-in", author_model="generator/sections"), handbook_suite())
    toolbox_for(plan_for("plug-in", author_model="generator/outline"), handbook_suite())


def test_a_program_and_a_model_do_not_stand_in_for_one_another() -> None:
    with pytest.raises(SetupError, match=r"plug-in runs an outside program: .* not scripted/apprentice"):
        plan_for("plug-in", author_model="scripted/apprentice")
    with pytest.raises(SetupError, match="generator/outline is an outside program: .* not naive-prompt"):
        plan_for("naive-prompt", author_model="generator/outline")


# --- what it is given ---------------------------------------------------------------------------------------------

LOOK = f"find . ../skills ../tests ../logs -type f | sort; cat input/request.json; {SKILL}"


@pytest.mark.parametrize("protocol", [CONDITIONED, AGNOSTIC])
def test_it_finds_the_corpus_and_a_request_and_the_task_only_where_one_is_revealed(protocol: str, write: Write) -> None:
    write(LOOK)
    plan = plan_for("plug-in@2000", protocol, author_model="generator/own")
    recorder = ListRecorder(plan, ticking_clock())
    advance(plan, recorder, tools(plan))
    (decision,) = recorder.decisions
    said = str(recorder.reply(str(decision.call)).reasoning)  # type: ignore[union-attr]
    listed = {line.removeprefix("./") for line in said.partition("{")[0].splitlines()}
    corpus = {f"input/corpus/{path.relative_to(HANDBOOK)}" for path in HANDBOOK.rglob("*") if path.is_file()}
    always = {"input/request.json", "program/generator.toml", "program/run.sh"}
    task = {"input/task.md", *(f"input/files/{path}" for path in read_workspace_files(plan.task(COUNTED[0])))}
    assert listed == corpus | always | (task if protocol == CONDITIONED else set())
    request = json.loads(said[said.index("{") :])
    assert request["setting"] == ("task-conditioned" if protocol == CONDITIONED else "task-agnostic")
    assert request["budget_tokens"] == 2_000
    assert request["slug"] == "null-safe-aggregation"


# --- what becomes of it -------------------------------------------------------------------------------------------


def test_what_it_leaves_is_a_reply_and_a_patch_under_the_contract(write: Write) -> None:
    recorder = answered(f"echo working; {SKILL}", write)
    (decision,) = recorder.decisions
    assert decision.status is DecisionStatus.APPLIED
    assert set(recorder.library(decision.after)) == {"tidy/SKILL.md"}
    assert decision.summary == "generator/own 1 wrote 1 files of 1 skills."
    reply = recorder.reply(str(decision.call))
    assert reply is not None
    assert reply.reasoning == "working"
    (call,) = recorder.calls
    assert (call.purpose, call.model) == ("generator", "generator/own")
    asked = "\n".join(str(message["content"]) for message in call.request.messages)
    assert find_generator("own").digest in asked
    assert "rules/averages.md" in asked
    assert "codebook beside the table" not in asked  # the corpus is named, not copied


@every(
    ("echo no luck >&2; exit 3", r"exit code 3\.\nThe end of its output:\nno luck"),
    ("true", r"left no text file in output/skills\.\nIt printed nothing"),
    (f"{SKILL}; exit 1", r"exit code 1"),
    ("sleep 60", r"ended after 1 seconds"),
    ("rm -rf output; ln -s /etc output", r"left no text file .*\nNot taken: output/skills: a link"),
    ("ln -s /etc/passwd output/skills/SKILL.md", r"Not taken: SKILL\.md: a link"),
    ("exec no-such-program", r"exit code 127"),
    ("yes a rule | head -c 5000000 > output/skills/much.md", r"left 5,000,000 characters of text, expected at most 4,"),
)
def test_a_program_that_fails_has_answered_badly(script: str, told: str, write: Write) -> None:
    recorder = answered(script, write, timeout_seconds=1 if "sleep" in script else 20)
    (decision,) = recorder.decisions
    assert decision.status is DecisionStatus.FAILED
    assert recorder.library(decision.after) == {}
    assert re.search(told, decision.error), decision.error
    assert len(recorder.reply(decision.call).text) < 10_000  # what failed is told, not kept


def test_links_and_binary_files_are_told_and_not_taken(write: Write) -> None:
    script = f"{SKILL}; mkdir output/skills/tidy/assets; printf '\\377\\0' > output/skills/tidy/assets/logo.png; ln -s /etc output/skills/tidy/references"  # noqa: E501
    recorder = answered(script, write)
    (decision,) = recorder.decisions
    assert decision.status is DecisionStatus.APPLIED
    assert set(recorder.library(decision.after)) == {"tidy/SKILL.md"}
    assert "tidy/assets/logo.png: binary, 2 bytes" in decision.summary
    assert "tidy/references: a link" in decision.summary


def test_a_library_over_its_budget_is_rejected_and_one_below_is_not(write: Write) -> None:
    script = f"{SKILL}; yes 'a rule' | head -n 400 >> output/skills/tidy/SKILL.md"
    write(script)
    found = {}
    for tokens in (500, 800):
        plan = plan_for(f"plug-in@{tokens}", author_model="generator/own", answers=1)
        recorder = ListRecorder(plan, ticking_clock())
        advance(plan, recorder, tools(plan))
        found[tokens] = recorder.decisions[0]
    assert found[500].status is DecisionStatus.REJECTED
    assert [finding.rule for finding in found[500].findings if finding.severity == "error"] == ["generation-budget"]
    assert found[800].status is DecisionStatus.APPLIED


def test_a_rejected_library_does_not_spend_the_budget_of_the_next_answer(write: Write) -> None:
    script = f"{SKILL}; yes 'a rule' | head -n 4000 > output/skills/tidy/notes"
    write(script)
    plan = plan_for("plug-in@500", author_model="generator/own", answers=3)
    recorder = ListRecorder(plan, ticking_clock())
    advance(plan, recorder, tools(plan))
    assert [decision.status for decision in recorder.decisions] == [DecisionStatus.REJECTED] * 3
    assert len(recorder.calls) == 3


# --- the machine --------------------------------------------------------------------------------------------------


def test_a_committed_output_is_judged_and_the_program_is_not_run_again(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    write(f"echo run >> {runs}; {SKILL}")
    plan = plan_for("plug-in", author_model="generator/own")
    recorder = ListRecorder(plan, ticking_clock())
    monkeypatch.setattr(recorder, "decide", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        advance(plan, recorder, tools(plan))
    monkeypatch.undo()
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(tmp_path / "generators"))
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    run_episode(plan, recorder, tools(plan))
    assert runs.read_text() == "run\n"
    assert [decision.status for decision in recorder.decisions] == [DecisionStatus.APPLIED]


def test_a_sandbox_that_cannot_be_had_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "boxes").write_text("a file in the way")
    plan = plan_for("plug-in")
    recorder = ListRecorder(plan, ticking_clock())
    with pytest.raises(SandboxError):
        advance(plan, recorder, toolbox_for(plan, handbook_suite()))
    assert recorder.decisions == []
    (call,) = recorder.calls
    assert recorder.reply(call.key) is None


def test_what_an_interrupted_run_left_is_ended_by_the_next_one_of_its_name() -> None:
    plan = plan_for("plug-in")
    recorder = ListRecorder(plan, ticking_clock())
    due = next_step(plan, recorder.history())
    assert isinstance(due, Ask)
    task = plan.task(COUNTED[0])
    orphan = local.open_sandbox(task, name=run_name(plan, due))
    other = local.open_sandbox(task, name="generator-of-another")
    orphan.execute("sleep 300 &", timeout_seconds=10)
    advance(plan, recorder, toolbox_for(plan, handbook_suite()))
    assert not orphan.folder.exists()
    assert other.folder.exists()
    other.close()


# --- a second one, in another language ----------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [CONDITIONED, AGNOSTIC])
def test_the_example_in_shell_and_awk_writes_skills_that_hold_the_contract(
    monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    plan = plan_for("plug-in", protocol, author_model="generator/sections", answers=1)
    recorder = ListRecorder(plan, ticking_clock())
    run_episode(plan, recorder, tools(plan))
    (decision,) = recorder.decisions
    assert decision.status is DecisionStatus.APPLIED, decision.error or decision.findings
    assert not [finding for finding in decision.findings if finding.severity == "error"]
    library = recorder.library(decision.after)
    assert "codebook beside the table" in "".join(file.content.decode() for file in library.values())
