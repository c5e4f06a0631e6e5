"""`/imports/`: what was brought in, what could not be read, and what a person has to add."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import Case, Count, Exists, Min, Q, QuerySet, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from benchapp.imports.audited_edits import (
    EDITABLE,
    Author,
    EditRefused,
    RunEdit,
    TrialEdit,
    Undoing,
    edit_runs,
    edit_trials,
    join_experiments,
    rename_experiment,
    split_experiment,
    undo_import,
)
from benchapp.imports.reading.walking import list_names
from benchapp.models import Episode, Experiment, ImportBatch, ImportedExperiment, Run, Trial, Upload, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import ReviewAccess
from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.comparing.condition_names import KNOWN, name_condition
from benchapp.stats.comparing.side_suggestions import (
    CandidateExperiment,
    CandidateRun,
    list_candidates,
    suggest,
    sum_up_runs,
)
from inspector.pages.imports.upload_view import describe_upload, list_roots
from inspector.web.access import is_local, needs, user_of
from inspector.web.responses import count_unfolded, link_to, next_url, paginate, render_page
from inspector.web.subject import review_access
from runner.base.text import natural_key, parse_id, plural
from runner.base.types import Phase
from runner.protocols.conditions import unpooled_conditions

BATCHES = 20  # newest, listed on the page
PROBLEMS = 50  # per page
AT_ONCE = 5  # problems above the fold, one of each kind if there are more
LACKING = 200  # trials named that lack something
NAMED = 2  # of the paths of an import, in the list of imports
RUNS = 100  # offered for editing at once
ACCEPTED = "Accepted on the page of imports: names of its folders suggest it."  # the reason that the record keeps
MAX_REASON = 1000
INCOMPLETE = Q(steps=None) | Q(success=None)  # a trial without a trajectory or a verdict
SET = "Set on the page of imports."
JOB_TIME = re.compile(r"\d{4}-\d\d-\d\d__\d\d-\d\d-\d\d")  # what Harbor calls a job that nobody named

# Title and code of the conditions that a person may choose, in the order of every list.
CONDITIONS = [*reversed({each.title: code for code, each in reversed(KNOWN.items())}.items())]


class AssignForm(forms.Form):
    """A person says what the files of an import did not, for some of its runs, and why. Empty fields change nothing.

    Condition, replicate and author model belong to the run; family, role, phase and scorer to those of its trials
    whose task key matches the pattern `tasks` (all of them without one).
    """

    runs = forms.ModelMultipleChoiceField(
        Run.objects.none(),
        to_field_name="public_id",
        error_messages={"required": "Choose at least one run.", "invalid_pk_value": "There is no run “%(pk)s”."},
    )
    condition = forms.CharField(
        required=False,
        max_length=100,
        widget=forms.Select(choices=[("", "as it is"), *((code, title) for title, code in CONDITIONS)]),
    )
    replicate = forms.IntegerField(required=False, min_value=1, max_value=10_000)
    author_model = forms.CharField(required=False, max_length=200)
    tasks = forms.CharField(required=False, max_length=300)
    family = forms.CharField(required=False, max_length=200)
    role = forms.CharField(required=False, max_length=32)
    phase = forms.ChoiceField(required=False, choices=[("", "as it is"), *((phase, phase) for phase in Phase)])
    name = forms.CharField(max_length=200, error_messages={"required": "Say who you are: it is kept with the change."})
    scorer = forms.CharField(required=False, max_length=200, label="Scorer that decides")
    reason = forms.CharField(max_length=1000, error_messages={"required": "Say why: it is kept with the change."})

    RUN_FIELDS = ("condition", "replicate", "author_model")
    TRIAL_FIELDS = ("family", "role", "phase", "scorer")

    def __init__(self, *args: Any, user: User | None = None, **kwargs: Any) -> None:
        """`user`: the account that makes the change; without one the form asks for a name."""
        super().__init__(*args, **kwargs)
        self.user = user
        if user:
            del self.fields["name"]
        editable = Run.objects.not_deleted().filter(experiment__origin__in=EDITABLE).select_related("experiment")
        self.fields["runs"].queryset = editable  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not any(cleaned.get(name) for name in (*self.RUN_FIELDS, *self.TRIAL_FIELDS)):
            raise forms.ValidationError("Give at least one value to set.")
        return cleaned

    def apply(self) -> int:
        """Make the edits in one transaction and return how many rows changed. EditRefused changes nothing."""
        runs, reason = list(self.cleaned_data["runs"]), self.cleaned_data["reason"]
        author = Author(self.user, self.cleaned_data.get("name", ""))
        given = {name: value for name, value in self.cleaned_data.items() if value}
        run_edit = cast(RunEdit, {name: given[name] for name in self.RUN_FIELDS if name in given})
        trial_edit = cast(TrialEdit, {name: given[name] for name in self.TRIAL_FIELDS if name in given})
        trials = Trial.objects.filter(episode__run__in=runs).for_detail().select_related("task__suite")
        pattern = self.cleaned_data["tasks"] or "*"
        with transaction.atomic():
            changed = edit_runs(runs, run_edit, author=author, reason=reason) if run_edit else 0
            if trial_edit:
                matching = [trial for trial in trials if fnmatchcase(trial.task.key, pattern)]
                changed += edit_trials(matching, trial_edit, author=author, reason=reason)
        return changed


def imports(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    return _render(request, AssignForm(user=_find_account(request)), as_json=as_json)


@needs(User.Level.OPERATOR)
def assign(request: HttpRequest) -> HttpResponse:
    """Set what the files did not say. Each change is recorded with its author and reason."""
    form = AssignForm(request.POST, user=_find_account(request))
    if form.is_valid():
        try:
            changed = form.apply()
        except EditRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, f"{plural(changed, 'row')} changed.")
            batch = parse_id(request.POST.get("batch", ""))
            return redirect(f"{reverse('imports')}{f'?batch={batch}' if batch else ''}")
    return _render(request, form, as_json=False, status=422)


@needs(User.Level.OPERATOR)
def accept(request: HttpRequest) -> HttpResponse:
    """Give runs of a batch that are listed under the form's `condition` the condition `as`;
    without one that which names of their folders suggest."""
    batch = get_object_or_404(ImportBatch, public_id=parse_id(request.POST.get("batch", "")))
    wanted, given = set(request.POST.getlist("condition")), request.POST.get("as", "")
    author, changed = Author(user_of(request)), 0
    try:
        for condition, runs in group_by_condition(list_arrivals(batch)).items():
            if condition in wanted:
                found = Run.objects.filter(public_id__in=[run.run for run in runs], condition=Run.UNKNOWN)
                edit, reason = RunEdit(condition=given or condition), SET if given else ACCEPTED
                changed += edit_runs(found.select_related("experiment"), edit, author=author, reason=reason)
    except EditRefused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, f"{plural(changed, 'run')} changed.")
    return redirect(f"{reverse('imports')}?batch={batch.public_id}")


@needs(User.Level.OPERATOR)
def arrange(request: HttpRequest) -> HttpResponse:
    """Join the experiments of a batch into one, rename it, or split it again: the form's `act`."""
    batch = get_object_or_404(ImportBatch, public_id=parse_id(request.POST.get("batch", "")))
    experiments = list(Experiment.objects.not_deleted().brought_by(batch))
    author, name = Author(user_of(request)), request.POST.get("name", "")
    try:
        match request.POST.get("act"):
            case "join":
                join_experiments(experiments, name=name, author=author, reason="")
            case "rename" if len(experiments) == 1:
                rename_experiment(experiments[0], name=name, author=author, reason="")
            case "split" if len(experiments) == 1:
                split_experiment(experiments[0], author=author, reason="")
            case _:
                raise EditRefused("expected join, rename or split")
    except EditRefused as refusal:
        messages.error(request, str(refusal))
    return redirect(f"{reverse('imports')}?batch={batch.public_id}")


