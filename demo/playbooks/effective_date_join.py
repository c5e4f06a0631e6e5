"""What was in force on a day: lines joined with lists whose entries hold from a date on."""

from __future__ import annotations

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase, build_case

DAY_AFTER = Lesson(
    key="day-after",
    patterns=(
        r"(holds?|counts?|effect|applies|in force|valid|starts?|begins?).{0,40}(day after|next day|following day)",
        r"(day after|next day|following day).{0,40}(holds?|counts?|effect|applies|in force|valid|starts?|begins?)",
    ),
    symptom=r"effect the day after",
    rule="An entry takes effect the day after its date: on that date itself the entry before it still counts.",
    gotcha="A line of the very date of an entry is priced by the old one; the new one counts from the next day on.",
    narrow="In `{file}` an entry takes effect the day after its date.",
    thought="What was written on a date counts from the next day on, so I compare with less than.",
    surprise="On the date of an entry the old one still counts; it takes effect the day after.",
)
HIGHEST_REVISION = Lesson(
    key="highest-revision",
    patterns=(
        r"(highest|latest|last|largest|newest) revision",
        r"same (day|date).{0,80}revision",
    ),
    symptom=r"entries for one date",
    rule="Where a key has several entries of the same date, take the one with the highest revision, wherever it stands.",
    gotcha="A list keeps its mistakes: of two entries of the same date only the highest revision counts.",
    narrow="In `{file}` take the highest revision of a date.",
    thought="Of several entries of the same date I take the highest revision.",
    surprise="Two entries have the same date; the highest revision is the corrected one.",
)
PLANNED_END = Lesson(
    key="planned-end",
    patterns=(
        r"planned end",
        r"(ignore|never|not|don't).{0,40}\b(until|end date)\b",
        r"\b(until|end date)\b.{0,40}(is|was|are|were) (a |only a )?plan",
    ),
    symptom=r"planned end",
    rule="Do not use the planned end of an entry (until): it holds until the next one takes its place.",
    gotcha="A tidy column with a planned end looks like the answer. Nothing ends before something else begins.",
    narrow="Ignore the planned end of the entries beside `{file}`.",
    thought="The planned end is a plan; an entry holds until the next one begins.",
    surprise="An old entry would come back where a planned end has passed, but an entry holds until the next one begins.",
)
HABITS = {
    DAY_AFTER: (("entry['since'] < day", "entry['since'] <= day"),),
    HIGHEST_REVISION: (
        ("key=lambda entry: (entry['since'], int(entry['revision']))", "key=lambda entry: entry['since']"),
    ),
    PLANNED_END: (("if entry['since']", "if entry['until'] >= day and entry['since']"),),
}


def _program(
    file: str, line: str, output: str, amount: str, lists: tuple[tuple[str, str, str], ...], revised: bool
) -> str:
    """`amount`: the field of a line to multiply. `lists`: file, key and value of each list to look up."""
    as_json = file.endswith(".jsonl")
    newest = "(entry['since'], int(entry['revision']))" if revised else "entry['since']"
    values = [value for _, _, value in lists]
    shown = ",".join(f"{{{value}:.2f}}" for value in values)
    return "\n".join(
        [
            f"import {'json' if as_json else 'csv'}",
            *("", "", "def in_force(entries, key, line):"),
            "    day = line['day']",
            "    known = [entry for entry in entries if entry['since'] < day and entry[key] == line[key]]",
            f"    return max(known, key=lambda entry: {newest})",
            *("", ""),
            f"lines = {_read(file)}",
            *(f"{name.partition('.')[0]} = {_read(name)}" for name, _, _ in lists),
            "total = 0",
            f"with open({output!r}, 'w') as out:",
            f"    out.write('{line},{','.join(values)},amount\\n')",
            "    for line in lines:",
            *(
                f"        {value} = float(in_force({name.partition('.')[0]}, {key!r}, line)[{value!r}])"
                for name, key, value in lists
            ),
            f"        amount = float(line[{amount!r}]) * {' * '.join(values)}",
            "        total += amount",
            f"        out.write(f\"{{line['{line}']}},{shown},{{amount:.2f}}\\n\")",
            "with open('notes.md', 'w') as notes:",
            "    notes.write(f'lines read: {len(lines)}\\ntotal: {total:.2f}\\n')",
            "",
        ]
    )


def _read(name: str) -> str:
    if name.endswith(".csv"):
        return f"list(csv.DictReader(open({name!r}, newline='')))"
    return f"json.load(open({name!r}))" if name.endswith(".json") else f"[json.loads(line) for line in open({name!r})]"


def _case(
    file: str, line: str, output: str, amount: str, *lists: tuple[str, str, str], further: tuple[Lesson, ...] = ()
) -> PlaybookCase:
    program = _program(file, line, output, amount, lists, revised=HIGHEST_REVISION in further)
    habits = {
        each: HABITS[each] for each in (PLANNED_END, DAY_AFTER, HIGHEST_REVISION) if each in (DAY_AFTER, *further)
    }
    names = tuple(name for name, _, _ in lists)
    closer = {
        HIGHEST_REVISION: f"cut -d, -f1,2 {names[0]} | sort | uniq -d | head -n 4",
        PLANNED_END: f"sort {names[0]} | head -n 8",
    }
    return build_case((file, *names), output, program, habits, closer)


PLAYBOOK = Playbook(
    slug="effective-date-join",
    title="What was in force on a day",
    words=("effective", "in force", "date-join"),
    when="lines with a date need the price, rate or tariff that was in force then",
    steps=(
        "Look at the columns of the lines and of the list, and find the key that both share.",
        "Collect the entries of each key.",
        "For each line pick the entry of its key that began last before it.",
        "Multiply, round when writing, and keep the order of the lines.",
        "Write the lines read and the total into the notes.",
    ),
    lessons=(DAY_AFTER, HIGHEST_REVISION, PLANNED_END),
    cases=(
        _case("bakery_orders.csv", "order", "orders_priced.csv", "quantity", ("bakery_prices.csv", "item", "price")),
        _case(
            *("tool_hires.csv", "hire", "hires_priced.csv", "days"),
            ("tool_tariffs.csv", "tool", "tariff"),
            further=(HIGHEST_REVISION,),
        ),
        _case("fuel_cards.jsonl", "filling", "fillings_priced.csv", "litres", ("fuel_prices.json", "fuel", "price")),
        _case(
            *("ward_shifts.csv", "shift", "shifts_paid.csv", "hours"),
            ("pay_grades.csv", "grade", "rate"),
            further=(HIGHEST_REVISION,),
        ),
        _case(
            *("club_renewals.csv", "renewal", "renewals_billed.csv", "members"),
            ("club_fees.csv", "plan", "fee"),
            further=(PLANNED_END,),
        ),
        _case(
            *("site_trips.csv", "trip", "trips_settled.csv", "days"),
            ("allowances.csv", "country", "allowance"),
            ("exchange_rates.csv", "currency", "rate"),
            further=(HIGHEST_REVISION,),
        ),
    ),
)
