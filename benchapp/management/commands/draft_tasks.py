from __future__ import annotations

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.drafting.draft_orders import start_draft, work_off
from benchapp.experiments.launch_spec import read_file
from benchapp.management.lookups import end_on, parse_positive, parse_positive_int
from benchapp.models import Draft
from benchapp.record.log_context import errors_only
from runner.base.errors import SetupError
from runner.base.text import replace_unprintable
from runner.base.trees import read_tree
from runner.base.types import Files
from runner.drafting import loops
from runner.sandboxes.processes import hide_environment

INCOMPLETE = 1  # exit status: the draft stopped before its end


class Command(BaseCommand):
    help = (
        "Begins a draft of a family of tasks: a model drafts them step by step. Running workers continue it at once; "
        "--here does the work in this process."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("brief", type=Path, metavar="BRIEF", help="YAML: loop, family, goal, tasks and so on")
        parser.add_argument(
            "--from",
            dest="folder",
            type=Path,
            metavar="FOLDER",
            help="what it begins with, laid out as a draft: corpus/, tasks/<key>/, workflow.json",
        )
        parser.add_argument("--model", required=True, help="a preset or a model, such as scripted/careful")
        parser.add_argument("--name", default="", help="default: the family")
        parser.add_argument("--limit", type=parse_positive_int, metavar="N", help="stop after N calls")
        parser.add_argument("--max-usd", type=parse_positive, metavar="USD", help="stop after USD dollars")
        parser.add_argument("--here", action="store_true", help="do the work in this process, and print its steps")

    def handle(
        self,
        *args: object,
        brief: Path,
        folder: Path | None,
        model: str,
        name: str,
        limit: int | None,
        max_usd: float | None,
        here: bool,
        **options: object,
    ) -> None:
        files = self._read(folder) if folder else {}
        with end_on(SetupError), errors_only("benchapp"):  # a missing broker does not matter here
            asked = loops.brief_from_plain(read_file(brief))
            draft = start_draft(asked, files, model, name=name, max_calls=limit, max_usd=max_usd)
        self.stdout.write(f"{draft.public_id}  /drafts/{draft.public_id}/")
        if here:
            self._work(draft)

    def _read(self, folder: Path) -> Files:
        if not folder.is_dir():
            raise CommandError(f"{folder}: expected a folder; there is none")
        tree = read_tree(folder)
        for line in tree.left_out:
            self.stderr.write(f"left out: {replace_unprintable(line)}")
        return tree.files

    def _work(self, draft: Draft) -> None:
        hide_environment()
        with errors_only("benchapp"):
            work_off(draft)
        for step in draft.steps.all():
            outcome = step.summary or step.error
            line = f"{step.number:>3}  {step.kind:<9}  {step.status:<8}  {step.role:<10}  {outcome}".rstrip()
            self.stdout.write(replace_unprintable(line))
        taken_over = ": a worker continues it" if draft.status == Draft.Status.WAITING and draft.worker else ""
        scripted = " (scripted)" if draft.steps.filter(scripted=True).exists() else ""
        self.stdout.write(
            f"{draft.status}{scripted}{taken_over}" + (f": {replace_unprintable(draft.reason)}" if draft.reason else "")
        )
        if draft.status != Draft.Status.DONE:
            raise SystemExit(INCOMPLETE)
