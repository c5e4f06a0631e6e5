"""A folder is dropped in a real browser, the connection is cut, and after a reload the same folder continues to its
table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from benchapp.imports import uploads
from benchapp.imports.upload_import import import_upload
from benchapp.models import Upload
from tests.benchapp.import_folders import job, write
from tests.browsing import inaccessible, open_in, settle

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# No browser lets a script drop a real folder, so the entries are made of the files that an input chose.
DROP = """() => {
  const made = (name, path, inside) => ({
    isFile: false, name, fullPath: path,
    createReader() { let some = [...inside]; return { readEntries(done) { const now = some; some = []; done(now); } }; },
  });
  const tree = (files, depth, path) => {
    const inside = [], folders = new Map();
    for (const file of files) {
      const parts = file.webkitRelativePath.split("/");
      if (parts.length === depth + 1) inside.push({ isFile: true, fullPath: `${path}/${parts[depth]}`, file: (done) => done(file) });
      else folders.set(parts[depth], [...(folders.get(parts[depth]) ?? []), file]);
    }
    return [...inside, ...[...folders].map(([name, own]) => made(name, `${path}/${name}`, tree(own, depth + 1, `${path}/${name}`)))];
  };
  const input = document.getElementById("picked");
  const event = new Event("drop", { bubbles: true, cancelable: true });
  event.dataTransfer = { items: tree([...input.files], 0, "").map((entry) => ({ webkitGetAsEntry: () => entry })), files: [] };
  document.getElementById("drop").dispatchEvent(event);
}"""  # noqa: E501
PICK = """() => {
  const input = Object.assign(document.createElement("input"), { type: "file", id: "picked", webkitdirectory: true });
  document.body.append(input);
}"""


def drop(page: Page, folder: Path) -> None:
    page.evaluate(PICK)
    page.locator("#picked").set_input_files(folder)
    page.evaluate(DROP)


def test_a_dropped_folder_survives_a_cut_and_a_reload(
    context: BrowserContext, live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "FOLDER", tmp_path / "uploads")
    folder = job(tmp_path / "first")
    write(folder / "job.log", b"x" * (9 * 1024 * 1024))
    page, errors = open_in(context, live_server.url, "light")
    page.goto(f"{live_server.url}/imports/")
    expect(page.get_by_role("heading", name="Import finished runs")).to_be_visible()
    settle(page)
    assert inaccessible(page) == []

    pieces: list[int] = []

    def cut(route: Route) -> None:
        pieces.append(len(route.request.post_data_buffer or b""))
        if len(pieces) in (2, 4):
            route.abort("connectionreset")
        elif len(pieces) > 4:
            route.fulfill(status=503)
        else:
            route.continue_()

    page.route("**/pieces/", cut)
    drop(page, folder)
    line = page.locator("#sending")
    expect(line).to_contain_text("The server does not answer. Trying again in", timeout=20_000)
    assert Upload.objects.get().count_received()[1] > 4_000_000
    assert pieces[2] < pieces[1], "after a loss the pieces are smaller"

    page.unroute("**/pieces/")
    page.reload()
    expect(page.locator(".upload")).to_contain_text("Choose the same again to continue.")
    drop(page, folder)
    waiting = page.get_by_role("heading", level=1, name="waiting for a worker. The broker of the jobs does not answer.")
    expect(waiting).to_be_visible(timeout=20_000)
    sent = Upload.objects.get()
    assert sent.count_received()[1] == sent.bytes_total
    import_upload(str(sent.public_id))
    expect(page.get_by_role("heading", name="3 trials came in.")).to_be_visible()
    expect(page.get_by_role("table", name="Runs that came in, by condition")).to_be_visible()
    settle(page)
    assert inaccessible(page) == []
    assert page.evaluate("window.violations") == []
    assert [error for error in errors if "/pieces/" not in error and "Failed to load resource" not in error] == []


def test_what_the_server_refuses_is_said_where_the_files_were_dropped(
    context: BrowserContext, live_server: Any, tmp_path: Path, settings: Any
) -> None:
    settings.UPLOAD_BYTES = 100
    page, _ = open_in(context, live_server.url, "dark")
    page.goto(f"{live_server.url}/imports/")
    page.locator("#choose-folder").set_input_files(job(tmp_path / "first"))
    expect(page.locator("#sending")).to_have_text(
        "More than 100 bytes. Upload fewer files at once, or import by command."
    )
    expect(page.get_by_role("button", name="Choose a folder…")).to_be_visible()
