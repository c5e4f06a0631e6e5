"""Screening a suite: each planted fault is found with its places, and what only looks like one stays silent."""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.base.encoding import decode, encode
from runner.base.suite import Suite
from runner.screening.screening import MAX_OF_KIND, screen_suite, screening_key
from runner.screening.suite_findings import KINDS, Screening, SuiteFinding, Weight
from runner.suites import SUITES, load_suite, read_suite_folder
from runner.suites.starter_suite import STARTER
from runner.suites.tasks.task_files import read_tree
from tests.cases import every
from tests.conftest import SHARED_DATA

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"
MANUAL = "# Manual of the scales\n\nA weight is in grams. Sum what each depot sent, and round to two decimals.\n" * 3
VERIFIER = '''"""The sums that the program must reach. Write /root/sums.json with one number per depot."""
import json
from pathlib import Path

EXPECTED = json.loads((Path(__file__).parent / "expected.json").read_text())


def test_every_depot_has_its_sum():
    found = json.loads(Path("/root/sums.json").read_text())
    for depot, expected_sum in EXPECTED["sums"].items():
        assert abs(found[depot] - expected_sum) < 0.005, "wrong sum"
    assert len(found) == 42
'''
SKILL = """---
name: depot-sums
description: Add up weights per depot.
---

# Sums per depot

Read every row. A pound is 0.45359237 kg. There are 42 depots, answers have two decimals.

```python
sums[depot] = sums.get(depot, 0.0) + float(weight)
```
"""


def write_instance(folder: Path, number: int) -> None:
    """A sound instance: rows of its own, a manual that all have, a verifier that all have, sums of its own."""
    rng = random.Random(number)
    rows = [(f"depot {rng.randrange(9)}", round(rng.uniform(1, 900), 2)) for _ in range(120)]
    sums: dict[str, float] = {}
    for depot, weight in rows:
        sums[depot] = round(sums.get(depot, 0.0) + weight, 2)
    files = {
        "task.toml": '[metadata]\ncategory = "sums"\n',
        "instruction.md": (
            f"Add up the weights in `/root/parcels_{number}.csv` of week {number} of 2026, for all 42 depots.\n\nThe "
            "expected output is `/root/sums.json`: depot -> sum, rounded to two decimals. The result must be correct "
            "to 0.01.\n"
        ),
        "environment/Dockerfile": "FROM python:3.12-slim\nCOPY . /root/\n",
        "environment/manual.md": MANUAL,
        f"environment/parcels_{number}.csv": "depot,weight\n" + "".join(f"{a},{b}\n" for a, b in rows),
        "tests/test.sh": "#!/bin/bash\npython3 -m pytest /tests/test_outputs.py && echo 1 > "
        "/logs/verifier/reward.txt\n",
        "tests/test_outputs.py": VERIFIER,
        "tests/expected.json": json.dumps({"sums": sums, "note": f"weighed by inspector number {number}"}, indent=1),
        f"tests/parcels_{number}.csv": "depot,weight\n" + "".join(f"{a},{b}\n" for a, b in rows),
        "solution/solve.sh": "#!/bin/bash\npython3 sum_up.py\n",
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SkillLearnBench's layout: a seed and three later instances, with a human skill."""
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    for number in (1, 2, 3, 4):
        write_instance(tmp_path / "r" / "tasks" / "sums" / f"sums-{number}", number)
    skill = tmp_path / "r" / "skills" / "human_authored" / "sums" / "depot-sums" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL)
    return tmp_path / "r"


def instance(release: Path, number: int) -> Path:
    return release / "tasks" / "sums" / f"sums-{number}"


