#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv
from datetime import datetime, timedelta

ZEROS = {row['station']: int(row['zero_mm']) for row in csv.DictReader(open('stations.csv', newline=''))}
groups = {}
rows = used = 0
for row in csv.DictReader(open('canal_readings.csv', newline='')):
    rows += 1
    if row['flag'] == 'S':
        continue
    used += 1
    level = int(row['level_mm']) + ZEROS[row['station']]
    at = datetime.fromisoformat(row['at'])
    group = (at - timedelta(hours=6)).date().isoformat()
    groups.setdefault(group, []).append(level)
with open('canal_days.csv', 'w') as out:
    out.write('day,readings,peak_mm\n')
    for group, levels in sorted(groups.items()):
        out.write(f'{group},{len(levels)},{max(levels):.1f}\n')
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {rows}\nreadings used: {used}\n')
PROGRAM
python3 solve.py
