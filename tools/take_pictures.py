"""Take the pictures of the documents and the README: `python tools/take_pictures.py [NAME ...] [--charts]`.

Fills a record of its own with the example that ships and scripted reviews of it, serves it, and photographs its pages in
both themes. `tour.webp` is the README's moving picture. `--charts` renews `docs/pictures/charts/` as well, after running
the experiments of `examples/experiments/` whose trials the example lacks; that takes minutes. Needs Chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # playwright's loop lives in this thread
PORT = int(os.environ.get("PORT", "8477"))
HOME = f"http://127.0.0.1:{PORT}"
WIDTH, HEIGHT = 1440, 900
THEMES = ("light", "dark")
MORE = ("skilllearnbench", "skillgenbench", "budget-sweep", "replicates")  # what charts draw and the example has not
COLOURS = 128  # of a picture: pages have few, and the files stay small
TOUR_WIDTH, TOUR_HOLD, CLICK_HOLD = 1120, 1500, 350  # pixels, milliseconds


# --- the record ----------------------------------------------------------------------------------------------------------


def fill_record(*, charts: bool) -> dict[str, str]:
    """Picture -> address. The record is the one that SKILLGLASS_VAR names."""
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from benchapp.experiments.example_experiment import EXAMPLE
    from benchapp.experiments.launch import experiment_id
    from benchapp.imports.shipped_example import take_in_example
    from benchapp.models import Experiment
    from inspector.web.access import local_user
    from tools.scripted_reviews import review_example

    take_in_example()
    example = Experiment.objects.get(public_id=experiment_id(str(EXAMPLE["key"])))
    addresses = list_pages(example)
    done, item = review_example(example, local_user())
    addresses |= {
        "review-coding": item.get_absolute_url(),
        "review-agreement": f"{done.get_absolute_url()}agreement/",
        "review-results": f"{done.get_absolute_url()}results/",
    }
    if charts:
        addresses |= list_charts(example)
    return addresses


def list_pages(example: object) -> dict[str, str]:
    from benchapp.models import Experiment, Trial
    from inspector.pages.overview.tour import find_tour
    from inspector.web.access import local_user

    assert isinstance(example, Experiment)
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
    """A page as it is for somebody who came by another way."""
    head, _, anchor = url.partition("#")
    path, _, query = head.partition("?")
    kept = "&".join(part for part in query.split("&") if part and not part.startswith("tour="))
    return f"{path}{'?' if kept else ''}{kept}#{anchor}"


def list_charts(example: object) -> dict[str, str]:
    """Each chart over the first of these experiments that it can draw."""
    import yaml

    from benchapp.experiments.example_experiment import work_off
    from benchapp.experiments.launch import launch
    from benchapp.models import Experiment
    from benchapp.stats.comparing.choices import Choices
    from benchapp.stats.comparing.comparison import open_comparison
    from inspector.charts import CHARTS
    from inspector.charts.picture import picture_of
    from inspector.charts.sheet import ChartSheet

    assert isinstance(example, Experiment)
    found: dict[str, str] = {}
    for name in ("", *MORE):
        experiment = example
        if name:
            experiment = launch(yaml.safe_load((ROOT / "examples" / "experiments" / f"{name}.yaml").read_text()))
            work_off(experiment, workers=2)
        sheet = ChartSheet(open_comparison(Choices(experiment=(experiment.public_id,))))
        for key, chart in CHARTS.items():
            if key not in found and picture_of(chart, sheet).figure is not None:
                found[key] = f"/compare/charts/{key}/?experiment={experiment.public_id}"
        if len(found) == len(CHARTS):
            break
    return {f"charts/{key}": address for key, address in found.items()}


# --- the pictures --------------------------------------------------------------------------------------------------------


def take(addresses: Mapping[str, str], wanted: Iterable[str]) -> None:
    from playwright.sync_api import sync_playwright

    names = list(wanted) or [*addresses, "tour"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        for theme in THEMES:
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme)
            for name in names:
                if name in addresses:
                    photograph(page, name, addresses[name], theme)
            page.close()
        if "tour" in names:
            film_tour(browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light"))
        browser.close()


def photograph(page, name: str, address: str, theme: str) -> None:
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


def film_tour(page) -> None:
    """Home and the four stops, the pointer on what is clicked next."""
    from PIL import Image

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


def settle(page) -> None:
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(400)  # a chart draws after its data came


def grab(page):
    from io import BytesIO

    from PIL import Image

    return Image.open(BytesIO(page.screenshot())).convert("RGB")


def point(frame, x: float, y: float):
    from PIL import ImageDraw

    shown = frame.copy()
    draw = ImageDraw.Draw(shown, "RGBA")
    draw.ellipse((x - 20, y - 20, x + 20, y + 20), fill=(86, 70, 207, 60), outline=(86, 70, 207, 255), width=3)
    return shown


def shrink(path: Path) -> None:
    from PIL import Image

    picture = Image.open(path).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


# --- all of it -----------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="as overview or charts/forest; default: all")
    parser.add_argument("--charts", action="store_true", help="the pictures of charts as well")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillglass-pictures-") as folder:
        os.environ |= {"SKILLGLASS_VAR": folder, "SINGLE_USER": "1", "DEBUG": "1"}
        addresses = fill_record(charts=asked.charts)
        command = [sys.executable, "manage.py", "runserver", "--noreload", f"127.0.0.1:{PORT}"]
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_server()
            take(addresses, asked.names)
        finally:
            server.terminate()
            server.wait()


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
