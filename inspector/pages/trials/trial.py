"""`/trials/<id>/`, the inspector: how did it end, where did it go wrong, and had it read a skill?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlencode

from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from benchapp.analysis.alignment.counterparts import Counterpart, find_counterparts
from benchapp.analysis.failures.failure_reading import WORDS, read_class
from benchapp.analysis.lineage.session_versions import SeenSkill, list_seen_skills
from benchapp.models import Attempt, Decision, DecisionEvidence, Trajectory, Trial
from benchapp.record import live
from benchapp.record.json_shape import JsonShape, encode
from benchapp.record.recorded import BOUND_OF
from benchapp.record.trajectory_store import StoredStep
from benchapp.stats.learning.funnel import read_skills_held
from inspector.evolution.strip import open_strip
from inspector.pages.people.comments import count_step_comments
from inspector.reader.cards import draw_cards
from inspector.reader.compactions import READERS, read_excerpts
from inspector.reader.reading import (
    MAX_OUTPUT,
    StepReading,
    TrialReading,
    build_skill_usages,
    read_instruction,
    read_long,
    read_origins,
)
from inspector.reader.steps import draw_steps
from inspector.reader.verdict import write_ending
from inspector.web.responses import PageLink, is_published, link_to, read_htmx, render_page
from inspector.web.subject import find_neighbours, of_trial, review_access
from runner.base.text import parse_count
from runner.base.types import Phase
from runner.trajectories.atif_values import step_from_json
from runner.trajectories.fields import fields
from runner.trajectories.readers.skill_use import step_uses

FIRST_STEPS = 60  # drawn at first; earlier ones are in the record when the attempt has ended
MORE_STEPS = 60  # in one answer; the next one brings what is left
START = "0-0"
_PLACE = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")

LiveStep = tuple[str, Mapping[str, object]]  # id in the stream, ATIF step


class LiveSteps:
    """The steps of a running attempt: the newest, or those after the one with the id `since`; nonsense is the
    beginning.

    `sent`: unchanged, as the stream has them. `after`: the id to ask from next. `earlier`: steps before the first one
    drawn. `is_over`: the attempt has ended. `is_unreachable`: the broker does not answer, so nothing is known.
    """

    def __init__(self, attempt: Attempt, since: str | None = None) -> None:
        place = since if since and _PLACE.fullmatch(since) else START
        stream = str(attempt.public_id)
        found: Sequence[LiveStep] | None
        if since is None:
            found = live.tail(stream, FIRST_STEPS)
        else:
            found = live.read(stream, after=place, count=MORE_STEPS)
        self.attempt, self.sent, self.is_unreachable = attempt, found or (), found is None
        self.is_over = attempt.status != Attempt.Status.RUNNING
        steps = [step_from_json(raw) for _, raw in self.sent]
        stored = [StoredStep(step, {}) for step in steps]
        skills = {step.number: [(use.skill, use.kind.value) for use in step_uses(step, mounted=None)] for step in steps}
        self.steps = draw_cards(draw_steps(stored, skills=skills), stored)
        self.earlier = max(0, self.steps[0].number - 1) if self.steps else 0
        self.after = self.sent[-1][0] if self.sent else place
        self.last_at = live.published_at(self.after) if self.after != START else None


@of_trial
def live_trial(request: HttpRequest, trial: Trial) -> HttpResponse:
    """Render the newest steps for htmx; redirect anybody else to the page they belong to."""
    if not read_htmx(request):
        return redirect(trial)
    attempt = get_object_or_404(trial.attempts, number=parse_count(request.GET.get("attempt", "")) or 0)
    context = {"live": LiveSteps(attempt, request.GET.get("after", "")), "this_trial": trial, "is_more": True}
    return render(request, "trials/_live_more.html", context)


VIEW_WORDS = {"rich": "full trace", "rough": "short trace"}
TEMPLATE = "trials/trial.html"
COUNTERPARTS_SHOWN, COUNTERPARTS_SEARCHED = 10, 60  # trials of the same task: listed, and searched for one that passed
MAX_SIBLINGS = 40
JSON_CHARS = 20_000  # of one text in the JSON twin
JSON_PAGE_CHARS = 1_000_000  # of all fields of its page of steps together
_NUMBERS = {
    "reward": ("reward",),
    "checks": ("checks_total",),
    "tokens": ("input_tokens", "output_tokens", "input_at_least", "output_at_least"),
    "cost": ("cost_usd", "priced_usd", "estimated_usd"),
}
_SPENT, _JUDGED = {"tokens", "cost"}, {"reward", "checks"}
_PHASES = {phase.value: place for place, phase in enumerate(Phase)}


AROUND = (  # rows of the page that `TrialReading` does not read
    Prefetch("decisions", Decision.objects.select_related("episode__run", "after").order_by("number")),
    Prefetch(
        "shown_in", DecisionEvidence.objects.select_related("decision__episode__run").order_by("decision__number")
    ),
    Prefetch("retrieved", Trial.objects.select_related("task").order_by("id")),
)


@of_trial
def trial(request: HttpRequest, trial: Trial, *, as_json: bool = False) -> HttpResponse:
    view = request.GET.get("view", "")
    view = view if view in VIEW_WORDS else "full"
    opened = TrialReading(trial, request.GET, with_steps=view == "full")
    attempt, reading, compactions, verdicts = opened.attempt, opened.steps, opened.compactions, opened.verdicts
    most = COUNTERPARTS_SEARCHED if trial.success is False else COUNTERPARTS_SHOWN
    closed = review_access(request).closed_trials()
    others = [] if is_published(request) else find_counterparts(trial, without=closed, most=most)  # a site pairs none
    is_running = attempt is not None and attempt.status == Attempt.Status.RUNNING
    live_steps = LiveSteps(attempt) if attempt and is_running and reading.trajectory is None else None
    skills = build_skill_usages(opened.uses)
    ending = write_ending(trial, attempt, reading.decided.verdict)
    prefetch_related_objects([trial], *AROUND)
    decisions = list(trial.decisions.all())
    shown_in = [each.decision for each in trial.shown_in.all()]
    seen = _list_seen(trial, opened)
    retrieved = list(trial.retrieved.all()[:MAX_SIBLINGS])

    if as_json:
        _, previous, following = find_surroundings(trial)
        data = {
            **FACTS.read(trial),
            "attempts": ATTEMPT.read_all(opened.attempts),
            "attempt": attempt.number if attempt else None,
            "verdicts": [
                {**VERDICT.read(each.verdict), "dimensions": DIMENSION.read_all(each.dimensions)} for each in verdicts
            ],
            "skills": [{"skill": skill.slug, **encode(skill)} for skill in skills],
            "could_see": SEEN.read_all(seen),
            "trajectories": TRAJECTORY.read_all(opened.trajectories),
            "trajectory": reading.trajectory,
            "compactions": [{"kind": kind, **COMPACTION.read(one)} for kind, one in compactions.items()],
            "decisions": DECISION.read_all(decisions),
            "shown_in": SHOWN_IN.read_all(shown_in),
            "retrieved": retrieved,
            "ending": ending,
            "deciding": list(_deciding_twin(reading)),
            "steps": _steps_twin(reading.stored),
            "steps_total": reading.window.total,
            "previous": previous,
            "following": following,
            "next": _build_next(request, reading, view),
            "live": [step for _, step in live_steps.sent] if live_steps else None,
            "compare_with": [_counterpart_twin(trial, each) for each in others[:COUNTERPARTS_SHOWN]],
        }
        return render_page(request, TEMPLATE, data=data, as_json=True)

    strip = open_strip(trial.episode.run, trial.episode, review_access(request), trial=trial)
    siblings, previous, following = ([], None, None) if strip else find_surroundings(trial)
    known = [one for one in opened.trajectories if (one.input_tokens, one.output_tokens) != (None, None)]
    held = read_skills_held({trial.snapshot_id}).get(trial.snapshot_id, ()) if trial.snapshot_id else ()
    this = {
        "ending": ending,
        "decisions": decisions,
        "shown_in": shown_in,
        "retrieved": retrieved,
        "attempts": opened.attempts,
        "attempt": attempt,
        "trajectories": opened.trajectories,
        "shared_tokens": known if len(known) > 1 else [],  # whose tokens the attempt's are, where there are sub-agents
        "view": view,
        "reading": reading,
        "map": reading.build_map(),
        "compactions": compactions,
        "cut_switch": _count_cuts(opened),
        "excerpt": read_excerpts([compactions[view]])[0] if view in compactions else None,
        "skills": skills,
        "read": [skill for skill in skills if skill.kinds],
        "seen": [] if is_published(request) else seen,  # a site shows no library of another run
        "held": held,  # skills of the library it was given: folders with a SKILL.md
        "verdicts": verdicts,
        # Its end: that is where a verifier says what it concluded.
        "output": read_long(verdicts[0].verdict.output_id if verdicts else None, slice(-MAX_OUTPUT, None)),
        "instruction": read_instruction(trial),
        "origin": read_origins([attempt]).get(attempt.pk) if attempt else None,
        "unknown": _list_unknown(trial, attempt),
    }
    context = {
        "section": "trial",
        "this": this,
        "live": live_steps,
        "strip": strip,
        "around": {"siblings": siblings, "previous": previous, "following": following},
        "views": list(VIEW_WORDS.items()),
        "counterparts": others[:COUNTERPARTS_SHOWN],
        "passing": _choose_passing(trial, others) if reading.trajectory else None,
        "failure": _name_failure(trial),
        **_build_step_context(trial, attempt, reading, commented=not is_published(request)),
    }
    return render_page(request, TEMPLATE, context=context)


@of_trial
def steps(request: HttpRequest, trial: Trial) -> HttpResponse:
    """Render further steps for htmx: from `?first=` on, up to `?to=`, or around `?at=`.
    Redirect anybody else to the page."""
    if not read_htmx(request):
        query = request.GET.copy()
        query["at"] = query.get("at") or query.get("first") or query.get("to") or "1"
        return redirect(f"{trial.get_absolute_url()}?{query.urlencode()}")
    opened = TrialReading(trial, request.GET)
    reading = opened.steps
    context = {
        "reading": reading,
        "above": reading.window.above if "first" not in request.GET else None,
        "below": reading.window.next if "to" not in request.GET else None,
        **_build_step_context(trial, opened.attempt if reading.trajectory else None, reading),
    }
    return render(request, "trials/_more_steps.html", context)


def _build_step_context(
    trial: Trial, attempt: Attempt | None, reading: StepReading, *, commented: bool = True
) -> dict[str, object]:
    """Return what the templates of steps and of the outline need, on the page and in its pieces."""
    trajectory = reading.trajectory
    kept = read_kept_query(attempt, trajectory)
    return {
        "this_trial": trial,
        "this_query": write_query(kept),
        "this_hidden": kept,
        "steps_at": reverse("trial-steps", args=[trial.public_id]),
        "piece_at": f"{trial.get_absolute_url()}field/?trajectory={trajectory.public_id}" if trajectory else "",
        "images_at": f"{trial.get_absolute_url()}image/" if trajectory else "",
        "commented": count_step_comments(trial, trajectory) if reading.cards and commented else None,
    }


def read_kept_query(attempt: Attempt | None, trajectory: Trajectory | None) -> list[tuple[str, object]]:
    """Return what a link inside the page must say besides its step: nothing while the counting attempt's main one is
    shown."""
    kept: list[tuple[str, object]] = []
    if attempt and not attempt.counts:
        kept.append(("attempt", attempt.number))
    if trajectory and not trajectory.is_main:
        kept.append(("trajectory", trajectory.public_id))
    return kept


def write_query(kept: Sequence[tuple[str, object]]) -> str:
    return "".join(f"&{name}={value}" for name, value in kept)


# --- what the page says besides ---------------------------------------------------------------------------------


def find_surroundings(trial: Trial) -> tuple[list[Trial], Trial | None, Trial | None]:
    """Return the family's trials in this episode, the one before this trial and the one after it.

    Without a family, neighbours follow the order of recording."""
    same = Trial.objects.filter(episode=trial.episode_id).select_related("task")
    if trial.task.family_id is None:
        before, after = same.filter(pk__lt=trial.pk).order_by("-pk"), same.filter(pk__gt=trial.pk).order_by("pk")
        return [], before.first(), after.first()
    found = list(same.filter(task__family=trial.task.family_id).order_by("id")[:500])
    found.sort(key=lambda other: (_PHASES.get(other.phase, 9), other.task.ordinal, other.sample, other.pk))
    if trial not in found:
        return [], None, None
    start = max(0, min(found.index(trial) - MAX_SIBLINGS // 2, len(found) - MAX_SIBLINGS))
    return found[start : start + MAX_SIBLINGS], *find_neighbours(found, trial)


def _list_seen(trial: Trial, opened: TrialReading) -> list[SeenSkill]:
    """List the skills in git that a session could see. Only sessions have a folder that a person worked in."""
    main = next((one for one in opened.trajectories if one.is_main), None)
    if main is None or opened.attempt is None or not trial.episode.run.is_of_sessions:
        return []
    return list_seen_skills(opened.attempt, main.extra.get("cwd"), opened.uses)


def _list_unknown(trial: Trial, attempt: Attempt | None) -> list[str]:
    """List numbers that nobody recorded, in words. A part of a sum that is known counts as known; without a model
    there are no tokens to record, and a session has no verdict."""
    run = trial.episode.run
    free = (_SPENT if run.works_without_model else set()) | (_JUDGED if run.is_of_sessions else set())
    rows = [trial, *([attempt] if attempt and attempt.counts else [])]
    return [
        word
        for word, names in _NUMBERS.items()
        if word not in free and all(getattr(row, name, None) is None for row in rows for name in names)
    ]


def _count_cuts(opened: TrialReading) -> list[tuple[str, str, int]]:
    """Return (kind, reader, steps with a part left out) of compactions that left anything out."""
    counted = (
        (kind, READERS[kind], opened.compactions[kind].steps_total - len(kept.steps - kept.partial))
        for kind, kept in opened.steps.cuts.kinds.items()
        if kind in READERS
    )
    return [found for found in counted if found[2]]


def _name_failure(trial: Trial) -> dict[str, str] | None:
    """Return its class as the tables of failures name it, with its meaning and the address of the others of its
    experiment."""
    if not (key := read_class(trial)):
        return None
    title, meaning = WORDS[key]
    query = urlencode({"experiment": trial.episode.run.experiment.public_id, "class": key})
    return {"title": title, "meaning": meaning, "url": f"{reverse('compare-failures')}?{query}#trials"}


def _choose_passing(trial: Trial, others: Sequence[Counterpart]) -> Counterpart | None:
    """Return the closest passed trial of the same task for a failed one. Trials of probes are left out unless this is
    one: a library edited for a test does not show how a learning run could have passed."""
    if trial.success is not False:
        return None
    with_probes = trial.episode.run.is_probe
    passed = (each for each in others if each.trial.status == Trial.Status.PASSED)
    return next((each for each in passed if with_probes or not each.trial.episode.run.is_probe), None)


# --- the twin ---------------------------------------------------------------------------------------------------


def _counterpart_twin(trial: Trial, each: Counterpart) -> dict[str, object]:
    url = PageLink("compare-pair-json", trial.public_id, each.trial.public_id)
    return {"id": each.trial, "why": each.why, "status": each.trial.status, "url": url}


def _steps_twin(stored: Sequence[StoredStep]) -> list[dict[str, object]]:
    """Return every field with its length; a text over its share of the page is cut, as `length` shows."""
    texts = [(found, list(fields(found.step))) for found in stored]
    limit = min(JSON_CHARS, JSON_PAGE_CHARS // max(sum(len(named) for _, named in texts), 1))
    return [
        {
            **STEP.read(found.step),
            "fields": [
                {"name": name, "text": text[:limit], "length": found.long.get(name, len(text))} for name, text in named
            ],
        }
        for found, named in texts
    ]


def _deciding_twin(reading: StepReading) -> Iterator[dict[str, object]]:
    """Yield for every check the steps that most likely decided it, by rule."""
    verdict = reading.decided.verdict
    for group in verdict.groups if verdict else ():
        for check in (*group.open, *group.good):
            for one in check.decided:
                yield {"check": check.name, "step": one.step, "rule": one.rule, "about": one.about, "words": one.words}


def _seen_link(each: SeenSkill) -> PageLink:
    state = {"episode": each.episode.public_id, "from": each.version.key, "to": each.version.key}
    return PageLink("library-json", each.episode.run.public_id, **state)


def _library_link(decision: Decision) -> PageLink:
    episode = decision.episode
    return PageLink("library-json", episode.run.public_id, episode=episode.public_id, decision=decision.number)


def _build_next(request: HttpRequest, reading: StepReading, view: str) -> str | None:
    if reading.window.next is None or view != "full":
        return None
    query = request.GET.copy()
    for name in ("step", "at", "to", "next", "after"):
        query.pop(name, None)
    query["first"] = str(reading.window.next)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")


TASK = JsonShape("key title role?")
RUN = JsonShape("id=public_id condition scripted", link_to("run-json"))
ATTEMPT = JsonShape(
    "id=public_id number status counts started_at finished_at input_tokens output_tokens cost_usd estimated_usd",
    "price_table?",
    *BOUND_OF.values(),
    "queued_seconds exception_type lineage",
    ("exception_message", lambda attempt: attempt.exception_message[:JSON_CHARS]),
)
CHECK = JsonShape("group name status message")
DIMENSION = JsonShape("name score max_score weight")
VERDICT = JsonShape(
    "source primary=is_primary success reward outcome process overall rewards notes",
    ("checks", lambda verdict: CHECK.read_all(verdict.checks.all())),
)
TRAJECTORY = JsonShape(
    "id=public_id name kind source_format digest steps=steps_total copied_steps parent input_tokens output_tokens",
    ("tool_call_id", lambda one: one.extra.get("tool_call_id")),
    ("provider_delay", lambda one: one.extra.get("provider_delay") if one.provider_delay else None),
    ("events_without_step", lambda one: one.extra.get("facts", {}).get("events_without_step", {})),
    ("not_sent", lambda one: one.extra.get("not_sent", [])),
)
STEP = JsonShape(
    "number source time=timestamp model",
    ("error", lambda step: any(observation.is_error for observation in step.observations)),
    "input_tokens=usage.input_tokens output_tokens=usage.output_tokens",
)
COMPACTION = JsonShape("version tokens kept=steps_kept of=steps_total")
SEEN = JsonShape(
    "skill=episode.key *version read=has_read matched_by_name=is_guess",
    ("changed_while_it_ran", lambda each: [version.key for version in each.changes]),
    ("url", _seen_link),
)
DECISION = JsonShape("number status", ("url", _library_link))
SHOWN_IN = JsonShape("number", ("url", _library_link))
FACTS = JsonShape(
    "id=public_id status",
    ("task", lambda trial: TASK.read(trial.task)),
    "family=task.family.key phase sample experiment=episode.run.experiment",
    ("run", lambda trial: RUN.read(trial.episode.run)),
    "episode library_digest=snapshot.digest success reward outcome process overall checks_passed checks_total turns",
    "input_tokens cached_tokens output_tokens input_at_least? estimated_usd output_at_least? cost_usd",
    "duration_seconds exception_type skills_mounted skills_read finished_at",
)