def add(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def a_sum(release: Path, number: int) -> float:
    sums: dict[str, float] = json.loads((instance(release, number) / "tests/expected.json").read_text())["sums"]
    return sums["depot 3"]


def screened(release: Path) -> Screening:
    return screen_suite(read_suite_folder(release, "skilllearnbench"))


def only(release: Path, kind: str) -> SuiteFinding:
    (finding,) = screened(release).findings
    assert finding.kind == kind, finding
    assert finding.kind in KINDS
    return finding


def test_a_sound_suite_has_no_finding(release: Path) -> None:
    """Though all share a manual and a verifier, tests keep a copy of the input, and the instruction gives the expected
    42, names the output's path, and says "expected", "correct" and "result"."""
    assert screened(release) == Screening(())


@pytest.mark.parametrize("key", sorted(SUITES))
def test_the_bundled_suites_have_no_finding_but_a_true_one(key: str) -> None:
    """jetty-means, to practise on, has the readings of estuary-means word for word."""
    found = screen_suite(load_suite(key)).findings
    expected = {"starter-corpora": [("shared-input", Weight.LOOK, ("jetty-means", "estuary-means"))]}
    assert [(each.kind, each.weight, each.tasks) for each in found] == expected.get(key, [])


@every("skillevolbench", "skillflow", "skilllearnbench", "harbor/first-steps", "harbor/public-set")
def test_the_examples_have_no_finding_but_a_true_one(name: str) -> None:
    says = [each.says for each in screen_suite(read_suite_folder(EXAMPLES / name)).findings]
    gone = "E3-LS2-T6 composes with E3-LS5, which is not in this suite: no skill for it is learned here."
    assert says == ([gone] if name == "skillevolbench" else [])


@pytest.mark.shared_data
def test_real_skills_of_other_work_hold_nothing_of_the_starter_suites() -> None:
    """Human skills of SkillLearnBench's release in the place of ours: text and code as people write them."""
    folders = sorted(
        each for each in (SHARED_DATA / "skilllearnbench" / "skills" / "human_authored").iterdir() if each.is_dir()
    )
    curated = {path: file for each in folders for path, file in read_tree(each).items()}
    assert len(curated) > 10
    for name in ("starter", "starter-learning"):
        suite = load_suite(name)
        with_them = replace(
            suite,
            environments=tuple(
                replace(each, families=tuple(replace(family, curated=curated) for family in each.families))
                for each in suite.environments
            ),
        )
        assert screen_suite(with_them).findings == ()


# --- planted: files and answers shared ----------------------------------------------------------------------------


def test_an_input_of_the_seed_in_a_later_instance_is_found(release: Path) -> None:
    rows = (instance(release, 1) / "environment/parcels_1.csv").read_text()
    (instance(release, 3) / "environment/old.csv").write_text(rows)
    finding = only(release, "shared-input")
    assert (finding.weight, finding.tasks) == (Weight.LOOK, ("sums-1", "sums-3"))
    assert [(each.path, each.line) for each in finding.quotes] == [
        ("environment/parcels_1.csv", 0),
        ("environment/old.csv", 0),
    ]


def test_an_input_with_a_few_other_rows_is_nearly_equal_and_half_of_one_is_not(release: Path) -> None:
    rows = (instance(release, 1) / "environment/parcels_1.csv").read_text().splitlines()
    (instance(release, 3) / "environment/half.csv").write_text("\n".join(rows[:60]))
    assert screened(release).findings == ()
    (instance(release, 3) / "environment/most.csv").write_text("\n".join([*rows[:-4], "depot 4,7.25"]))
    finding = only(release, "near-input")
    assert (finding.weight, finding.tasks) == (Weight.LOOK, ("sums-1", "sums-3"))
    assert "of their word runs" in finding.says


def test_the_same_expected_values_in_two_instances_are_found(release: Path) -> None:
    shutil.copy(instance(release, 1) / "tests/expected.json", instance(release, 2) / "tests/expected.json")
    found = screened(release).findings
    assert {(each.kind, each.weight, each.tasks) for each in found} == {
        ("same-answer", Weight.LEAK, ("sums-1", "sums-2"))
    }
    assert any(each.quotes[0].path == "tests/expected.json" for each in found)


def test_the_same_values_in_other_files_are_found_by_the_values(release: Path) -> None:
    expected = json.loads((instance(release, 1) / "tests/expected.json").read_text())
    reordered = {"note": "weighed again", "sums": dict(reversed(expected["sums"].items()))}
    (instance(release, 4) / "tests/expected.json").write_text(json.dumps(reordered))
    finding = only(release, "same-answer")
    assert (finding.weight, finding.tasks) == (Weight.LEAK, ("sums-1", "sums-4"))
    assert "expect the same values" in finding.says


def test_a_copied_task_is_found(release: Path) -> None:
    for name in ("instruction.md", "environment/parcels_1.csv"):
        shutil.copy(instance(release, 1) / name, instance(release, 2) / name)
    (instance(release, 2) / "environment/parcels_2.csv").unlink()
    kinds = {each.kind: each for each in screened(release).findings}
    assert set(kinds) == {"same-task", "shared-input", "other-tests"}
    assert (kinds["same-task"].weight, kinds["same-task"].tasks) == (Weight.LEAK, ("sums-1", "sums-2"))


def test_one_number_that_two_instances_expect_by_chance_is_no_finding(release: Path) -> None:
    expected = json.loads((instance(release, 2) / "tests/expected.json").read_text())
    expected["sums"]["depot 3"] = a_sum(release, 1)
    (instance(release, 2) / "tests/expected.json").write_text(json.dumps(expected))
    assert screened(release).findings == ()


# --- planted: answers told ----------------------------------------------------------------------------------------


def test_an_instruction_that_tells_an_answer_is_found_with_both_places(release: Path) -> None:
    add(instance(release, 2) / "instruction.md", f"\nThe answer for depot 3 is {a_sum(release, 2)}.\n")
    finding = only(release, "answer-in-instruction")
    assert (finding.weight, finding.tasks) == (Weight.LEAK, ("sums-2",))
    here, there = finding.quotes
    assert (here.path, here.line, here.text) == ("instruction.md", 5, f"The answer for depot 3 is {a_sum(release, 2)}.")
    assert there.path == "tests/expected.json"
    assert str(a_sum(release, 2)) in there.text


def test_a_decimal_that_nobody_calls_the_answer_is_for_people_to_judge(release: Path) -> None:
    add(instance(release, 2) / "instruction.md", f"\nDepot 3 sent {a_sum(release, 2)} kg.\n")
    finding = only(release, "answer-in-instruction")
    assert finding.weight is Weight.LOOK
    assert finding.says.endswith("It may be a parameter.")


@pytest.mark.parametrize(
    "words",
    [
        "Each of the 42 depots counts; 100 parcels at most, the year is 2026, the expected accuracy 0.01.",
        "The correct file is /root/sums.json, the expected port 8080.",
        "Use the tax rate 0.0712 and the account 4711-0815.",
    ],
)
def test_parameters_and_common_numbers_are_no_answers(release: Path, words: str) -> None:
    add(instance(release, 2) / "instruction.md", f"\n{words}\n")
    add(instance(release, 2) / "tests/test_outputs.py", "    assert rate == 0.0712 and port == 8080 and year == 2026\n")
    assert screened(release).findings == ()


@pytest.mark.parametrize(
    ("words", "weight"),
    [
        ("The answer is 42.", Weight.LEAK),
        ("The solution for all of them: `42`", Weight.LEAK),
        ("The answer is at most 42 lines long.", None),
        ("There are 42 depots, so write 42 lines.", None),
        ("Altogether the weight is 48213.", Weight.LOOK),
        ("For reference, the weight is 48213.", Weight.LEAK),
        ("Send it to account 48213.", None),
        ("Altogether the weight is 48214.", None),
    ],
)
def test_a_plain_number_is_an_answer_only_by_what_is_said_of_it(
    release: Path, words: str, weight: Weight | None
) -> None:
    add(instance(release, 2) / "instruction.md", f"\n{words}\n")
    add(instance(release, 2) / "tests/test.sh", '[ "$(cat /root/sum.txt)" = 48213 ] || exit 1\n')
    found = screened(release).findings
    assert [(each.kind, each.weight) for each in found] == ([("answer-in-instruction", weight)] if weight else [])


def test_a_number_of_the_input_is_no_answer(release: Path) -> None:
    add(instance(release, 2) / "environment/parcels_2.csv", f"depot 99,{a_sum(release, 2)}\n")
    add(instance(release, 2) / "instruction.md", f"\nThe correct last row holds {a_sum(release, 2)}.\n")
    assert screened(release).findings == ()


def test_an_expected_text_is_found_where_words_call_it_the_answer_and_only_there(release: Path) -> None:
    text = "weighed by inspector number 2"
    add(instance(release, 2) / "instruction.md", f"\nThe file begins with the note: {text}\n")
    assert screened(release).findings == ()
    add(instance(release, 2) / "instruction.md", f"\nHint, the solution: {text}\n")
    # The first place decides; it is taken out.
    path = instance(release, 2) / "instruction.md"
    path.write_text(path.read_text().replace("The file begins with the note: " + text, ""))
    assert only(release, "answer-in-instruction").weight is Weight.LEAK


def test_a_skill_that_holds_an_expected_value_is_found_and_a_constant_of_the_domain_is_not(release: Path) -> None:
    skill = release / "skills/human_authored/sums/depot-sums/SKILL.md"
    for number in (1, 2, 3, 4):  # all verifiers convert, so the factor is knowledge
        add(instance(release, number) / "tests/test_outputs.py", "    assert pounds * 0.45359237 == kilograms\n")
    assert screened(release).findings == ()
    add(skill, f"\nFor depot 3, write {a_sum(release, 4)}.\n")
    finding = only(release, "answer-in-skill")
    assert (finding.weight, finding.tasks) == (Weight.LEAK, ("sums-4",))
    assert (finding.quotes[0].task, finding.quotes[0].path) == ("", "depot-sums/SKILL.md")
    assert finding.quotes[0].line == SKILL.count("\n") + 2


@pytest.mark.parametrize(
    ("copied", "to", "weight"),
    [
        ("tests/expected.json", "environment/data.json", Weight.LEAK),
        ("solution/solve.sh", "environment/bin/run.sh", Weight.LEAK),
        ("tests/test_outputs.py", "environment/test_sums.py", Weight.LOOK),
    ],
)
def test_tests_and_solutions_among_the_inputs_are_found(release: Path, copied: str, to: str, weight: Weight) -> None:
    place = instance(release, 3)
    add(place / "solution/solve.sh", "# " + "adds up what the depots sent " * 3 + "\n")
    (place / to).parent.mkdir(exist_ok=True)
    shutil.copy(place / copied, place / to)
    finding = only(release, "given-tests")
    assert (finding.weight, finding.tasks, finding.quotes[0].path) == (weight, ("sums-3",), to)


# --- planted: checks quoted, skills named -------------------------------------------------------------------------


def test_an_instruction_that_quotes_hidden_code_is_found(release: Path) -> None:
    code = 'for depot, expected_sum in EXPECTED["sums"].items(): assert abs(found[depot] - expected_sum) < 0.005'
    add(instance(release, 2) / "instruction.md", f"\nIn short: `{code}`\n")
    finding = only(release, "quoted-check")
    assert (finding.weight, finding.tasks) == (Weight.LEAK, ("sums-2",))
    assert [(each.path, each.line) for each in finding.quotes] == [("instruction.md", 5), ("tests/test_outputs.py", 10)]


def test_words_of_the_instruction_in_the_docstring_of_a_test_are_no_quote(release: Path) -> None:
    told = "Write /root/sums.json with one number per depot, rounded to two decimals, sorted by depot and nothing else in it"  # noqa: E501
    add(instance(release, 2) / "instruction.md", f"\n{told}.\n")
    add(instance(release, 2) / "tests/test_outputs.py", f'    """{told}."""\n    # {told}\n')
    assert screened(release).findings == ()


def test_the_name_of_a_hidden_check_is_found_and_that_of_a_public_one_is_not(release: Path) -> None:
    add(instance(release, 2) / "instruction.md", "\nIt must pass test_every_depot_has_its_sum.\n")
    assert "names a hidden check of sums-2: test_every_depot_has_its_sum" in only(release, "quoted-check").says
    public = "def test_every_depot_has_its_sum():\n    assert json.loads(open('/root/sums.json').read())\n"
    (instance(release, 2) / "environment/test_public.py").write_text(public)
    assert screened(release).findings == ()


def test_a_skill_that_quotes_a_check_is_found_and_common_code_is_not(release: Path) -> None:
    skill = release / "skills/human_authored/sums/depot-sums/SKILL.md"
    add(skill, '\n```python\nfound = json.loads(Path("/root/other.json").read_text())\n```\n')
    assert screened(release).findings == ()
    code = VERIFIER.partition("sum():\n")[2]
    add(skill, f"\n```python\n{code}```\n")
    finding = only(release, "quoted-check")
    assert finding.weight is Weight.LEAK
    assert finding.quotes[0].path == "depot-sums/SKILL.md"


def test_what_a_check_says_in_a_skill_is_found_unless_an_instruction_says_it_too(release: Path) -> None:
    said = "every depot that sent nothing in the week must stand in the file with a sum of zero"
    add(release / "skills/human_authored/sums/depot-sums/SKILL.md", f"\nNote: {said}.\n")
    assert screened(release).findings == ()
    add(instance(release, 3) / "tests/test_outputs.py", f'    assert found["depot 9"] == 0, "{said}"\n')
    finding = only(release, "quoted-check")
    assert (finding.weight, finding.tasks) == (Weight.LOOK, ("sums-3",))
    add(instance(release, 1) / "instruction.md", f"\nAnd {said}.\n")
    assert screened(release).findings == ()


@pytest.mark.parametrize(
    "text",
    [
        ", ".join(f'"tables/region_{number}/rows_of_{number}.csv"' for number in range(8)),
        " ".join(f"- {name}" for name in "oak ash elm yew fir pine birch beech alder maple rowan hazel holly".split()),
    ],
)
def test_paths_and_allowed_values_are_no_quoted_check(release: Path, text: str) -> None:
    listed = re.findall(r"[\w/.]+", text)
    add(instance(release, 2) / "tests/test_outputs.py", f"\nALLOWED = [\n    {', '.join(map(repr, listed))},\n]\n")
    add(instance(release, 2) / "instruction.md", f"\nThese are allowed: {text}\n")
    add(release / "skills/human_authored/sums/depot-sums/SKILL.md", f"\nThese are allowed: {text}\n")
    assert screened(release).findings == ()


def test_one_command_is_no_quoted_check_and_several_lines_of_a_script_are(release: Path) -> None:
    flags = " ".join(f"-Dstep{name}.skip=true" for name in "abcdefghijklmn")
    add(instance(release, 2) / "solution/solve.sh", f"mvn clean \\\n  package {flags}\n")
    add(
        instance(release, 2) / "tests/test.sh",
        "curl -LsSf https://astral.sh/uv/0.9.7/install.sh | sh -s -- --quiet now\n",
    )
    add(instance(release, 2) / "instruction.md", f"\nBuild it with `mvn clean package {flags}`.\n")
    skill = release / "skills/human_authored/sums/depot-sums/SKILL.md"
    add(skill, "\ncurl -LsSf https://astral.sh/uv/0.9.7/install.sh | sh -s -- --quiet now\n")
    assert screened(release).findings == ()
    lines = "\n".join(f"total{name}=$(wc -l < in_{name}.csv)" for name in "abcdefghij")
    add(instance(release, 2) / "solution/solve.sh", f"{lines}\n")
    add(instance(release, 2) / "instruction.md", f"\n```sh\n{lines}\n```\n")
    assert only(release, "quoted-check").weight is Weight.LOOK


def test_a_short_piece_of_code_in_a_skill_is_no_quote(release: Path) -> None:
    idiom = "for table in doc.tables: for row in table.rows: for cell in row.cells: for para in cell.paragraphs:"
    add(instance(release, 2) / "tests/test_outputs.py", f"    {idiom}\n        pass\n")
    add(release / "skills/human_authored/sums/depot-sums/SKILL.md", f"\n```python\n{idiom}\n```\n")
    assert screened(release).findings == ()


def test_inputs_that_instances_share_by_design_are_one_line(release: Path) -> None:
    for number in (1, 3):
        for name in ("a", "b", "c"):
            table = "".join(f"{name}{row},{row * 7}\n" for row in range(80))
            (instance(release, number) / f"environment/shared_{name}.csv").write_text(table)
    finding = only(release, "shared-input")
    assert finding.says == "sums-1 and sums-3 share 3 input files, such as this one."


def test_the_same_solution_and_environment_with_other_tests_is_found(release: Path) -> None:
    for name in ("environment", "solution"):
        shutil.rmtree(instance(release, 3) / name)
        shutil.copytree(instance(release, 2) / name, instance(release, 3) / name)
    add(instance(release, 3) / "instruction.md", "\nRound up.\n")
    kinds = {each.kind: each for each in screened(release).findings}
    assert kinds["other-tests"].tasks == ("sums-2", "sums-3")
    assert {each.path.partition("/")[0] for each in kinds["other-tests"].quotes} == {"tests"}
    shutil.rmtree(instance(release, 3) / "tests")
    shutil.copytree(instance(release, 2) / "tests", instance(release, 3) / "tests")
    assert "other-tests" not in {each.kind for each in screened(release).findings}


def test_an_instruction_that_quotes_the_solution_is_for_people_to_judge(release: Path) -> None:
    program = (
        "rows = list(csv.DictReader(open('parcels_2.csv')))\nfor row in rows:\n    depot = row['depot']\n    "
        "sums[depot] = round(sums.get(depot, 0.0) + float(row['weight']), 2)\njson.dump(sums, open('sums.json', "
        "'w'))\n"
    )
    (instance(release, 2) / "solution/sum_up.py").write_text(program)
    add(instance(release, 2) / "instruction.md", "\nBegin with `for row in rows:`.\n")
    assert screened(release).findings == ()
    add(instance(release, 2) / "instruction.md", f"\n```python\n{program}```\n")
    finding = only(release, "quoted-check")
    assert (finding.weight, finding.tasks) == (Weight.LOOK, ("sums-2",))
    assert [each.path for each in finding.quotes] == ["instruction.md", "solution/sum_up.py"]


@pytest.mark.parametrize(
    ("words", "is_found"),
    [
        ("Use the skill depot-sums for this.", True),
        ("Follow depot-sums.", True),
        ("Read skills/depot-sums/SKILL.md first.", True),
        ("The depot sums go to /root/depot-sums/all.json and depot-sums.csv.", False),
    ],
)
def test_an_instruction_that_names_the_skill_is_found(release: Path, words: str, is_found: bool) -> None:
    add(instance(release, 3) / "instruction.md", f"\n{words}\n")
    assert [each.kind for each in screened(release).findings] == (["named-skill"] if is_found else [])


def test_a_skill_of_one_common_word_is_named_only_beside_the_word_skill(release: Path) -> None:
    skills = release / "skills/human_authored/sums"
    (skills / "depot-sums").rename(skills / "depots")
    assert screened(release).findings == ()
    add(instance(release, 3) / "instruction.md", "\nThe depots skill tells how.\n")
    assert only(release, "named-skill").tasks == ("sums-3",)


# --- roles and traps ----------------------------------------------------------------------------------------------


@pytest.fixture
def starter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(STARTER, tmp_path / "starter"))


