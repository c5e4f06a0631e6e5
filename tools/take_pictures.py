"""Take the pictures of the documents and the README: `python tools/take_pictures.py [NAME ...] [--charts]`.

Fills a record of its own with the example that ships and scripted reviews of it, serves it, and photographs its pages
in both themes. `tour.webp` is the README's moving picture. `--charts` renews `docs/pictures/charts/` as well. For
charts that the example cannot draw, it runs experiments of `examples/experiments/`, one after the other and no more
than the wanted charts need; all of them take minutes. Needs Chromium.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Literal

import django
import yaml
from django.core.management import call_command
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
PORT = int(os.environ.get("PORT", "8477"))
HOME = f"http://127.0.0.1:{PORT}"
WIDTH, HEIGHT = 1440, 900
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SETTINGS = ("skillgenbench", "skillgenbench-agnostic")  # run by two authors, and shown side by side
MORE = ("skilllearnbench", *SETTINGS, "budget-sweep", "replicates")  # what charts draw and the example has not
REVIEWS = ("agreement", "results")
MEASURED = ("skilllearnbench",)  # each round, for the learning curve
AUTHORS = ["scripted/apprentice", "scripted/careful"]
COLOURS = 256  # of a picture: pages have few, and the files stay small
TOUR_WIDTH, TOUR_HOLD, CLICK_HOLD = 1120, 1300, 300  # pixels, milliseconds

FOLDER = tempfile.TemporaryDirectory(prefix="skillglass-pictures-")  # gone when this process ends
os.environ |= {"SKILLGLASS_VAR": FOLDER.name, "SINGLE_USER": "1", "DEBUG": "1"}
os.environ |= {"DJANGO_SETTINGS_MODULE": "benchapp.settings"}
os.environ |= {"DJANGO_ALLOW_ASYNC_UNSAFE": "true"}  # playwright's loop lives in this thread
sys.path.insert(0, str(ROOT))
django.setup()

from benchapp.experiments.example_experiment import EXAMPLE, list_episodes, work_off  # noqa: E402  settings come first
from benchapp.experiments.launch import experiment_id, launch  # noqa: E402
from benchapp.experiments.library_probes import launch_rounds, list_learning_runs, preview_rounds  # noqa: E402
from benchapp.imports.batch import import_paths  # noqa: E402
from benchapp.imports.shipped_example import take_in_example  # noqa: E402
from benchapp.models import Episode, Experiment, Trial  # noqa: E402
from inspector.charts import CHARTS  # noqa: E402
from inspector.pages.overview.tour import find_tour  # noqa: E402
from inspector.web.access import local_user  # noqa: E402
from tools.scripted_optimizer import log_optimizer  # noqa: E402
from tools.scripted_reviews import review_example, wait_for_review  # noqa: E402

# --- the record -----------------------------------------------------------------------------------------------------


def fill_record() -> Experiment:
    """The example, in the record that SKILLGLASS_VAR names."""
    call_command("migrate", verbosity=0)
    take_in_example()
    return Experiment.objects.get(public_id=experiment_id(str(EXAMPLE["key"])))


def list_pages(example: Experiment) -> dict[str, str]:
    tour = find_tour(local_user())
    assert tour is not None
    run = tour.decision.episode.run
    passed = Trial.objects.filter(task=tour.trial.task, phase=tour.trial.phase, success=True).exclude(pk=tour.trial.pk)
    other = passed.order_by("episode__run__replicate", "pk")[:1].get()
    stops = dict(
        zip(("trial", "library", "blame", "probe"), (out_of_tour(stop.url) for stop in tour.stops), strict=True)
    )
    return stops | {
        "overview": "/",
        "experiment": example.get_absolute_url(),
        "run": run.get_absolute_url(),
        "compare": f"/compare/?experiment={example.public_id}",
        "pair": f"/trials/{tour.trial.public_id}/compare/{other.public_id}/",
    }


def out_of_tour(url: str) -> str:
    """A page from its top, as it is for somebody who came by another way."""
    path, _, query = url.partition("#")[0].partition("?")
    kept = "&".join(part for part in query.split("&") if part and not part.startswith("tour="))
    return f"{path}?{kept}"


def choose_experiments(example: Experiment) -> Iterator[str]:
    """Yield queries that choose the example, then those that choose further experiments,
    each run when it is asked for."""
    made = {}
    call_command("diagnose_libraries", verbosity=0)
    yield f"experiment={example.public_id}"
    log_optimizer(Path(FOLDER.name) / "optimizer")
    import_paths([Path(FOLDER.name) / "optimizer"])
    yield f"experiment={Experiment.objects.get(name='optimizer').public_id}"
    for name in MORE:
        print(f"running examples/experiments/{name}.yaml", flush=True)
        spec = yaml.safe_load((ROOT / "examples" / "experiments" / f"{name}.yaml").read_text())
        if name in SETTINGS:
            spec = {**spec, "author_model": None, "author_models": AUTHORS}
        experiment = launch({key: value for key, value in spec.items() if value is not None})
        work_off(list_episodes(experiment), workers=2)
        if name in MEASURED:
            probes = launch_rounds(preview_rounds(list_learning_runs(experiment), times=1), reason="Learning curve")
            work_off(Episode.objects.filter(run__probe__in=probes), workers=2)
        made[name] = f"experiment={experiment.public_id}"
        call_command("diagnose_libraries", verbosity=0)
        yield made[name]
    yield "&".join(made[name] for name in SETTINGS)


def list_charts(wanted: Iterable[str], queries: Iterator[str]) -> dict[str, str]:
    """Picture -> address of each wanted chart, over the first of these choices of experiments that it can draw."""
    found: dict[str, str] = {}
    missing = set(wanted)
    while missing and (query := next(queries, None)):
        for name in sorted(missing):
            with urllib.request.urlopen(f"{HOME}/compare/{name}.json?{query}") as answer:
                if json.load(answer)["figure"]:
                    found[name] = f"/compare/{name}/?{query}"
        missing -= set(found)
    if missing:
        print(f"no experiment draws {', '.join(sorted(missing))}")
    return found


# --- the pictures ---------------------------------------------------------------------------------------------------


class Camera:
    """A browser that photographs what was asked for, in both themes."""

    def __init__(self, browser: Browser, wanted: Iterable[str]) -> None:
        self.browser, self.wanted = browser, frozenset(wanted)

    def take(self, addresses: Mapping[str, str]) -> None:
        for theme in THEMES:
            page = self.open_page(theme)
            for name, address in addresses.items():
                if not self.wanted or name in self.wanted:
                    photograph(page, name, address, theme)
            page.close()

    def film(self) -> None:
        if not self.wanted or "tour" in self.wanted:
            film_tour(self.open_page("light"))

    def open_page(self, theme: Literal["light", "dark"]) -> Page:
        return self.browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme)


def photograph(page: Page, name: str, address: str, theme: str) -> None:
    page.goto(f"{HOME}{address}")
    settle(page)
    target = PICTURES / f"{name}-{theme}.png"
    if name.startswith("charts/"):
        with page.expect_download() as download:
            page.locator('[data-chart-act="png"]').first.click()
        download.value.save_as(target)
    else:
        page.screenshot(path=target)
    shrink(target)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size:,} bytes")


def film_tour(page: Page) -> None:
    """Home and the four stops, the pointer on what is clicked next."""
    frames, holds = [], []
    page.goto(f"{HOME}/?tour=show")
    for _ in range(5):
        settle(page)
        frame = grab(page)
        frames.append(frame)
        holds.append(TOUR_HOLD)
        onward = page.locator(".tour .button.primary, .guide [rel=next]")
        if not onward.count():
            break
        box = onward.first.bounding_box()
        assert box is not None
        frames.append(point(frame, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2))
        holds.append(CLICK_HOLD)
        onward.first.click()
    height = round(TOUR_WIDTH * HEIGHT / WIDTH)
    small = [frame.resize((TOUR_WIDTH, height), Image.Resampling.LANCZOS) for frame in frames]
    target = PICTURES / "tour.webp"
    small[0].save(target, save_all=True, append_images=small[1:], duration=holds, loop=0, quality=82, method=6)
    print(
        f"{target.relative_to(ROOT)}: {len(small)} frames, {sum(holds) / 1000:.1f} s, {target.stat().st_size:,} bytes"
    )


def settle(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(400)  # a chart draws after its data came


def grab(page: Page) -> Image.Image:
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


def point(frame: Image.Image, x: float, y: float) -> Image.Image:
    shown = frame.copy()
    draw = ImageDraw.Draw(shown, "RGBA")
    draw.ellipse((x - 20, y - 20, x + 20, y + 20), fill=(86, 70, 207, 60), outline=(86, 70, 207, 255), width=3)
    return shown


def shrink(path: Path) -> None:
    picture = Image.open(path).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


# --- all of it ------------------------------------------------------------------------------------------------------


def main() -> None:
    logging.getLogger("benchapp").setLevel(logging.ERROR)  # no broker is needed here, and each hint would miss it
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="as overview or charts/forest; default: all")
    parser.add_argument("--charts", action="store_true", help="the pictures of charts as well")
    asked = parser.parse_args()
    every = [f"charts/{key}" for key in CHARTS]
    charts = [name for name in asked.names if name in every] if asked.names else every * asked.charts
    example = fill_record()
    known = {*every, *list_pages(example), "tour", "review-coding", *(f"review-{name}" for name in REVIEWS)}
    if unknown := set(asked.names) - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    command = [sys.executable, "manage.py", "runserver", "--noreload", f"127.0.0.1:{PORT}"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_server()
        addresses = list_charts(charts, choose_experiments(example))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
            take_all(Camera(browser, asked.names), example, addresses)
            browser.close()
    finally:
        server.terminate()
        server.wait()


def take_all(camera: Camera, example: Experiment, charts: Mapping[str, str]) -> None:
    """Reviews come last: who has a trial to code blind may not see the pages that show it."""
    camera.take({**list_pages(example), **charts})
    camera.film()
    queue = review_example(example, local_user())
    camera.take({f"review-{name}": f"{queue.get_absolute_url()}{name}/" for name in REVIEWS})
    camera.take({"review-coding": wait_for_review(example, local_user(), queue.version).get_absolute_url()})


def wait_for_server() -> None:
    for _ in range(120):
        try:
            urllib.request.urlopen(f"{HOME}/healthz", timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"the server does not answer at {HOME}")


if __name__ == "__main__":
    main()
