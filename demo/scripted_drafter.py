"""The scripted model in all roles of a draft: architect, critic, reader, planner, writer. It only drafts table tasks.

It knows one procedure and says so if something else is asked for. Its drafts are valid: solutions
pass, untouched files fail. One defect is planted: in the last task of a first round the instruction names a missing
file. Its critic looks at the files, so it finds any such name, no matter who wrote it.

A task is about records of some trade, with one rule that decides and sums by group: read, drop records without an
amount and repeated ones, apply the rule, add up, write. Tasks differ in the trade, the data, the rule and the number
of odd records. The dice decide everything. Tests and solution agree, as both come from one rule. A result without the
rule is wrong, as there are records on both sides of its limit; this is the declared trap.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from demo.scripted_author import SKILL_FILE
from demo.scripted_profile import Dice, ScriptedProfile
from demo.scripted_prompt import mode_of, read_quoted, sections

Files = Mapping[str, str]
KEY_LINE = re.compile(r"^- (\S.*)$", re.MULTILINE)
FAMILY = re.compile(r"^family: (\S+)$", re.MULTILINE)
NAMED = re.compile(r"`([\w-]+\.[a-z]{2,5})`")
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(.*)")
UNABLE = "I'm unable to do that: this is the scripted model, and it knows only tables of records with one rule"
MAX_NUMBER = 10**9
LEVELS = ("easy", "medium", "hard")
_EXCLUDES = re.compile(r"not count|refused|rejected|left out|void|not accepted", re.IGNORECASE)
_NUMBER = r"(\d{1,3}(?:,\d{3})+|\d+)"
_SAID = (  # (kind, how a text says it, does it need a word of exclusion?)
    ("step", rf"rounded up to the next (?:full |whole )?{_NUMBER}", False),
    ("most", rf"\b(?:at most|no more than) {_NUMBER}", False),
    ("least", rf"\b(?:at least|no less than) {_NUMBER}", False),
    ("most", rf"\b(?:more|longer|heavier|higher|later) than {_NUMBER}", True),
    ("least", rf"\b(?:less|fewer|shorter|lighter|lower) than {_NUMBER}", True),
)
_CODED = (("most", r"if amount > (\d+):"), ("least", r"if amount < (\d+):"), ("step", r"-\(-amount // (\d+)\)"))


def draft(contents: list[str], dice: Dice, profile: ScriptedProfile) -> str:
    """Return the reply to a prompt of a draft, by its occasion."""
    parts = sections(contents[0])
    family = FAMILY.search(parts.get("Brief", ""))
    return _ANSWERS[mode_of(contents[0])](parts, family[1] if family else "tables", dice)


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
    return TableTask(title, trade, rule, rule.sentence(trade.amount), level)


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
    found = [defect for key in _keys(parts, "Tasks under review") for defect in _defects(key, _task_of(shown, key))]
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
    wording = f'{counts}, the source material says under "{unit["title"]}".'
    title = f"{trade.what.capitalize()} by {trade.group}"
    task = TableTask(title, trade, rule, wording, int(dice.share("level") * len(LEVELS)))
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
    noisy = TableTask(task.title, task.trade, task.rule, task.wording, task.level, note=variation == "noise")
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
"""  # noqa: E501

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


