#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv

results = list(csv.DictReader(open('autumn_series.csv', newline='')))
boats = {row['boat'] for row in results}
races = sorted({row['race'] for row in results})
scores = {boat: [] for boat in boats}
for race in races:
    rows = [row for row in results if row['race'] == race]
    places = [row['place'] for row in rows]
    for row in rows:
        if not row['place'].isdigit():
            points = len(boats) + 1
        else:
            points = int(row['place'])
        scores[row['boat']].append(points)
if len(races) >= 5:
    for points in scores.values():
        points.remove(max(points))
standings = sorted((sum(points), boat) for boat, points in scores.items())
with open('autumn_standings.csv', 'w') as out:
    out.write('boat,races,points\n')
    for points, boat in standings:
        out.write(f'{boat},{len(scores[boat])},{points:.1f}\n')
with open('notes.md', 'w') as notes:
    notes.write(f'races sailed: {len(races)}\nboats entered: {len(boats)}\n')
PROGRAM
python3 solve.py
