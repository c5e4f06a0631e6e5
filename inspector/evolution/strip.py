"""The strip of an episode, ready for a page. A page calls `open_strip`, includes templates/evolution/_strip.html with
it, and links static/css/strip.css and static/js/strip.js."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.safestring import SafeString

from benchapp.analysis.lineage.library_states import LibraryHistory
from benchapp.models import Episode, Run, Trial
from benchapp.review.blinding import ReviewAccess
from benchapp.stats.learning.computed_runs import RunCache, has_ended
from inspector.evolution.strip_drawing import StripLinks, draw_strip
from inspector.evolution.timeline import SkillLane, Timeline, TimelinePatch, hide_words, read_timelines
from inspector.web.responses import address_of_any_trial


@dataclass(frozen=True, slots=True)
class Strip:
    """`place`: the page's own place on it, in words.
    `before`, `after`: addresses of the neighbours, empty at an end."""

    timeline: Timeline
    svg: SafeString
    place: str = ""
    before: str = ""
    after: str = ""

    @property
    def episode(self) -> Episode:
        return self.timeline.episode


def open_strip(run: Run, episode: Episode, access: ReviewAccess, *, trial: Trial) -> Strip | None:
    """Return the strip of a trial's page: the trial is marked, its neighbours are its neighbours on the strip.

    None where the episode's trials have no order, as in an import without a protocol, and where it has but one.
    """
    if not episode.is_ordered:
        return None
    timeline = hide_words(open_timeline(run, episode), access)
    links = link_to_pages(run, episode)
    here = str(trial.public_id)
    trials = timeline.trials
    if len(timeline.events) < 2:
        return None
    place = next((each.number for each in trials if each.key == here), 0)
    before = links.of_trial(trials[place - 2]) if place > 1 else ""
    after = links.of_trial(trials[place]) if 0 < place < len(trials) else ""
    svg = draw_strip(timeline, links, here=frozenset([here]))
    return Strip(timeline, svg, f"trial {place} of {len(trials)}" if place else "", before, after)


# Runs at their end; by key of the episode. Its size is the number of events.
KEPT: RunCache[dict[int, Timeline]] = RunCache(20_000, lambda kept: sum(len(each.events) for each in kept.values()))


def open_timeline(run: Run, episode: Episode, history: LibraryHistory | None = None) -> Timeline:
    """Three queries, one fewer with a history that the page has read; none where an ended run's is kept."""
    kept = KEPT.get(run) or {} if has_ended(run) else {}
    if episode.pk not in kept:
        histories = {episode.pk: history} if history else None
        (timeline,) = read_timelines(run, [episode], Trial.objects.filter(episode=episode).for_grid(), histories)
        kept = {**kept, episode.pk: timeline}
        if has_ended(run):
            KEPT.put(run, kept)
    return kept[episode.pk]


def link_to_pages(run: Run, episode: Episode) -> StripLinks:
    """A square leads to its trial, a patch to its difference in the library, a lane to the skill's blame."""
    trial, library = address_of_any_trial(), reverse("library", args=[run.public_id])
    blame, of_episode = reverse("blame", args=[run.public_id]), str(episode.public_id)

    def of_patch(patch: TimelinePatch) -> str:
        decision, step = patch.step.entry.decision, patch.step
        chosen = {"decision": decision.number} if decision else {"from": step.before.key, "to": step.after.key}
        return f"{library}?{urlencode({'episode': of_episode, **chosen})}"

    def of_skill(lane: SkillLane) -> str:
        return f"{blame}?{urlencode({'episode': of_episode, 'skill': lane.name})}"

    return StripLinks(lambda found: trial.format(found.key), of_patch, of_skill)


def link_to_cursor(run: Run, episode: Episode) -> StripLinks:
    """Squares and patches move the cursor of the run's page; the text below the strip has the links to the pages."""
    address = reverse("run", args=[run.public_id])

    def at(key: str) -> str:
        return f"{address}?{urlencode({'episode': str(episode.public_id), 'at': key})}#evolution"

    of_skill = link_to_pages(run, episode).of_skill
    return StripLinks(lambda trial: at(trial.key), lambda patch: at(patch.key), of_skill, swaps=True)