@dataclass(frozen=True, slots=True)
class TableRule:
    """ "most", "least": records within the number count. "step": amounts are rounded up to its next multiple."""

    kind: str
    number: int

    def sentence(self, amount: str) -> str:
        if self.kind == "step":
            return (
                f"Each number of {amount} is rounded up to the next full {self.number}, one that is such a step stays."
            )
        return f"Only records of at {self.kind} {self.number} {amount} count."

    def code(self) -> list[str]:
        if self.kind == "step":
            return [f"        amount = -(-amount // {self.number}) * {self.number}"]
        sign = ">" if self.kind == "most" else "<"
        return [f"        if amount {sign} {self.number}:", "            continue"]

    def apply(self, amount: int) -> int | None:
        """The amount that counts, or None if the record does not count."""
        if self.kind == "step":
            return -(-amount // self.number) * self.number
        counts = amount <= self.number if self.kind == "most" else amount >= self.number
        return amount if counts else None


@dataclass(frozen=True, slots=True)
class Trade:
    """What records are about: name of the file, what they are, name of the group and of the amount, the groups."""

    file: str
    what: str
    group: str
    amount: str
    groups: tuple[str, ...]


TRADES = (
    Trade("parcels", "parcels of a carrier", "depot", "grams", ("Alder", "Birch", "Cedar", "Dogwood", "Elm")),
    Trade("rainfall", "readings of rain gauges", "station", "millimetres", ("Ford", "Mill", "Quay", "Weir", "Lock")),
    Trade("loans", "loans of a library", "branch", "days", ("Central", "Harbour", "Hill", "Park", "West")),
    Trade("takings", "takings of market stalls", "stall", "cents", ("bread", "cheese", "fish", "fruit", "honey")),
    Trade("laps", "laps of a relay", "team", "seconds", ("amber", "blue", "coral", "green", "slate")),
    Trade("crates", "crates of a harvest", "field", "kilos", ("brook", "church", "meadow", "north", "orchard")),
    Trade("crossings", "crossings of a ferry", "route", "passengers", ("inner", "island", "night", "outer", "sound")),
    Trade("visits", "visits to a clinic", "ward", "minutes", ("eye", "heart", "skin", "sleep", "teeth")),
    Trade("batches", "batches of a bakery", "oven", "loaves", ("deck", "hearth", "rotary", "stone", "tunnel")),
    Trade("meters", "meters of a water board", "street", "litres", ("Bell", "Church", "Dyke", "Market", "Rope")),
)


def find_rule(text: str) -> TableRule | None:
    """Return the first rule in a text that this model can carry out."""
    for kind, pattern, needs_word in _SAID:
        found = re.search(pattern, text, re.IGNORECASE)
        if found and (_EXCLUDES.search(text) or not needs_word):
            number = int(found[1].replace(",", ""))
            if 1 < number <= MAX_NUMBER:
                return TableRule(kind, number)
    return None


@dataclass(frozen=True, slots=True)
class TableTask:
    """`wording`: of the rule, in the instruction. `level`: an index of LEVELS.
    `note`: adds a column that no rule uses."""

    title: str
    trade: Trade
    rule: TableRule
    wording: str
    level: int
    note: bool = False

    @property
    def output(self) -> str:
        return f"{self.trade.file}-by-{self.trade.group}.csv"

    def files(self, dice: Dice) -> dict[str, str]:
        """Return the whole folder, path -> text."""
        rows = self._rows(dice)
        return {
            "instruction.md": self.instruction(),
            "task.toml": _toml(self.title, LEVELS[self.level]),
            **self.data_files(rows),
            "tests/test.sh": TEST,
            "tests/verify.py": VERIFY.replace("OUTPUT", repr(self.output)),
            "solution/solve.sh": _script(self._program(self.rule.code())),
            "trap/solve.sh": _script(self._program([])),  # as if there were no rule
        }

    def data_files(self, rows: Sequence[tuple[str, str, str]]) -> dict[str, str]:
        head = ["id", self.trade.group, self.trade.amount, *(["remark"] if self.note else [])]
        more = [["checked"], [""], ["late"]] if self.note else [[]]
        given = [head, *([*row, *more[place % len(more)]] for place, row in enumerate(rows))]
        expected = [[self.trade.group, self.trade.amount], *([name, str(total)] for name, total in self._sums(rows))]
        return {
            f"environment/{self.trade.file}.csv": _csv_text(given),
            "tests/expected.csv": _csv_text(expected),
        }

    def instruction(self) -> str:
        trade = self.trade
        return (
            f"# {self.title}\n\nThe {trade.what} are in `{trade.file}.csv`, a record per line: id, {trade.group}, "
            f"{trade.amount}.\n\nPlease write `{self.output}` with the columns `{trade.group},{trade.amount}`: for "
            f"each {trade.group} that has\nrecords that count, the sum of its {trade.amount}, in the order of the "
            f"names.\n\n- {self.wording}\n- A record without a number of {trade.amount} does not count.\n- Of records "
            "with the same id the first that has a number is taken, and the others are not.\n"
        )

    def _rows(self, dice: Dice) -> list[tuple[str, str, str]]:
        """Records on both sides of the limit. The harder the task, the more odd ones."""
        count, number = 12 + 10 * self.level, self.rule.number
        groups = self.trade.groups[: 3 + self.level]
        top = 6 * number if self.rule.kind == "step" else 2 * number
        amounts = [number, number + 1, max(1, number - 1)]
        amounts += [1 + int(dice.share(f"amount/{place}") * top) for place in range(count - len(amounts))]
        rows = [
            (f"r{place + 101}", groups[(place + int(dice.share(f"group/{place}") * 3)) % len(groups)], str(amount))
            for place, amount in enumerate(amounts)
        ]
        for place in range(self.level):  # blank amounts, and records that come again with another one
            at = 3 + int(dice.share(f"odd/{place}") * (len(rows) - 4))
            rows.insert(at, (f"r{place + 901}", groups[place], ""))
            again = rows[at - 1]
            rows.append((again[0], again[1], str(number)))
        return rows

    def _sums(self, rows: Sequence[tuple[str, str, str]]) -> list[tuple[str, int]]:
        seen, sums = set[str](), dict[str, int]()
        for name, group, amount in rows:
            if not amount or name in seen:
                continue
            seen.add(name)
            counted = self.rule.apply(int(amount))
            if counted is not None:
                sums[group] = sums.get(group, 0) + counted
        return sorted(sums.items())

    def _program(self, rule: Sequence[str]) -> str:
        trade = self.trade
        lines = [
            "import csv",
            "",
            "seen, sums = set(), {}",
            f"with open('{trade.file}.csv', newline='') as file:",
            "    for row in csv.DictReader(file):",
            f"        if row['id'] in seen or not row['{trade.amount}'].strip():",
            "            continue",
            "        seen.add(row['id'])",
            f"        amount = int(row['{trade.amount}'])",
            *rule,
            f"        sums[row['{trade.group}']] = sums.get(row['{trade.group}'], 0) + amount",
            f"with open('{self.output}', 'w') as file:",
            f"    file.write('{trade.group},{trade.amount}\\n')",
            "    for name, total in sorted(sums.items()):",
            "        file.write(f'{name},{total}\\n')",
        ]
        return "\n".join(lines) + "\n"


def read_table_task(files: Mapping[str, str]) -> TableTask | None:
    """Read a task of this form back from its folder. None for any other form."""
    program, instruction = files.get("solution/solve.sh", ""), files.get("instruction.md", "")
    inputs = [path for path in files if re.fullmatch(r"environment/[\w-]+\.csv", path)]
    rule = next((TableRule(kind, int(found[1])) for kind, code in _CODED if (found := re.search(code, program))), None)
    if len(inputs) != 1 or rule is None or not 1 < rule.number <= MAX_NUMBER:
        return None
    name = inputs[0].removeprefix("environment/").removesuffix(".csv")
    trade = next((each for each in TRADES if each.file == name), None)
    wording = re.search(r"^- (.+)$", instruction, re.MULTILINE)
    if trade is None or wording is None:
        return None
    level = next((place for place, word in enumerate(LEVELS) if f'"{word}"' in files.get("task.toml", "")), 0)
    title = re.match(r"# (.+)", instruction)
    return TableTask(title[1] if title else trade.what, trade, rule, wording[1], level)


def _script(program: str) -> str:
    return f"#!/bin/sh\nset -eu\npython3 - <<'PROGRAM'\n{program}PROGRAM\n"


def _csv_text(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _toml(title: str, difficulty: str) -> str:
    return (
        f'version = "1.0"\n\n[task]\nname = {json.dumps(title)}\n\n'
        f'[metadata]\ncategory = "tables"\ndifficulty = "{difficulty}"\ndrafted_by = "the scripted model"\n\n'
        "[agent]\ntimeout_sec = 300.0\n\n[verifier]\ntimeout_sec = 60.0\n\n"
        "[environment]\ncpus = 1\nmemory_mb = 512\nstorage_mb = 512\nallow_internet = false\n"
    )


TEST = """\
#!/bin/sh
# Started in the working directory.
logs=/logs
[ -d "$logs" ] || logs=../logs
mkdir -p "$logs/verifier"
if python3 -E -s -B "$(dirname "$0")/verify.py"; then reward=1; else reward=0; fi
echo "$reward" > "$logs/verifier/reward.txt"
"""
VERIFY = '''\
"""The table that was asked for, line by line. Ends with 1 where it is another."""

import csv
import sys
from pathlib import Path


def read_table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [[cell.strip() for cell in row] for row in csv.reader(file) if row]


expected = read_table(Path(__file__).resolve().parent / "expected.csv")
try:
    found = read_table(OUTPUT)
except (OSError, ValueError, csv.Error) as error:
    sys.exit(f"no table: {error}")
if found != expected:
    sys.exit(f"expected {len(expected) - 1} sums, and {sum(row in expected for row in found)} lines are right")
print("every line is right")
'''
