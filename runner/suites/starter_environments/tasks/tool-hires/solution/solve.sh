#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv


def in_force(entries, key, line):
    day = line['day']
    known = [entry for entry in entries if entry['since'] < day and entry[key] == line[key]]
    return max(known, key=lambda entry: (entry['since'], int(entry['revision'])))


lines = list(csv.DictReader(open('tool_hires.csv', newline='')))
tool_tariffs = list(csv.DictReader(open('tool_tariffs.csv', newline='')))
total = 0
with open('hires_priced.csv', 'w') as out:
    out.write('hire,tariff,amount\n')
    for line in lines:
        tariff = float(in_force(tool_tariffs, 'tool', line)['tariff'])
        amount = float(line['days']) * tariff
        total += amount
        out.write(f"{line['hire']},{tariff:.2f},{amount:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'lines read: {len(lines)}\ntotal: {total:.2f}\n')
PROGRAM
python3 solve.py
