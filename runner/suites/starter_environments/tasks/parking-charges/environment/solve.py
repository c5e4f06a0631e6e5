import csv


def work_out(row):
    hours = int(row['hours'])
    return hours * 1.50


rows = list(csv.DictReader(open('stays.csv', newline='')))
total = 0
with open('parking.csv', 'w') as out:
    out.write('stay,charge\n')
    for row in rows:
        charge = float(work_out(row))
        total += charge
        out.write(f"{row['stay']},{charge:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(rows)}\ntotal: {total:.2f}\n')
