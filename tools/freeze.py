"""Record every answer of the pages, and compare two recordings: the net under a redesign that keeps behaviour.

    python tools/freeze.py world DIR [PATH...]  # the shipped example with two scripted reviewers, and imports of PATHs
    python tools/freeze.py crawl DIR LIST       # addresses, a few of each kind
    python tools/freeze.py record DIR LIST OUT [--room inspector.pages.runs]
    python tools/freeze.py compare BEFORE AFTER [--diffs 5]

A recording holds HTML without differences of white space, twins and exports byte by byte, Parquet by its rows, and
how many queries each answer took. Everything runs on a copy of DIR, under one hash seed, at one moment.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import hashlib
import html
import io
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"""\b(?:href|hx-get|src)="(/[^"#]*)""")
PASSING = re.compile(  # differs from one answer to the next
    r'name="(?:csrfmiddlewaretoken|once)" value="[^"]*"|nonce="[^"]*"|hx-headers=\'[^\']*\'|nonce-[\w+/=-]+'
)
KINDS, OF_PAGE = 2, 16  # addresses of one page with the same keys, and of one page
NO_PAGE = ("/static/", "/logout/", "/health")
PROCESSES = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, places in {
        "world": ["dir"],
        "crawl": ["dir", "list"],
        "record": ["dir", "list", "out"],
        "compare": ["before", "after"],
    }.items():
        command = commands.add_parser(name)
        for place in places:
            command.add_argument(place, type=Path)
    commands.choices["world"].add_argument("paths", nargs="*")
    commands.choices["record"].add_argument("--room", default="", help="modules of the views, as inspector.pages.runs")
    commands.choices["record"].add_argument("--part", default="", help=argparse.SUPPRESS)
    commands.choices["compare"].add_argument("--diffs", type=int, default=5)
    asked = parser.parse_args()
    if asked.command == "compare":
        return compare(asked.before, asked.after, asked.diffs)
    if asked.command == "record" and not asked.part:
        return record_in_parts(asked)
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    if asked.command == "world":
        asked.dir.mkdir(parents=True)
        make_world(set_up(asked.dir), asked.paths)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(asked.dir, Path(folder) / "var", ignore=shutil.ignore_patterns("valkey*", "*.sock"))
        set_up(copy)
        if asked.command == "crawl":
            found = crawl()
            asked.list.write_text("".join(f"{address}\n" for address in found))
            print(f"{len(found)} addresses in {asked.list}")
        else:
            record(asked)
    return 0


def set_up(var: Path) -> Path:
    """Django on this folder, at a moment that does not pass."""
    sys.path.insert(0, str(ROOT))
    os.environ |= {"SKILLGLASS_VAR": str(var), "SINGLE_USER": "1", "DJANGO_SETTINGS_MODULE": "benchapp.settings"}
    os.environ |= {"TZ": "UTC", "LOG_LEVEL": "CRITICAL"}
    import django
    from django.conf import settings
    from django.core.management import call_command
    from django.utils import timezone

    settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
    django.setup()
    call_command("migrate", verbosity=0)
    timezone.now = lambda: datetime(2031, 1, 1, tzinfo=UTC)
    secrets.randbelow = lambda below: 7 % below
    return var


def make_world(var: Path, paths: list[str]) -> None:
    from django.core.management import call_command

    from benchapp.models import Experiment, User
    from tools.scripted_reviews import review_example

    finished = sorted(map(str, (ROOT / "examples" / "finished").iterdir()))
    call_command("import_runs", *finished, *paths, stdout=io.StringIO())
    maker = User.objects.create(username="lee", level=User.Level.ADMIN)
    review_example(Experiment.objects.order_by("pk")[0], maker)
    print(f"{Experiment.objects.count()} experiments in {var}")


