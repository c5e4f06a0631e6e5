#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv


def in_force(entries, key, line):
    day = line['day']
    known = [entry for entry in entries if entry['since'] < day and entry[key] == line[key]]
    return max(known, key=lambda entry: (entry['since'], int(entry['revision'])))


lines = list(csv.DictReader(open('ward_shifts.csv', newline='')))
pay_grades = list(csv.DictReader(open('pay_grades.csv', newline='')))
total = 0
with open('shifts_paid.csv', 'w') as out:
    out.write('shift,rate,amount\n')
    for line in lines:
        rate = float(in_force(pay_grades, 'grade', line)['rate'])
        amount = float(line['hours']) * rate
        total += amount
        out.write(f"{line['shift']},{rate:.2f},{amount:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'lines read: {len(lines)}\ntotal: {total:.2f}\n')
PROGRAM
python3 solve.py
