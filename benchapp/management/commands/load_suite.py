"""Take in a suite of tasks from a folder."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from urllib.parse import quote

from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from django.db import transaction

from benchapp.analysis.suite_screening import screen_once, summarise_screening
from benchapp.deploy.readiness import set_up_once
from benchapp.record.sets.suite_files import (
    MappedGroups,
    SuiteFolder,
    account_as_json,
    choose_families,
    problem_as_json,
    read_folder,
    record_folder,
    record_groups,
)
from runner.base.encoding import encode
from runner.base.errors import Account, SetupError, SuiteProblems
from runner.base.text import list_first, plural, replace_unprintable
from runner.suites import FORMATS
from runner.suites.documents import NOT_DOWNLOADED
from runner.suites.families import GroupMapping, read_mapping

NOTHING_LOADED = 1
SHOWN_PROBLEMS = 200
SHOWN_TASKS = 3  # of one reason
SHOWN_FINDINGS = 5
OWN = "own"  # families as the folder says


class Command(BaseCommand):
    help = (
        "Loads a suite from a folder. Sets aside tasks and families that cannot run here, with reasons, and loads the "
        "rest. Workers without the folder get the files from the record; a line says so where it cannot hold them. "
        "With --groups, a mapping file says what tasks are grouped by; without PATH the suite named by --key is read "
        "again. Exit status: 0 loaded, 1 nothing loaded."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="PATH", nargs="?", help="folder of a suite or of a downloaded release")
        parser.add_argument("--format", choices=list(FORMATS), help="default: recognised by its layout")
        parser.add_argument("--key", help="name to launch it by; default: the folder's name")
        parser.add_argument("--groups", metavar="FILE", type=Path, help="a mapping file: groups of tasks and families")
        parser.add_argument(
            "--families",
            metavar="ATTRIBUTE",
            help="families of a Harbor set by an attribute, such as category; own: the folder's",
        )
        parser.add_argument("--strict", action="store_true", help="load nothing if any task would be set aside")
        parser.add_argument("--check", action="store_true", help="check without loading")
        parser.add_argument(
            "--json", dest="as_json", action="store_true", help="print one JSON object instead of a summary"
        )

    def handle(
        self,
        *args: object,
        path: str | None,
        format: str | None,
        key: str | None,
        groups: Path | None,
        families: str | None,
        strict: bool,
        check: bool,
        as_json: bool,
        **options: object,
    ) -> None:
        if path is None and not key:
            raise CommandError("expected PATH, or --key for a suite that is here already")
        set_up_once()
        try:
            mapping = read_mapping(groups) if groups else None
            folder = read_folder(Path(path), format, key, strict=strict) if path is not None else None
            mapped = None if check else _record(folder, mapping, key, families)
        except SetupError as error:
            self._write_refusal(error, as_json=as_json)
            sys.exit(NOTHING_LOADED)
        screening = screen_once(folder.suite) if folder else None
        if as_json:
            payload = {**(folder.as_json() if folder else {"key": key}), "recorded": not check, "problems": []}
            payload |= {"groups": mapped.tasks, "group_notes": list(mapped.notes)} if mapped else {}
            payload |= {"screening": encode(screening)} if screening else {}
            self.stdout.write(json.dumps(payload, ensure_ascii=False))
            return
        if folder and screening:
            self._write_account(folder.suite.account, self.stdout)
            self.stdout.write(f"screening     {summarise_screening(screening)}")
            for finding in screening.findings[:SHOWN_FINDINGS]:
                self.stdout.write(f"  {finding.weight}: {replace_unprintable(finding.says)}")
            if len(screening.findings) > SHOWN_FINDINGS:
                more = len(screening.findings) - SHOWN_FINDINGS
                self.stdout.write(f"  ... and {more:,} more; the suite's page and --json show all")
            self.stdout.write("")
            self._write_loaded(folder, checked=check)
        if mapped:
            counts = ", ".join(f"{attribute} of {tasks:,}" for attribute, tasks in mapped.tasks.items())
            message = f"groups of its tasks from the mapping file: {counts}" if counts else "read again"
            self.stdout.write(f"{mapped.suite.key}: {message}")
            for note in mapped.notes:
                self.stdout.write(f"  {replace_unprintable(note)}")

    def _write_loaded(self, folder: SuiteFolder, *, checked: bool) -> None:
        payload = folder.as_json()
        for name in ("key", "format", "path", "digest", "environments", "families", "tasks"):
            self.stdout.write(f"{name:<12}  {payload[name]}")
        if folder.suite.notes:
            self.stdout.write("\nNotes:")
        for note in folder.suite.notes:
            self.stdout.write(f"  {note}")
        if folder.folder_only:
            why = replace_unprintable(folder.folder_only)
            self.stdout.write(f"\nEvery worker needs the folder at the same path, because {why}.")
        account, loaded = folder.suite.account, plural(len(folder.suite.tasks), "task")
        left = f"; {account.count_set_aside:,} set aside" if account and account.set_aside else ""
        self.stdout.write(
            f"\n{loaded} can be loaded{left}."
            if checked
            else f"\nLoaded {loaded}{left}. Launch it as suite: {folder.suite.key}"
            f"\nOr open /launch/?suite={quote(folder.suite.key)}"
        )

    def _write_account(self, account: Account | None, stream: OutputWrapper) -> None:
        """Write every task below the path, before anything else: the reasons, most frequent first."""
        if account is None:
            return
        stream.write(account.sentence())
        for name, lines in (("set aside", account.set_aside), ("left out", account.left_out)):
            for line in lines:
                named = list_first(line.tasks, SHOWN_TASKS)
                stream.write(f"  {len(line.tasks):>5,}  {name}: {line.reason} ({named})")
        stream.write("")

    def _write_refusal(self, error: SetupError, *, as_json: bool) -> None:
        format, account = (error.format, error.account) if isinstance(error, SuiteProblems) else ("", None)
        found = error.problems if isinstance(error, SuiteProblems) else (error,)
        if as_json:
            problems = list(map(problem_as_json, found))
            payload = {"recorded": False, "format": format, "problems": problems, "account": account_as_json(account)}
            self.stdout.write(json.dumps(payload, ensure_ascii=False))
            return
        self._write_account(account, self.stderr)
        # The account has these in one line, for any number of files.
        problems = [problem_as_json(each) for each in found if getattr(each, "message", "") != NOT_DOWNLOADED]
        for problem in problems[:SHOWN_PROBLEMS]:
            self.stderr.write(f"  {_render_problem(problem)}")
        if len(problems) > SHOWN_PROBLEMS:
            self.stderr.write(f"  ... and {len(problems) - SHOWN_PROBLEMS:,} more; use --json to see all")
        count = plural(len(found), "problem")
        read_as = f" Read as {format}; choose another format with --format." if format else ""
        self.stderr.write(f"\nNothing was loaded ({count}).{read_as}")


@transaction.atomic
def _record(
    folder: SuiteFolder | None, mapping: GroupMapping | None, key: str | None, families: str | None
) -> MappedGroups | None:
    """Record the suite, or nothing if a part of it is refused."""
    if folder:
        record_folder(folder)
    if families:
        choose_families(folder.suite.key if folder else key or "", {} if families == OWN else {"by": families})
    if folder and not mapping:
        return None
    return record_groups(folder.suite.key if folder else key or "", mapping)


def _render_problem(problem: dict[str, str]) -> str:
    if not problem["path"]:
        return problem["message"]
    return f"{problem['path']}: {problem['place']}: {problem['message']} (expected {problem['expected']})"
