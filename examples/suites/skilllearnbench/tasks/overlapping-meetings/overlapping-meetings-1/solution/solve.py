import csv
import itertools
import json


def minutes(clock):
    hours, rest = clock.split(":")
    return int(hours) * 60 + int(rest)


with open("meetings.csv", newline="") as source:
    spans = {row["name"]: (minutes(row["starts"]), minutes(row["starts"]) + int(row["minutes"])) for row in csv.DictReader(source)}
pairs = itertools.combinations(sorted(spans), 2)
overlaps = [pair for pair in pairs if max(spans[pair[0]][0], spans[pair[1]][0]) < min(spans[pair[0]][1], spans[pair[1]][1])]
with open("overlaps.json", "w") as out:
    json.dump(overlaps, out)
