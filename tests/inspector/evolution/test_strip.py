"""The strip: one geometry for all pages, a link and words for every square and patch, nothing hostile left alive."""

from __future__ import annotations

import re

import pytest

from benchapp.models import Decision, Entry, Episode, Family, SkillUse, Task, Trial
from benchapp.review.blinding import ReviewAccess
from inspector.evolution.strip import link_to_cursor, link_to_pages, open_strip, open_timeline
from inspector.evolution.strip_drawing import LETTER, SIDE, WIDTH, StripForm, StripLayout, draw_strip, wrap_name
from inspector.evolution.timeline import Timeline, TimelineTrial, follow_skills
from tests.worlds.factories import (
    add_entry,
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_learning_run,
    make_snapshot,
    make_suite,
    make_trial,
    make_unordered_episode,
    make_user,
)

pytestmark = pytest.mark.django_db

HOSTILE = '"><script>alert(1)</script><img src=x>\u202e'


@pytest.fixture
def episode() -> Episode:
    return make_learning_run(families=2).episodes.get()


def timeline_of(episode: Episode) -> Timeline:
    return follow_skills(open_timeline(episode.run, episode))


def draw(episode: Episode, form: StripForm = StripForm.FULL, **how: object) -> str:
    return str(draw_strip(timeline_of(episode), link_to_pages(episode.run, episode), form, **how))  # type: ignore[arg-type]


def test_events_stand_in_the_order_they_happened(episode: Episode) -> None:
    words = [
        "trial" if isinstance(event, TimelineTrial) else getattr(event, "word", "freeze")
        for event in timeline_of(episode).events
    ]
    assert words[:7] == ["trial", "Created", "trial", "Revised", "trial", "Rejected", "trial"]
    assert words[12] == "freeze"
    assert words[13:] == ["trial"] * 12


def test_what_was_never_begun_comes_last(episode: Episode) -> None:
    waiting = make_trial(episode, make_family().tasks.first(), finished=False)
    assert timeline_of(episode).trials[-1].square.pk == waiting.pk


def test_a_trial_has_the_same_x_in_every_form_and_condition() -> None:
    suite = make_suite(environments=1, families=2)
    experiment = make_experiment(suite=suite)
    learned = make_learning_run(experiment).episodes.get()
    Decision.objects.filter(episode=learned, number=3).delete()
    bare = make_learning_run(experiment, condition="no-skill", outcomes=(False,) * 9).episodes.get()
    bare.decisions.all().delete()
    places = [
        [StripLayout(timeline).trials[trial.key] for trial in timeline.trials]
        for timeline in (timeline_of(learned), timeline_of(bare))
    ]
    assert places[0] == places[1]
    for form in StripForm:
        drawn = re.findall(rf'<rect x="([\d.]+)" y="\d+" width="{SIDE}" height="{SIDE}"', draw(learned, form))
        assert sorted(map(float, drawn)) == sorted(places[0])


def test_a_library_that_changes_after_an_evaluation_is_not_called_frozen() -> None:
    learned = make_learning_run(families=1).episodes.get()
    learned.trials.exclude(phase="acquisition").update(phase="evaluation")
    assert "the library frozen" in draw(learned)
    given, gated = make_episode(), make_episode()
    for episode in (given, gated):
        for _ in range(12):
            tried = make_trial(episode, phase="evaluation")
            add_entry(episode, Entry.Kind.TRIAL, attempt=tried.attempts.get())
    make_decision(gated, make_family(), after_trial=tried, after=make_snapshot({"a/SKILL.md": "one"}))
    assert "the library" not in draw(given), "nothing says what happened to it"
    assert "12 of 12 passed, the library still changes" in draw(gated)


def test_every_strip_goes_over_the_whole_width(episode: Episode) -> None:
    episode.trials.exclude(pk=episode.trials.first().pk).delete()
    assert StripLayout(timeline_of(episode)).width == WIDTH


def test_a_family_is_named_in_full(episode: Episode) -> None:
    name = "Averages from tables with missing cells"
    Family.objects.update(name=name)
    layout, svg = StripLayout(timeline_of(episode)), draw(episode)
    assert wrap_name(name) == ("Averages from tables", "with missing cells")
    drawn = re.findall(r'class="evo-family" x="([\d.]+)" y="(\d+)">([^<]+)<', svg)
    assert len(layout.families) == 6
    assert " ".join(words for _, _, words in drawn) == " ".join([name] * 6)
    lefts = [stretch.left for stretch in layout.families]
    assert all(right - left >= LETTER * 20 for left, right in zip(lefts, [*lefts[1:], layout.width], strict=True))


def test_nothing_lies_on_anything_else(episode: Episode) -> None:
    layout = StripLayout(timeline_of(episode))
    squares = [(x, x + SIDE) for x in layout.trials.values()]
    patches = [(x - 4, x + 4) for x in layout.patches.values()]
    spans = sorted(squares + patches)
    assert all(left[1] <= right[0] for left, right in zip(spans, spans[1:], strict=False))


def test_every_square_and_patch_is_a_link_with_words(episode: Episode) -> None:
    svg = draw(episode)
    assert svg.count('class="evo-trial') == 18
    assert svg.count("data-stop=") == 6
    for trial in Trial.objects.filter(episode=episode):
        assert f'href="{trial.get_absolute_url()}"' in svg
    assert "Decision 2: revised\nR1 → R2 +6" in svg
    assert svg.count("<a ") == svg.count("<title>")


