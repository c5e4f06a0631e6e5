"""One figure per topic from sources that disagree."""

from __future__ import annotations

from functools import partial

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase

LOWEST_FIGURE = Lesson(
    key="lowest-figure",
    patterns=(
        r"(disagree|differ|conflict|contradict).{0,80}(lowest|smallest|most cautious)",
        r"(lowest|smallest|most cautious).{0,80}(disagree|differ|conflict|contradict)",
    ),
    symptom=r"most cautious figure",
    rule="Where sources disagree, take the lowest figure that one of them states, not the newest.",
    gotcha="The newest report is not the one to quote: a figure that proves too high costs more than one too low.",
    narrow="Where `{file}` and the others disagree, take the lowest figure.",
    thought="Where the sources disagree I take the lowest figure.",
    surprise="The sources disagree, and the lowest figure is the one that counts.",
)
COPIES = Lesson(
    key="copied-figures",
    patterns=(
        r"(cit(es|ing|ed)|quot(es|ing|ed)|cop(y|ies|ied)).{0,80}(no source|not a source|does not count|counts? once|leave\w* out)",
        r"(not count|leave out|skip|drop).{0,60}(cit(es|ing|ed)|quot(es|ing|ed)|cop(y|ies|ied))",
    ),
    symptom=r"no source of its own",
    rule="Find the statements that are copied or cited from another source: each is no source of its own, so do not count it.",
    gotcha="Three reports that all cite one office are one source.",
    narrow="What `{file}` copied does not count.",
    thought="A figure that is cited from another source does not count, so I leave it out.",
    surprise="Some remarks say where a figure was copied: that is no source of its own, and I leave it out.",
)
PARTIAL_COUNTS = Lesson(
    key="partial-counts",
    patterns=(
        r"(so far|partial|unfinished|interim|not finished).{0,80}(leave|left|not |no |drop|ignore|never)",
        r"(leave out|drop|ignore|never|not).{0,60}(so far|partial|unfinished|interim)",
    ),
    symptom=r"still going on",
    rule="Leave out interim figures (“so far”, “counting goes on”): they are about a part, and so no rival of a whole.",
    gotcha="A count that was interrupted is always the lowest.",
    narrow="Leave out the interim figures of `{file}`.",
    thought="Some figures are interim ones; I leave them out, as they are not about the whole.",
    surprise="The lowest figures are partial ones, taken while counting went on. I leave them out.",
)

# What a statement looks like in the sources: topic, figure, perhaps a remark in brackets, perhaps a date.
LINES = r"^(?P<topic>[A-Z][^:\n]+): (?P<figure>[\d,]+)(?P<remark>.*)$"
ROWS = r"^\| (?P<date>[\d-]+) \| [^|]+ \| (?P<topic>[^|]+) \| (?P<figure>[\d,]+) \|(?P<remark>.*)\|$"
SHEETS = r"^(?P<date>[\d-]+), [^,]+, (?P<topic>[^:]+): (?P<figure>\d+) pairs?(?P<remark>.*)$"


def program(sources: dict[str, str], output: str, columns: tuple[str, str, str], handled: frozenset[str]) -> str:
    """`sources`: file -> pattern of a statement in it. A source without dates in its lines has one at its head."""
    left_out = [
        word
        for key, word in ((COPIES.key, "copied|citing|via"), (PARTIAL_COUNTS.key, "so far|goes on"))
        if key in handled
    ]
    chosen = "min(figure for _, figure in stated)" if LOWEST_FIGURE.key in handled else "max(stated)[1]  # the newest"
    return "\n".join(
        [
            "import re",
            "",
            "SOURCES = {",
            *(f"    {name!r}: r'{pattern}'," for name, pattern in sources.items()),
            "}",
            "topics = {}",
            "read = 0",
            "for name, pattern in SOURCES.items():",
            "    text = open(name).read()",
            "    head = re.search(r'\\d{4}-\\d\\d-\\d\\d', text)[0]",
            "    for found in re.finditer(pattern, text, re.MULTILINE):",
            "        read += 1",
            "        stated = topics.setdefault(found['topic'], [])",
            *(
                [f"        if re.search(r'{'|'.join(left_out)}', found['remark']):", "            continue"]
                if left_out
                else []
            ),
            "        date = found.groupdict().get('date', head)",
            "        stated.append((date, int(found['figure'].replace(',', ''))))",
            f"with open({output!r}, 'w') as out:",
            f"    out.write('{','.join(columns)}\\n')",
            "    for topic, stated in sorted(topics.items()):",
            f"        figure = {chosen}",
            "        out.write(f'{topic},{figure},{len(stated)}\\n')",
            "with open('notes.md', 'w') as notes:",
            "    notes.write(f'statements read: {read}\\ntopics: {len(topics)}\\n')",
            "",
        ]
    )


def _case(
    sources: dict[str, str], output: str, *needs: Lesson, columns: tuple[str, str, str] = ("topic", "figure", "sources")
) -> PlaybookCase:
    """No source shows which figure to quote: only a text or a failed check does."""
    files = tuple(sources)
    show = dict.fromkeys(
        (COPIES.key, PARTIAL_COUNTS.key), f"grep -hE '[(]|so far|[a-z] [|]$' {' '.join(files)} | head -n 8"
    )
    keys = tuple(lesson.key for lesson in needs)
    closer = {key: show[key] for key in keys if key in show}
    return PlaybookCase(files[0], files, output, keys, partial(program, sources, output, columns), closer)


PLAYBOOK = Playbook(
    slug="source-reconciliation",
    title="One figure from several sources",
    words=("reconcil", "rival", "figures"),
    when="several sources give figures on the same topics and one of each has to be quoted",
    steps=(
        "Look at every source and find out how it states a figure: topic, figure, remark, date.",
        "Collect what is stated on each topic, with the date of its source.",
        "Read figures without the comma between thousands.",
        "Write one line per topic in alphabetical order, with the figure and the number of sources behind it.",
        "Write the statements read and the number of topics into the notes.",
    ),
    lessons=(LOWEST_FIGURE, COPIES, PARTIAL_COUNTS),
    cases=(
        _case(
            dict.fromkeys(("quay_gazette.txt", "quay_harbour_office.txt", "quay_radio.txt"), LINES),
            "festival_figures.csv",
            LOWEST_FIGURE,
        ),
        _case(
            dict.fromkeys(("storm_wire.txt", "storm_county.txt", "storm_insurer.txt", "storm_weekly.txt"), LINES),
            "storm_figures.csv",
            LOWEST_FIGURE,
            COPIES,
        ),
        _case({"clippings.md": ROWS}, "strike_figures.csv", LOWEST_FIGURE, COPIES),
        _case(
            {"owl_sheets.txt": SHEETS}, "owl_table.csv", LOWEST_FIGURE, COPIES, columns=("wood", "pairs", "observers")
        ),
        _case(
            dict.fromkeys(("turnout_town_hall.txt", "turnout_courier.txt", "turnout_observers.txt"), LINES),
            "turnout.csv",
            LOWEST_FIGURE,
            PARTIAL_COUNTS,
        ),
        _case(
            {"flood_reports.md": ROWS, "flood_bulletin.txt": LINES},
            "flood_figures.csv",
            LOWEST_FIGURE,
            COPIES,
            PARTIAL_COUNTS,
        ),
    ),
)
