#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv

groups = {}
rows = used = 0
for row in csv.DictReader(open('jetty_readings.csv', newline='')):
    rows += 1
    if row['flag'] == 'S':
        continue
    used += 1
    level = int(row['level_mm'])
    group = row['station']
    groups.setdefault(group, []).append(level)
with open('jetty_means.csv', 'w') as out:
    out.write('station,readings,mean_mm\n')
    for group, levels in sorted(groups.items()):
        out.write(f'{group},{len(levels)},{sum(levels) / len(levels):.1f}\n')
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {rows}\nreadings used: {used}\n')
PROGRAM
python3 solve.py