@needs(User.Level.OPERATOR)
def undo(request: HttpRequest) -> HttpResponse:
    """Delete the experiments that an import made."""
    batch = get_object_or_404(ImportBatch, public_id=parse_id(request.POST.get("batch", "")))
    try:
        undone = undo_import(batch, user=user_of(request), reason=request.POST.get("reason", "")[:MAX_REASON])
    except EditRefused as refusal:
        messages.error(request, str(refusal))
    else:
        kept = f", {len(undone.kept)} kept that existed before" if undone.kept else ""
        messages.success(request, f"{plural(len(undone.deleted), 'experiment')} deleted{kept}.")
    return redirect(f"{reverse('imports')}?batch={batch.public_id}")


def list_arrivals(batch: ImportBatch) -> list[CandidateExperiment]:
    return list_candidates(of=Experiment.objects.not_deleted().brought_by(batch))


def group_by_condition(arrivals: Sequence[CandidateExperiment]) -> dict[str, list[CandidateRun]]:
    """Return condition, recorded or suggested, in the order of every list -> its runs."""
    found: dict[str, list[CandidateRun]] = {}
    for experiment in arrivals:
        for row in experiment.rows:
            for run in row.runs:
                found.setdefault(run.condition, []).append(run)
    return dict(sorted(found.items(), key=lambda each: name_condition(each[0]).order))


