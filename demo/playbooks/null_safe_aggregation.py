"""Averages per group from tables where some cells hold no value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase

MISSING_CODES = Lesson(
    key="missing-codes",
    patterns=(
        r"sentinel",
        r"placeholder",
        r"code\w* (for|of|that (mean|stand)s?) .{0,30}(missing|no |not |absent)",
        r"(number|value|figure)s? that (mean|stand)s? (for )?.{0,20}(missing|no |not )",
        r"(data dictionary|codebook|format note|column description).{0,80}(missing|no |not |code|left out|leave)",
        r"-?\b\d+ (is|means|stands for).{0,30}(missing|no |not )",
    ),
    symptom=r"is the code for|a code, not a measurement",
    rule=(
        "Read the notes beside the data (codebook, format description) and list every code that stands for a missing "
        "value, such as an impossible number. Leave those cells out like empty ones."
    ),
    gotcha="A plain number can be a code for a missing value. It parses, so nothing complains, and it ruins the average.",
    narrow="In `{file}` a placeholder number stands for a missing value: drop it there.",
    thought="Some numbers are codes for a missing value according to the note beside the data. I leave them out.",
    surprise="One number comes up far too often: it is a code for a missing value, not a measurement. I leave it out.",
)
EMPTY_GROUPS = Lesson(
    key="empty-groups",
    patterns=(
        r"(group|line|row|entry|key)s? (with|without|that (has|have)).{0,30}(no|any|without|not a single).{0,20}(value|reading|measurement)",
        r"empty groups?",
        r"groups? .{0,40}(nothing|no value|no usable|not one).{0,60}(keep|kept|stay|list|line|row)",
        r"(keep|list|write|report) (every|each|all) (the )?(group|key|line)",
        r"count (of )?0 and an empty",
    ),
    symptom=r"had nothing to average|without a single value",
    rule=(
        "Register every group when its first row is seen, before looking at the value. A group without any usable value "
        "keeps its line: count 0 and an empty average."
    ),
    gotcha="Groups with no usable value vanish when groups are made only from values. Zero is wrong for them too.",
    narrow="`{file}` has groups without any value: write a line with count 0 for exactly those.",
    thought="A group with no usable value still gets its line, with count 0 and an empty average.",
    surprise="There are groups with no value at all; they keep a line with count 0 and an empty average.",
)
READY_MADE = Lesson(
    key="ready-made-figures",
    patterns=(
        r"(ready.made|precomputed|pre-computed|already (computed|calculated)|given) (\w+ )?(figure|total|mean|average|column|summary)",
        r"(recompute|compute|recalculate|work) .{0,40}(from|on) (the )?(raw|single|individual|original)",
        r"(do not|don't|never) (trust|rely on|use|reuse) .{0,40}(column|total|average|mean|summary|figure)",
    ),
    symptom=r"ready-made",
    rule="Compute from the single values. Do not trust totals or averages that are already in the file.",
    gotcha="A ready-made average in the export may have counted missing cells as zero.",
    narrow="Ignore the column `week_mean` of `{file}` and recompute from the raw days.",
    thought="The file has a ready-made average, but I compute from the single values instead.",
    surprise="The ready-made average does not agree with the single values of the same row. I compute from those.",
)


@dataclass(frozen=True, slots=True)
class Averages:
    """A table to be averaged per group."""

    file: str
    group: str
    values: tuple[str, ...]
    output: str
    count: str = "readings"
    average: str = "average"
    codes: tuple[str, ...] = ()
    shortcut: tuple[str, ...] = ()  # columns that look like the answer and are not


def program(table: Averages, handled: frozenset[str]) -> str:
    """Write a program that reads the table, groups, averages, and writes the result and the notes."""
    values = table.shortcut if table.shortcut and READY_MADE.key not in handled else table.values
    codes = ("", *table.codes) if MISSING_CODES.key in handled else ("",)
    lines = table.file.endswith(".jsonl")
    early = EMPTY_GROUPS.key in handled
    counted, number = (f"{table.count},", "{len(values)},") if table.count else ("", "")
    return "\n".join(
        [
            "import json" if lines else "import csv",
            "",
            f"VALUES = {list(values)!r}",
            f"MISSING = {codes!r}",
            "groups = {}",
            "rows = used = left_out = 0",
            f"with open({table.file!r}, newline='') as source:",
            f"    for row in {'map(json.loads, source)' if lines else 'csv.DictReader(source)'}:",
            "        rows += 1",
            f"        group = row[{table.group!r}].strip()",
            *(["        groups.setdefault(group, [])"] if early else []),
            "        for name in VALUES:",
            *(
                ["            cell = '' if row[name] is None else str(row[name]).strip()"]
                if lines
                else ["            cell = row[name].strip()"]
            ),
            "            try:",
            "                value = None if cell in MISSING else float(cell)",
            "            except ValueError:  # words where a number should be",
            "                value = None",
            "            if value is None:",
            "                left_out += 1",
            "                continue",
            "            used += 1",
            "            groups.setdefault(group, []).append(value)",
            f"with open({table.output!r}, 'w') as out:",
            f"    out.write('{table.group},{counted}{table.average}\\n')",
            "    for group, values in sorted(groups.items()):",
            "        average = f'{sum(values) / len(values):.2f}' if values else ''",
            f"        out.write(f'{{group}},{number}{{average}}\\n')",
            "with open('notes.md', 'w') as notes:",
            "    notes.write(f'rows read: {rows}\\nvalues used: {used}\\nvalues left out: {left_out}\\n')",
            "",
        ]
    )


SALES_BY_REGION = """\
import csv
{imports}
{key}

