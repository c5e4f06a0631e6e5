"""Count imported runs in the loaded suite whose tasks they solved."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from benchapp.management.lookups import end_on
from benchapp.models import Suite
from benchapp.record.sets.joined_suites import join_by_name, propose_by_name, separate
from runner.base.errors import SetupError
from runner.base.text import plural, replace_unprintable


class Command(BaseCommand):
    help = (
        "Joins an imported suite with a loaded one by the names of their tasks, after asking: the imported trials "
        "then count in the loaded suite. Tasks of equal content are joined without asking, when a suite is loaded or "
        "runs come in. --separate takes all of it back."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("imported", metavar="IMPORTED", help="key of the imported suite; `/suites/` lists them")
        parser.add_argument("loaded", metavar="LOADED", nargs="?", help="key of the loaded suite")
        parser.add_argument("--separate", action="store_true", help="take back what was joined")
        parser.add_argument("--yes", action="store_true", help="join without asking")

    def handle(
        self, *args: object, imported: str, loaded: str | None, separate: bool, yes: bool, **options: object
    ) -> None:
        if separate == bool(loaded):
            raise CommandError("expected LOADED, or --separate")
        with end_on(SetupError):
            if loaded:
                self._join(_find(imported), _find(loaded), asks=not yes)
            else:
                self._separate(_find(imported))

    def _separate(self, imported: Suite) -> None:
        tasks = separate(imported)
        self.stdout.write(f"{imported.key}: its {plural(tasks, 'task')} separate again.")

    def _join(self, imported: Suite, loaded: Suite, *, asks: bool) -> None:
        proposal = next((each for each in propose_by_name(imported) if each.loaded == loaded), None)
        for ours, theirs in proposal.pairs if proposal and asks else ():
            self.stdout.write(replace_unprintable(f"  {ours.key}  is  {theirs.key}"))
        if (
            proposal
            and asks
            and input(f"Join {plural(len(proposal.pairs), 'task')}? [y/N] ").strip().lower() not in ("y", "yes")
        ):
            raise CommandError("nothing was joined")
        joined = join_by_name(imported, loaded)
        self.stdout.write(
            f"{loaded.key}: {plural(joined, 'task')} of {imported.key} count here now: /suites/{loaded.key}/"
        )


def _find(key: str) -> Suite:
    suite = Suite.objects.filter(key=key).first()
    if suite is None:
        raise CommandError(
            f"no suite {key!r} in the record; known: {', '.join(sorted(Suite.objects.values_list('key', flat=True)))}"
        )
    return suite
