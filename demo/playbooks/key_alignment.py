"""Joining two tables by a key they share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase

KEY_FORMS = Lesson(
    key="key-forms",
    patterns=(
        r"(normali[sz]e|canonical|unify|same form|common form|bring).{0,60}(key|id|code|number)",
        r"(key|id|code|number)s?.{0,60}(normali[sz]e|canonical|same form|common form)",
        r"leading zero",
        r"(prefix|letter|punctuation|case).{0,40}(strip|remove|drop|differ)",
        r"(key|id|code|number)s? (is|are|may be|can be) written (in )?(differently|several|other|more)",
    ),
    symptom=r"is the same key as|written differently in the two files",
    rule=(
        "Bring the keys of both files into one form before matching: drop prefixes, letters' case, punctuation and leading "
        "zeros. Compare a few keys from each file side by side first."
    ),
    gotcha="One key can be written in several ways. Exact matching then loses rows without any error.",
    narrow="In `{file}` remove the prefix and the leading zeros of the key.",
    thought="The two files write the same key differently, so I normalise the key on both sides: digits, no leading zeros.",
    surprise="The keys are written differently in the two files. I bring both into the same form before matching.",
)
NEWEST_ENTRY = Lesson(
    key="newest-entry",
    patterns=(
        r"(newest|latest|most recent|last updated|youngest).{0,60}(row|entry|record|line|one|win|count|keep|valid)",
        r"(duplicate|several|more than one|repeated).{0,50}(key|row|entr|line)s?.{0,80}(newest|latest|recent|date|updated)",
    ),
    symptom=r"the newest entry says|more than one entry",
    rule=(
        "Check whether the lookup table holds a key more than once. If it does, the entry with the newest date wins, "
        "wherever it stands in the file."
    ),
    gotcha="Filling a dict keeps the last row of the file, which need not be the newest one.",
    narrow="`{file}` repeats keys: keep the row with the latest date in that file.",
    thought="The lookup has several entries per key, so the newest by date wins.",
    surprise="Keys repeat in the lookup with different dates. The newest entry should win, not the last line.",
)
NEVER_BY_POSITION = Lesson(
    key="never-by-position",
    patterns=(
        r"(by|on|through) (the |its )?(key|identifier|id)s?,? (and )?(never|not) (by|on|the) .{0,20}(position|line|row|order)",
        r"(row|line|file) (order|position|number)s?.{0,60}(not|never|differ|unreliable|proof|coincidence)",
        r"(not|never|don't).{0,40}(position|row order|line order|line by line|same order)",
    ),
    symptom=r"line by line|position in the file",
    rule="Match by the key on every row and never by position, even when both files have the same number of lines.",
    gotcha="Two files that start in the same order need not stay so.",
    narrow="`{file}` is not in the same order as the other file.",
    thought="Both files have the same length, but I match by the key and never by position.",
    surprise="The order of the two files parts after a few lines, so pairing lines would be wrong. I match by key, not by position.",
)


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of one table that get fields of another."""

    left: str
    right: str
    key: str
    id: str  # column that names a row of the left table
    take: str  # column fetched from the right table
    output: str
    carry: str  # further column of the left table in the output
    dated: str = ""  # column of the right table that shows which of two entries is newer
    positional: bool = False  # does pairing lines look right at first?


def _rows(name: str) -> str:
    if name.endswith(".jsonl"):
        return f"[json.loads(line) for line in open({name!r})]"
    if name.endswith(".json"):
        return f"json.load(open({name!r}))"
    return f"list(csv.DictReader(open({name!r}, newline='')))"


def program(join: Join, handled: frozenset[str]) -> str:
    """Write a program that fills a lookup from the right table, walks the left one, writes the result and notes."""
    forms, newest = KEY_FORMS.key in handled, NEWEST_ENTRY.key in handled and join.dated
    names = {name.rpartition(".")[2] for name in (join.left, join.right)}
    imports = sorted({"csv"} | ({"json"} if names - {"csv"} else set()) | ({"re"} if forms else set()))
    body = [
        *(f"import {name}" for name in imports),
        "",
        f"left = {_rows(join.left)}",
        f"right = {_rows(join.right)}",
        "",
    ]
    if join.positional and NEVER_BY_POSITION.key not in handled:
        body += ["found = [entry for entry in right]"]
    else:
        body += [
            "",
            "def key_of(text):",
            "    return re.sub(r'\\D', '', str(text)).lstrip('0')" if forms else "    return str(text).strip()",
            "",
            "",
            "lookup = {}",
            "for entry in right:",
            f"    key = key_of(entry[{join.key!r}])",
            *(
                [f"    if key not in lookup or entry[{join.dated!r}] > lookup[key][{join.dated!r}]:"]
                if newest
                else ["    if key:"]
            ),
            "        lookup[key] = entry",
            f"found = [lookup.get(key_of(row[{join.key!r}])) for row in left]",
        ]
    return "\n".join(
        [
            *body,
            f"with open({join.output!r}, 'w', newline='') as out:",
            "    writer = csv.writer(out)",
            f"    writer.writerow([{join.id!r}, {join.take!r}, {join.carry!r}])",
            "    for row, entry in zip(left, found):",
            f"        writer.writerow([row[{join.id!r}], entry[{join.take!r}] if entry else '', row[{join.carry!r}]])",
            "matched = sum(entry is not None for entry in found)",
            "with open('notes.md', 'w') as notes:",
            "    notes.write(f'rows read: {len(left)}\\nrows matched: {matched}\\n')",
            "    notes.write(f'rows without match: {len(left) - matched}\\n')",
            "",
        ]
    )