regions = {{}}
with open('branches.csv', newline='') as source:
    for row in csv.DictReader(source):
        regions[key_of(row['branch'])] = row['region']
groups = {{}}
rows = used = left_out = 0
with open('takings.csv', newline='') as source:
    for row in csv.DictReader(source):
        rows += 1
        cell = row['takings'].strip()
        region = regions.get(key_of(row['branch']))
        if cell in {missing} or region is None:
            left_out += 1
            continue
        used += 1
        groups.setdefault(region, []).append(float(cell))
with open('regions.csv', 'w') as out:
    out.write('region,days,average\\n')
    for region, values in sorted(groups.items()):
        out.write(f'{{region}},{{len(values)}},{{sum(values) / len(values):.2f}}\\n')
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {{rows}}\\nvalues used: {{used}}\\nvalues left out: {{left_out}}\\n')
"""


def sales_by_region(handled: frozenset[str]) -> str:
    """The composition case: branches are written differently in the two files, and a number stands for a closed day."""
    forms = "key-forms" in handled
    key = "re.sub(r'\\D', '', text).lstrip('0')" if forms else "text.strip()"
    return SALES_BY_REGION.format(
        imports="import re\n" if forms else "",
        key=f"def key_of(text):\n    return {key}\n",
        missing="('', '-1')" if MISSING_CODES.key in handled else "('',)",
    )


PLAYBOOK = Playbook(
    slug="null-safe-aggregation",
    title="Averages from tables with missing cells",
    words=("null", "aggregat", "average", "missing", "mean"),
    when="a table has to be averaged per group and some of its cells hold no value",
    steps=(
        "Look at the first lines of the file and find the group column and the value column.",
        "Read with the csv or json module and strip blanks from every cell.",
        "Skip empty cells: the average divides by the values that are there, never by the rows.",
        "Count what was used and what was left out, and write both into the notes.",
        "Round only when writing.",
    ),
    lessons=(MISSING_CODES, EMPTY_GROUPS, READY_MADE),
    cases=(
        PlaybookCase(
            main_file="rain.csv",
            files=("rain.csv",),
            output="averages.csv",
            needs=(),
            program=partial(program, Averages("rain.csv", "station", ("rain_mm",), "averages.csv")),
        ),
        PlaybookCase(
            main_file="visits.csv",
            files=("visits.csv",),
            output="waiting.csv",
            needs=(MISSING_CODES.key,),
            program=partial(
                program, Averages("visits.csv", "clinic", ("minutes_waited",), "waiting.csv", "visits", codes=("999",))
            ),
            closer={
                MISSING_CODES.key: "cut -d, -f4 visits.csv | sort | uniq -c | sort -rn | head -n 5; cat codebook.md"
            },
        ),
        PlaybookCase(
            main_file="sensors.csv",
            files=("sensors.csv",),
            output="houses.csv",
            needs=(EMPTY_GROUPS.key,),
            program=partial(program, Averages("sensors.csv", "house", ("humidity",), "houses.csv")),
            closer={EMPTY_GROUPS.key: "cut -d, -f1 sensors.csv | sort | uniq -c; wc -l houses.csv"},
        ),
        PlaybookCase(
            main_file="parcels.jsonl",
            files=("parcels.jsonl",),
            output="depots.csv",
            needs=(MISSING_CODES.key, EMPTY_GROUPS.key),
            program=partial(
                program,
                Averages("parcels.jsonl", "depot", ("weight_kg",), "depots.csv", "parcels", codes=("-1", "-1.0")),
            ),
            closer={
                MISSING_CODES.key: "grep -c '\"weight_kg\": -1' parcels.jsonl; cat format.md",
                EMPTY_GROUPS.key: 'grep -o \'"depot": "[^"]*"\' parcels.jsonl | sort | uniq -c',
            },
        ),
        PlaybookCase(
            main_file="meters.csv",
            files=("meters.csv",),
            output="buildings.csv",
            needs=(READY_MADE.key,),
            program=partial(
                program,
                Averages(
                    "meters.csv",
                    "building",
                    ("mon", "tue", "wed", "thu", "fri"),
                    "buildings.csv",
                    count="",
                    shortcut=("week_mean",),
                ),
            ),
            closer={READY_MADE.key: "grep -n ',,' meters.csv | head -n 4"},
        ),
        PlaybookCase(
            main_file="takings.csv",
            files=("takings.csv", "branches.csv"),
            output="regions.csv",
            needs=(MISSING_CODES.key, "key-forms"),
            program=sales_by_region,
            closer={
                MISSING_CODES.key: "cut -d, -f3 takings.csv | sort | uniq -c | sort -rn | head -n 4; cat codebook.md",
                "key-forms": "cut -d, -f1 takings.csv | sort -u | head -n 4; cut -d, -f1 branches.csv | head -n 4",
            },
        ),
    ),
)
