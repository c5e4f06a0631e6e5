from __future__ import annotations

from contextlib import closing
from datetime import timedelta

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from docker import APIClient

from benchapp.management.lookups import end_on
from benchapp.models import Experiment
from benchapp.record.sets.suite_files import find_suite
from runner.base.errors import RunnerError, SandboxError
from runner.sandboxes.docker.docker_engine import connect
from runner.sandboxes.docker.docker_images import BuiltImage, list_built_images, list_image_names, remove_image

DONE = (Experiment.Status.DONE, Experiment.Status.CANCELLED)


class Command(BaseCommand):
    help = (
        "Lists the images that were built for tasks, with their sizes, and removes those that no launched and "
        "unfinished experiment needs. A task whose image is gone has it built again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--keep-days", type=int, default=0, help="keep images built in the last N days (default: 0)"
        )
        parser.add_argument("--dry-run", action="store_true", help="list them only")

    def handle(self, *args: object, keep_days: int, dry_run: bool, **options: object) -> None:
        with end_on(SandboxError), closing(connect()) as client:
            images = list_built_images(client)
            needed = _list_needed(client) if images else {}
            recent = timezone.now() - timedelta(days=keep_days)
            removed: list[BuiltImage] = []
            for image in images:
                why = next((needed[name] for name in image.names if name in needed), "")
                why = why or ("recent" if image.built_at > recent else "")
                why = why or ("" if dry_run else remove_image(client, image))
                removed += [] if why else [image]
                word = f"kept ({why})" if why else "would be removed" if dry_run else "removed"
                self.stdout.write(f"{image.size / 1e6:8,.0f} MB  {(image.names or (image.id,))[0]}  {word}")
        size = sum(image.size for image in removed) / 1e9
        verb = "would be removed" if dry_run else "removed"
        self.stdout.write(f"{len(removed)} of {len(images)} images {verb}, {size:,.1f} GB with what they share")


def _list_needed(client: APIClient) -> dict[str, str]:
    """Return name of an image -> the experiment that needs it. Raise CommandError if that cannot be known."""
    needed: dict[str, str] = {}
    unfinished = Experiment.objects.not_deleted().filter(origin=Experiment.Origin.RUN).exclude(status__in=DONE)
    for experiment in unfinished.select_related("suite"):
        if experiment.suite is None or experiment.spec.get("sandbox") != "docker":
            continue
        try:
            tasks = find_suite(experiment.suite.key).tasks
            names = [name for task in tasks for name in list_image_names(client, task)]
        except RunnerError as error:
            raise CommandError(f"nothing was removed: what {experiment.name} needs is unknown: {error}") from None
        needed |= dict.fromkeys(names, f"needed by {experiment.name}")
    return needed
