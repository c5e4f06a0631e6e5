#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import re

SOURCES = {
    'owl_sheets.txt': r'^(?P<date>[\d-]+), [^,]+, (?P<topic>[^:]+): (?P<figure>\d+) pairs?(?P<remark>.*)$',
}
topics = {}
read = 0
for name, pattern in SOURCES.items():
    text = open(name).read()
    head = re.search(r'\d{4}-\d\d-\d\d', text)[0]
    for found in re.finditer(pattern, text, re.MULTILINE):
        read += 1
        stated = topics.setdefault(found['topic'], [])
        if re.search(r'copied|citing|via', found['remark']):
            continue
        date = found.groupdict().get('date', head)
        stated.append((date, int(found['figure'].replace(',', ''))))
with open('owl_table.csv', 'w') as out:
    out.write('wood,pairs,observers\n')
    for topic, stated in sorted(topics.items()):
        figure = min(figure for _, figure in stated)
        out.write(f'{topic},{figure},{len(stated)}\n')
with open('notes.md', 'w') as notes:
    notes.write(f'statements read: {read}\ntopics: {len(topics)}\n')
PROGRAM
python3 solve.py
