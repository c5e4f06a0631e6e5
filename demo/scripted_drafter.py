"""The scripted model in all roles of a draft: architect, critic, reader, planner, writer. It only drafts table tasks.

It knows one procedure (`drafted_tables.py`) and says so if something else is asked for. Its drafts are valid: solutions
pass, untouched files fail. One defect is planted: in the last task of a first round the instruction names a missing
file. Its critic looks at the files, so it finds any such name, no matter who wrote it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from demo.drafted_tables import LEVELS, TRADES, TableRule, TableTask, Trade, find_rule, read_table_task
from demo.scripted_author import SKILL_FILE
from demo.scripted_profile import Dice, ScriptedProfile
from demo.scripted_prompt import mode_of, read_quoted, sections

Files = Mapping[str, str]
KEY_LINE = re.compile(r"^- (\S.*)$", re.MULTILINE)
FAMILY = re.compile(r"^family: (\S+)$", re.MULTILINE)
NAMED = re.compile(r"`([\w-]+\.[a-z]{2,5})`")
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(.*)")
UNABLE = "I'm unable to do that: this is the scripted model, and it knows only tables of records with one rule"


def draft(said: list[str], dice: Dice, profile: ScriptedProfile) -> str:
    """Return the reply to a prompt of a draft, by its occasion."""
    parts = sections(said[0])
    family = FAMILY.search(parts.get("Brief", ""))
    return _ANSWERS[mode_of(said[0])](parts, family[1] if family else "tables", dice)


def _reply(summary: str, **fields: object) -> str:
    return json.dumps({"summary": f"Scripted model: {summary}", **fields}, indent=1, ensure_ascii=False)


def _keys(parts: Mapping[str, str], title: str) -> list[str]:
    return KEY_LINE.findall(parts.get(title, ""))


def _shown(parts: Mapping[str, str], title: str) -> Files:
    return {match[1]: match[3] for match in SKILL_FILE.finditer(parts.get(title, ""))}


def _task_of(files: Files, key: str) -> Files:
    folder = f"tasks/{key}/"
    return {path.removeprefix(folder): text for path, text in files.items() if path.startswith(folder)}


def _placed(key: str, files: Files) -> dict[str, str]:
    return {f"tasks/{key}/{path}": text for path, text in files.items()}


# --- expansion --------------------------------------------------------------------------------------------------------

STEPS: tuple[tuple[str, str, str, str, list[str]], ...] = (
    ("s1", "read", "open the table of records", "Everything starts from it.", []),
    (
        "s2",
        "filter",
        "leave out records without an amount, and those that came before",
        "They would be counted.",
        ["s1"],
    ),
    ("s3", "compare", "hold each amount against the rule", "It decides what counts, and how.", ["s2"]),
    ("s4", "compute", "add up what counts by group", "The sums are what is asked for.", ["s3"]),
    ("s5", "output", "write the sums in the order of names", "Its form is given.", ["s4"]),
)


def _draw(parts: Mapping[str, str], family: str, dice: Dice) -> str:
    names = ("id", "label", "grounding", "why", "needs")
    steps = [dict(zip(names, step, strict=True)) for step in STEPS]
    return _reply("five steps from records to sums.", steps=steps)


def _expand(parts: Mapping[str, str], family: str, dice: Dice) -> str:
    if "Critique" in parts:
        return _revise(parts)
    keys, is_first = _keys(parts, "Tasks to draft"), "round: 1" in parts.get("Round", "").splitlines()
    files: dict[str, str] = {}
    for place, key in enumerate(keys):
        task = _expansion_task(key, place, is_first, dice)
        files |= _placed(key, task.files(Dice(int(dice.share(key) * 2**40))))
    if is_first and keys:
        _plant(files, keys[-1])
    return _reply(f"{len(keys)} tasks about tables.", files=files)


def _expansion_task(key: str, place: int, is_first: bool, dice: Dice) -> TableTask:
    """First rounds are easy to medium, second ones hard: more records and more odd ones."""
    number = int(re.sub(r"\D", "", key.rpartition("-")[2]) or place)
    trade = TRADES[number % len(TRADES)]
    rule = TableRule(("most", "least", "step")[number % 3], 20 + 5 * int(dice.share(f"{key}/rule") * 30))
    level = min(place, 1) if is_first else 2
    title = f"{trade.what.capitalize()} by {trade.group}"
    return TableTask(title, trade, rule, rule.says(trade.amount), level)


def _plant(files: dict[str, str], key: str) -> None:
    path = f"tasks/{key}/instruction.md"
    files[path] = re.sub(r"are in `([\w-]+)\.csv`", r"are in `\1-final.csv`", files[path])


def _revise(parts: Mapping[str, str]) -> str:
    """Correct the names that the critique quotes and change nothing else."""
    shown, critique = _shown(parts, "Tasks so far"), read_quoted(parts["Critique"])
    files: dict[str, str] = {}
    for key in _keys(parts, "Tasks to revise"):
        task = _task_of(shown, key)
        inputs = sorted(
            path.removeprefix("environment/") for path in task if path.endswith(".csv") and "environment" in path
        )
        for name in _missing_names(task):
            if name in critique and inputs:
                path = f"tasks/{key}/instruction.md"
                files[path] = files.get(path, task["instruction.md"]).replace(f"`{name}`", f"`{inputs[0]}`")
    if not files:
        return f"{UNABLE}, and repairs names of files."
    return _reply(f"put the names of files right in {len(files)} of the instructions.", files=files)


def _review(parts: Mapping[str, str], family: str, dice: Dice) -> str:
    shown = _shown(parts, "Tasks so far")
    found = [told for key in _keys(parts, "Tasks under review") for told in _defects(key, _task_of(shown, key))]
    reasons = found or [
        "Every file that an instruction names is there, and every test writes a reward; no more was looked at."
    ]
    return _reply("looked at names of files and at rewards.", accepts=not found, reasons=reasons)


def _defects(key: str, task: Files) -> Iterator[str]:
    for name in _missing_names(task):
        yield f"{key}, instruction.md: it names `{name}`, and neither environment/ nor the solution has such a file."
    if task and not any("reward" in text for path, text in task.items() if path.startswith("tests/")):
        yield f"{key}, tests/test.sh: it writes no reward."


def _missing_names(task: Files) -> list[str]:
    """Files that the instruction names but that are neither given nor written by the solution."""
    written = "\n".join(text for path, text in task.items() if path.startswith("solution/"))
    given = {path.rpartition("/")[2] for path in task if path.startswith("environment/")}
    named = dict.fromkeys(NAMED.findall(task.get("instruction.md", "")))
    return [name for name in named if name not in given and name not in written]


# --- corpus -----------------------------------------------------------------------------------------------------------


def _read(parts: Mapping[str, str], family: str, dice: Dice) -> str:
    found: list[dict[str, str]] = []
    for path, text in _shown(parts, "Corpus").items():
        for title, item in _items(text):
            found.append({"id": f"u{len(found) + 1}", "source": path, "title": title, "text": item})
    if not found:
        return f"{UNABLE}; the material has no list below a heading."
    return _reply(f"{len(found)} items of lists.", units=found)


def _items(text: str) -> Iterator[tuple[str, str]]:
    """(heading, item of a list below it, on one line however it was wrapped)."""
    title, item = "", ""
    for line in [*text.splitlines(), ""]:
        opens = ITEM.match(line)
        if item and (opens or not line.strip() or line.startswith("#")):
            yield title or "Rules", item
            item = ""
        if line.startswith("#"):
            title = line.lstrip("# ").strip()
        elif opens:
            item = opens[1].strip()
        elif item:
            item += f" {line.strip()}"


def _plan(parts: Mapping[str, str], family: str, dice: Dice) -> str:
    units = json.loads(read_quoted(parts["Knowledge units"]))
    usable = [unit for unit in units if find_rule(str(unit["text"]))]
    wanted = int(re.sub(r"\D", "", parts.get("How many", "")) or 1)
    if not usable:
        return f"{UNABLE}; none of the units has such a rule."
    scenarios = []
    for place in range(wanted):
        unit, trade = usable[place % len(usable)], TRADES[place % len(TRADES)]
        what = (
            f"Records of {trade.what}; the sum of {trade.amount} by {trade.group}, where the rule decides what counts."
        )
        title = f"{trade.what.capitalize()} by the rule under {unit['title']}"
        scenarios.append({"id": f"{trade.file}-{place + 1}", "title": title, "what": what, "units": [unit["id"]]})
    return _reply(f"{len(scenarios)} scenarios over {len(usable)} rules.", scenarios=scenarios)


def _write(parts: Mapping[str, str], family: str, dice: Dice) -> str:
    (key,) = _keys(parts, "Task to write")
    unit = next(
        (each for each in json.loads(read_quoted(parts["Knowledge units"])) if find_rule(str(each["text"]))), None
    )
    rule = find_rule(str(unit["text"])) if unit else None
    if unit is None or rule is None:
        return f"{UNABLE}; none of the scenario's units has such a rule."
    trade = _trade_of(key.removeprefix(f"{family}-"), dice)
    counts = "How a number counts" if rule.kind == "step" else "Which records count"
    told = f'{counts}, the source material says under "{unit["title"]}".'
    title = f"{trade.what.capitalize()} by {trade.group}"
    task = TableTask(title, trade, rule, told, int(dice.share("level") * len(LEVELS)))
    return _reply(f"a table in which the rule under {unit['title']} decides.", files=_placed(key, task.files(dice)))


def _trade_of(scenario: str, dice: Dice) -> Trade:
    return next((each for each in TRADES if scenario.startswith(each.file)), dice.pick("trade", TRADES))


# --- instances and reference skills -----------------------------------------------------------------------------------


def _vary(parts: Mapping[str, str], family: str, dice: Dice) -> str:
    """The same task with other data. Its instruction stays; "other words" means its list in another order."""
    (key,) = _keys(parts, "Task to write")
    shown = _shown(parts, "Base task")
    base = _task_of(shown, next(iter(shown)).split("/")[1]) if shown else {}
    task, variation = read_table_task(base), parts.get("Variation", "").partition(":")[0]
    if task is None:
        return f"{UNABLE}; the base task is not one."
    noisy = TableTask(task.title, task.trade, task.rule, task.told, task.level, note=variation == "noise")
    files = {**base, **noisy.files(dice), "instruction.md": base["instruction.md"]}
    files.pop("environment/Dockerfile", None)
    if variation == "other words":
        lines = files["instruction.md"].splitlines(keepends=True)
        places = [place for place, line in enumerate(lines) if line.startswith("- ")]
        turned = dict(zip(places, [lines[place] for place in reversed(places)], strict=True))
        files["instruction.md"] = "".join(turned.get(place, line) for place, line in enumerate(lines))
    return _reply(f"{variation}, by the same procedure.", files=_placed(key, files))


def _teach(parts: Mapping[str, str], family: str, dice: Dice) -> str:
    shown, keys = _shown(parts, "Tasks"), _keys(parts, "Tasks of the family, the canonical one first")
    gaps = []
    for key in keys[1:]:
        task = read_table_task(_task_of(shown, key))
        what = f"the rule of {task.trade.what}" if task else "what it asks for beyond the canonical task"
        gaps.append({"gap": f"How {key} differs: {what}.", "tasks": [key]})
    text = SKILL.format(family=family, title=family.replace("-", " ").capitalize())
    return _reply(f"a skill that leaves {len(gaps)} gaps.", skill_md=text, covers=keys[0], gaps=gaps)


SKILL = """\
---
name: {family}
description: Adds up a table of records by group and writes the sums as a table. Use it when records with an id, a group and an \
amount in a CSV file have to become totals by group.
---

# {title}

Goal: one line for each group with the sum of the records that count.

1. Read the instruction to its end and list what decides whether a record counts.
2. Look at the head of the table and at records that look odd.
3. Read the table with a CSV reader, never by splitting lines.
4. Leave out records without an amount before anything is converted to a number.
5. Decide record by record whether it counts, then add it to its group.
6. Write the columns in the order that is asked for, groups in the order of names.

If an amount cannot be read as a number, then look at the record before it is left out.

Check the result: add up one group by hand, and compare the number of groups with the table.
"""

_ANSWERS: Mapping[str, Callable[[Mapping[str, str], str, Dice], str]] = {
    "draft-workflow": _draw,
    "draft-tasks": _expand,
    "draft-review": _review,
    "draft-units": _read,
    "draft-scenarios": _plan,
    "draft-scenario-task": _write,
    "draft-instance": _vary,
    "draft-reference": _teach,
}
MODES = tuple(_ANSWERS)
