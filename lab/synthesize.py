"""Make synthetic data for load tests, in the record of the var folder or as files to import.

SKILLGLASS_VAR=/tmp/campaign python manage.py migrate
SKILLGLASS_VAR=/tmp/campaign python lab/synthesize.py campaign --trials 50000
python lab/synthesize.py monster /tmp/monster
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import django

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
django.setup()

from lab.synthesis.campaign import AlreadyThere, Size, write_campaign  # noqa: E402
from lab.synthesis.monster import BYTES, EVENTS, write_monster  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    campaign = kinds.add_parser("campaign", help="write rows: runs over models and conditions")
    campaign.add_argument("--trials", type=int, default=Size().trials)
    campaign.add_argument("--steps", type=int, default=Size().steps)
    campaign.add_argument("--decisions", type=int, default=Size().decisions)
    campaign.add_argument("--seed", type=int, default=1)
    monster = kinds.add_parser("monster", help="write files: a Harbor job with one huge trajectory")
    monster.add_argument("folder", type=Path)
    monster.add_argument("--events", type=int, default=EVENTS)
    monster.add_argument("--bytes", type=int, default=BYTES)
    monster.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if asked.kind == "monster":
        try:
            job = write_monster(asked.folder, events=asked.events, size=asked.bytes, seed=asked.seed)
        except FileExistsError as error:
            parser.error(f"{error.filename}: already exists; name an empty folder")
        print(f"{job}: import it with `manage.py import_runs {job}`")
        return
    if asked.trials < 1 or asked.steps < 0 or asked.decisions < 0:
        parser.error("--trials must be at least 1, --steps and --decisions at least 0")
    try:
        experiment = write_campaign(Size(asked.trials, asked.steps, asked.decisions), seed=asked.seed, progress=show)
    except AlreadyThere as error:
        parser.error(str(error))
    print(f"{experiment.name}: {experiment.get_absolute_url()}")


def show(done: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done:,} trials", end="", file=sys.stderr)


if __name__ == "__main__":
    main()
