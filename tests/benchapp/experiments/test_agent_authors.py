"""Experiments whose authors are agents: the file, the launch, the record, the bill,
and what is made of it elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchapp.archive.archive_export import write_archive
from benchapp.archive.archive_import import take_in
from benchapp.audit import flaws
from benchapp.experiments.forks import fork
from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import Unlaunchable, read_spec
from benchapp.experiments.plans import cells_of
from benchapp.experiments.preparation import prepare
from benchapp.experiments.work import advance
from benchapp.experiments.work.budgets import count_spent
from benchapp.management.commands.sweep import sweep
from benchapp.models import Blob, Chunk, Decision, ModelCall, Run, Trajectory
from benchapp.record.record_digest import record_digest
from benchapp.record.trajectory_store import iterate_steps
from benchapp.stats.comparing.groups import Groups
from runner.base.errors import LeaseLost
from tests.providers.chat_provider import Provider
from tests.runner.agent_authors import SKILL, WRITE, calls_tool
from tests.runner.models.test_recorded_model import HEAD, LINES, write

pytestmark = pytest.mark.django_db

PRESET = """\
provider: house
agent_model: house-model
host_model: openai/gpt-4.1-mini
api_base_variable: HOUSE_AT
key_variable: HOUSE_PASS
prices: {input: 2, output: 8, cached: 0.5}
"""
KEY = "the words of the test's own pass"
FAMILY = "E1-LS1"
SPEC: dict[str, Any] = {
    "name": "Agents as authors",
    "suite": "starter",
    "protocol": "skilllearnbench",
    "environments": [FAMILY],
    "conditions": ["one-shot"],
    "replicates": 1,
    "agent": "nop",
    "author_model": "house",
    "author_agent": "shell",
    "sandbox": "local",
}
BARE = {name: value for name, value in SPEC.items() if name != "author_agent"}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    found = Provider()
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "house.yaml").write_text(PRESET)
    monkeypatch.setenv("SKILLGLASS_PRESETS", str(tmp_path / "presets"))
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    monkeypatch.setenv("HOUSE_AT", found.url)
    monkeypatch.setenv("HOUSE_PASS", KEY)
    yield found
    found.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Callable[..., Any]) -> Callable[..., Run]:
    """Launches with changes to the spec and works until no episode wants more."""
    queue: list[str] = []
    monkeypatch.setattr(advance, "put_hint", lambda episode, needs, **_: queue.append(episode) or True)

    def go(times: int = 100, **changes: Any) -> Run:
        with django_capture_on_commit_callbacks(execute=True):
            experiment = launch({**SPEC, **changes})
        while queue and times:
            advance.advance(queue.pop(0))
            times -= 1
        return experiment.runs.get()

    return go


def writes(provider: Provider) -> None:
    """A session of three calls that writes one skill and says why; told the key, it repeats it."""
    calls_tool(provider, "write", **WRITE)
    calls_tool(provider, "shell", command=f"echo 'Sort first. {KEY}' > summary.txt")
    calls_tool(provider, "submit")


def problems(**changes: Any) -> list[str]:
    with pytest.raises(Unlaunchable) as refused:
        prepare({**SPEC, **changes})
    return [str(problem) for problem in refused.value.problems]


# --- the file -----------------------------------------------------------------------------------------------------


def test_a_file_without_an_agent_reads_as_before_and_one_with_it_says_so() -> None:
    plain = read_spec({**SPEC, "author_agent": None}).file
    assert not {"author_agents", "author_limits"} & plain.keys()
    told = read_spec({**BARE, "author_agents": [None, "codex"], "author_limits": {"max_turns": 7}})
    assert told.file["author_agents"] == [None, "codex"]
    assert read_spec(told.file) == told


def test_limits_that_the_file_leaves_open_are_the_papers(provider: Provider) -> None:
    (plans,) = prepare({**SPEC, "author_limits": {"max_turns": 7}}).plans.values()
    limits = plans[0].author_limits
    assert (limits.max_turns, limits.timeout_seconds, limits.max_total_tokens) == (7, 1_800.0, None)
    assert plans[0].limits.max_turns == 40


def test_an_agent_is_an_axis_and_a_program_as_author_needs_none(provider: Provider) -> None:
    file = {**BARE, "author_agents": [None, "shell"], "conditions": ["no-skill", "one-shot"]}
    arms = [cell.arm for cell in cells_of(read_spec(file))]
    assert [(arm.condition, arm.author_agent) for arm in arms] == [
        ("no-skill", None),
        ("one-shot", None),
        ("no-skill", "shell"),
        ("one-shot", "shell"),
    ]
    assert str(arms[-1]) == "one-shot · nop · house · shell loop as author"
    digests = {plan.setup_digest for plans in prepare(file).plans.values() for plan in plans}
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"author_agent": "codez"}, "author_agents: unknown agent 'codez'"),
        ({"author_agent": "nop"}, "author_agents: nop asks no model and writes nothing"),
        ({"author_agent": "codex"}, "sandbox: codex as author: programs need a sandbox in a container"),
        ({"author_model": "generator/outline"}, "author_agents: shell works for a model"),
        ({"author_limits": {"max_turns": 0}}, "author_limits.max_turns"),
        ({"author_limits": {"turns": 3}}, "author_limits.turns: there is no such field (expected max_turns?)"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(provider: Provider, changes: dict[str, Any], told: str) -> None:
    assert [line for line in problems(**changes) if told in line], problems(**changes)


def test_a_recording_cannot_play_an_author_that_is_an_agent(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_RECORDINGS", str(tmp_path))
    write(tmp_path, HEAD, *LINES, name="old")
    (told,) = problems(author_model="recorded/old")
    assert told.startswith("author_agents: shell cannot work with recorded/old: a recording holds an author's answers")
    prepare({**BARE, "author_model": "recorded/old"})


# --- the run ------------------------------------------------------------------------------------------------------


def test_its_session_is_in_the_record_billed_once_and_clean_of_keys(
    provider: Provider, run: Callable[..., Run]
) -> None:
    writes(provider)
    done = run()
    assert (done.status, done.author_agent, done.author_model) == ("done", "shell", "house")
    assert done.setup["author"]["agent"]["name"] == "shell"
    call = ModelCall.objects.get(purpose="author")
    assert (call.status, call.input_tokens, call.cached_tokens, call.output_tokens) == ("answered", 300, 30, 15)
    cost = (270 * 2 + 30 * 0.5 + 15 * 8) / 1e6
    assert call.cost_usd == pytest.approx(cost)
    assert call.price_table
    assert count_spent(done).usd == pytest.approx(cost)
    assert count_spent(done).tokens == 315
    worked = Trajectory.objects.get(call=call)
    steps = list(iterate_steps(worked))
    assert (worked.attempt, len(steps), worked.extra["turns"]) == (None, 5, 3)
    decision = Decision.objects.get()
    assert decision.status == "applied"
    assert decision.summary.startswith("Sort first.")
    texts = decision.summary + str(steps) + call.reply.content().decode() + call.request.content().decode()
    assert KEY not in texts
    assert next(iter(decision.after.read().values())).content.decode() == SKILL
    assert list(flaws()) == []


def test_what_a_session_had_used_stays_billed_where_it_was_broken_off(
    provider: Provider, run: Callable[..., Run]
) -> None:
    calls_tool(provider, "shell", command="ls")
    provider.fails(400, "no such model")
    stopped = run(times=1)
    call = ModelCall.objects.get(purpose="author")
    assert (call.status, call.input_tokens, call.output_tokens) == ("failed", 100, 5)
    assert count_spent(stopped).tokens == 105
    assert not Decision.objects.exists()


def test_a_worker_that_vanished_leaves_its_part_of_the_bill(
    provider: Provider, run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is lost between two calls: nothing of the session is recorded but what it had used."""
    calls_tool(provider, "shell", command="ls")
    taken: list[int] = []

    def lose(recorder: Any, key: str, usage: Any, table: str) -> None:
        billing(recorder, key, usage, table)
        taken.append(usage.known_tokens)
        if len(taken) == 2:
            raise LeaseLost("taken over")

    billing = advance.RowRecorder.bill_call
    monkeypatch.setattr(advance.RowRecorder, "bill_call", lose)
    monkeypatch.setattr(advance.RowRecorder, "finish_call", lambda *_, **__: (_ for _ in ()).throw(LeaseLost("gone")))
    stopped = run(times=1)
    call = ModelCall.objects.get(purpose="author")
    assert (call.status, call.input_tokens, call.output_tokens) == ("started", 200, 10)
    advance.end_calls(stopped.episodes.get())
    call.refresh_from_db()
    assert (call.status, count_spent(stopped).tokens) == ("failed", 210)


