"""`manage.py prune_images`: what no unfinished experiment needs goes, and what one needs stays.
The engine is a list here."""

from __future__ import annotations

import time
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from docker.errors import APIError, ImageNotFound

from benchapp.experiments.launch import launch
from benchapp.management.commands import prune_images
from benchapp.models import Experiment
from benchapp.record.sets.suite_files import find_suite
from runner.base.errors import SetupError
from runner.sandboxes.docker import docker_images
from runner.sandboxes.docker.docker_images import list_image_names
from tests.conftest import ROOT

pytestmark = pytest.mark.django_db

DAY = 86_400
HARBOR = ROOT / "examples" / "suites" / "harbor" / "first-steps"


class ListedEngine:
    """Images by name: size and age in days. `used`: names that a container runs."""

    def __init__(self, images: dict[str, tuple[int, float]]) -> None:
        self.sizes, self.used = images, set[str]()

    def images(self, filters: dict[str, str]) -> list[dict[str, Any]]:
        assert filters == {"label": docker_images.CONTEXT_LABEL}
        return [
            {"Id": f"sha256:{name}", "RepoTags": [name], "Size": size, "Created": int(time.time() - days * DAY)}
            for name, (size, days) in self.sizes.items()
        ]

    def inspect_image(self, name: str) -> None:
        raise ImageNotFound(f"no {name} here")

    def remove_image(self, name: str) -> None:
        if name in self.used:
            raise APIError("conflict: a container uses it")
        del self.sizes[name]

    def close(self) -> None: ...


def prune(monkeypatch: pytest.MonkeyPatch, engine: ListedEngine, *words: str) -> str:
    monkeypatch.setattr(prune_images, "connect", lambda: engine)
    out = StringIO()
    call_command("prune_images", *words, stdout=out)
    return out.getvalue()


@pytest.fixture
def experiment() -> Experiment:
    call_command("load_suite", HARBOR, "--key", "first", stdout=StringIO())
    spec = {"name": "Ours", "suite": "first", "protocol": "skillflow", "conditions": ["no-skill"], "agents": ["oracle"]}
    return launch({**spec, "sandbox": "docker"})


def test_what_an_unfinished_experiment_needs_stays_until_it_ends(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [task for family in find_suite("first").environments[0].families for task in family.tasks]
    needed = [name for task in tasks for name in list_image_names(ListedEngine({}), task)]  # type: ignore[arg-type]
    assert len(needed) == 2
    engine = ListedEngine({**dict.fromkeys(needed, (10, 9)), "skillglass-task:old": (2_000_000, 9)})
    before = dict(engine.sizes)
    said = prune(monkeypatch, engine, "--dry-run")
    assert engine.sizes == before
    assert "2 MB  skillglass-task:old  would be removed" in said
    said = prune(monkeypatch, engine)
    assert set(engine.sizes) == set(needed)
    assert said.count("kept (needed by Ours)") == 2
    assert "1 of 3 images removed, 0.0 GB" in said
    Experiment.objects.update(status="done")
    prune(monkeypatch, engine)
    assert engine.sizes == {}


def test_recent_images_and_those_in_use_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ListedEngine(
        {"skillglass-task:new": (10, 1), "skillglass-task:old": (20, 9), "skillglass-task:run": (30, 9)}
    )
    engine.used = {"skillglass-task:run"}
    said = prune(monkeypatch, engine, "--keep-days", "3")
    assert set(engine.sizes) == {"skillglass-task:new", "skillglass-task:run"}
    assert "skillglass-task:new  kept (recent)" in said
    assert "skillglass-task:run  kept (conflict: a container uses it)" in said


def test_nothing_goes_where_it_is_not_known_what_is_needed(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(key: str) -> None:
        raise SetupError(f"suite {key}: its folder is not on this machine")

    monkeypatch.setattr(prune_images, "find_suite", absent)
    engine = ListedEngine({"skillglass-task:old": (20, 9)})
    with pytest.raises(CommandError, match="nothing was removed: what Ours needs is unknown"):
        prune(monkeypatch, engine)
    assert engine.sizes
