"""Names of strangers on every page: nothing in them may hide, reorder or pretend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models import F, Model, Value
from django.db.models.functions import Concat
from django.test import Client
from plotly import graph_objects as go

from benchapp import models
from benchapp.record.visible import visible
from inspector.charts.drawn_chart import figure_json
from inspector.web.text.visible import visible_page
from tests.cases import every
from tests.pages import PAGES, address, make_world

# An override that writes backwards, a zero-width space, the head of a terminal escape, a tag character.
ODD = "\u202egnp\u200b\x1b[31m\U000e0041"
NAMES: dict[type[Model], tuple[str, ...]] = {
    models.Experiment: ("name", "source"),
    models.Run: ("harness", "harness_version", "agent_model", "author_model"),
    models.Episode: ("title",),
    models.Suite: ("name",),
    models.Family: ("name",),
    models.Task: ("title",),
    models.SnapshotFile: ("path", "skill"),
    models.SkillUse: ("skill", "path"),
    models.Check: ("name", "message"),
    models.Trajectory: ("name", "agent_name", "model", "source_path"),
    models.Attempt: ("exception_type", "exception_message", "worker"),
    models.ImportProblem: ("path", "place", "message"),
    models.Comparison: ("name",),
}
KEPT = re.compile(r'\svalue="[^"]*"|<textarea\b.*?</textarea>', re.DOTALL)
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


@pytest.fixture(scope="module")
def odd_world(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        make_world()
        for model, names in NAMES.items():
            for name in names:
                rows = model._default_manager.exclude(**{name: ""})
                rows.update(**{name: Concat(F(name), Value(ODD))})
        models.ImportBatch.objects.update(paths=["/runs/" + ODD])
        models.Run.objects.filter(condition="unknown").update(condition="unknown" + ODD)
    yield
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)


@pytest.mark.django_db
@every(*PAGES)
def test_no_page_sends_what_a_reader_cannot_see(name: str, client: Client, odd_world: None) -> None:
    response = client.get(address(name))
    assert response.status_code == 200
    assert not UNSEEN.findall(KEPT.sub("", response.text))


@pytest.mark.django_db
def test_a_page_writes_it_out_and_gives_back_what_it_was_given(client: Client, odd_world: None) -> None:
    text = client.get(address("experiment")).text
    assert "<title>starter demo⟨U+202E⟩gnp⟨U+200B⟩" in text
    option = f'<option value="a{ODD}">a{ODD}</option>'
    shown = "⟨U+202E⟩gnp⟨U+200B⟩␛[31m⟨U+E0041⟩"
    assert visible_page(option) == f'<option value="a{ODD}">a{shown}</option>'
    assert visible_page(f"<script>{ODD}</script>") == f"<script>{ODD}</script>"
    assert visible_page(f"<textarea>{ODD}\r\n</textarea>{ODD}") == f"<textarea>{ODD}\r\n</textarea>{shown}"


def test_a_terminal_escape_without_an_end_takes_nothing_of_the_page() -> None:
    assert visible_page("<h1>a\x1b]8;;</h1><p>rest</p>") == "<h1>a␛]8;;</h1><p>rest</p>"


def test_a_chart_writes_it_out() -> None:
    drawn = figure_json(go.Figure(go.Bar(x=[f"arm{ODD}", "a\\u001b"], y=[1, 2]))).decode()
    assert "arm⟨U+202E⟩gnp⟨U+200B⟩␛[31m⟨U+E0041⟩" in drawn
    assert r"a\\u001b" in drawn


def test_text_is_made_visible_as_before() -> None:
    assert visible("a\x1b[31mb\u202e") == "ab⟨U+202E⟩"
