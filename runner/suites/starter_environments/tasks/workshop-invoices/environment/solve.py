import csv


def work_out(row):
    labour = int(float(row['labour']))
    travel = int(float(row['travel']))
    return 48 * labour + 30 * travel


rows = list(csv.DictReader(open('jobs.csv', newline='')))
total = 0
with open('invoices.csv', 'w') as out:
    out.write('job,invoice\n')
    for row in rows:
        invoice = float(work_out(row))
        total += invoice
        out.write(f"{row['job']},{invoice:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(rows)}\ntotal: {total:.2f}\n')