def test_adversarial_tasks_without_a_declared_wrong_answer_are_one_finding(starter: Path) -> None:
    for name in ("patient-list", "van-telemetry"):
        shutil.rmtree(starter / "tasks" / name / "trap")
    (finding,) = screen_suite(read_suite_folder(starter)).findings
    assert (finding.kind, finding.weight, finding.tasks) == ("trap", Weight.LOOK, ("E2-LS1-T5", "E2-LS2-T5"))


def test_a_trap_that_is_the_solution_is_found(starter: Path) -> None:
    task = starter / "tasks" / "patient-list"
    shutil.copy(task / "solution/solve.sh", task / "trap/solve.sh")
    (finding,) = screen_suite(read_suite_folder(starter)).findings
    assert (finding.kind, finding.weight, finding.tasks) == ("trap", Weight.LEAK, ("E2-LS2-T5",))


def test_a_composition_of_a_family_that_is_not_there_is_found(starter: Path) -> None:
    spec = starter / "tasks" / "alarm-night" / "task-spec.yaml"
    spec.write_text(spec.read_text().replace("- E2-LS2", "- E2-LS9"))
    (finding,) = screen_suite(read_suite_folder(starter)).findings
    assert (finding.kind, finding.tasks) == ("roles", ("E2-LS1-T6",))
    assert "E2-LS9" in finding.says


