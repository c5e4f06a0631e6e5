"""Checks shared by the starter tasks. Standard library only, no network, Python 3.9 or later.

A task's verify.py is started in the workspace. Beside it lie expected.json (the right answer, the keys of the rows each
check looks at, the digests of the input files) and second/ (other input files under the same names, with their own
expected.json). Reports go to ../logs/verifier in the shape SkillEvolBench's verifiers use.
"""

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent
WORKSPACE = Path.cwd()
LOGS = WORKSPACE.parent / "logs" / "verifier"
PROGRAM = "solve.py"
NOTES = "notes.md"
PROGRAM_SECONDS = 20
MAX_BYTES = 2_000_000
MAX_DIFFERENCES = 3
# dimension -> (weight, report, section); rubric.yaml says the same in words.
RUBRIC = {
    "basic contract": (0.2, "outcome", "public"),
    "correctness": (0.4, "outcome", "hidden"),
    "hand-over": (0.1, "process", "public"),
    "method": (0.3, "process", "hidden"),
}
KEY_FORMS = {
    "exact": lambda text: text.strip(),
    "lower": lambda text: text.strip().lower(),
    "digits": lambda text: re.sub(r"\D", "", text).lstrip("0"),
    "compact": lambda text: re.sub(r"^00", "+", re.sub(r"[^0-9a-z+]", "", text.lower())),
}


class Verifier:
    """Collects the checks of one task, then writes the reports."""

    def __init__(self, task_id):
        self.task_id = task_id
        self.expected = json.loads((TESTS / "expected.json").read_text())
        self.reports = {name: {"public": [], "hidden": []} for name in ("outcome", "process")}
        self._check("outcome", "public", self.expected["output"] + " is there, with the asked columns", self._readable)

    def rows(self, title, group, because="", public=False):
        """The rows of one group are as expected. `because` says what usually lies behind a difference."""

        def check():
            found = table(WORKSPACE, self.expected)
            compare(found, self.expected, self.expected["groups"][group], because)

        self._check("outcome", "public" if public else "hidden", title, check)

    def complete(self):
        """Every expected row is there once, and nothing else."""
        self._check("outcome", "hidden", "one line for each, none missing and none besides", self._complete)

    def ordered(self):
        self._check("outcome", "hidden", "the lines stand in the right order", self._ordered)

    def handed_over(self):
        """The process checks every task has."""
        self._check("process", "public", PROGRAM + " is there", lambda: text_of(WORKSPACE / PROGRAM))
        self._check("process", "public", NOTES + " is there", lambda: text_of(WORKSPACE / NOTES))
        self._check("process", "hidden", "the input files are untouched", self._untouched)
        self._check("process", "hidden", NOTES + " has the right counts", self._notes)
        self._check("process", "hidden", PROGRAM + " gives the right result on other files", self._again)

    def finish(self):
        LOGS.mkdir(parents=True, exist_ok=True)
        sections = {
            name: {
                section: {
                    "section": section,
                    "results": results,
                    "passed": sum(result["passed"] for result in results),
                    "total": len(results),
                }
                for section, results in report.items()
            }
            for name, report in self.reports.items()
        }
        for name, report in sections.items():
            write_json(name + "_report.json", {"task_id": self.task_id, **report})
        dimensions = []
        for name, (weight, report, section) in RUBRIC.items():
            part = sections[report][section]
            ratio = part["passed"] / part["total"] if part["total"] else 1.0
            dimensions.append({"name": name, "weight": weight, "ratio": ratio, "score": round(100 * weight * ratio, 4)})
        total = round(sum(dimension["score"] for dimension in dimensions), 4)
        write_json("score_report.json", {"total_score": total, "max_score": 100.0, "dimensions": dimensions})
        # Written last: a verifier that broke on the way leaves no reward.
        (LOGS / "reward.txt").write_text("%.6f" % (total / 100))

    def _check(self, report, section, title, function):
        result = {"name": title, "passed": True, "detail": "", "error": ""}
        try:
            function()
        except AssertionError as difference:
            result.update(passed=False, detail=str(difference))
        self.reports[report][section].append(result)

    def _readable(self):
        table(WORKSPACE, self.expected)

    def _complete(self):
        found = table(WORKSPACE, self.expected)
        form = KEY_FORMS[self.expected["key_form"]]
        wanted = {form(row[self.expected["key"]]) for row in self.expected["rows"]}
        surplus = [lines[0][self.expected["key"]] for key, lines in found.items() if key not in wanted]
        compare(found, self.expected, sorted(wanted), "", count_only=True)
        assert not surplus, "expected no line for %s" % ", ".join(repr(key) for key in surplus[:MAX_DIFFERENCES])

    def _ordered(self):
        form = KEY_FORMS[self.expected["key_form"]]
        found = [form(key) for key in keys_in_order(WORKSPACE, self.expected)]
        for place, row in enumerate(self.expected["rows"]):
            wanted = row[self.expected["key"]]
            got = found[place] if place < len(found) else "the end of the file"
            assert got == form(wanted), "line %d: expected %s, found %s" % (place + 2, wanted, got)

    def _untouched(self):
        for name, digest in self.expected["inputs"].items():
            path = WORKSPACE / name
            assert path.is_file(), "expected %s to stay in the folder, but it is gone" % name
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            assert found == digest, "expected %s to stay as it was, but its content has changed" % name

    def _notes(self):
        notes_agree(WORKSPACE, self.expected)

    def _again(self):
        text_of(WORKSPACE / PROGRAM)
        second = TESTS / "second"
        expected = json.loads((second / "expected.json").read_text())
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            for path in second.iterdir():
                if path.name != "expected.json":
                    shutil.copy(path, place / path.name)
            shutil.copy(WORKSPACE / PROGRAM, place / PROGRAM)
            run_program(place)
            found = table(place, expected)
            form = KEY_FORMS[expected["key_form"]]
            keys = [form(row[expected["key"]]) for row in expected["rows"]]
            compare(found, expected, keys, "")
            surplus = sorted(set(found) - set(keys))
            assert not surplus, "on other files of the same kind: expected no line for %s" % surplus[0]