def test_a_spent_budget_stops_the_session_and_its_part_is_counted_once(
    provider: Provider, run: Callable[..., Run]
) -> None:
    calls_tool(provider, "shell", command="ls")
    stopped = run(budget={"tokens": 250})
    episode = stopped.episodes.get()
    assert episode.blocked_reason.startswith("Budget spent.")
    assert count_spent(stopped).tokens == 315  # the call that was under way when 210 were used
    assert len(provider.asked) == 3


# --- what is made of it -------------------------------------------------------------------------------------------


def test_a_fork_has_the_session_and_is_not_billed_for_it(provider: Provider, run: Callable[..., Run]) -> None:
    writes(provider)
    origin = run()
    episode = origin.episodes.get()
    forked = fork(episode, before=3, reason="to look again")
    assert (forked.author_agent, forked.setup_digest) == (origin.author_agent, origin.setup_digest)
    call = ModelCall.objects.get(episode__run=forked)
    assert call.is_copy
    (copied,) = call.trajectories.all()
    assert copied.digest == Trajectory.objects.get(call__episode=episode).digest
    assert copied.chunks.count() == 1
    assert count_spent(forked).tokens == 0


def test_an_archive_carries_it(provider: Provider, run: Callable[..., Run], tmp_path: Path) -> None:
    writes(provider)
    experiment = run().experiment
    experiment.refresh_from_db()
    contents = set(Chunk.objects.exclude(trajectory__call=None).values_list("blob", flat=True))
    digest = record_digest(experiment)
    write_archive(experiment, tmp_path / "one.tar.zst")
    experiment.entomb(actor=None, reason="it comes back")
    sweep()
    assert not Trajectory.objects.exists()
    assert contents
    assert not Blob.objects.filter(pk__in=contents).exists()
    again = take_in(tmp_path / "one.tar.zst", source="here").experiment
    assert record_digest(again) == digest
    (worked,) = Trajectory.objects.exclude(call=None)
    assert len(list(iterate_steps(worked))) == 5
    assert again.runs.get().author_agent == "shell"


def test_two_groups_that_differ_in_it_alone_stay_apart_under_plain_names(
    provider: Provider, run: Callable[..., Run]
) -> None:
    prepared = launch({**BARE, "author_agents": [None, "shell"]})
    groups = Groups.of(prepared.runs.order_by("id"), "no-skill").all
    assert [group.label for group in groups] == [
        "one-shot · single call as author",
        "one-shot · shell loop as author",
    ]
    assert groups[0].narrowing["author_agent"] == ("",)
    alone = launch({**BARE, "name": "alone"})
    assert "author_agent" not in Groups.of(alone.runs.all(), "no-skill").all[0].narrowing