def find_contradiction(condition: str, runs: Sequence[CandidateRun]) -> str:
    """Say where the trials contradict the condition that names of folders suggest; empty where they do not."""
    counts, name = (
        sum_up_runs([run for run in runs if run.suggested == condition != run.recorded]),
        name_condition(condition),
    )
    if condition == NO_SKILL and counts.opened:
        return f"Folder names say {name.title}, but {counts.opened} of {plural(counts.known, 'trial')} opened a skill."
    if condition != NO_SKILL and counts.known and not counts.opened:
        return f"Folder names say {name.title}, but none of {plural(counts.known, 'trial')} opened a skill."
    return ""


def write_heading(
    batch: ImportBatch, runs: Sequence[CandidateRun], problems: int, lacking: Sequence[str], doubt: str
) -> tuple[list[str], list[str]]:
    """Say what came in, in sentences, and what it lacks or could not be read; of an undone import who undid it and why.
    A `doubt` about names of folders is the heading alone."""
    if batch.undone_at:
        return [f"Undone{f' by {batch.undone_by}' if batch.undone_by else ''}: {batch.undo_reason}"], []
    trials, sentences, faults = batch.counts.get("trials", 0), ["Nothing came in."], []
    if batch.status == ImportBatch.Status.RUNNING:
        sentences = [f"Still reading. {plural(trials, 'trial') if trials else 'No trial'} came in so far."]
    elif trials:
        sentences = [f"{plural(trials, 'trial')} came in."]
    if runs:
        known = sum(run.recorded != Run.UNKNOWN for run in runs)
        suggested = sum(run.recorded != run.condition for run in runs)
        of_runs = f"of {plural(len(runs), 'run')}"
        if known == len(runs):
            sentences += ["Every run has a condition."]
        elif known or not suggested:
            more = f", folder names suggest {suggested} more" if suggested else ""
            sentences += [f"{known} {of_runs} {'has' if len(runs) == 1 else 'have'} a condition{more}."]
        else:
            sentences += [f"Folder names suggest a condition for {suggested} {of_runs}."]
    if problems:
        faults += [f"{plural(problems, 'problem')}."]
    if lacking:
        faults += [f"{', '.join(lacking)}."]
    elif trials and not doubt and batch.status == ImportBatch.Status.DONE:
        faults += ["No problems."]
    return ([doubt], [*sentences, *faults]) if doubt else (sentences, faults)


def name_folder(run: CandidateRun) -> str:
    """Return the name that a run came with, after its folder where the name only says when the job ran."""
    folder = Path(run.source).name
    return f"{folder}/{run.came_in}" if JOB_TIME.fullmatch(run.came_in) and folder else run.came_in