def run_program(place):
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(place), "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            [sys.executable, "-B", PROGRAM],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROGRAM_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise AssertionError("expected %s to end within %d s on other files" % (PROGRAM, PROGRAM_SECONDS)) from None
    last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
    assert done.returncode == 0, "expected %s to run on other files, it ended with %d: %s" % (
        PROGRAM,
        done.returncode,
        last[:300],
    )


def text_of(path):
    assert path.is_file() and not path.is_symlink(), "expected a file %s, found none" % path.name
    size = path.stat().st_size
    assert size <= MAX_BYTES, "expected %s below %d bytes, found %d" % (path.name, MAX_BYTES, size)
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise AssertionError("expected %s in UTF-8" % path.name) from None


def lines_of(folder, expected):
    reader = csv.DictReader(text_of(folder / expected["output"]).splitlines())
    try:
        lines = [{name: (value or "") for name, value in line.items() if isinstance(name, str)} for line in reader]
    except csv.Error as error:
        raise AssertionError("expected %s to be CSV: %s" % (expected["output"], error)) from None
    names = [name.strip() for name in reader.fieldnames or []]
    assert names == expected["columns"], "expected the columns %s in %s, found %s" % (
        ",".join(expected["columns"]),
        expected["output"],
        ",".join(names) or "nothing",
    )
    return [{name.strip(): value.strip() for name, value in line.items() if isinstance(value, str)} for line in lines]


def keys_in_order(folder, expected):
    return [line[expected["key"]] for line in lines_of(folder, expected)]


def table(folder, expected):
    """The result as key in its canonical form -> lines with that key."""
    form = KEY_FORMS[expected["key_form"]]
    found = {}
    for line in lines_of(folder, expected):
        found.setdefault(form(line[expected["key"]]), []).append(line)
    return found


def compare(found, expected, keys, because, count_only=False):
    """Raises with the first differences in concrete terms: what was expected, what was found, and why it matters."""
    form = KEY_FORMS[expected["key_form"]]
    rows = {form(row[expected["key"]]): row for row in expected["rows"]}
    differences = []
    for key in keys:
        row, lines = rows[form(key)], found.get(form(key), [])
        name = "%s %s" % (expected["key"], row[expected["key"]])
        if len(lines) != 1:
            differences.append("%s: expected one line, found %s" % (name, len(lines) or "none"))
        elif not count_only:
            differences += [
                "%s: expected %s %s, found %s" % (name, column, row[column] or "(empty)", lines[0][column] or "(empty)")
                for column in expected["columns"]
                if column != expected["key"] and not same(row[column], lines[0][column])
            ]
    if differences:
        more = len(differences) - MAX_DIFFERENCES
        text = "; ".join(differences[:MAX_DIFFERENCES]) + ("; and %d more" % more if more > 0 else "")
        raise AssertionError(text + (". " + because if because else ""))


def same(expected, found):
    """Equal as text, or as numbers to half a unit of the second decimal."""
    if expected == found:
        return True
    try:
        return abs(float(expected) - float(found)) < 0.0051
    except ValueError:
        return False


def notes_agree(folder, expected):
    said = {}
    for line in text_of(folder / NOTES).splitlines():
        label, colon, value = line.strip().lstrip("-* ").partition(":")
        if colon:
            said[label.strip().strip("*`").lower()] = value.strip().strip("*`.")
    for label, value in expected["notes"].items():
        assert label in said, "expected a line '%s: ...' in %s, found none" % (label, NOTES)
        assert said[label].lower() == value.lower(), "expected '%s: %s' in %s, found %s" % (
            label,
            value,
            NOTES,
            said[label][:60],
        )


def write_json(name, value):
    (LOGS / name).write_text(json.dumps(value, indent=1, ensure_ascii=False))
