"""Table tasks as the scripted model drafts them: records of some trade, one rule that decides, sums by group.

All tasks share one procedure: read, drop records without an amount and repeated ones, apply the rule, add up, write.
They differ in the trade, the data, the rule and the number of odd records. The dice decide everything. Tests and
solution agree, as both come from one rule. A result without the rule is wrong, as there are records on both sides of
its limit; this is the declared trap.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from demo.scripted_profile import Dice

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


@dataclass(frozen=True, slots=True)
class TableRule:
    """ "most", "least": records within the number count. "step": amounts are rounded up to its next multiple."""

    kind: str
    number: int

    def says(self, amount: str) -> str:
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
    """`told`: the instruction's wording of the rule. `level`: an index of LEVELS. `note`: a column without meaning."""

    title: str
    trade: Trade
    rule: TableRule
    told: str
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
            f"# {self.title}\n\n"
            f"The {trade.what} are in `{trade.file}.csv`, a record per line: id, {trade.group}, {trade.amount}.\n\n"
            f"Please write `{self.output}` with the columns `{trade.group},{trade.amount}`: for each {trade.group} that has\n"
            f"records that count, the sum of its {trade.amount}, in the order of the names.\n\n"
            f"- {self.told}\n"
            f"- A record without a number of {trade.amount} does not count.\n"
            "- Of records with the same id the first that has a number is taken, and the others are not.\n"
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
    told = re.search(r"^- (.+)$", instruction, re.MULTILINE)
    if trade is None or told is None:
        return None
    level = next((place for place, word in enumerate(LEVELS) if f'"{word}"' in files.get("task.toml", "")), 0)
    title = re.match(r"# (.+)", instruction)
    return TableTask(title[1] if title else trade.what, trade, rule, told[1], level)


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
