"""One table from an API that answers in pages."""

from __future__ import annotations

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase, build_case

ONE_MOMENT = Lesson(
    key="one-moment",
    patterns=(
        r"(as_of|as of|snapshot|one moment|same moment).{0,120}(it had before|`was`|previous value|earlier value)",
        r"(updated|changed) (after|since|later).{0,80}(as_of|snapshot|first (answer|page)).{0,80}(it had before|`was`|previous)",
    ),
    symptom=r"as of the first answer",
    rule=(
        "Show everything as of one moment: keep as_of of the first answer, and give an item updated after that the value "
        "it had before."
    ),
    gotcha="Pages are read one after the other: without one moment for all, what was and what is get mixed.",
    narrow="In `{file}` the items updated after the first answer keep what was.",
    thought="The table shows one moment: as_of of the first answer. What was updated later keeps the value it had before.",
    surprise="Some items were updated after as_of of the first answer; for these the value it had before counts.",
)
HIGHEST_VERSION = Lesson(
    key="highest-version",
    patterns=(
        r"(twice|two pages|several pages|repeat\w*|duplicate\w*).{0,80}(highest|latest|newest) version",
        r"(keep|take|prefer).{0,40}(highest|latest|newest) version",
    ),
    symptom=r"on two pages",
    rule="An item can stand on two pages, since pages shift while they are read: take it once, with the highest version.",
    gotcha="Which page came later says nothing: of an item that is listed twice the highest version counts.",
    narrow="In `{file}` take the highest version of an item.",
    thought="Items are listed twice where pages shifted, so I take the highest version of each.",
    surprise="Some items are listed twice; I keep the highest version of each.",
)
FOLLOW_NEXT = Lesson(
    key="follow-next",
    patterns=(
        r"(page count|number of pages|count of pages).{0,60}(stale|old|not|never|wrong|too low)",
        r"(not|never|don't).{0,60}(page count|number of pages|count of pages)",
        r"until.{0,40}\bnext\b.{0,20}(empty|null|none|missing)",
    ),
    symptom=r"page count",
    rule="Never rely on the number of pages that an answer states: read on until next is empty.",
    gotcha="The page count in the first answer may be old; pages come to it.",
    narrow="The page count in `{file}` is too low: never use it.",
    thought="The page count may be old, so I read on until next is empty.",
    surprise="There are more pages than stated: the page count is old, next is not.",
)

HEAD = """\
import api


def merge(path):
    page = api.get(path)
    as_of, items = page['as_of'], page['items']
    while page['next']:
        page = api.get(page['next'])
        items = items + page['items']
    items = list({item['id']: item for item in sorted(items, key=lambda item: item['version'])}.values())
    return as_of, sorted(items, key=lambda item: item['id'])


"""
TAIL = """\
with open('notes.md', 'w') as notes:
    notes.write(f"records merged: {len(items)}\\nlast record: {items[-1]['id']}\\n")
"""
ONCE = "    items = list({item['id']: item for item in sorted(items, key=lambda item: item['version'])}.values())\n"
PAGES = (
    "    while page['next']:\n        page = api.get(page['next'])\n",
    "    for number in range(2, page['pages'] + 1):\n        page = api.get(f'{path}?page={number}')\n",
)


def _case(
    name: str, path: str, output: str, label: str, value: str, *lessons: Lesson, items: str = "items", owners: str = ""
) -> PlaybookCase:
    """`label` and `value`: fields of an item that are written. `owners`: the collection that has the names of the
    label."""
    shown = f"names[item['{label}']]" if owners else f"item['{label}']"
    program = "".join(
        [
            HEAD.replace("page['items']", f"page['{items}']"),
            f"as_of, items = merge({path!r})\n",
            f"names = {{item['id']: item['name'] for item in merge({owners!r})[1]}}\n" if owners else "",
            f"with open({output!r}, 'w') as out:\n",
            f"    out.write('id,{label},{value}\\n')\n",
            "    for item in items:\n",
            f"        {value} = item['was'] if item['updated'] > as_of else item['{value}']\n",
            f"        out.write(f\"{{item['id']}},{{{shown}}},{{{value}}}\\n\")\n",
            TAIL,
        ]
    )
    habits = {
        ONE_MOMENT: (("item['was'] if item['updated'] > as_of else ", ""),),
        HIGHEST_VERSION: ((ONCE, ""),),
        FOLLOW_NEXT: (PAGES,),
    }
    closer = {
        HIGHEST_VERSION: f"cut -d, -f1 {output} | sort | uniq -d | head -n 4",
        FOLLOW_NEXT: f"grep -E '\"(pages|next)\"' {name} | tail -n 4",
    }
    used = {each: habits[each] for each in (ONE_MOMENT, *lessons)}
    return build_case((name, "api.py"), output, program, used, closer)


PLAYBOOK = Playbook(
    slug="paged-api-merge",
    title="One table from an API that answers in pages",
    words=("paged", "api-merge", "in pages"),
    when="an API answers in pages and all of it has to become one table",
    steps=(
        "Ask for the first page and look at the fields of the answer and of an item.",
        "Ask for page after page, and collect their items.",
        "Sort the items by id.",
        "Write one line per item with the asked columns.",
        "Write the records merged and the last one into the notes.",
    ),
    lessons=(ONE_MOMENT, HIGHEST_VERSION, FOLLOW_NEXT),
    cases=(
        _case("shop_answers.json", "/orders", "orders_merged.csv", "customer", "amount"),
        _case("depot_answers.json", "/parcels", "parcels_merged.csv", "street", "grams", HIGHEST_VERSION),
        _case("meter_answers.json", "/meters", "meters_merged.csv", "flat", "kwh", items="results"),
        _case("clinic_answers.json", "/wards", "beds_merged.csv", "ward", "free", HIGHEST_VERSION),
        _case("library_answers.json", "/books", "books_merged.csv", "title", "copies", FOLLOW_NEXT),
        _case(
            *("helpdesk_answers.json", "/tickets", "tickets_merged.csv", "agent", "minutes", HIGHEST_VERSION),
            owners="/agents",
        ),
    ),
)
