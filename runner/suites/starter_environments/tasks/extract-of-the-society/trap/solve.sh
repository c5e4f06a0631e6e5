#!/bin/sh
# The wrong answer that the checks must refuse: takes the period that the society prints, which begins on the 15th.
set -eu
cat > solve.py <<'PROGRAM'
import re

LINES = {
    'society_extract.txt': r'(?P<entry>\d+) +(?P<day>\d\d)\.(?P<month>\d\d)\.(?P<year>\d{4}) +(?P<printed>\d{4}-\d\d) .* (?P<amount>[\d,]+\.\d\d)$',
}
entries = {}
for name, pattern in LINES.items():
    for line in open(name):
        found = re.match(pattern, line.strip())
        if found:
            months = int(found['year']) * 12 + int(found['month']) - 1
            months += int(found['day']) > 25  # the books are closed
            period = f'{months // 12}-{months % 12 + 1:02}'
            period = found.groupdict().get('printed', period)
            entries[found['entry']] = [period, float(found['amount'].replace(',', ''))]
with open('society_ledger.csv', 'w') as out:
    out.write('entry,period,amount\n')
    for entry, (period, amount) in entries.items():
        out.write(f'{entry},{period},{amount:.2f}\n')
total = sum(amount for _, amount in entries.values())
with open('notes.md', 'w') as notes:
    notes.write(f'entries booked: {len(entries)}\ntotal: {total:.2f}\n')
PROGRAM
python3 solve.py
