#!/bin/sh
# The wrong answer that the checks must refuse: takes the names by their position in the file.
set -eu
cat > solve.py <<'PROGRAM'
import csv

left = list(csv.DictReader(open('scores.csv', newline='')))
right = list(csv.DictReader(open('students.csv', newline='')))

found = right
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
