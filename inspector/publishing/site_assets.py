"""Styles, scripts, letters and pictures of a site: those that its pages name, and what these name in turn."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import staticfiles_storage

from benchapp.deploy.static_files import collect_if_changed
from inspector.publishing.site_files import SiteFiles

FOLDER = "static"
IN_STYLE = re.compile(r"url\(\s*[\"']?([^\"')#?:]+)[\"']?\s*\)")


def prepare_assets() -> None:
    """Names with digests are known after the files were collected; an installation has done so, a checkout may not."""
    try:
        staticfiles_storage.url("css/base.css")
    except ValueError:
        collect_if_changed()


def name_asset(path: str) -> str | None:
    """Return the site's file for a path of this installation; None if the path is not a static file."""
    return f"{FOLDER}/{path.removeprefix(settings.STATIC_URL)}" if path.startswith(settings.STATIC_URL) else None


def write_assets(files: SiteFiles, named: set[str]) -> None:
    waiting, written = sorted(named), set()
    while waiting:
        path = waiting.pop(0)
        if path in written:
            continue
        content = _read(path.removeprefix(f"{FOLDER}/"))
        files.write(path, content)
        written.add(path)
        if path.endswith(".css"):
            found = IN_STYLE.findall(content.decode())
            waiting += [posixpath.normpath(posixpath.join(posixpath.dirname(path), each)) for each in found]


def _read(name: str) -> bytes:
    collected = Path(settings.STATIC_ROOT) / name
    found = collected if collected.is_file() else finders.find(name)
    if not found:
        raise FileNotFoundError(f"static/{name}: named by a page, and no such file was collected")
    return Path(str(found)).read_bytes()