def test_a_deployed_task_that_repeats_a_learned_one_is_found_across_families(starter: Path) -> None:
    source = starter / "tasks" / "web-and-database-timeline" / "environment"
    file = max(source.iterdir(), key=lambda each: each.stat().st_size)
    shutil.copy(file, starter / "tasks" / "phone-book" / "environment" / "x.log")  # also learned from: no pair
    assert screen_suite(read_suite_folder(starter)).findings == ()
    shutil.copy(file, starter / "tasks" / "patient-list" / "environment" / "x.log")
    (finding,) = screen_suite(read_suite_folder(starter)).findings
    assert (finding.kind, finding.tasks) == ("shared-input", ("E2-LS1-T1", "E2-LS2-T5", "E2-LS2-T2"))


# --- bounds and bad input -----------------------------------------------------------------------------------------


ODD: dict[str, Callable[[random.Random], bytes]] = {
    "random bytes": lambda rng: rng.randbytes(5_000),
    "broken utf-8": lambda rng: b"expected: \xff\xfe 48213.77\n" * 50,
    "surrogates": lambda rng: "answer \ud800 12.3456\n".encode("utf-8", "surrogatepass") * 50,
    "controls": lambda rng: b"\x1b[31m answer 48213.77 \x1b[0m\r\r" * 50,
    "deep json": lambda rng: b"[" * 60_000 + b"]" * 60_000,
    "huge number": lambda rng: b'{"sum": ' + b"9" * 20_000 + b"}",
    "one long line": lambda rng: b"assert x == 12.3456 and " * 20_000,
    "open string": lambda rng: b'def test_x():\n    """never closed ' + b"assert a == 48213.77\n" * 30,
    "many brackets": lambda rng: b"[" * 400_000,
    "blank lines": lambda rng: b"\n" * 400_000,
    "many numbers in one line": lambda rng: b" ".join(b"%d.%04d7" % (n, n % 9_999) for n in range(40_000)),
    "words without end": lambda rng: b"a" * 400_000 + b"'" * 9,
    "quotes": lambda rng: b"'\"" * 200_000,
    "dots and digits": lambda rng: b"1.2-3_4/" * 60_000,
    "nul": lambda rng: b"a\0b" * 100,
    "empty": lambda rng: b"",
}