def test_a_lost_patch_has_a_sign_and_no_word_that_runs_into_its_neighbours(episode: Episode) -> None:
    svg = draw(episode)
    assert re.search(r"Decision \d: rejected", svg)
    assert not re.search(r'class="evo-num[^>]*>lost<', svg)


def test_lanes_show_who_read_a_skill_and_how_it_ended(episode: Episode) -> None:
    timeline = timeline_of(episode)
    first = timeline.lanes[0]
    assert [key for key, _ in first.points] == ["d1", "d2"]
    readers = [trial for trial in timeline.trials if first.name in trial.read]
    svg = draw(episode)
    hits = sum(trial.square.success is True for trial in timeline.trials for _ in trial.read)
    assert svg.count('class="evo-hit"') == hits
    assert len(readers) == 4
    patch = next(patch for patch in timeline.patches if patch.key == "d2")
    assert timeline.list_readers(patch) == readers[1:]


def test_a_skill_that_goes_when_one_other_is_written_curves_into_it() -> None:
    episode, family = make_episode(), make_family()
    make_decision(episode, family, after=make_snapshot({"a/SKILL.md": "a\n"}))
    make_decision(episode, family, after=make_snapshot({"a/SKILL.md": "a\n", "b/SKILL.md": "b\n"}))
    make_decision(episode, family, after=make_snapshot({"a/SKILL.md": "a\nb\n"}))
    gone = next(lane for lane in timeline_of(episode).lanes if lane.name == "b")
    assert (gone.end, gone.into) == ("d3", "a")
    assert "Gone at R3, which wrote a" in draw(episode)
    assert "evo-merge" in draw(episode)


def test_candidates_that_form_a_tree_are_joined_to_what_they_began_with() -> None:
    episode, family = make_episode(), make_family()
    first, second, third = (make_snapshot({"a/SKILL.md": text}) for text in ("one", "two", "three"))
    for before, after in ((None, first), (first, second), (first, third), (first, first)):
        tried = make_trial(episode)
        add_entry(episode, Entry.Kind.TRIAL, attempt=tried.attempts.get())
        status = "applied" if before is not after else "rejected"
        make_decision(episode, family, after_trial=tried, before=before, after=after, status=status)
    timeline = timeline_of(episode)
    assert [(origin and origin.key, patch.key) for origin, patch in timeline.branches] == [("d1", "d3"), ("d1", "d4")]
    svg = draw(episode, here=frozenset({"d3"}))
    layout = StripLayout(timeline)
    places = {patch.key: layout.patches[patch.step.entry.pk] for patch in timeline.patches}
    found = re.findall(r'class="evo-branch( is-here)?" d="M([\d.]+) \d+C[^"]* ([\d.]+) \d+"', svg)
    assert found == [
        (" is-here", f"{places['d1']:g}", f"{places['d3']:g}"),
        ("", f"{places['d1']:g}", f"{places['d4']:g}"),
    ]
    assert "Began with R1" in svg
    assert "evo-branch" not in draw(episode, StripForm.MINOR)


def test_the_cursor_and_a_range_are_marked(episode: Episode) -> None:
    svg = draw(episode, StripForm.PLAIN, here=frozenset(["d2"]))
    assert svg.count('aria-current="true"') == 1
    assert "evo-ring" in svg
    ranged = draw(episode, StripForm.PLAIN, band=("d1", "d4"))
    assert "evo-band" in ranged
    assert "evo-ring" not in ranged


def test_a_minor_strip_has_no_stop_for_the_keys(episode: Episode) -> None:
    assert "data-stop" not in draw(episode, StripForm.MINOR)


def test_it_disarms_what_models_and_suites_wrote(episode: Episode) -> None:
    Task.objects.update(title=HOSTILE)
    Decision.objects.update(summary=HOSTILE)
    Episode.objects.update(title=HOSTILE)
    episode.refresh_from_db()
    for form in StripForm:
        svg = draw(episode, form)
        assert "<script" not in svg
        assert "<img" not in svg
        assert "\u202e" not in svg


def test_a_trial_page_gets_its_place_and_its_neighbours(episode: Episode) -> None:
    trials = timeline_of(episode).trials
    trial = Trial.objects.get(public_id=trials[1].square.public_id)
    strip = open_strip(episode.run, episode, ReviewAccess(make_user()), trial=trial)
    assert strip is not None
    assert strip.place == "trial 2 of 18"
    assert strip.before.endswith(f"/trials/{trials[0].key}/")
    assert strip.after.endswith(f"/trials/{trials[2].key}/")
    assert str(strip.svg).count('aria-current="true"') == 1


def test_trials_without_an_order_have_no_strip() -> None:
    trial = make_trial(make_unordered_episode(), phase="evaluation")
    assert open_strip(trial.episode.run, trial.episode, ReviewAccess(make_user()), trial=trial) is None


def test_on_a_run_page_squares_move_the_cursor(episode: Episode) -> None:
    svg = str(draw_strip(timeline_of(episode), link_to_cursor(episode.run, episode)))
    assert svg.count("data-swap") == 18
    assert "at=d2#evolution" in svg


def test_what_a_trial_read_is_in_order_of_name(episode: Episode) -> None:
    """A set would give another order in another process."""
    trial = episode.trials.last()
    names = [f"skill-{letter}" for letter in "hgfedcba"]
    for name in names:
        SkillUse.objects.create(attempt=trial.counting_attempt(), skill=name, kind="read", step=1)
    (read,) = [each.read for each in timeline_of(episode).trials if each.key == str(trial.public_id)]
    assert [name for name in read if name in names] == sorted(names)
