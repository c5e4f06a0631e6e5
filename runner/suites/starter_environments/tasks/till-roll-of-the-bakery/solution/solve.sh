#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import re

LINES = {
    'till_roll.txt': r'(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d) [\d:]+ +#(?P<entry>\d+) .* (?P<amount>[\d,]+\.\d\d)$',
}
entries = {}
for name, pattern in LINES.items():
    for line in open(name):
        found = re.match(pattern, line.strip())
        if found:
            months = int(found['year']) * 12 + int(found['month']) - 1
            months += int(found['day']) > 25  # the books are closed
            period = f'{months // 12}-{months % 12 + 1:02}'
            entries[found['entry']] = [period, float(found['amount'].replace(',', ''))]
        back = re.search(r'(?:reversal of|takes back|cancels|refunded: Voucher) #?(\d+)', line)
        if back:
            entries[back[1]][1] = 0.0
with open('till_ledger.csv', 'w') as out:
    out.write('entry,period,amount\n')
    for entry, (period, amount) in entries.items():
        out.write(f'{entry},{period},{amount:.2f}\n')
total = sum(amount for _, amount in entries.values())
with open('notes.md', 'w') as notes:
    notes.write(f'entries booked: {len(entries)}\ntotal: {total:.2f}\n')
PROGRAM
python3 solve.py
