"""What the trial page says of a session that copies another one, of its sub-agents and of its compactions."""

from __future__ import annotations

import json

import pytest

from benchapp.models import Trajectory, Trial
from tests.benchapp.import_folders import bring_in
from tests.benchapp.session_copies import FIRST, SECOND, claude_turns, write_lines

pytestmark = pytest.mark.django_db


def page_of(client, session: str, query: str = "") -> str:
    trial = Trial.objects.get(task__key=f"session {session}")
    return " ".join(client.get(trial.get_absolute_url() + query).content.decode().split())


def test_the_page_and_the_list_say_what_a_session_resumes(client, tmp_path):
    write_lines(tmp_path / f"{FIRST}.jsonl", claude_turns(FIRST, [1, 2]))
    write_lines(tmp_path / f"{SECOND}.jsonl", claude_turns(SECOND, [1, 2, 3]))
    bring_in(tmp_path)
    parent = Trial.objects.get(task__key=f"session {FIRST}")
    said = f'Resumes <a href="{parent.get_absolute_url()}">session {FIRST}</a>; its own work starts at step 5.'
    assert said in page_of(client, SECOND)
    assert page_of(client, SECOND).count(">copied</span>") == 4
    assert "6 steps, 4 copied" in page_of(client, SECOND)
    assert said in " ".join(client.get("/compare/trials/").content.decode().split())
    assert "Resumes" not in page_of(client, FIRST)


def test_a_parent_that_is_not_here_is_named_without_a_link(client, tmp_path):
    copied = [{**line, "forkedFrom": {"sessionId": FIRST}} for line in claude_turns(SECOND, [1])]
    bring_in(write_lines(tmp_path / f"{SECOND}.jsonl", copied + claude_turns(SECOND, [2])))
    said = f"Forks session {FIRST}; its own work starts at step 3. That session is not in this record."
    assert said in page_of(client, SECOND)


def with_subagent(folder, session: str = FIRST) -> None:
    lines = claude_turns(FIRST, [1])
    call = {"type": "tool_use", "id": "toolu_1", "name": "Agent", "input": {"description": "look", "prompt": "Look"}}
    lines[1]["message"]["content"] = [call]
    answer = {**lines[0], "uuid": "u9", "message": {"content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]}}
    write_lines(folder / f"{FIRST}.jsonl", [*lines, answer])
    inside = folder / FIRST / "subagents"
    write_lines(inside / "agent-a1.jsonl", [{**line, "agentId": "a1"} for line in claude_turns(session, [2])])
    (inside / "agent-a1.meta.json").write_text(json.dumps({"agentType": "Explore", "toolUseId": "toolu_1"}))


@pytest.mark.parametrize("session", [FIRST, SECOND])
def test_a_call_leads_to_its_sub_agent_and_back(client, tmp_path, session):
    with_subagent(tmp_path, session)
    bring_in(tmp_path)
    agent = Trajectory.objects.get(kind="subagent")
    assert Trial.objects.values_list("input_tokens", "output_tokens").get() == (30, 3)
    page = page_of(client, FIRST)
    assert f'<a href="?trajectory={agent.public_id}#steps">Sub-agent agent-a1</a>, 2 steps' in page
    assert "main 10 in, 1 out; agent-a1 20 in, 2 out" in page
    below = page_of(client, FIRST, f"?trajectory={agent.public_id}")
    assert f"?trajectory={agent.parent.public_id}&amp;at=2#step-2" in below


def test_a_compaction_is_a_mark_with_tokens_before_and_after(client, tmp_path):
    stamp = {"sessionId": FIRST, "isSidechain": False, "timestamp": "2026-03-01T10:01:40.000Z"}
    mark = {**stamp, "type": "system", "subtype": "compact_boundary", "uuid": "c1", "content": "Conversation compacted"}
    mark["compactMetadata"] = {"trigger": "auto", "preTokens": 9000}
    summary = {**stamp, "type": "user", "uuid": "c2", "isCompactSummary": True, "message": {"content": "So far: ..."}}
    lines = [*claude_turns(FIRST, [1]), mark, summary, *claude_turns(FIRST, [2])]
    bring_in(write_lines(tmp_path / f"{FIRST}.jsonl", lines))
    page = page_of(client, FIRST)
    assert "tokens: 9,000 before, 20 after" in page
    assert page.count("<b>compaction</b>") == 2


def test_an_error_of_the_provider_is_an_error_and_no_turn(client, tmp_path):
    lines = claude_turns(FIRST, [1, 2])
    lines[1]["message"] |= {"id": "x", "model": "<synthetic>", "usage": {"input_tokens": 0, "output_tokens": 0}}
    lines[1]["isApiErrorMessage"] = True
    del lines[3]["message"]["usage"]
    bring_in(write_lines(tmp_path / f"{FIRST}.jsonl", lines))
    assert Trial.objects.values_list("turns", "input_tokens").get() == (1, None)
    assert 'class="flag bad fine strong">error</span>' in page_of(client, FIRST)
