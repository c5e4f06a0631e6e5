#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv


def in_force(entries, key, line):
    day = line['day']
    known = [entry for entry in entries if entry['since'] < day and entry[key] == line[key]]
    return max(known, key=lambda entry: entry['since'])


lines = list(csv.DictReader(open('club_renewals.csv', newline='')))
club_fees = list(csv.DictReader(open('club_fees.csv', newline='')))
total = 0
with open('renewals_billed.csv', 'w') as out:
    out.write('renewal,fee,amount\n')
    for line in lines:
        fee = float(in_force(club_fees, 'plan', line)['fee'])
        amount = float(line['members']) * fee
        total += amount
        out.write(f"{line['renewal']},{fee:.2f},{amount:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'lines read: {len(lines)}\ntotal: {total:.2f}\n')
PROGRAM
python3 solve.py
