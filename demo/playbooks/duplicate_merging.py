"""One record per thing from lists that hold some things more than once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase, without_unused_imports

IDENTITY_FORMS = Lesson(
    key="identity-forms",
    patterns=(
        r"(normali[sz]e|canonical|unify|same form|common form|reduce|compare only).{0,60}(identif|number|id\b|serial|phone|digits|letters)",
        r"(identif|number|id|serial|phone)\w*.{0,60}(normali[sz]e|canonical|same form|common form|punctuation)",
        r"(punctuation|hyphen|dash|space|bracket)s?.{0,50}(strip|remov|drop|ignor|differ)",
    ),
    symptom=r"all stand for|is one and the same",
    rule=(
        "Reduce the identifier to one canonical form before comparing: drop spaces, punctuation and case, and unify prefixes "
        "such as 00 and +."
    ),
    gotcha="The same number can be typed in several ways; compared as text they count as different things.",
    narrow="In `{file}` remove the hyphens from the number before comparing.",
    thought="The identifier is typed in several ways, so I normalise the number before comparing.",
    surprise="The same identifier appears with and without punctuation. I normalise it before comparing.",
)
FIELD_BY_FIELD = Lesson(
    key="field-by-field",
    patterns=(
        r"(field by field|per field|each field|every field|for each column|column by column)",
        r"(newest|latest|most recent).{0,40}(non.?empty|filled|not empty|value)",
        r"(fill|complete).{0,50}(from|with).{0,30}(other|older|duplicate|remaining)",
    ),
    symptom=r"newest filled|the older record",
    rule=(
        "Merge field by field: for each field take the newest record in which it is filled. Do not keep one record whole and "
        "throw the others away."
    ),
    gotcha="The first record may be stale, and the newest may lack a field that an older one has.",
    narrow="For `{file}` prefer the last record of each number.",
    thought="I merge field by field: the newest non-empty value of each field wins.",
    surprise="The duplicates differ: some fields are only filled in older records. The newest non-empty value should win, per field.",
)
NOT_BY_NAME = Lesson(
    key="names-are-not-identities",
    patterns=(
        r"\bnames? (is|are|do|does|can|prove|tell)\w* .{0,20}(not|never|no|nothing|shared|ambiguous)",
        r"(not|never) by (the )?names?\b",
        r"namesake|share (a|the same) name",
        r"(not|never|don't|do not) (merge|match|compare|group|go) (by|on).{0,20}name",
        r"only (the |an? )?(identifier|number|id)\b.{0,40}(tell|decide|merge|prove|count)",
    ),
    symptom=r"namesake",
    rule="Only the identifier tells whether two records are one thing. Never merge by name.",
    gotcha="Different people share a name, and one person may stand under two names.",
    narrow="In `{file}` some people have the same name: leave those alone.",
    thought="Names are not identities: I merge by number only.",
    surprise="There are people with the same name and different numbers, so names cannot decide. I merge by number, not by name.",
)


@dataclass(frozen=True, slots=True)
class Records:
    """Records to be merged by an identifier."""

    file: str
    identity: str
    fields: tuple[str, ...]
    output: str
    dated: str = ""
    tempting: str = ""  # a column that looks like an identity but is not one
    zoned_by: str = ""  # column that names the source whose local time `dated` is in


FORMS = (
    "def identity(text):\n    text = re.sub(r'[^0-9a-z+]', '', text.lower())\n"
    "    return '+' + text[2:] if text.startswith('00') else text\n\n"
)
PLAIN = "def identity(text):\n    return text.strip().lower()\n\n"
MOMENT = (
    "def moment(record):\n    offset = SOURCES[record[{source!r}]]['utc_offset']\n"
    "    return datetime.fromisoformat(record[{dated!r}] + offset)\n\n"
)
TEXT_MOMENT = "def moment(record):\n    return record[{dated!r}]\n\n"


def program(records: Records, handled: frozenset[str]) -> str:
    column = records.identity
    if records.tempting and NOT_BY_NAME.key not in handled:
        column = records.tempting
    newest = bool(records.dated) and FIELD_BY_FIELD.key in handled
    zoned = newest and bool(records.zoned_by) and "naive-times" in handled
    json_file = records.file.endswith(".json")
    lines = [
        "import csv",
        "import json",
        "import re",
        *(["from datetime import datetime"] if zoned else []),
        "",
        f"FIELDS = {list(records.fields)!r}",
    ]
    lines += [
        f"records = json.load(open({records.file!r}))"
        if json_file
        else f"records = list(csv.DictReader(open({records.file!r}, newline='')))"
    ]
    lines += ["SOURCES = json.load(open('sources.json'))"] if zoned else []
    lines += ["", "", FORMS if IDENTITY_FORMS.key in handled else PLAIN]
    if newest:
        moment = MOMENT if zoned else TEXT_MOMENT
        lines += [moment.format(source=records.zoned_by, dated=records.dated)]
    lines += [
        "merged = {}",
        "for record in records:",
        f"    merged.setdefault(identity(record[{column!r}]), []).append(record)",
    ]
    lines += _writing(records, newest)
    return without_unused_imports("\n".join(lines))


def _writing(records: Records, newest: bool) -> list[str]:
    chosen = (
        "next((r[field] for r in sorted(group, key=moment, reverse=True) if r[field]), '')"
        if newest
        else "group[0][field]"
    )
    return [
        f"with open({records.output!r}, 'w', newline='') as out:",
        "    writer = csv.writer(out)",
        f"    writer.writerow([{records.identity!r}, *FIELDS, 'records'])",
        "    for group in merged.values():",
        f"        values = [{chosen} for field in FIELDS]",
        f"        writer.writerow([group[0][{records.identity!r}].strip(), *values, len(group)])",
        "with open('notes.md', 'w') as notes:",
        "    notes.write(f'records read: {len(records)}\\nrecords kept: {len(merged)}\\n')",
        "",
    ]


def _case(
    records: Records, needs: tuple[str, ...], closer: dict[str, str] | None = None, others: tuple[str, ...] = ()
) -> PlaybookCase:
    return PlaybookCase(
        main_file=records.file,
        files=(records.file, *others),
        output=records.output,
        needs=needs,
        program=partial(program, records),
        closer=closer or {},
    )


PLAYBOOK = Playbook(
    slug="duplicate-merging",
    title="Merging duplicate records",
    words=("duplicat", "merg", "dedup", "record", "identity"),
    when="a list holds some people or things more than once and each should stand in it once",
    steps=(
        "Find the column that identifies a record and look at how it is written.",
        "Compare identifiers without surrounding blanks and without regard to case.",
        "Keep one line per identifier, in the order of first appearance.",
        "Count how many records went into each line.",
        "Write records read and records kept into the notes.",
    ),
    lessons=(IDENTITY_FORMS, FIELD_BY_FIELD, NOT_BY_NAME),
    cases=(
        _case(Records("signups.csv", "email", ("name", "city"), "people.csv"), ()),
        _case(
            Records("contacts.csv", "phone", ("name",), "phones.csv"),
            (IDENTITY_FORMS.key,),
            {IDENTITY_FORMS.key: "cut -d, -f1 contacts.csv | sort | head -n 12"},
        ),
        _case(
            Records("suppliers.csv", "vat", ("name", "email", "contact"), "suppliers_clean.csv", "updated"),
            (FIELD_BY_FIELD.key,),
            {FIELD_BY_FIELD.key: "sort suppliers.csv | head -n 8"},
        ),
        _case(
            Records("devices.json", "serial", ("owner", "room"), "devices_clean.csv", "seen"),
            (IDENTITY_FORMS.key, FIELD_BY_FIELD.key),
            {
                IDENTITY_FORMS.key: 'grep -o \'"serial": "[^"]*"\' devices.json | sort | head -n 12',
                FIELD_BY_FIELD.key: 'grep -c \'"owner": ""\' devices.json; head -n 12 devices.json',
            },
        ),
        _case(
            Records("patients.csv", "patient", ("name", "born"), "patients_clean.csv", tempting="name"),
            (NOT_BY_NAME.key,),
            {NOT_BY_NAME.key: "cut -d, -f2 patients.csv | sort | uniq -d; grep -n 'Jan Kowalski' patients.csv"},
        ),
        _case(
            Records("tickets.csv", "ticket", ("status", "assignee"), "tickets_clean.csv", "changed", zoned_by="office"),
            (FIELD_BY_FIELD.key, "naive-times"),
            {
                FIELD_BY_FIELD.key: "sort tickets.csv | head -n 8",
                "naive-times": "head -n 3 tickets.csv; cat sources.json",
            },
        ),
    ),
)
