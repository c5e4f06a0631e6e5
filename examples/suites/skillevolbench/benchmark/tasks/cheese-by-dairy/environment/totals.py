import csv
import json
import re

totals = {}
with open("cheese.csv", newline="") as source:
    for row in csv.DictReader(source, delimiter=";"):
        number = float(re.match(r"[0-9.]+", row["weight"])[0])
        totals[row["dairy"]] = totals.get(row["dairy"], 0.0) + number
with open("totals.json", "w") as out:
    json.dump(totals, out, indent=2)
