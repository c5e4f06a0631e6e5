#!/bin/sh
# The wrong answer that the checks must refuse: believes the app that people are free.
set -eu
cat > solve.py <<'PROGRAM'
import csv

BETWEEN = 10  # minutes


def minutes(text):
    hours, rest = text.split(':')
    return int(hours) * 60 + int(rest)


taken = {}
for name in ['app_export.csv']:
    for row in csv.DictReader(open(name)):
        if row.get('shows') == 'free':
            continue
        entry = (minutes(row['from']) - BETWEEN, minutes(row['to']) + BETWEEN)
        taken.setdefault((row['person'], row['day']), []).append(entry)
placed = without = 0
with open('board_slots.csv', 'w') as out:
    out.write('meeting,start,end\n')
    for row in csv.DictReader(open('board_requests.csv')):
        length = int(row['minutes'])
        entries = [each for person in row['people'].split(' & ') for each in taken.get((person, row['day']), [])]
        for start in range(9 * 60, 17 * 60 - length + 1, 15):
            if all(start + length <= begin or start >= end for begin, end in entries):
                placed += 1
                times = [f'{at // 60:02}:{at % 60:02}' for at in (start, start + length)]
                break
        else:
            without += 1
            times = ['', '']
        out.write(','.join([row['meeting'], *times]) + '\n')
with open('notes.md', 'w') as notes:
    notes.write(f'meetings placed: {placed}\nmeetings without room: {without}\n')
PROGRAM
python3 solve.py
