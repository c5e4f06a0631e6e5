#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv

left = list(csv.DictReader(open('scores.csv', newline='')))
right = list(csv.DictReader(open('students.csv', newline='')))


def key_of(text):
    return str(text).strip()


lookup = {}
for entry in right:
    key = key_of(entry['student'])
    if key:
        lookup[key] = entry
found = [lookup.get(key_of(row['student'])) for row in left]
with open('scores_named.csv', 'w', newline='') as out:
    writer = csv.writer(out)
    writer.writerow(['sheet', 'name', 'score'])
    for row, entry in zip(left, found):
        writer.writerow([row['sheet'], entry['name'] if entry else '', row['score']])
matched = sum(entry is not None for entry in found)
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(left)}\nrows matched: {matched}\n')
    notes.write(f'rows without match: {len(left) - matched}\n')
PROGRAM
python3 solve.py