@pytest.mark.parametrize(("name", "seed"), [*((name, 1) for name in sorted(ODD)), ("random bytes", 2)])
def test_odd_bytes_anywhere_never_end_a_screening(release: Path, name: str, seed: int) -> None:
    content = ODD[name](random.Random(seed))
    for place in (
        "environment/a.csv",
        "tests/expected.json",
        "tests/expected.csv",
        "tests/test_outputs.py",
        "solution/answer.txt",
    ):
        (instance(release, seed) / place).write_bytes(content)
    (release / "skills/human_authored/sums/depot-sums/more.py").write_bytes(content)
    if content.isascii() and b"\0" not in content:
        (instance(release, seed) / "instruction.md").write_bytes(b"The answer is: " + content)
    suite = read_suite_folder(release, "skilllearnbench")
    began = time.perf_counter()
    found = screen_suite(suite)
    assert time.perf_counter() - began < 60  # some seconds; what is quadratic takes hours
    assert decode(Screening, json.loads(json.dumps(encode(found)))) == found
    for finding in found.findings:
        assert all(text.isprintable() for each in finding.quotes for text in (each.path, each.text))


def test_a_file_that_is_too_long_or_binary_is_compared_as_a_whole_and_told(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.screening.screened_texts.MAX_TEXT_BYTES", 4_000)
    for number in (1, 3):
        (instance(release, number) / "environment/long.csv").write_text("a,b\n" * 2_000)
        (instance(release, number) / "environment/map.bin").write_bytes(b"\0\1" * 90)
    found = screened(release)
    assert [(each.kind, each.tasks) for each in found.findings] == [("shared-input", ("sums-1", "sums-3"))]
    assert sorted(found.skipped) == [
        "2 files not text in UTF-8, such as sums-1/environment/map.bin",
        "2 files too long to be read, such as sums-1/environment/long.csv",
    ]


def test_many_findings_of_a_kind_are_capped_and_counted(release: Path) -> None:
    for number in range(MAX_OF_KIND + 5):
        for part in ("environment", "solution"):
            (instance(release, 1) / f"{part}/copy_{number}.py").write_text(f"print({number}, 'of many copies')\n" * 9)
    found = screened(release)
    assert (len(found.findings), found.more) == (MAX_OF_KIND, 5)


def test_the_key_moves_with_the_suite_and_with_its_traps_alone(starter: Path) -> None:
    before = screening_key(read_suite_folder(starter))
    (starter / "tasks" / "patient-list" / "trap" / "solve.sh").write_text("true\n")
    after = read_suite_folder(starter)
    assert screening_key(after) != before
    assert after.digest == read_suite_folder(starter).digest


def keys_of(suite: Suite) -> list[Any]:
    return [task.key for each in suite.environments for family in each.families for task in family.tasks]


@pytest.mark.slow
def test_a_large_release_is_screened_in_bounded_time_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 tasks with 2 MB each of tables and binaries: memory follows one family's texts, not the release."""
    import tracemalloc

    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    rng = random.Random(5)
    for number in range(16):
        place = tmp_path / "s" / "tasks" / f"family{number % 8}" / f"task{number}"
        write_instance(place, number)
        (place / "environment" / "book.xlsx").write_bytes(b"PK\0" + rng.randbytes(1_500_000))
        (place / "environment" / "rows.csv").write_text(
            "".join(f"{rng.random()},{rng.random()}\n" for _ in range(4_000))
        )
    suite = read_suite_folder(tmp_path / "s", "harbor")
    assert len(keys_of(suite)) == 16
    tracemalloc.start()
    began = time.perf_counter()
    found = screen_suite(suite)
    seconds, peak = time.perf_counter() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.findings == ()
    assert seconds < 200  # some 10 on an idle machine, and tracing memory makes it several times slower
    assert peak < 40e6
