"""A trial with long texts or many steps: every part is reachable, and a page holds and reads a bounded part."""

from __future__ import annotations

import html
import re

import pytest

from benchapp.analysis.deciding import deciding_steps
from benchapp.models import Blob, TaskRevision, Trial
from inspector.reader import outline
from runner.base.types import Check, CheckGroup, CheckStatus, Observation, Source, Step, ToolCall
from tests.inspector.trials.test_trial import numbers, page, walk
from tests.queries import assert_queries_flat, count_queries
from tests.worlds.factories import (
    make_attempt,
    make_snapshot,
    make_trial,
    make_verdict,
    record_steps,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def trial() -> Trial:
    """Failed, 60 steps."""
    trial = make_trial(success=False)
    record_steps(trial.counting_attempt(), walk(60))
    return trial


def test_it_loads_a_folded_text_piece_by_piece(client):
    trial = make_trial()
    body = "".join(f"{number:07d}\n" for number in range(30_000))  # 240,000 characters
    record_steps(trial.counting_attempt(), [Step(1, Source.AGENT, observations=(Observation(body),))])
    text = page(client, trial)
    rest = re.search(r'hx-get="([^"]+/field/[^"]+)"', text)[1].replace("&amp;", "&")
    shown, start, end = "", int(re.search(r"start=(\d+)", rest)[1]), int(re.search(r"end=(\d+)", rest)[1])
    assert client.get(rest).text == body[start:end]
    while rest:
        piece = client.get(rest, headers={"HX-Request": "true"}).text
        assert len(piece) < 66_000
        shown += piece.partition("<span")[0]
        found = re.search(r'hx-get="([^"]+)"', piece)
        rest = found[1].replace("&amp;", "&") if found else ""
    assert shown == body[start:end]


def test_of_a_result_of_millions_of_characters_every_part_is_reachable(client):
    """Beginning and end are on the page; what lies between comes in pieces from either end or from its middle."""
    trial = make_trial()
    whole = "".join(f"line {n}\n" for n in range(200_000)) + "the end"
    record_steps(trial.counting_attempt(), [Step(1, Source.AGENT, observations=(Observation(whole),))])
    text = client.get(f"/trials/{trial.public_id}/").text
    assert "line 7\n" in text
    assert text.index("line 199999\nthe end") > text.index("characters more</b>")
    url = re.search(r'hx-get="([^"]+field/[^"]+)"', text)[1].replace("&amp;", "&")
    seen, waiting = {}, [url]
    for turn in range(80):
        if not waiting:
            break
        address = waiting.pop() + ("", "&part=middle", "&part=last")[turn % 3]
        piece = client.get(address, headers={"HX-Request": "true"}).text
        bounds = sorted(
            (int(found[1]), int(found[2]))
            for found in re.finditer(r'<a href="[^"]*start=(\d+)&amp;end=(\d+)[^"]*" hx-get', piece)
        )
        waiting += [
            re.sub(r"start=\d+&end=\d+", f"start={start}&end={end}", url) for start, end in dict.fromkeys(bounds)
        ]
        shown = html.unescape(re.sub(r'<span class="gap">.*?</span>', "", piece))
        start = whole.index(shown)
        seen[start] = shown
        assert len(shown) <= 64_000
    assert not waiting
    first, last = (int(found) for found in re.search(r"start=(\d+)&end=(\d+)", url).groups())
    assert "".join(seen[start] for start in sorted(seen)) == whole[first:last]


def test_it_gives_a_piece_as_plain_text_without_htmx(client, trial):
    response = client.get(f"/trials/{trial.public_id}/field/?step=3&field=tool_calls/0")
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response.text == "shell\ncommand: run 3"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "step=1",
        "step=999&field=message",
        "step=1&field=observations/9",
        "step=1&field=../x",
        "step=-1&field=message",
        "step=1&field=message&start=-1",
        "step=1&field=message&trajectory=00000000-0000-0000-0000-000000000000",
        "step=1&field=message&trajectory=x",
    ],
)
def test_there_is_no_piece_of_what_is_not_there(client, trial, query):
    assert client.get(f"/trials/{trial.public_id}/field/?{query}").status_code == 404


@pytest.mark.parametrize("name", ["output", "exception", "instruction"])
def test_texts_about_a_trial_are_there_as_a_whole(client, name):
    text = f"begin {name}\n" + "a line of the log\n" * 9_000 + f"end {name}"
    blob = Blob.objects.put(text.encode())
    told = {"exception_id": blob, "exception_type": "E", "exception_message": "e"}
    trial = make_trial(success=False, verdict=make_verdict(False, output=text), attempt=told)
    trial.task_revision = TaskRevision.objects.create(task=trial.task, digest="d" * 64, instruction_id=blob)
    trial.save()
    link = re.search(rf'href="(/trials/[^"]+/{name}.txt[^"]*)"', page(client, trial))[1].replace("&amp;", "&")
    assert client.get(link).text == text


def test_there_is_no_text_of_another_name(client, trial):
    assert client.get(f"/trials/{trial.public_id}/secrets.txt").status_code == 404


