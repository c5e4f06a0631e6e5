import csv


def work_out(row):
    metres = float(row['metres'])
    if row['kind'] == 'car':
        return 12 if metres < 5 else 18
    return 40 if metres < 12 else 65


rows = list(csv.DictReader(open('crossings.csv', newline='')))
total = 0
with open('fares.csv', 'w') as out:
    out.write('crossing,fare\n')
    for row in rows:
        fare = float(work_out(row))
        total += fare
        out.write(f"{row['crossing']},{fare:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(rows)}\ntotal: {total:.2f}\n')
