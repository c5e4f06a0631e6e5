"""Standings of sailing series by the rule book of the corpus regatta-rules."""

from __future__ import annotations

from functools import partial

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase

TIED_PLACES = Lesson(
    key="tied-places",
    patterns=(
        r"(\btie[ds]?\b|same place|dead heat).{0,80}(mean|average|share|divide)",
        r"(mean|average|share).{0,80}(\btie[ds]?\b|same place|dead heat)",
    ),
    symptom=r"tied boats",
    rule=(
        "Boats that are tied in a race share its places: each gets the mean of the places they occupy together, so two "
        "boats tied for second get 2.5 points."
    ),
    gotcha="The place written for tied boats is not their points.",
    narrow="The tied boats of `{file}` share their places.",
    thought="Tied boats get the mean of the places they occupy together.",
    surprise="Tied boats share their places: each gets the mean of them.",
)
UNFINISHED_BOATS = Lesson(
    key="unfinished-boats",
    patterns=(
        r"(not finish|DNF|DNS|DSQ|disqualif|retire|unfinished).{0,100}(entr\w+|entered|boats).{0,40}(plus one|\+ ?1|one more|more by one)",
        r"(entr\w+|entered).{0,40}(plus one|\+ ?1).{0,80}(not finish|DNF|DNS|DSQ|disqualif|retire|unfinished)",
    ),
    symptom=r"did not finish",
    rule="A boat without a place in a race (DNS, DNF, DSQ) scores the number of boats entered in the series plus one.",
    gotcha="A race that a boat did not finish counts, and counts most. Leaving it out makes the boat win.",
    narrow="The boats of `{file}` without a place score one more than there are boats.",
    thought="A boat that did not finish scores the boats entered plus one.",
    surprise="Boats that did not finish come out first; they score the boats entered plus one.",
)
WORST_RACE = Lesson(
    key="worst-race",
    patterns=(
        r"(discard|drop|strike|exclude|leave out|does not count).{0,60}worst",
        r"worst.{0,60}(discard|drop|struck|excluded|left out|does not count|not counted)",
    ),
    symptom=r"worst race",
    rule="In a series of five races or more the worst race of each boat is discarded before the points are summed.",
    gotcha="Nothing in the results shows that a long series has a discard; a plain sum looks right.",
    narrow="Discard the worst race of each boat in `{file}`.",
    thought="The series has five races or more, so each boat's worst race is discarded.",
    surprise="A long series has a discard: the worst race of each boat does not count.",
)


def program(file: str, output: str, handled: frozenset[str]) -> str:
    """Write a program that reads results (race, boat, place or DNS, DNF, DSQ) and writes standings and notes."""
    tied = TIED_PLACES.key in handled
    unfinished = "len(boats) + 1" if UNFINISHED_BOATS.key in handled else "0"
    worst = WORST_RACE.key in handled
    return "\n".join(
        [
            "import csv",
            "",
            f"results = list(csv.DictReader(open({file!r}, newline='')))",
            "boats = {row['boat'] for row in results}",
            "races = sorted({row['race'] for row in results})",
            "scores = {boat: [] for boat in boats}",
            "for race in races:",
            "    rows = [row for row in results if row['race'] == race]",
            "    places = [row['place'] for row in rows]",
            "    for row in rows:",
            "        if not row['place'].isdigit():",
            f"            points = {unfinished}",
            "        else:",
            "            points = int(row['place'])",
            *(["            points += (places.count(row['place']) - 1) / 2"] if tied else []),
            "        scores[row['boat']].append(points)",
            *(
                [
                    "if len(races) >= 5:",
                    "    for points in scores.values():",
                    "        points.remove(max(points))",
                ]
                if worst
                else []
            ),
            "standings = sorted((sum(points), boat) for boat, points in scores.items())",
            f"with open({output!r}, 'w') as out:",
            "    out.write('boat,races,points\\n')",
            "    for points, boat in standings:",
            "        out.write(f'{boat},{len(scores[boat])},{points:.1f}\\n')",
            "with open('notes.md', 'w') as notes:",
            "    notes.write(f'races sailed: {len(races)}\\nboats entered: {len(boats)}\\n')",
            "",
        ]
    )


def _case(file: str, output: str, *needs: Lesson) -> PlaybookCase:
    return PlaybookCase(file, (file,), output, tuple(lesson.key for lesson in needs), partial(program, file, output))


PLAYBOOK = Playbook(
    slug="regatta-scoring",
    title="Standings of a regatta",
    words=("regatta", "standings", "sailing"),
    when="results of single races have to become the standings of a series",
    steps=(
        "Look at the columns of the results and at what stands in the place of a boat.",
        "Read with the csv module and collect the results race by race.",
        "Give a boat as many points as its place.",
        "Sum the points of each boat and write the standings, lowest points first, points to one decimal.",
        "Write races sailed and boats entered into the notes.",
    ),
    lessons=(TIED_PLACES, UNFINISHED_BOATS, WORST_RACE),
    cases=(
        _case("spring_sprint.csv", "sprint_standings.csv", UNFINISHED_BOATS),
        _case("harbour_cup.csv", "cup_standings.csv", TIED_PLACES, UNFINISHED_BOATS),
        _case("autumn_series.csv", "autumn_standings.csv", UNFINISHED_BOATS, WORST_RACE),
        _case("club_league.csv", "league_standings.csv", TIED_PLACES, UNFINISHED_BOATS, WORST_RACE),
    ),
)