def test_every_check_is_there_with_its_whole_message(client):
    message = "".join(f"expected {n}, got 0\n" for n in range(400))
    checks = tuple(Check(CheckGroup.TEST, f"test {n}", CheckStatus.FAILED, message) for n in range(90))
    text = page(client, make_trial(success=False, verdict=make_verdict(False, checks=checks)))
    assert text.count("expected 399, got 0") == 90


def test_every_result_of_a_page_is_there_however_long_the_prompt(client):
    """The shape of terminus-2: a prompt of a hundred lines, screens that end in dozens of blank lines."""
    trial = make_trial()
    prompt = Step(1, Source.USER, "".join(f"rule {n}\n" for n in range(100)) + "\n" * 40)
    screens = [
        Step(
            number,
            Source.AGENT,
            tool_calls=(ToolCall("c", "bash_command", {"keystrokes": f"probe {number}\n"}),),
            observations=(Observation(f"New Terminal Output:\nroot# probe {number} gave\n" + "\n" * 37, "c"),),
        )
        for number in range(2, 62)
    ]
    record_steps(trial.counting_attempt(), [prompt, *screens])
    text = page(client, trial)
    assert all(f"root# probe {number} gave\n" in text for number in range(2, 31))
    assert text.count('data-lines="37"') == 29


def test_a_page_of_enormous_steps_brings_some_of_them_and_leads_to_the_others(client):
    trial = make_trial()
    nasty = "<&\"'>" * 20_000
    calls = tuple(ToolCall(str(number), "shell", {"command": nasty}) for number in range(40))
    results = tuple(Observation(f"{nasty} end {number}", str(number)) for number in range(40))
    record_steps(trial.counting_attempt(), [Step(n, Source.AGENT, nasty, nasty, calls, results) for n in range(1, 13)])
    base = f"/trials/{trial.public_id}/"
    url, seen = base, []
    while url:
        response = client.get(url, headers={} if url == base else {"HX-Request": "true"})
        assert len(response.content) < 8_000_000
        assert response.text.count(" end 39</pre>") == len(numbers(response.text))
        seen += numbers(response.text)
        following = re.search(r'data-way="first" hx-get="([^"]+)"', response.text)
        url = following[1] if following else ""
    assert seen == list(range(1, 13))
    assert numbers(page(client, trial, "?at=9"))[0] == 9
    before = client.get(f"{base}steps/?to=9", headers={"HX-Request": "true"}).text
    assert numbers(before)[-1] == 9
    assert f"/steps/?to={numbers(before)[0] - 1}" in before


def test_it_reads_only_the_chunks_of_its_window(client):
    trial = make_trial()
    trajectory = record_steps(trial.counting_attempt(), walk(3_500, errors=(2_900,)))
    assert trajectory.chunks.count() > 3
    base = f"/trials/{trial.public_id}/"
    assert numbers(page(client, trial, "?step=last")) == list(range(3_471, 3_501))
    text = page(client, trial, "?at=1500")
    assert numbers(text) == list(range(1_492, 1_522))
    assert text.count('<details class="stretch"') == trajectory.chunks.count()
    assert '<a href="?at=2900#step-2900" tabindex="-1"><rect class="error"' in text
    rows = client.get(f"{base}outline/?first=2001", headers={"HX-Request": "true"}).text
    assert '<li class="shell error"><a href="?at=2900#step-2900"' in rows
    assert rows.count("<li ") == 1_000
    assert client.get(f"{base}outline/?first=2001&last=2010").text.count("<li ") == 10
    assert count_queries(client, base) == count_queries(client, f"{base}?step=1500")


def test_a_heading_joins_neighbours_where_there_are_more_chunks_than_a_browser_should_hold(client, monkeypatch):
    monkeypatch.setattr(outline, "MAX_HEADINGS", 2)
    trial = make_trial()
    trajectory = record_steps(trial.counting_attempt(), walk(3_500, errors=(2_900,)))
    chunks = list(trajectory.chunks.order_by("first_step").values_list("first_step", flat=True))
    text = page(client, trial, "?at=1500")
    parts = re.findall(r'<details class="stretch" hx-get="([^"]+)".*?</details>', text)
    assert len(parts) == 2
    inside = [client.get(part.replace("&amp;", "&"), headers={"HX-Request": "true"}).text for part in parts]
    headed = [int(n) for each in inside for n in re.findall(r'data-first="(\d+)"', each)]
    assert headed == chunks
    assert "1 error" in inside[-1]
    assert "<li " not in inside[0]


def test_it_finds_the_next_error_beyond_those_a_chunk_names(client):
    trial = make_trial()
    record_steps(trial.counting_attempt(), walk(300, errors=tuple(range(1, 101)) + (250,)))
    assert numbers(page(client, trial, "?next=error&after=101"))[8] == 250


def test_it_asks_the_same_number_of_queries_for_any_trial(client):
    trial = make_trial(success=False, mounted=["tidy"], snapshot=make_snapshot())
    record_steps(trial.counting_attempt(), walk(30))

    def add(count: int) -> None:
        for _ in range(count):
            earlier = make_trial(trial.episode, read=["tidy"])
            trial.retrieved.add(earlier)
            make_attempt(trial, counts=False)
            trial.refusals.create(paths=["a"], reason="frozen")
        deciding_steps.KEPT.clear()  # the index of its steps is read once

    assert assert_queries_flat(client, f"/trials/{trial.public_id}/", add) <= 30
