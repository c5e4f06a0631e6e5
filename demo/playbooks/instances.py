"""Further cases of the starter suite's families: the instances of the suite starter-learning.

The first of each three is the seed. The others need the seed's lessons, and in two of the families one more that only
the human skill teaches.
"""

from __future__ import annotations

from functools import partial

from demo.playbooks import key_alignment, null_safe_aggregation, timeline_repair
from demo.playbooks.key_alignment import KEY_FORMS, NEVER_BY_POSITION, NEWEST_ENTRY, Join
from demo.playbooks.null_safe_aggregation import EMPTY_GROUPS, MISSING_CODES, READY_MADE, Averages
from demo.playbooks.playbook import Lesson, PlaybookCase
from demo.playbooks.timeline_repair import CLOCK_ERROR, NAIVE_TIMES, Logs


def _averages(table: Averages, closer: dict[Lesson, str]) -> PlaybookCase:
    return PlaybookCase(
        table.file,
        (table.file,),
        table.output,
        tuple(lesson.key for lesson in closer),
        partial(null_safe_aggregation.program, table),
        {lesson.key: command for lesson, command in closer.items()},
    )


def _join(join: Join, closer: dict[Lesson, str]) -> PlaybookCase:
    return PlaybookCase(
        join.left,
        (join.left, join.right),
        join.output,
        tuple(lesson.key for lesson in closer),
        partial(key_alignment.program, join),
        {lesson.key: command for lesson, command in closer.items()},
    )


def _timeline(logs: Logs) -> PlaybookCase:
    lessons = [NAIVE_TIMES] * logs.zoned + [CLOCK_ERROR] * logs.clocks
    heads = f"head -qn 2 {' '.join(logs.files)}; cat sources.json"
    return PlaybookCase(
        logs.files[0],
        logs.files,
        "timeline.csv",
        tuple(lesson.key for lesson in lessons),
        partial(timeline_repair.program, logs),
        {
            lesson.key: heads if lesson is NAIVE_TIMES else "head -n 8 timeline.csv; cat sources.json"
            for lesson in lessons
        },
    )


AVERAGES = (
    _averages(
        Averages("reefs.csv", "reef", ("celsius",), "reef_means.csv", codes=("99.9",)),
        {
            MISSING_CODES: "cut -d, -f3 reefs.csv | sort | uniq -c | sort -rn | head -n 5; cat columns.md",
            EMPTY_GROUPS: "cut -d, -f1 reefs.csv | sort | uniq -c; wc -l reef_means.csv",
        },
    ),
    _averages(
        Averages("kilns.jsonl", "kiln", ("moisture",), "kiln_means.csv", "batches", codes=("-5", "-5.0")),
        {
            MISSING_CODES: "grep -c '\"moisture\": -5' kilns.jsonl; cat fields.md",
            EMPTY_GROUPS: 'grep -o \'"kiln": "[^"]*"\' kilns.jsonl | sort | uniq -c',
        },
    ),
    _averages(
        Averages(
            "lifts.csv",
            "lift",
            ("mon", "tue", "wed"),
            "lift_means.csv",
            "",
            codes=("777",),
            shortcut=("three_day_mean",),
        ),
        {
            MISSING_CODES: "grep -c ',777' lifts.csv; cat columns.md",
            READY_MADE: "grep -n ',,' lifts.csv | head -n 4",
        },
    ),
)
JOINS = (
    _join(
        Join("repairs.csv", "owners.csv", "bike", "repair", "owner", "repairs_named.csv", "part", "changed"),
        {
            KEY_FORMS: "cut -d, -f2 repairs.csv | head -n 5; cut -d, -f1 owners.csv | head -n 5",
            NEWEST_ENTRY: "cut -d, -f1 owners.csv | sort | uniq -d | head -n 4",
        },
    ),
    _join(
        Join("readings.jsonl", "meters.json", "meter", "reading", "street", "readings_placed.csv", "kwh", "moved"),
        {
            KEY_FORMS: "head -n 4 readings.jsonl; head -c 300 meters.json",
            NEWEST_ENTRY: "grep -o '\"meter\": [^,]*' meters.json | sort | uniq -d | head -n 4",
        },
    ),
    _join(
        Join("seats.csv", "guests.csv", "ticket", "seat", "guest", "seats_named.csv", "row", positional=True),
        {
            KEY_FORMS: "cut -d, -f2 seats.csv | head -n 5; cut -d, -f1 guests.csv | head -n 5",
            NEVER_BY_POSITION: "paste -d' ' seats.csv guests.csv | tail -n 6",
        },
    ),
)
TIMELINES = (
    _timeline(Logs(("crane.log", "tug.log", "lock.log"), zoned=True, clocks=True)),
    _timeline(Logs(("kitchen.log", "bar.log"), zoned=True)),
    _timeline(Logs(("north.jsonl", "pass.jsonl", "south.jsonl"), zoned=True, clocks=True)),
)
