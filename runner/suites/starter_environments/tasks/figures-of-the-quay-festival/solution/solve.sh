#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import re

SOURCES = {
    'quay_gazette.txt': r'^(?P<topic>[A-Z][^:\n]+): (?P<figure>[\d,]+)(?P<remark>.*)$',
    'quay_harbour_office.txt': r'^(?P<topic>[A-Z][^:\n]+): (?P<figure>[\d,]+)(?P<remark>.*)$',
    'quay_radio.txt': r'^(?P<topic>[A-Z][^:\n]+): (?P<figure>[\d,]+)(?P<remark>.*)$',
}
topics = {}
read = 0
for name, pattern in SOURCES.items():
    text = open(name).read()
    head = re.search(r'\d{4}-\d\d-\d\d', text)[0]
    for found in re.finditer(pattern, text, re.MULTILINE):
        read += 1
        stated = topics.setdefault(found['topic'], [])
        date = found.groupdict().get('date', head)
        stated.append((date, int(found['figure'].replace(',', ''))))
with open('festival_figures.csv', 'w') as out:
    out.write('topic,figure,sources\n')
    for topic, stated in sorted(topics.items()):
        figure = min(figure for _, figure in stated)
        out.write(f'{topic},{figure},{len(stated)}\n')
with open('notes.md', 'w') as notes:
    notes.write(f'statements read: {read}\ntopics: {len(topics)}\n')
PROGRAM
python3 solve.py
