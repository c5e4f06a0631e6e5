from runner.base.types import Observation, SkillUse, Source, Step, ToolCall, UseKind
from runner.trajectories.readers.shell_words import invocations
from runner.trajectories.readers.skill_use import skill_uses
from tests.cases import every

MOUNTED = {"csv-sums", "dates"}


def uses_of(
    name: str,
    arguments: dict[str, object],
    output: str | None = "some output",
    *,
    failed: bool = False,
    mounted: set[str] | None = MOUNTED,
) -> list[tuple[str, str, str | None]]:
    results = () if output is None else (Observation(output, "c", failed),)
    step = Step(1, Source.AGENT, tool_calls=(ToolCall("c", name, arguments),), observations=results)
    return [(use.skill, str(use.kind), use.path) for use in skill_uses([step], mounted=mounted) if use.step is not None]


def shell(command: object, output: str | None = "some output", **more: bool) -> list[tuple[str, str, str | None]]:
    return uses_of("Bash", {"command": command}, output, **more)


READ = [("csv-sums", "read", "SKILL.md")]
RUN = [("csv-sums", "executed", "scripts/add.py")]


@every(
    "cat ../skills/csv-sums/SKILL.md",
    "cat /root/.claude/skills/csv-sums/SKILL.md",
    "cat '/logs/agent/sessions/skills/csv-sums/SKILL.md' | head -20",
    "sed -n '1,80p' /root/.codex/skills/csv-sums/SKILL.md",
    "head -50 <../skills/csv-sums/SKILL.md; less ../skills/csv-sums/SKILL.md",
    "/bin/bash -lc \"sed -n '1,200p' /root/.codex/skills/csv-sums/SKILL.md\"",
    "bash -c 'cd /app/skills/csv-sums && cat SKILL.md'",
    "cd ../skills; cat csv-sums/SKILL.md",
    "cd ../skills/csv-sums/scripts && cat ../SKILL.md",
    "grep -n sum ../skills/csv-sums/SKILL.md",
    "ls; if true; then cat ../skills/csv-sums/SKILL.md; fi",
    "timeout 5 sudo -n cat ../skills/csv-sums/SKILL.md",
    "S=../skills/csv-sums; cat $S/SKILL.md",
    'for f in ../skills/csv-sums/SKILL.md ; do echo $f; cat "$f"; done',
    "cat <<EOF > note.txt\nhello\nEOF\ncat ../skills/csv-sums/SKILL.md",
    ["bash", "-lc", "cat ../skills/csv-sums/SKILL.md"],
    ["cat", "../skills/csv-sums/SKILL.md"],
)
def test_a_command_that_shows_a_file_of_a_skill_reads_it(command: object) -> None:
    assert shell(command) == READ


@every(
    "ls ../skills/csv-sums",
    "ls -la ../skills/csv-sums/SKILL.md",
    "find ../skills -name SKILL.md",
    "cat ../skills/csv-sums",
    "grep -R sum ../skills/csv-sums",
    "cp -r ../skills/csv-sums /tmp/",
    "echo 'see ../skills/csv-sums/SKILL.md'",
    "echo new > ../skills/csv-sums/SKILL.md",
    "cat text.md >> ../skills/csv-sums/SKILL.md",
    "cat <<'EOF' > notes.md\ncat ../skills/csv-sums/SKILL.md\nEOF",
    "sed -i s/a/b/ ../skills/csv-sums/SKILL.md",
    "cat ../skills/unknown/SKILL.md",
    "cat /root/.codex/skills/.system/skill-creator/SKILL.md",
    "cat myskills/csv-sums/SKILL.md",
    'echo "open quote ../skills/csv-sums/SKILL.md',
    "# cat ../skills",
)
def test_a_listing_a_copy_or_a_mention_is_no_use(command: str) -> None:
    assert shell(command) == []


@every(
    "python3 ../skills/csv-sums/scripts/add.py data.csv",
    "cd /logs/skills/csv-sums && python3 scripts/add.py --column b | head -5",
    "../skills/csv-sums/scripts/add.py data.csv",
    "bash -lc 'time python3.11 -u ../skills/csv-sums/scripts/add.py'",
    "uv run --with pandas ../skills/csv-sums/scripts/add.py",
    "PYTHONUNBUFFERED=1 python3 ../skills/csv-sums/scripts/add.py 2>/dev/null",
)
def test_running_a_script_of_a_skill_executes_it(command: str) -> None:
    assert shell(command) == RUN


def test_importing_from_the_scripts_of_a_skill_executes_it() -> None:
    code = "python3 - <<'EOF'\nimport sys\nsys.path.append('/root/.claude/skills/csv-sums/scripts')\nimport add\nEOF"
    assert [use[:2] for use in shell(code)] == [("csv-sums", "executed")]
    assert [use[:2] for use in shell("PYTHONPATH=../skills/csv-sums/scripts python3 solve.py")] == [
        ("csv-sums", "executed")
    ]


def test_writing_code_that_imports_a_skill_does_not_execute_it() -> None:
    code = "import sys\nsys.path.append('/root/.claude/skills/csv-sums/scripts')\n"
    assert uses_of("Write", {"file_path": "/app/solve.py", "content": code}) == []


