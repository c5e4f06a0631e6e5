"""Water levels as the small package of the corpus gaugekit reports them. Its conventions are only in its source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase

SUSPECT_READINGS = Lesson(
    key="suspect-readings",
    patterns=(
        r"(flag\w*|mark\w*|suspect).{0,60}(skip|drop|leave out|left out|discard|never count|ignore)",
        r"(skip|drop|leave out|discard|ignore).{0,60}(flagged|suspect|marked)",
    ),
    symptom=r"a suspect reading",
    rule="Drop every reading whose flag is S (suspect) before anything is computed; any other flag counts.",
    gotcha="A suspect reading looks like any other number and moves peaks and averages.",
    narrow="Drop the readings flagged S in `{file}`.",
    thought="Readings flagged S are suspect, so I drop them first.",
    surprise="Readings flagged S are suspect; they have to be dropped.",
)
GAUGE_ZERO = Lesson(
    key="gauge-zero",
    patterns=(
        r"(gauge zero|zero_mm|datum).{0,80}(add|plus|raise|shift)",
        r"(add|plus|raise|shift).{0,80}(gauge zero|zero_mm|datum)",
    ),
    symptom=r"gauge zero",
    rule="Add the gauge zero of its station (column zero_mm of the list of stations) to every reading.",
    gotcha="Raw readings of two stations cannot be compared: each counts from its own gauge zero until that is added.",
    narrow="Add the gauge zero to the readings of `{file}`.",
    thought="A level is the reading plus the gauge zero of its station, so I add zero_mm.",
    surprise="Readings count from the gauge zero, so zero_mm has to be added.",
)
WATER_DAY = Lesson(
    key="water-day",
    patterns=(
        r"(day|date).{0,60}(begin|start|run)s?.{0,30}(06:00|six|6 o'clock|6 a\.?m)",
        r"(before|until) (06:00|six|6 a\.?m).{0,60}(day before|previous day|yesterday)",
    ),
    symptom=r"begins at 06:00",
    rule="A day begins at 06:00: a reading before 06:00 belongs to the day before.",
    gotcha="The calendar date of a reading taken at night is not its day.",
    narrow="In `{file}` move the readings before 06:00 to the day before.",
    thought="A day begins at 06:00, so I count readings before that to the day before.",
    surprise="The day begins at 06:00, so the readings of the night belong to the day before.",
)


@dataclass(frozen=True, slots=True)
class Report:
    """Readings (station, at, level_mm, flag) summed up per station or day as a mean or peak."""

    file: str
    group: str  # "station" or "day"
    statistic: str  # "mean" or "peak"
    output: str
    zeros: bool = False  # levels are asked for, and stations.csv is in the same folder


def program(report: Report, handled: frozenset[str]) -> str:
    """Write a program that reads and groups the readings and writes the report and the notes."""
    zeros = report.zeros and GAUGE_ZERO.key in handled
    shift = "at - timedelta(hours=6)" if WATER_DAY.key in handled else "at"
    flagged = ["    if row['flag'] == 'S':", "        continue"] if SUSPECT_READINGS.key in handled else []
    value = "max(levels)" if report.statistic == "peak" else "sum(levels) / len(levels)"
    return "\n".join(
        [
            "import csv",
            *(["from datetime import datetime, timedelta"] if report.group == "day" else []),
            "",
            *(
                [
                    "ZEROS = {row['station']: int(row['zero_mm']) for row in csv.DictReader(open('stations.csv', newline=''))}"
                ]
                if zeros
                else []
            ),
            "groups = {}",
            "rows = used = 0",
            f"for row in csv.DictReader(open({report.file!r}, newline='')):",
            "    rows += 1",
            *flagged,
            "    used += 1",
            f"    level = int(row['level_mm']){' + ZEROS[row[' + repr('station') + ']]' if zeros else ''}",
            *(
                [
                    "    at = datetime.fromisoformat(row['at'])",
                    f"    group = ({shift}).date().isoformat()",
                ]
                if report.group == "day"
                else ["    group = row['station']"]
            ),
            "    groups.setdefault(group, []).append(level)",
            f"with open({report.output!r}, 'w') as out:",
            f"    out.write('{report.group},readings,{report.statistic}_mm\\n')",
            "    for group, levels in sorted(groups.items()):",
            f"        out.write(f'{{group}},{{len(levels)}},{{{value}:.1f}}\\n')",
            "with open('notes.md', 'w') as notes:",
            "    notes.write(f'rows read: {rows}\\nreadings used: {used}\\n')",
            "",
        ]
    )


def _case(report: Report, *needs: Lesson) -> PlaybookCase:
    files = (report.file, "stations.csv") if report.zeros else (report.file,)
    return PlaybookCase(
        report.file, files, report.output, tuple(lesson.key for lesson in needs), partial(program, report)
    )


PLAYBOOK = Playbook(
    slug="gauge-reports",
    title="Reports of water levels",
    words=("gauge", "water level", "tide"),
    when="readings of water gauges have to be reported per station or per day",
    steps=(
        "Look at the columns of the readings and at the list of stations.",
        "Read with the csv module and take the level of each reading as a whole number of millimetres.",
        "Collect the levels per station or per day, whichever is asked for.",
        "Write one line per group, sorted, with the number of readings and the figure to one decimal.",
        "Write rows read and readings used into the notes.",
    ),
    lessons=(SUSPECT_READINGS, GAUGE_ZERO, WATER_DAY),
    cases=(
        _case(Report("jetty_readings.csv", "station", "mean", "jetty_means.csv"), SUSPECT_READINGS),
        _case(Report("storm_readings.csv", "day", "peak", "storm_days.csv"), SUSPECT_READINGS, WATER_DAY),
        _case(
            Report("estuary_readings.csv", "station", "mean", "estuary_means.csv", zeros=True),
            SUSPECT_READINGS,
            GAUGE_ZERO,
        ),
        _case(
            Report("canal_readings.csv", "day", "peak", "canal_days.csv", zeros=True),
            SUSPECT_READINGS,
            GAUGE_ZERO,
            WATER_DAY,
        ),
    ),
)