def show_evidence(run: CandidateRun, name: str) -> tuple[str, str, str, str] | None:
    """Return what comes before the part of a folder's name that suggests the condition, that part, what follows, and
    the folder if it is another than `name`. None: nothing is suggested."""
    matched, _, hint = run.suggested_by.partition(" in ")
    words = [re.escape(word) for word in re.split("[-_/]", matched) if word]
    if run.recorded != Run.UNKNOWN or not words:
        return None
    pattern = re.compile("[-_]?".join(words), re.IGNORECASE)
    other = next((part for part in hint.split("/") if pattern.search(part)), "")
    for text, folder in ((name, ""), (other, other)):
        if found := pattern.search(text):
            return text[: found.start()], found.group(), text[found.end() :], folder
    return None


def _list_lacking(
    experiments: QuerySet[Experiment], access: ReviewAccess
) -> tuple[dict[UUID, list[tuple[str, list[tuple[UUID, str]]]]], list[str]]:
    """Return run -> what is missing and the trials that lack it; and the same in numbers, in words, for all runs."""
    trials = Trial.objects.filter(episode__run__experiment__in=experiments)
    # Logs of sessions never have a verdict: where no trial has one, nothing is missing.
    lacking = trials.filter(INCOMPLETE, Exists(trials.filter(success__isnull=False)))
    lacking = lacking.exclude(pk__in=access.closed_trials()).order_by("pk")
    columns = ("episode__run__public_id", "public_id", "task__title", "steps", "success")
    found: dict[UUID, dict[str, list[tuple[UUID, str]]]] = {}
    for run, trial, title, steps, success in lacking.values_list(*columns)[:LACKING]:
        missing = [*(["no trajectory"] if steps is None else []), *(["no verdict"] if success is None else [])]
        found.setdefault(run, {}).setdefault(" and ".join(missing), []).append((trial, title))
    counts = lacking.aggregate(
        trajectory=Count("pk", filter=Q(steps=None)), verdict=Count("pk", filter=Q(success=None))
    )
    named = [f"{plural(number, 'trial')} without a {what}" for what, number in counts.items() if number]
    return {run: list(groups.items()) for run, groups in found.items()}, named


def _build_arrivals(batch: ImportBatch, problems: int, access: ReviewAccess) -> dict[str, object]:
    """Return what came in, by condition, and the comparison it suggests."""
    arrivals = list_arrivals(batch)
    groups = group_by_condition(arrivals)
    suggested = [code for code, runs in groups.items() if any(run.suggested == code != run.recorded for run in runs)]
    doubts = {code: doubt for code in suggested if (doubt := find_contradiction(code, groups[code]))}
    runs = [run for each in groups.values() for run in each]
    kept = Experiment.objects.not_deleted().brought_by(batch)
    joined = kept.filter(runs__joined_from__isnull=False).distinct().first()
    brought = Run.objects.filter(experiment__in=kept, condition__in=unpooled_conditions())
    paths = [Path(str(path)) for path in batch.paths]
    shared = {path.parent for path in paths} if len(paths) > 1 else set()
    lacking, lacking_named = _list_lacking(kept, access)
    sentences, faults = write_heading(batch, runs, problems, lacking_named, doubts.get(NO_SKILL, ""))

    names = {run.run: name_folder(run) for run in runs}
    if len(runs) > 1 and len(set(names.values())) == 1:  # all runs have the name of the release
        held = Episode.objects.filter(run__public_id__in=names, library__isnull=False).order_by()
        libraries = dict(held.values_list("run__public_id").annotate(Count("pk")))
        for run in runs:
            number = libraries.get(run.run, 0)
            names[run.run] = plural(number, "library", "libraries") if number else plural(run.counts.trials, "trial")

    def show(run: CandidateRun) -> tuple[object, ...]:
        name = names[run.run]
        return run, name, lacking.get(run.run, ()), show_evidence(run, name)

    return {
        "heading": " ".join(sentences),
        "faults": " ".join(faults),
        "lacking": lacking,
        "arrived": [
            (
                code,
                code in suggested,
                sum_up_runs(found),
                [show(run) for run in sorted(found, key=lambda run: (run.run not in lacking, natural_key(run.source)))],
                count_unfolded(len(found)),
                len({run.came_in for run in found}) == 1 and all(run.replicate is not None for run in found),
                doubts.get(code, ""),
            )
            for code, found in groups.items()
        ],
        "probes": brought.aggregate(runs=Count("pk", distinct=True), trials=Count("episodes__trials")),
        "suggested": [code for code in suggested if code not in doubts],
        "suggestion": next(iter(suggest(arrivals)), None),
        "arrived_experiments": arrivals,
        "joined": joined,
        "common_name": (paths[0].parent if len(shared) == 1 else paths[0]).name if paths else "",
        "base": f"{paths[0]}/" if len(paths) == 1 else "",
        "source": f"{shared.pop()}: {list_names([path.name for path in paths[:2]], len(paths))}"
        if len(shared) == 1
        else list_names([str(path) for path in paths]),
    }


