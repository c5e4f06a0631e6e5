import csv
import json
import re

totals = {}
with open("doses.csv", newline="") as source:
    for row in csv.DictReader(source, delimiter=","):
        number = float(re.match(r"[0-9.]+", row["mass"])[0])
        totals[row["ward"]] = totals.get(row["ward"], 0.0) + number
with open("totals.json", "w") as out:
    json.dump(totals, out, indent=2)
