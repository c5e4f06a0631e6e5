from __future__ import annotations

import argparse
import sys

from django.core.management.base import BaseCommand

from benchapp.search.indexing import IndexProgress, index_anew, index_waiting


class Command(BaseCommand):
    help = "Indexes new records for search. Safe to stop and repeat at any time."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--all", dest="anew", action="store_true", help="rebuild the whole index")

    def handle(self, *args: object, anew: bool, **options: object) -> None:
        if anew:
            index_anew()
        total = IndexProgress().total
        shows = sys.stderr.isatty()
        done = index_waiting(tell=lambda done: self.stderr.write(f"\r{done} of {total}", ending="") if shows else None)
        now = IndexProgress()
        unread = f", {now.unread} unreadable" if now.unread else ""
        self.stdout.write(f"indexed {done}; {now.indexed} of {now.total} in total{unread}")
