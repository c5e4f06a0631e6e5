"""Programs that give wrong figures since a change: fixed, without touching what was sent out."""

from __future__ import annotations

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase, build_case

ISSUED_STAYS = Lesson(
    key="issued-stays",
    patterns=(
        r"(keep|leave|never|not|don't).{0,40}\bissued",
        r"\bissued.{0,60}(stays?\b|stands?\b|unchanged|untouched|never)",
    ),
    symptom=r"was issued already",
    rule=(
        "Keep what was issued: a figure that already went out stays as it is, and only open rows are worked out by the "
        "mended program."
    ),
    gotcha="A mended program must not rewrite figures that somebody holds in hand: issued ones never change.",
    narrow="Keep the issued figures of `{file}`.",
    thought="Issued figures stay as they went out; only open rows are worked out again.",
    surprise="Some rows were issued with the old figure, and an issued figure stays as it is.",
)
EVERY_BRANCH = Lesson(
    key="every-branch",
    patterns=(
        r"same (slip|mistake|fault|error|bug).{0,60}(elsewhere|other|every|all\b|again|another)",
        r"(every|other|all|another) (branch|place)\w*.{0,60}(slip|mistake|fault|error|bug)",
    ),
    symptom=r"the same slip stands",
    rule="Look for the same slip in every other branch of the program and mend all of them: a report names only one.",
    gotcha="The reported row is one example; the same mistake usually stands in other places too.",
    narrow="The same slip stands in another branch for `{file}`.",
    thought="The same slip stands in another branch as well, so I mend both.",
    surprise="The report names one case, but the same slip stands in another branch.",
)
SUGGESTED_PATCH = Lesson(
    key="suggested-patch",
    patterns=(
        r"(suggest|propos)\w* (patch|change|line|fix)\w*.{0,80}(hint|example|alone|not|never|unlike|other)",
        r"(not|never|don't).{0,40}(suggest|propos)\w* (patch|change|line|fix)",
    ),
    symptom=r"patch fits",
    rule=(
        "Take a suggested patch as a hint and not as the fix: work out the figure by the written rule, and try it on rows "
        "unlike the reported one."
    ),
    gotcha="A suggested patch often fits the reported example alone.",
    narrow="The suggested patch for `{file}` is not the fix.",
    thought="The suggested patch is not the rule, so I write what the rule says.",
    surprise="The suggested patch fits its example alone; the rule says more.",
)


def _mended(file: str, output: str, key: str, value: str, *body: str, head: str = "") -> str:
    """The whole program: reads rows, works out a figure for each, writes them and the notes."""
    lines = file.endswith(".jsonl")
    read = (
        f"[json.loads(line) for line in open({file!r})]"
        if lines
        else f"list(csv.DictReader(open({file!r}, newline='')))"
    )
    return "\n".join(
        [
            f"import {'json' if lines else 'csv'}",
            *([head] if head else []),
            *("", "", "def work_out(row):"),
            *(f"    {line}" for line in body),
            *("", "", f"rows = {read}", "total = 0"),
            f"with open({output!r}, 'w') as out:",
            f"    out.write('{key},{value}\\n')",
            "    for row in rows:",
            f"        {value} = float(row['issued'] or work_out(row))",
            f"        total += {value}",
            f"        out.write(f\"{{row['{key}']}},{{{value}:.2f}}\\n\")",
            "with open('notes.md', 'w') as notes:",
            "    notes.write(f'rows read: {len(rows)}\\ntotal: {total:.2f}\\n')",
            "",
        ]
    )


def _case(file: str, output: str, program: str, further: dict[Lesson, tuple[tuple[str, str], ...]]) -> PlaybookCase:
    rework = {ISSUED_STAYS: (("row['issued'] or work_out(row)", "work_out(row)"),)}
    closer = {EVERY_BRANCH: "grep -n 'row' solve.py", SUGGESTED_PATCH: f"paste {file} {output} | tail -n 8"}
    return build_case((file,), output, program, rework | further, closer)


PLAYBOOK = Playbook(
    slug="regression-fix",
    title="Mending a program that gives wrong figures",
    words=("regression",),
    when="a program gives wrong figures since somebody changed it",
    steps=(
        "Read the program and the report, and find the line that gives the reported figure.",
        "Mend that line by the rule that the report tells.",
        "Keep the names of files and columns as they are.",
        "Run the program and look at the reported row.",
        "Write the rows read and the total into the notes.",
    ),
    lessons=(ISSUED_STAYS, EVERY_BRANCH, SUGGESTED_PATCH),
    cases=(
        _case(
            "late_fees.csv",
            "fees.csv",
            _mended(
                *("late_fees.csv", "fees.csv", "loan", "fee"),
                "rate = 0.40 if row['kind'] == 'film' else 0.15",
                "return max(int(row['days']) - 3, 0) * rate",
            ),
            {},
        ),
        _case(
            "crossings.csv",
            "fares.csv",
            _mended(
                *("crossings.csv", "fares.csv", "crossing", "fare"),
                "metres = float(row['metres'])",
                "if row['kind'] == 'car':",
                "    return 12 if metres <= 5 else 18",
                "return 40 if metres <= 12 else 65",
            ),
            {EVERY_BRANCH: (("metres <= 12", "metres < 12"),)},
        ),
        _case(
            "water_bills.jsonl",
            "bills.csv",
            _mended(
                *("water_bills.jsonl", "bills.csv", "bill", "amount"),
                "return row['litres'] / 1000 * 2.10 + 6.50 * row['months']",
            ),
            {},
        ),
        _case(
            "exam_papers.csv",
            "marks.csv",
            _mended(
                *("exam_papers.csv", "marks.csv", "paper", "mark"),
                "written = max(int(row['written']), 0)",
                "oral = max(int(row['oral']), 0)",
                "return 0.7 * written + 0.3 * oral",
            ),
            {EVERY_BRANCH: (("max(int(row['oral']), 0)", "int(row['oral'])"),)},
        ),
        _case(
            "stays.csv",
            "parking.csv",
            _mended(
                *("stays.csv", "parking.csv", "stay", "charge"),
                "hours = int(row['hours'])",
                "return hours // 24 * 12 + min(hours % 24 * 1.50, 12)",
            ),
            {SUGGESTED_PATCH: (("hours // 24 * 12 + min(hours % 24 * 1.50, 12)", "min(hours * 1.50, 12)"),)},
        ),
        _case(
            "jobs.csv",
            "invoices.csv",
            _mended(
                *("jobs.csv", "invoices.csv", "job", "invoice"),
                "labour = math.ceil(float(row['labour']))",
                "travel = math.ceil(float(row['travel']))",
                "return 48 * labour + 30 * travel",
                head="import math",
            ),
            {
                EVERY_BRANCH: (("math.ceil(float(row['travel']))", "int(float(row['travel']))"),),
                SUGGESTED_PATCH: (("math.ceil(float(row['labour']))", "round(float(row['labour']))"),),
            },
        ),
    ),
)