def test_a_file_that_is_not_there_was_not_read() -> None:
    missing = "cat: ../skills/csv-sums/SKILL.md: No such file or directory"
    assert shell("cat ../skills/csv-sums/SKILL.md", missing) == []
    assert shell("cat ../skills/csv-sums/SKILL.md", missing, failed=True) == []
    assert (
        shell("python3 ../skills/csv-sums/scripts/add.py", "python3: can't open file '/x/scripts/add.py': [Errno 2]")
        == []
    )


def test_a_script_that_ran_and_failed_was_executed() -> None:
    assert shell("python3 ../skills/csv-sums/scripts/add.py", "ValueError: empty", failed=True) == RUN


def test_one_missing_file_does_not_hide_another() -> None:
    output = "# CSV sums\ncat: ../skills/dates/SKILL.md: No such file or directory"
    command = "cat ../skills/csv-sums/notes.md ../skills/dates/SKILL.md"
    assert shell(command, output) == [("csv-sums", "read", "notes.md")]


def test_a_pattern_reads_every_mounted_skill() -> None:
    both = [("csv-sums", "read", "SKILL.md"), ("dates", "read", "SKILL.md")]
    assert shell("cat ../skills/*/SKILL.md") == both
    assert shell('for f in ../skills/*/SKILL.md; do cat "$f"; done') == both


@every(
    ("Read", {"file_path": "/root/.claude/skills/csv-sums/SKILL.md"}),
    ("read_file", {"absolute_path": "/root/.gemini/skills/csv-sums/SKILL.md"}),
    ("read_many_files", {"paths": ["a.md", "../skills/csv-sums/SKILL.md"]}),
    ("str_replace_based_edit_tool", {"command": "view", "path": "../skills/csv-sums/SKILL.md"}),
    ("Grep", {"pattern": "sum", "path": "../skills/csv-sums/SKILL.md"}),
)
def test_file_tools_read(tool: str, arguments: dict[str, object]) -> None:
    assert uses_of(tool, arguments) == READ
    assert uses_of(tool, arguments, failed=True) == []


def test_editing_and_listing_tools_do_not_read() -> None:
    path = "../skills/csv-sums/SKILL.md"
    assert uses_of("str_replace_based_edit_tool", {"command": "create", "path": path}) == []
    assert uses_of("Write", {"file_path": path}) == []
    assert uses_of("Glob", {"pattern": "../skills/csv-sums/*"}) == []
    assert uses_of("Read", {"file_path": "../skills/csv-sums"}) == []


@every(
    ("Skill", {"skill": "csv-sums"}),
    ("Skill", {"skill": "plugin:csv-sums", "args": "x"}),
    ("activate_skill", {"name": "csv-sums"}),
    ("load_skill", {"name": "csv-sums"}),
    ("skill", {"name": "csv-sums"}),
)
def test_skill_tools_invoke_when_they_succeed(tool: str, arguments: dict[str, object]) -> None:
    assert uses_of(tool, arguments, "Launching skill: csv-sums") == [("csv-sums", "invoked", None)]
    assert uses_of(tool, arguments, "Launching skill: csv-sums", failed=True) == []
    assert uses_of(tool, arguments, "<tool_use_error>InputValidationError: name</tool_use_error>") == []
    assert uses_of(tool, arguments, "Skill not found: csv-sums") == []
    assert uses_of(tool, arguments, None) == []


def test_without_known_mounts_any_visible_skill_counts() -> None:
    assert uses_of("Bash", {"command": "cat ../skills/other/SKILL.md"}, mounted=None) == [("other", "read", "SKILL.md")]
    assert uses_of("Bash", {"command": "cat /r/skills/.system/x/SKILL.md"}, mounted=None) == []
    assert uses_of("Bash", {"command": "cat ../skills/*/SKILL.md"}, mounted=None) == []


def test_mounted_skills_come_first_and_uses_once_per_step() -> None:
    call = ToolCall("c", "Bash", {"command": "cat ../skills/dates/SKILL.md; cat ../skills/dates/a.md"})
    steps = [
        Step(1, Source.USER, "Read ../skills/csv-sums/SKILL.md"),
        Step(2, Source.AGENT, tool_calls=(call,)),
        Step(3, Source.AGENT, tool_calls=(call,)),
        Step(4, Source.AGENT, tool_calls=(call,), is_copied_context=True),
    ]
    assert skill_uses(steps, mounted=MOUNTED, trajectory="subagent-1") == (
        SkillUse("csv-sums", UseKind.MOUNTED, None, None, "subagent-1"),
        SkillUse("dates", UseKind.MOUNTED, None, None, "subagent-1"),
        SkillUse("dates", UseKind.READ, 2, "SKILL.md", "subagent-1"),
        SkillUse("dates", UseKind.READ, 3, "SKILL.md", "subagent-1"),
    )


def test_commands_without_shape_give_nothing() -> None:
    assert list(invocations("")) == []
    assert list(invocations("'")) == []
    assert uses_of("Bash", {"command": None}) == []
    assert uses_of("Bash", {}) == []
    assert uses_of("Skill", {"skill": 7}) == []
