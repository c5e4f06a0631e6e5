"""Images of an imported session: what it is titled by, where its images are shown, and who may load them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from django.test import Client

from benchapp import audit
from benchapp.models import Blob, Trial
from runner.base.digests import digest_bytes
from tests.benchapp.import_folders import atif, bring_in, job, write
from tests.benchapp.log_files import claude_session
from tests.runner.trajectories.test_images import DATA, MARK, PNG, draw
from tests.worlds.factories import make_trial

pytestmark = pytest.mark.django_db


def bring_in_session(folder: Path, *content: dict[str, object]) -> Trial:
    log = claude_session(folder / "s-1.jsonl")
    lines = log.read_text().splitlines()
    first = json.loads(lines[0])
    first["message"]["content"] = list(content)
    log.write_text("\n".join([json.dumps(first), *lines[1:]]))
    assert list(bring_in(log).problems) == []
    return Trial.objects.get()


def image(data: str = DATA, kind: str = "image/png") -> dict[str, object]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def test_an_image_is_shown_lazily_and_sent_with_its_own_type(client: Client, tmp_path: Path) -> None:
    trial = bring_in_session(tmp_path, image(), {"type": "text", "text": "What is on it?"})
    url = f"/trials/{trial.public_id}/image/{digest_bytes(PNG)}/"
    text = client.get(trial.get_absolute_url()).text
    shown = f'<a href="{url}"><img src="{url}" width="6" height="4" loading="lazy" decoding="async"'
    assert text.count(shown) == 1
    assert DATA not in text
    response = client.get(url)
    assert (response.status_code, response.content) == (200, PNG)
    assert response["Content-Type"] == "image/png"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert list(audit.flaws()) == []


def test_a_session_is_titled_by_what_was_asked_and_has_no_badge_for_a_verdict_it_cannot_have(
    client: Client, tmp_path: Path
) -> None:
    trial = bring_in_session(tmp_path, image(), {"type": "text", "text": "[Image #1] What is on it?"})
    assert trial.task.title == "What is on it?"
    text = client.get(trial.get_absolute_url()).text
    assert '<h1 dir="auto">What is on it?</h1>' in text
    assert "A session, which nothing judges: no verdict." in text
    assert "reward, checks" not in text


def test_a_session_that_says_nothing_but_an_image_is_not_titled_by_its_mark(tmp_path: Path) -> None:
    assert bring_in_session(tmp_path, image()).task.title == "session s-1"


def test_a_person_who_writes_such_a_mark_keeps_it_in_the_title(tmp_path: Path) -> None:
    trial = bring_in_session(tmp_path, {"type": "text", "text": "[image a] is broken"})
    assert trial.task.title == "[image a] is broken"


def test_only_images_of_the_trial_itself_are_sent(client: Client, tmp_path: Path) -> None:
    trial = bring_in_session(tmp_path, image())
    other, text = Blob.objects.put(draw(width=9)), Blob.objects.put(b"<script>alert(1)</script>")
    chunk = trial.attempts.get().trajectories.get().chunks.get()
    chunk.pieces.add(text)
    stranger = make_trial(success=True)
    for where, digest in ((trial, other), (trial, text), (stranger, digest_bytes(PNG)), (trial, "0" * 64)):
        assert client.get(f"/trials/{where.public_id}/image/{digest}/").status_code == 404


def test_a_script_is_named_and_never_sent(client: Client, tmp_path: Path) -> None:
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    trial = bring_in_session(tmp_path, image(base64.b64encode(svg).decode(), "image/svg+xml"))
    text = client.get(trial.get_absolute_url()).text
    assert "<img" not in text
    assert f"[image image/svg+xml: {len(svg)} bytes, not kept: no PNG, JPEG, GIF or WebP]" in text
    assert client.get(f"/trials/{trial.public_id}/image/{digest_bytes(svg)}/").status_code == 404


def test_an_image_next_to_a_trajectory_is_imported_with_it(client: Client, tmp_path: Path) -> None:
    path = job(tmp_path)
    agent = next(path.rglob("trajectory.json")).parent
    document = atif()
    part = {"type": "image", "source": {"media_type": "image/png", "path": "images/a.png"}}
    document["steps"][1]["observation"]["results"][0]["content"] = [{"type": "text", "text": "drawn"}, part]
    write(agent / "trajectory.json", document)
    write(agent / "images" / "a.png", PNG)
    bring_in(path)
    trial = Trial.objects.filter(attempts__trajectories__chunks__pieces=digest_bytes(PNG)).get()
    assert f"/image/{digest_bytes(PNG)}/" in client.get(trial.get_absolute_url()).text
    assert MARK.startswith("[image image/png")
