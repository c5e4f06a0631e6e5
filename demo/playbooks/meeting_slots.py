"""Meetings placed where everybody is free."""

from __future__ import annotations

from functools import partial

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase

TEN_MINUTES = Lesson(
    key="ten-minutes",
    patterns=(
        r"\b(ten|10) minutes.{0,80}(before|between|after|around|either)",
        r"(before|between|after|around|either).{0,80}\b(ten|10) minutes",
    ),
    symptom=r"straight from one appointment",
    rule="Keep ten minutes free before and after a meeting: no appointment of its people may come closer.",
    gotcha="A gap in the calendar that fits to the minute is too small.",
    narrow="Keep 10 minutes between the entries of `{file}`.",
    thought="I leave 10 minutes between any two appointments of a person.",
    surprise="People need ten minutes between two appointments.",
)
HOLDS = Lesson(
    key="holds-give-way",
    patterns=(r"\bholds?\b.{0,80}(give\w* way|not block|no appointment|skip|ignore|leave)",),
    symptom=r"is only a hold",
    rule="Skip the entries that begin with “hold”. A hold is no appointment yet and gives way to a meeting.",
    gotcha="A calendar that looks full may be full of holds.",
    narrow="The holds of `{file}` do not block: a hold gives way.",
    thought="A hold gives way to a meeting, so I skip these entries.",
    surprise="Many entries are holds; a hold is no appointment and gives way.",
)
SHOWN_AS_FREE = Lesson(
    key="shown-as-free",
    patterns=(
        r"(shows?|shown|marked|drawn).{0,40}\bfree\b.{0,80}(block|appointment|still|busy|not)",
        r"(never|not|ignore).{0,60}(shows?|shown|marked|drawn).{0,30}\bfree\b",
    ),
    symptom=r"drawn as free",
    rule="Count an entry whatever its colour: one that the app shows as free is an appointment like any other, and blocks.",
    gotcha="Entries that come from a telephone are all drawn alike, flights and doctors among them.",
    narrow="What `{file}` shows as free is an appointment too.",
    thought="What the app shows as free is still an appointment, so it blocks.",
    surprise="A flight is shown as free: what is shown as free still blocks.",
)


def program(
    calendars: tuple[str, ...], requests: str, output: str, kind: str, has_colour: bool, handled: frozenset[str]
) -> str:
    """Reads calendars (person, day, from, to, what, perhaps shows) and requests, places each in the first gap of its
    day."""
    lines = calendars[0].endswith(".jsonl")
    skips = ["row['what'].startswith('hold')"] if HOLDS.key in handled else []
    skips += ["row.get('shows') == 'free'"] if has_colour and SHOWN_AS_FREE.key not in handled else []
    return "\n".join(
        [
            "import csv",
            *(["import json"] if lines else []),
            "",
            f"BETWEEN = {10 if TEN_MINUTES.key in handled else 0}  # minutes",
            "",
            "",
            "def minutes(text):",
            "    hours, rest = text.split(':')",
            "    return int(hours) * 60 + int(rest)",
            "",
            "",
            "taken = {}",
            f"for name in {list(calendars)!r}:",
            f"    for row in {'map(json.loads, open(name))' if lines else 'csv.DictReader(open(name))'}:",
            *([f"        if {' or '.join(skips)}:", "            continue"] if skips else []),
            "        entry = (minutes(row['from']) - BETWEEN, minutes(row['to']) + BETWEEN)",
            "        taken.setdefault((row['person'], row['day']), []).append(entry)",
            "placed = without = 0",
            f"with open({output!r}, 'w') as out:",
            f"    out.write('{kind},start,end\\n')",
            f"    for row in csv.DictReader(open({requests!r})):",
            "        length = int(row['minutes'])",
            "        entries = [each for person in row['people'].split(' & ') for each in taken.get((person, row['day']), [])]",
            "        for start in range(9 * 60, 17 * 60 - length + 1, 15):",
            "            if all(start + length <= begin or start >= end for begin, end in entries):",
            "                placed += 1",
            "                times = [f'{at // 60:02}:{at % 60:02}' for at in (start, start + length)]",
            "                break",
            "        else:",
            "            without += 1",
            "            times = ['', '']",
            f"        out.write(','.join([row[{kind!r}], *times]) + '\\n')",
            "with open('notes.md', 'w') as notes:",
            f"    notes.write(f'{kind}s placed: {{placed}}\\n{kind}s without room: {{without}}\\n')",
            "",
        ]
    )


def _case(
    calendars: tuple[str, ...],
    requests: str,
    output: str,
    *needs: Lesson,
    kind: str = "meeting",
    has_colour: bool = False,
) -> PlaybookCase:
    """No calendar shows how much time to keep between two appointments: only a text or a failed check does."""
    show = {
        HOLDS.key: f"grep -h hold {' '.join(calendars)} | head -n 5",
        SHOWN_AS_FREE.key: f"grep -h free {' '.join(calendars)} | head -n 6",
    }
    keys = tuple(lesson.key for lesson in needs)
    make = partial(program, calendars, requests, output, kind, has_colour)
    closer = {key: show[key] for key in keys if key in show}
    return PlaybookCase(calendars[0], (*calendars, requests), output, keys, make, closer)


PLAYBOOK = Playbook(
    slug="meeting-slots",
    title="Slots for meetings",
    words=("meeting", "slot", "calendar"),
    when="meetings have to be placed between what stands in the calendars of several people",
    steps=(
        "Look at the calendars and at the list of what has to be placed.",
        "Turn times into minutes of the day.",
        "Collect what is taken for each person and day.",
        "Try each start of the day in turn and take the first at which nobody has an entry.",
        "Where there is no room that day, leave start and end empty.",
        "Write how many were placed and how many were not into the notes.",
    ),
    lessons=(TEN_MINUTES, HOLDS, SHOWN_AS_FREE),
    cases=(
        _case(("staff_calendar.csv",), "staff_requests.csv", "staff_slots.csv", TEN_MINUTES),
        _case(("ward_calendar.csv",), "ward_requests.csv", "ward_slots.csv", TEN_MINUTES, HOLDS),
        _case(("crew_calendar.jsonl",), "crew_requests.csv", "crew_slots.csv", TEN_MINUTES, HOLDS),
        _case(("desk_rota.csv",), "trainings.csv", "training_slots.csv", TEN_MINUTES, HOLDS, kind="training"),
        _case(
            ("app_export.csv",),
            "board_requests.csv",
            "board_slots.csv",
            TEN_MINUTES,
            SHOWN_AS_FREE,
            has_colour=True,
        ),
        _case(
            ("phone_export.csv", "office_calendar.csv"),
            "visit_requests.csv",
            "visit_slots.csv",
            TEN_MINUTES,
            HOLDS,
            SHOWN_AS_FREE,
            kind="visit",
            has_colour=True,
        ),
    ),
)
