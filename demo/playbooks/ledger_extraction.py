"""Ledger lines extracted from documents that were made for reading."""

from __future__ import annotations

from functools import partial

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase

BOOKS_CLOSE = Lesson(
    key="books-close",
    patterns=(
        r"(after|later than|past) the 25th.{0,80}(next|following) (month|period)",
        r"(next|following) (month|period).{0,80}(after|later than|past) the 25th",
    ),
    symptom=r"books close on the 25th",
    rule="Work out the period of each entry: what is posted after the 25th belongs to the next month, as the books close then.",
    gotcha="The calendar month of an entry is not its period: the last days of a month belong to the next one.",
    narrow="What `{file}` has after the 25th belongs to the next month.",
    thought="The books close early, so I put what is posted after the 25th into the next month.",
    surprise="What is posted after the 25th belongs to the next month.",
)
TAKEN_BACK = Lesson(
    key="taken-back",
    patterns=(
        r"(revers|cancel|refund|taken? back).{0,100}(0\.00|zero)",
        r"(0\.00|zero).{0,80}(revers|cancel|refund|taken? back)",
    ),
    symptom=r"takes this entry back",
    rule=(
        "Look for later lines by which an entry is reversed, cancelled or refunded. It keeps its line in the ledger, with "
        "the amount 0.00."
    ),
    gotcha="A reversal has no number of its own, so a pattern for entries passes over it without a word.",
    narrow="The entries that `{file}` reverses get 0.00.",
    thought="Some entries are reversed further down; they keep their line with the amount 0.00.",
    surprise="Further down an entry is taken back: it keeps its line with the amount 0.00.",
)
PRINTED_PERIOD = Lesson(
    key="printed-period",
    patterns=(
        r"(never|not|don't|ignore).{0,60}period.{0,60}print",
        r"print\w* .{0,30}period.{0,60}(never|not|ignore|bank's own)",
    ),
    symptom=r"printed in the document is",
    rule="Never copy a period that is printed in the document, since that is the bank's own. Work it out from the day.",
    gotcha="A printed period has the right form and mostly the right month.",
    narrow="Do not take the period printed in `{file}`.",
    thought="The document prints a period, but not ours: I do not take the period that is printed.",
    surprise="The printed period changes in mid-month, so it is not ours. I work it out from the day.",
)

# What an entry looks like in the documents: number, posting date, amount, and perhaps a period.
DOTTED = r"(?P<entry>\d+) +(?P<day>\d\d)\.(?P<month>\d\d)\.(?P<year>\d{4}) .* (?P<amount>[\d,]+\.\d\d)$"
TILL = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d) [\d:]+ +#(?P<entry>\d+) .* (?P<amount>[\d,]+\.\d\d)$"
ROWS = r"\| (?P<entry>\d+) \| (?P<day>\d\d)/(?P<month>\d\d)/(?P<year>\d{4}) \|.*\| (?P<amount>[\d,]+\.\d\d) \|$"
MAILS = r"Voucher (?P<entry>\d+) .* on (?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d) .* (?P<amount>[\d,]+\.\d\d) "
PRINTED = DOTTED.replace(" .* ", r" +(?P<printed>\d{4}-\d\d) .* ")
CASH = r"(?P<day>\d\d)/(?P<month>\d\d)/(?P<year>\d{4}) .*\[(?P<entry>\d+)\] +(?P<amount>[\d,]+\.\d\d)$"
BACK = r"(?:reversal of|takes back|cancels|refunded: Voucher) #?(\d+)"


def program(lines: dict[str, str], output: str, number: str, handled: frozenset[str]) -> str:
    """`lines`: file -> pattern of an entry in it."""
    is_printed = PRINTED_PERIOD.key not in handled and any("printed" in pattern for pattern in lines.values())
    return "\n".join(
        [
            "import re",
            "",
            "LINES = {",
            *(f"    {name!r}: r'{pattern}'," for name, pattern in lines.items()),
            "}",
            "entries = {}",
            "for name, pattern in LINES.items():",
            "    for line in open(name):",
            "        found = re.match(pattern, line.strip())",
            "        if found:",
            "            months = int(found['year']) * 12 + int(found['month']) - 1",
            *(
                ["            months += int(found['day']) > 25  # the books are closed"]
                if BOOKS_CLOSE.key in handled
                else []
            ),
            "            period = f'{months // 12}-{months % 12 + 1:02}'",
            *(["            period = found.groupdict().get('printed', period)"] if is_printed else []),
            "            entries[found['entry']] = [period, float(found['amount'].replace(',', ''))]",
            *(
                [
                    f"        back = re.search(r'{BACK}', line)",
                    "        if back:",
                    "            entries[back[1]][1] = 0.0",
                ]
                if TAKEN_BACK.key in handled
                else []
            ),
            f"with open({output!r}, 'w') as out:",
            f"    out.write('{number},period,amount\\n')",
            "    for entry, (period, amount) in entries.items():",
            "        out.write(f'{entry},{period},{amount:.2f}\\n')",
            "total = sum(amount for _, amount in entries.values())",
            "with open('notes.md', 'w') as notes:",
            "    notes.write(f'entries booked: {len(entries)}\\ntotal: {total:.2f}\\n')",
            "",
        ]
    )


def _case(lines: dict[str, str], output: str, *needs: Lesson, number: str = "entry") -> PlaybookCase:
    """No document shows that a month is closed: only a text or a failed check does."""
    files = tuple(lines)
    show = {
        TAKEN_BACK.key: f"grep -hvE '[0-9][.][0-9][0-9]' {' '.join(files)} | grep '[0-9]' | tail -n 6",
        PRINTED_PERIOD.key: f"grep -hE '(1[4-7])[.][0-9][0-9][.]' {files[0]} | head -n 6",
    }
    keys = tuple(lesson.key for lesson in needs)
    closer = {key: show[key] for key in keys if key in show}
    return PlaybookCase(files[0], files, output, keys, partial(program, lines, output, number), closer)


PLAYBOOK = Playbook(
    slug="ledger-extraction",
    title="Ledger lines from documents",
    words=("ledger", "bookkeep", "extraction"),
    when="statements, bills or receipts that were made for reading have to become lines of a ledger",
    steps=(
        "Look at the document and find out how an entry stands in it: number, day, amount.",
        "Match entries with one regular expression per kind of document; headings, subtotals and page ends do not match.",
        "Read amounts without the comma between thousands.",
        "Write one line per entry in the order of the document, amounts with two decimals.",
        "Write the number of entries and the total into the notes.",
    ),
    lessons=(BOOKS_CLOSE, TAKEN_BACK, PRINTED_PERIOD),
    cases=(
        _case({"bank_statement.txt": DOTTED}, "ledger.csv", BOOKS_CLOSE),
        _case({"till_roll.txt": TILL}, "till_ledger.csv", BOOKS_CLOSE, TAKEN_BACK),
        _case({"card_bill.md": ROWS}, "card_ledger.csv", BOOKS_CLOSE, TAKEN_BACK),
        _case({"voucher_mails.txt": MAILS}, "grant_report.csv", BOOKS_CLOSE, TAKEN_BACK, number="voucher"),
        _case({"society_extract.txt": PRINTED}, "society_ledger.csv", BOOKS_CLOSE, PRINTED_PERIOD),
        _case(
            {"giro_account.txt": PRINTED, "cash_book.txt": CASH},
            "club_ledger.csv",
            BOOKS_CLOSE,
            TAKEN_BACK,
            PRINTED_PERIOD,
        ),
    ),
)