def crawl() -> list[str]:
    """From home along every link and twin, at most KINDS addresses of one page with the same keys in the query,
    and OF_PAGE of one page."""
    from django.test import Client
    from django.urls import Resolver404, resolve

    client, kinds, found, waiting = Client(raise_request_exception=False), Counter[object](), [], deque(["/"])
    seen = {"/"}
    while waiting:
        address = waiting.popleft()
        parts = urlsplit(address)
        try:
            name = resolve(parts.path).view_name
        except Resolver404:
            continue
        kind = (name, tuple(sorted(key for key, _ in parse_qsl(parts.query))))
        kinds.update((name, kind))
        if kinds[kind] > KINDS or kinds[name] > OF_PAGE:
            continue
        found.append(address)
        answer = client.get(address)
        if "text/html" not in answer.headers.get("Content-Type", ""):
            b"".join(answer) if answer.streaming else None
            continue
        for link in LINK.findall(answer.text):
            link = html.unescape(link)
            if link not in seen and not link.startswith(NO_PAGE) and not link.startswith("//"):
                seen.add(link)
                waiting.append(link)
    return found


def record_in_parts(asked: argparse.Namespace) -> int:
    """Each process has a copy of the record of its own."""

    def run(number: int) -> Path:
        out = asked.out.with_suffix(f".{number}")
        command = [sys.executable, __file__, "record", asked.dir, asked.list, out, "--part", f"{number}/{PROCESSES}"]
        subprocess.run([*map(str, command), "--room", asked.room], check=True)
        return out

    with ThreadPoolExecutor(PROCESSES) as pool:
        parts = list(pool.map(run, range(PROCESSES)))
    total = 0
    with gzip.open(asked.out, "wt") as file:
        for part in parts:
            lines = part.read_text().splitlines(keepends=True)
            total += len(lines)
            file.writelines(lines)
            part.unlink()
    print(f"{total} answers in {asked.out}")
    return 0


def record(asked: argparse.Namespace) -> None:
    """Each address twice: the second answer counts, as the first may fill what a process keeps."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext
    from django.urls import Resolver404, resolve

    number, parts = map(int, asked.part.split("/"))
    client = Client(raise_request_exception=False)
    with asked.out.open("w") as file:
        for address in asked.list.read_text().splitlines():
            try:
                module = getattr(resolve(urlsplit(address).path).func, "__module__", "")
            except Resolver404:
                module = ""
            share = int(hashlib.sha256(module.encode()).hexdigest(), 16) % parts
            if share != number or not module.startswith(asked.room):
                continue
            client.get(address)
            with CaptureQueriesContext(connection) as queries:
                answer = client.get(address)
                body = answer.getvalue() if answer.streaming else answer.content
            kind = answer.headers.get("Content-Type", "")
            head = {"address": address, "status": answer.status_code, "type": kind, "queries": len(queries)}
            file.write(json.dumps({**head, "to": answer.headers.get("Location", ""), "body": plain(body, kind)}) + "\n")


def plain(body: bytes, kind: str) -> str:
    if "parquet" in kind:
        import pyarrow.parquet as parquet

        table = parquet.read_table(io.BytesIO(body))
        return f"{table.schema}\n" + "\n".join(map(str, table.to_pylist()))
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return hashlib.sha256(body).hexdigest()
    text = PASSING.sub("…", text)
    return re.sub(r"\s+", " ", re.sub(r">\s+<", "><", text)) if "html" in kind else text


def read(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        yield from map(json.loads, file)


def compare(before: Path, after: Path, diffs: int) -> int:
    old, new = ({row["address"]: row for row in read(path)} for path in (before, after))
    common = [address for address in old if address in new]
    answers = [
        address
        for address in common
        if any(old[address][key] != new[address][key] for key in ("status", "type", "to", "body"))
    ]
    slower = [address for address in common if new[address]["queries"] > old[address]["queries"]]
    faster = [address for address in common if new[address]["queries"] < old[address]["queries"]]
    for address in answers[:diffs]:
        pieces = [re.sub(r"(?<=>)(?=<)|(?<=[,;]) ", "\n", rows[address]["body"]).splitlines() for rows in (old, new)]
        print(f"\n{address}: {old[address]['status']} {new[address]['status']}")
        print("\n".join(line[:300] for line in list(difflib.unified_diff(*pieces, lineterm="", n=1))[2:30]))
    for address in slower[:diffs]:
        print(f"{address}: {old[address]['queries']} queries, now {new[address]['queries']}")
    alone = len(old.keys() ^ new.keys())
    print(
        f"{len(common)} addresses: {len(answers)} differ, {len(slower)} with more queries, {len(faster)} with fewer, "
        f"{alone} on one side"
    )
    return 1 if answers or slower else 0


if __name__ == "__main__":
    raise SystemExit(main())
