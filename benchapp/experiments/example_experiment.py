"""The example that ships ready: one finished experiment of the scripted model, and probes of a change and of a line.

It is made by our own run and stored as archives (`examples/`). `manage.py build_example` rebuilds it, and a rebuild
must give the same `read_outcome`: results and libraries, without ids and times.

The demo experiments: the starter suite under several memory conditions with a scripted model, and two of its tasks with
a small language model.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

from django.db import connection
from django.db.models import QuerySet

from benchapp.analysis.lineage.attribution import MAX_LENGTH, rank_suspects, rank_telling_changes, read_no_skill
from benchapp.analysis.lineage.hunks import HunkGone
from benchapp.analysis.lineage.library_states import LibraryState, read_history
from benchapp.analysis.lineage.line_history import read_lineage
from benchapp.experiments.launch import launch
from benchapp.experiments.preparation import EPISODE_ORDER
from benchapp.experiments.probe_runs import AskedProbe, ProbePreview, launch_probe, make_control, read_choice
from benchapp.experiments.work import advance
from benchapp.models import Decision, Episode, Experiment, Trial
from runner.base.types import Phase

DEMO: dict[str, object] = {
    "name": "Demo: six memory conditions on the starter suite (scripted)",
    "key": "demo",
    "suite": "starter",
    "conditions": [
        "no-skill",
        "raw-trajectory",
        "curated-static",
        "curated-always",
        "selfgen-zero-shot",
        "selfgen-always",
    ],
    "replicates": 1,
    "seed": 6,
    "answers": 2,  # a rejected or unreadable answer may be repeated once; both stay on the record
    "agent": "shell",
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
    "sandbox": "local",
}

# Short, because the model takes seconds for a hundred tokens, and solves nothing.
SMALL_DEMO: dict[str, object] = {
    "name": "Demo: a small language model on two tasks",
    "key": "demo-small",
    "suite": "starter-corpora",
    "protocol": "skillgenbench",
    "environments": ["boxes", "canal-days"],
    "conditions": ["no-skill", "naive-prompt"],
    "replicates": 1,
    "seed": 6,
    "agent": "shell",
    "agent_model": "small-smollm2-135m",
    "author_model": "small-smollm2-135m",
    "sandbox": "local",
    "limits": {"max_turns": 3, "max_output_tokens": 200, "timeout_seconds": 300},
}


MODEL = "scripted/journeyman"
EXAMPLE: dict[str, object] = {
    "name": "Example: four ways to remember (scripted)",
    "key": "example-1",
    "suite": "starter",
    "conditions": ["no-skill", "curated-static", "selfgen-zero-shot", "selfgen-always"],
    "replicates": 4,
    "seed": 11,
    "answers": 2,
    "agent": "shell",
    "agent_model": MODEL,
    "author_model": MODEL,
    "sandbox": "local",
    "notice": "ours",  # as the example that ships was made
}
PROBED = "selfgen-always"
ACCUSED = "selfgen-zero-shot"
PROBE_SEED, PROBE_TIMES, LINE_PROBE_TIMES = 17, 10, 5
REASON = "Do these lines help, or did the trials that read them have luck?"
PAUSE_SECONDS = 1.0  # before an episode that waits, or that another process holds, is checked again


class Unfinished(Exception):
    """The example did not run to its end, or holds no change worth a probe."""


def run_example(*, workers: int = 1) -> list[Experiment]:
    """Run the experiment and its probes, each with its control. Takes minutes."""
    experiment = launch(EXAMPLE)
    work_off(list_episodes(experiment), workers=workers)
    return [experiment, *run_probes(experiment, workers=workers)]


def run_probes(experiment: Experiment, *, workers: int = 1) -> list[Experiment]:
    """Run the probe without the lines of one change, the one without the worst line, and the control of each."""
    taken_back = [choose_probe(experiment), choose_line_probe(experiment)]
    asked = [(each, ProbePreview(each.episode, make_control(each), seed=PROBE_SEED)) for each in taken_back]
    probes = [launch_probe(each, reason=REASON).run.experiment for pair in asked for each in pair]
    for probe in probes:
        work_off(list_episodes(probe), workers=workers)
    return probes


def list_episodes(experiment: Experiment) -> QuerySet[Episode]:
    return Episode.objects.filter(run__experiment=experiment)


def work_off(episodes: QuerySet[Episode], *, workers: int = 1) -> None:
    """Finish every episode in this process, one trial of each in turn, so that conditions interleave as in a worker.
    Raise Unfinished if one cannot continue."""
    waiting = deque(str(each.public_id) for each in episodes.order_by(*EPISODE_ORDER))
    if workers == 1:
        _work_off_waiting(waiting)
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(_work_off_and_close, [waiting] * workers))
    if left := episodes.exclude(status=Episode.Status.DONE).first():
        raise Unfinished(f"{left.run.experiment.name}: {left.title} is {left.status}, not done")


def _work_off_and_close(waiting: deque[str]) -> None:
    try:
        _work_off_waiting(waiting)
    finally:
        connection.close()


def _work_off_waiting(waiting: deque[str]) -> None:
    while waiting:
        try:
            public_id = waiting.popleft()
        except IndexError:  # another thread took the last one
            return
        before = _read_place(public_id)
        if not Episode.Status(before[0]).is_open:
            continue
        advance.advance(public_id)
        if _read_place(public_id) == before:
            time.sleep(PAUSE_SECONDS)
        waiting.append(public_id)


def _read_place(public_id: str) -> tuple[str, int]:
    episode = Episode.objects.get(public_id=public_id)
    return episode.status, episode.trials.filter(is_done=True).count()


# --- which change is probed -------------------------------------------------------------------------------------


def choose_probe(experiment: Experiment) -> ProbePreview:
    """Choose the change that the library's page opens on, in the first replicate, without all of its lines, tested on
    the deployment tasks of its family.

    The choice was fixed before any outcome was known: the result ships, even a null. The change is removed from the
    last state; if its lines were overwritten, from the state right after it; if neither works, take the next in rank.
    """
    run = experiment.runs.filter(condition=PROBED).earliest("replicate")
    episode = run.episodes.filter(decisions__isnull=False).distinct().earliest("ordinal")
    history = read_history(episode)
    lineage = read_lineage(run, episode, history.states)
    baseline = read_no_skill(run, {trial.task for trial in lineage.trials})
    for change in rank_telling_changes(history, lineage, baseline):
        made = history.states[change.state]
        for state in (history.states[-1], made):
            if found := _try_without(episode, made, state):
                return found
    raise Unfinished("no change is left to be probed")


def choose_line_probe(experiment: Experiment) -> ProbePreview:
    """Choose the line whose readers did worst against no skill, in the condition whose author never revised. Remove it
    from the first library that holds it, and test that library's deployment tasks. Chosen by association, before any
    probe."""
    runs = list(experiment.runs.filter(condition=ACCUSED).order_by("replicate"))
    for found in rank_suspects(runs):
        place = found.lines[0].place
        if place.decision is None:
            continue
        asked = AskedProbe(place.state.key, place.decision.number, times=LINE_PROBE_TIMES)
        texts = {line.text for line in found.lines}
        alone = [line for hunk in read_choice(place.episode, asked).hunks for line in hunk.lines]
        hunks = tuple(line.id for line in alone if b"".join(line.added).decode().strip()[:MAX_LENGTH] in texts)
        if hunks:
            return ProbePreview(place.episode, replace(asked, revert=hunks), seed=PROBE_SEED)
    raise Unfinished("no line is left to be probed")


def _try_without(episode: Episode, made: LibraryState, state: LibraryState) -> ProbePreview | None:
    """Return None if `state` no longer holds what the change wrote."""
    decision = cast(Decision, made.decision)
    deployed = episode.trials.filter(phase=Phase.DEPLOYMENT, sample=0, task__family=decision.family)
    tasks = tuple(deployed.order_by("task__ordinal", "task__key").values_list("task__key", flat=True))
    asked = AskedProbe(state.key, decision.number, (), tasks, PROBE_TIMES)
    hunks = tuple(hunk.id for hunk in read_choice(episode, asked).hunks)
    try:
        return ProbePreview(episode, replace(asked, revert=hunks), seed=PROBE_SEED)
    except HunkGone:
        return None


# --- what a rebuild gives again ---------------------------------------------------------------------------------


def read_outcome(experiment: Experiment) -> list[tuple[object, ...]]:
    """Return each trial with its result and its library's digest: what follows from the file and the seeds."""
    trials = Trial.objects.filter(episode__run__experiment=experiment)
    columns = ("episode__run__condition", "episode__run__replicate", "episode__key", "phase", "task__key", "sample")
    return list(trials.order_by(*columns).values_list(*columns, "status", "snapshot__digest"))