def _find_account(request: HttpRequest) -> User | None:
    """Return the account that is logged in; None for the local user, whose name says nothing about who sits there."""
    user = user_of(request)
    return None if is_local(user) else user


def _render(request: HttpRequest, form: AssignForm, *, as_json: bool, status: int = 200) -> HttpResponse:
    batches = list(_select_batches()[:BATCHES])
    chosen = _choose_batch(request, batches)
    problems = paginate(request, chosen.problems.all() if chosen else [], per_page=PROBLEMS)
    arrivals = (
        _build_arrivals(chosen, problems.paginator.count, review_access(request))
        if chosen
        else {"heading": "Import finished runs"}
    )
    runs = list(_select_editable(chosen)[: RUNS + 1])
    listed = list(problems)
    first = {each.expected: each for each in reversed(listed)}  # of its kind, which a copy of a folder repeats
    leading = listed if len(listed) <= AT_ONCE else [each for each in listed if first[each.expected] is each][:AT_ONCE]
    data = {
        "batches": BATCH.read_all(batches),
        "batch": chosen,
        "problems": PROBLEM.read_all(problems),
        "next": next_url(request, problems),
        "runs": RUN.read_all(runs[:RUNS]),
    }
    context = {
        "batch_rows": _name_batches(batches, review_access(request)),
        "chosen": chosen,
        "page": problems,
        "leading": leading,
        "folded": [each for each in listed if each not in leading],
        "form": form,
        "editable": {run.public_id for run in runs[:RUNS]},
        "conditions": CONDITIONS,
        "of_trials": ("tasks", *AssignForm.TRIAL_FIELDS),
        "more_runs": len(runs) > RUNS,
        "picked": {found for text in request.POST.getlist("runs") if (found := parse_id(text))},  # in a refused form
        **arrivals,
    }
    if user_of(request).may(User.Level.OPERATOR):
        waiting = Upload.objects.unfinished().filter(by=user_of(request)).select_related("batch")
        uploads = [(upload, describe_upload(request, upload)) for upload in waiting]
        context["uploads"] = uploads
        if "batch" not in request.GET:  # a page of one import stays with it
            under_way = (row for _, row in uploads if row["state"] in ("waiting", "importing"))
            context["reading"] = next(under_way, None)
        context["reads_paths"] = bool(list_roots(request))
        context["undoing"] = Undoing.of(chosen) if chosen else None
    return render_page(request, "imports/imports.html", data=data, context=context, as_json=as_json, status=status)


