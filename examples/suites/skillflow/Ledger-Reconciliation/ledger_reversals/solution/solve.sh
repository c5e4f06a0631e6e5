#!/bin/bash
set -euo pipefail
cd /root
python3 - <<'PROGRAM'
import csv
import json
from collections import defaultdict


def sums(name):
    found = defaultdict(float)
    with open(name, newline="") as source:
        for row in csv.DictReader(source):
            found[row["id"]] += float(row["amount"])
    return {key for key, value in found.items() if abs(value) > 0.005}


ours, theirs = sums("ours.csv"), sums("theirs.csv")
with open("report.json", "w") as out:
    json.dump({"only_ours": sorted(ours - theirs), "only_theirs": sorted(theirs - ours)}, out)
PROGRAM