FEES_BY_ZONE = """\
import csv

zones = {{}}
for entry in csv.DictReader(open('zones.csv', newline='')):
    area = entry['area'].strip()
    if {newer}:
        zones[area] = entry
groups = {{{early}}}
shipments = list(csv.DictReader(open('shipments.csv', newline='')))
used = 0
for row in shipments:
    zone = zones.get(row['area'].strip())
    if zone is None or not row['fee'].strip():
        continue
    used += 1
    groups.setdefault(zone['zone'], []).append(float(row['fee']))
with open('zone_fees.csv', 'w') as out:
    out.write('zone,parcels,average\\n')
    for zone, fees in sorted(groups.items()):
        average = f'{{sum(fees) / len(fees):.2f}}' if fees else ''
        out.write(f'{{zone}},{{len(fees)}},{{average}}\\n')
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {{len(shipments)}}\\nvalues used: {{used}}\\n')
    notes.write(f'values left out: {{len(shipments) - used}}\\n')
"""


def fees_by_zone(handled: frozenset[str]) -> str:
    """The composition case: areas moved between zones, and a zone without parcels still gets its line."""
    newest = "area not in zones or entry['since'] > zones[area]['since']"
    return FEES_BY_ZONE.format(
        newer=newest if NEWEST_ENTRY.key in handled else "area",
        early="entry['zone']: [] for entry in zones.values()" if "empty-groups" in handled else "",
    )


PLAYBOOK = Playbook(
    slug="key-alignment",
    title="Joining tables by key",
    words=("key", "join", "align", "match", "lookup"),
    when="rows of one table need fields that stand in another",
    steps=(
        "Find the column both files share and look at a few of its values in each.",
        "Fill a lookup from the table that holds the wanted field, with blanks around the key stripped.",
        "Walk the other table in its own order and write one line per row.",
        "A row without a match keeps its line, with the fetched field empty.",
        "Count rows read, matched and without match, and write them into the notes.",
    ),
    lessons=(KEY_FORMS, NEWEST_ENTRY, NEVER_BY_POSITION),
    cases=(
        PlaybookCase(
            main_file="orders.csv",
            files=("orders.csv", "customers.csv"),
            output="orders_named.csv",
            needs=(),
            program=partial(
                program,
                Join("orders.csv", "customers.csv", "customer", "order", "name", "orders_named.csv", "amount"),
            ),
        ),
        PlaybookCase(
            main_file="counts.csv",
            files=("counts.csv", "catalogue.csv"),
            output="counts_named.csv",
            needs=(KEY_FORMS.key,),
            program=partial(
                program,
                Join("counts.csv", "catalogue.csv", "article", "count_id", "label", "counts_named.csv", "pieces"),
            ),
            closer={KEY_FORMS.key: "cut -d, -f2 counts.csv | head -n 5; cut -d, -f1 catalogue.csv | head -n 5"},
        ),
        PlaybookCase(
            main_file="swipes.csv",
            files=("swipes.csv", "staff.csv"),
            output="swipes_named.csv",
            needs=(NEWEST_ENTRY.key,),
            program=partial(
                program,
                Join("swipes.csv", "staff.csv", "badge", "swipe", "holder", "swipes_named.csv", "door", "updated"),
            ),
            closer={NEWEST_ENTRY.key: "cut -d, -f1 staff.csv | sort | uniq -d | head -n 4; grep -n B205 staff.csv"},
        ),
        PlaybookCase(
            main_file="loans.jsonl",
            files=("loans.jsonl", "members.json"),
            output="loans_named.csv",
            needs=(KEY_FORMS.key, NEWEST_ENTRY.key),
            program=partial(
                program,
                Join("loans.jsonl", "members.json", "member", "loan", "branch", "loans_named.csv", "title", "since"),
            ),
            closer={
                KEY_FORMS.key: 'grep -o \'"member": "[^"]*"\' loans.jsonl | head -n 4; grep -o \'"member": [^,]*\' members.json | head -n 4',
                NEWEST_ENTRY.key: "grep -o '\"member\": [^,]*' members.json | sort | uniq -d | head -n 4",
            },
        ),
        PlaybookCase(
            main_file="scores.csv",
            files=("scores.csv", "students.csv"),
            output="scores_named.csv",
            needs=(NEVER_BY_POSITION.key,),
            program=partial(
                program,
                Join("scores.csv", "students.csv", "student", "sheet", "name", "scores_named.csv", "score", "", True),
            ),
            closer={NEVER_BY_POSITION.key: "paste -d' ' scores.csv students.csv | tail -n 6"},
        ),
        PlaybookCase(
            main_file="shipments.csv",
            files=("shipments.csv", "zones.csv"),
            output="zone_fees.csv",
            needs=(NEWEST_ENTRY.key, "empty-groups"),
            program=fees_by_zone,
            closer={
                NEWEST_ENTRY.key: "cut -d, -f1 zones.csv | sort | uniq -d | head -n 4",
                "empty-groups": "cut -d, -f2 zones.csv | sort | uniq -c",
            },
        ),
    ),
)