def _name_batches(
    batches: list[ImportBatch], access: ReviewAccess
) -> list[tuple[ImportBatch, str, str, list[Experiment], int]]:
    """Return each batch with what it holds, "" where it has no trial; its source in short; its remaining experiments
    or the ones they were joined into; and the number of their incomplete trials, as its own page counts them."""
    titles = dict(Upload.objects.filter(batch__in=batches, server_path="").values_list("batch", "title"))
    arrivals = list(
        ImportedExperiment.objects.filter(batch__in=batches).values_list("batch", "experiment").order_by("pk")
    )
    of_joined = Run.objects.filter(joined_from__in=[experiment for _, experiment in arrivals])
    wholes = dict(of_joined.values_list("joined_from", "experiment").distinct())
    places = [(batch, wholes.get(experiment, experiment)) for batch, experiment in arrivals]
    kept = Experiment.objects.not_deleted().in_bulk({experiment for _, experiment in places})
    found: dict[int, dict[int, Experiment]] = {}
    for batch, experiment in places:
        if experiment in kept:
            found.setdefault(batch, {})[experiment] = kept[experiment]
    incomplete = INCOMPLETE & ~Q(pk__in=access.closed_trials())
    by_experiment = Trial.objects.filter(episode__run__experiment__in=kept).order_by()
    counts = {
        experiment: (lacking, scored)
        for experiment, lacking, scored in by_experiment.values_list("episode__run__experiment").annotate(
            lacking=Count("pk", filter=incomplete), scored=Count("success")
        )
    }

    def count_incomplete(experiments: Collection[int]) -> int:
        known = [counts[each] for each in experiments if each in counts]
        return sum(lacking for lacking, _ in known) if any(scored for _, scored in known) else 0

    contents = _describe_contents(batches)
    return [
        (
            batch,
            contents.get(batch.pk, ""),
            titles.get(batch.pk)
            or list_names([Path(str(path)).name or str(path) for path in batch.paths[:NAMED]], len(batch.paths)),
            list(found.get(batch.pk, {}).values()),
            count_incomplete(found.get(batch.pk, {})),
        )
        for batch in batches
    ]


def _describe_contents(batches: list[ImportBatch]) -> dict[int, str]:
    """Return key of a batch -> "Harbor: 11 tasks, 9 models":
    of the trials in the experiments that it read and that remain."""
    of_batch, model = "episode__run__experiment__arrivals__batch", "episode__run__agent_model"
    trials = Trial.objects.filter(**{f"{of_batch}__in": batches}, episode__run__experiment__deleted_at=None).order_by()
    is_known = ~Q(**{model: Run.UNKNOWN})
    rows = trials.values_list(of_batch).annotate(
        suites=Count("task__suite", distinct=True),
        suite=Min("task__suite__name"),
        tasks=Count("task", distinct=True),
        task=Min("task__title"),
        models=Count(model, filter=is_known, distinct=True),
        model=Min(model, filter=is_known),
    )
    found = {}
    for batch, suites, suite, tasks, task, models, model_name in rows:
        place = suite.removesuffix(" (imported)") if suites == 1 else plural(suites, "suite")
        parts = [task if tasks == 1 else plural(tasks, "task")]
        if models:
            parts.append(model_name if models == 1 else plural(models, "model"))
        found[batch] = f"{place}: {', '.join(parts)}"
    return found


def _select_batches() -> QuerySet[ImportBatch]:
    """Select batches, newest first: grouping drops the order of the model."""
    return ImportBatch.objects.annotate(problems_total=Count("problems")).order_by("-started_at", "-id")


def _choose_batch(request: HttpRequest, batches: list[ImportBatch]) -> ImportBatch | None:
    """Return the batch that `?batch=` names; without one the newest that has problems, else the newest."""
    wanted = (request.POST or request.GET).get("batch", "")
    named = next((batch for batch in batches if str(batch.public_id) == wanted), None)
    if named is None and (public_id := parse_id(wanted)):
        named = _select_batches().filter(public_id=public_id).first()
    with_problems = next((batch for batch in batches if batch.problems_total), None)  # type: ignore[attr-defined]
    return named or with_problems or (batches[0] if batches else None)


def _select_editable(batch: ImportBatch | None) -> QuerySet[Run]:
    """Select the runs of an import that a person may edit, those without a condition first."""
    brought = Experiment.objects.not_deleted().brought_by(batch) if batch else Experiment.objects.none()
    runs = Run.objects.filter(experiment__in=brought, experiment__origin__in=EDITABLE).select_related("experiment")
    return runs.annotate(trials_total=Count("episodes__trials")).order_by(
        Case(When(Q(condition=Run.UNKNOWN), then=0), default=1),
        "-experiment__created_at",
        "experiment_id",
        "condition",
        Run.BY_REPLICATE,
        "id",
    )


BATCH = JsonShape("id=public_id paths format status counts problems=problems_total started_at finished_at")
PROBLEM = JsonShape("path place expected message")
RUN = JsonShape(
    "id=public_id experiment=experiment.name condition replicate agent_model author_model trials=trials_total",
    link_to("run-json"),
)
