import csv


def work_out(row):
    written = int(row['written'])
    oral = int(row['oral'])
    return 0.7 * written + 0.3 * oral


rows = list(csv.DictReader(open('exam_papers.csv', newline='')))
total = 0
with open('marks.csv', 'w') as out:
    out.write('paper,mark\n')
    for row in rows:
        mark = float(work_out(row))
        total += mark
        out.write(f"{row['paper']},{mark:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(rows)}\ntotal: {total:.2f}\n')
