"""Oracle logs: every block is a call, and what upstream's way of counting loses."""

from __future__ import annotations

import json
from io import BytesIO, StringIO

from django.core.management import call_command

from benchapp.papers.release import calls_of_last_lines, read_logs, read_release
from tests.benchapp.import_folders import SKILL, write


def block(tool: str, number: int, **given: str) -> dict[str, object]:
    return {"type": "tool_use", "id": f"t{number}", "name": tool, "input": given}


def event(message: str, content: dict[str, object], **more: object) -> dict[str, object]:
    return {"type": "assistant", "message": {"id": message, "role": "assistant", "content": [content]}, **more}


def answer(number: int, text: str, **more: object) -> dict[str, object]:
    content = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": text, **more}]
    return {"type": "user", "message": {"role": "user", "content": content}}


LINES = [
    {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "skills": ["count-words", "batch"]},
    event("m1", {"type": "text", "text": "First the skill."}),
    event("m1", block("Skill", 1, skill="count-words")),
    event("m1", block("Skill", 2, name="batch")),
    answer(1, "Launching skill: count-words"),
    answer(2, "InputValidationError", is_error=True),
    event("m2", block("Bash", 3, command="wc -w a")),
    event("m2", {"type": "text", "text": "Counted."}),
    answer(3, "7 a"),
    event("m3", block("Bash", 4, command="ls"), parent_tool_use_id="t9"),
    {
        "type": "result",
        "subtype": "success",
        "num_turns": 3,
        "total_cost_usd": 0.5,
        "modelUsage": {"m": {"inputTokens": 10, "cacheReadInputTokens": 30, "outputTokens": 5}},
    },
]


def test_a_message_keeps_its_last_line_only_where_upstream_counts():
    told = "\n".join(map(json.dumps, LINES)).encode()
    assert calls_of_last_lines(BytesIO(told)) == 2  # m1's second call and the sub-agent's; m2 ends in text


def test_a_log_is_read_with_its_sub_agents(tmp_path):
    for skill in ("count-words", "other"):
        write(tmp_path / "skills/human_authored/words" / skill / "SKILL.md", SKILL)
    write(tmp_path / "eval_keypoints/words/words-1/claude-code.txt", "\n".join(map(json.dumps, LINES)) + "\n")
    write(tmp_path / "eval_keypoints/words/words-1/skill-key-points.generated.json", [])
    (log,) = read_logs(read_release(tmp_path))
    assert (log.task, log.instance, log.messages, log.calls, log.calls_of_last_lines) == ("words", "words-1", 3, 4, 2)
    assert (dict(log.used), log.mounted, log.use) == ({"count-words": ("invoked",)}, ("count-words", "other"), 0.5)
    assert (log.input_tokens, log.output_tokens, log.cost_usd) == (40, 5, 0.5)


def test_a_log_that_is_cut_off_has_no_total_and_is_reported(tmp_path):
    write(tmp_path / "skills/human_authored/words/count-words/SKILL.md", SKILL)
    broken = "\n".join(map(json.dumps, LINES[:4])) + '\n{"type": "assi'
    write(tmp_path / "eval_keypoints/words/words-1/claude-code.txt", broken)
    write(tmp_path / "eval_keypoints/words/words-1/skill-key-points.generated.json", [])
    out = StringIO()
    call_command("examine_skills", str(tmp_path), "--logs", stdout=out)
    assert "File problems: 1" in out.getvalue()
    assert "claude-code.txt, line 5" in out.getvalue()
    (row,) = [line for line in out.getvalue().splitlines() if line.startswith("mean of tasks")]
    assert row.split()[3:] == ["1", "1.00", "2.00", "1.00", "-", "-", "-", "0.00", "-"]
