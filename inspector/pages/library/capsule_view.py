"""Evidence capsules, to download: one static HTML file with the diff, the steps, the checks and the digests behind
one claim about a decision or a trial.

It needs no script and asks the network for nothing. Equal records give equal bytes (there is no time in it), so its own
SHA-256, which its file name carries, can be given with the claim. Secrets are taken out once more on the way out.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from benchapp.analysis.deciding.deciding_steps import read_step_index
from benchapp.models import Decision, Episode, ModelCall, Run, Seal, SkillUse, Snapshot, Trial
from benchapp.record.redaction import Redactor
from benchapp.record.trajectory_store import read_steps
from benchapp.record.visible import visible
from inspector.pages.compare.report import static_text
from inspector.pages.library.changes import FileChange, Version, draw_changes, read_contents
from inspector.pages.library.library_view import TimeMachine
from inspector.pages.library.rail import ShownTrial
from inspector.reader.outline import read_chunk_summaries
from inspector.reader.reading import TrialReading, choose_attempt, choose_trajectory, read_instruction
from inspector.reader.steps import PAGE_STEPS, StepView, draw_steps, list_uses_by_step
from inspector.reader.verdict import DecidedVerdict, read_verdicts, write_ending
from inspector.web.responses import attach
from inspector.web.subject import of_run, refuse_closed
from runner.base.text import plural

MAX_CLAIM = 500  # characters
MAX_STEPS = 400  # of one trial: where it has more, its beginning and its end
MAX_FILES = 30
MAX_FINDINGS = 20
MAX_DECISIONS = 8  # that followed one trial
DECISION_WITH = ("family", "before", "after", "call", "after_trial__task__family", "after_trial__episode__run")
Digest = tuple[str, str, str]  # what it is of, the digest, what it covers


class Account:
    """A trial in a capsule, by its counting attempt, else by the latest one. `first`, `last`: its steps in their order;
    `gap`: how many are left out between them. `deciding`: (step, what it did) of the steps that led to its failed
    checks, by rule."""

    def __init__(self, trial: Trial, redactor: Redactor) -> None:
        self.trial, self.attempt = trial, choose_attempt(list(trial.attempts.order_by("number")), "")
        attempt, self.uses = self.attempt, list[SkillUse]()
        self.verdicts = read_verdicts(attempt, clean=lambda text: visible(redactor.text(text)))
        self.trajectory = choose_trajectory(list(attempt.trajectories.current()) if attempt else [], "")
        if attempt:
            self.uses = list(attempt.skill_uses.order_by("step", "id")[:200])
        total = self.trajectory.steps_total if self.trajectory else 0
        half = MAX_STEPS if total <= MAX_STEPS else MAX_STEPS // 2
        self.first = self._draw(1, half, redactor)
        self.gap = max(0, total - MAX_STEPS)
        self.last = self._draw(total - half + 1, half, redactor) if self.gap else []
        self.deciding: list[tuple[int, str]] = []
        if self.trajectory and self.verdicts:  # as the trial's page finds them
            index = read_step_index(self.trajectory, len(read_chunk_summaries(self.trajectory)))
            trail = DecidedVerdict(self.verdicts[0], index).trail
            self.deciding = [(one.step, visible(redactor.text(one.words))) for one in trail]

    def _draw(self, first: int, count: int, redactor: Redactor) -> list[StepView]:
        drawn: list[StepView] = []
        if self.trajectory is None:
            return drawn
        skills = list_uses_by_step(self.uses, self.trajectory)
        for start in range(first, first + count, PAGE_STEPS):
            stored = read_steps(self.trajectory, start, min(PAGE_STEPS, first + count - start))
            cleaned = [replace(found, step=redactor.step(found.step)) for found in stored]
            drawn += draw_steps(cleaned, skills=skills)
        return drawn


class CapsuleChange:
    """A decision and what it did to the library; what it asked for where it was refused. Its texts without secrets."""

    def __init__(self, run: Run, episode: Episode, decision: Decision, redactor: Redactor) -> None:
        self.decision = decision
        self.machine = TimeMachine(run, episode, {"decision": str(decision.number), "view": "source"})
        self.summary, self.error = redactor.text(decision.summary), redactor.text(decision.error)
        self.findings = [redactor.value(found) for found in decision.findings[:MAX_FINDINGS]]
        changed = [_redact_change(change, redactor) for change in self.machine.changed[:MAX_FILES]]
        self.files = draw_changes(changed, whole=True)
        self.files_left_out = max(0, len(self.machine.changed) - MAX_FILES)
        self.evidence = [_redact_evidence(shown, redactor) for shown in self.machine.evidence]


@of_run
def library_capsule(request: HttpRequest, run: Run) -> HttpResponse:
    """Show a decision on one printable page. `?episode=&decision=` name it, `claim=` is printed at the top.
    404 if there is no such decision."""
    try:
        episode_id, number = UUID(request.GET.get("episode", "")), int(request.GET.get("decision", ""))
    except ValueError as error:
        raise Http404("a capsule is of one decision: ?episode=ID&decision=NUMBER") from error
    episode = get_object_or_404(run.episodes.select_related("library", "family"), public_id=episode_id)
    if not 0 < number < 2**31:
        raise Http404("no such decision")
    decision = get_object_or_404(episode.decisions.select_related(*DECISION_WITH), number=number)
    redactor = Redactor()
    change = CapsuleChange(run, episode, decision, redactor)
    account = Account(decision.after_trial, redactor) if decision.after_trial else None
    context: dict[str, object] = {"of": "decision", "title": visible(f"Decision {decision.number} in {episode.title}")}
    return _download(request, run, episode, redactor, [change], account, context)


def trial_capsule(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Send the trial with its steps and checks, then the decisions that followed from it."""
    trial = get_object_or_404(Trial.objects.for_detail(), public_id=public_id)
    if closed := refuse_closed(request, trial=trial) or refuse_closed(request, run=trial.episode.run):
        return closed
    redactor = Redactor()
    run, episode = trial.episode.run, trial.episode
    account = Account(trial, redactor)
    opened = TrialReading(trial, {}, with_steps=False)  # for its ending; steps are drawn by the account
    instruction = read_instruction(trial)
    decisions = list(trial.decisions.select_related(*DECISION_WITH).order_by("number"))
    changes = [CapsuleChange(run, episode, decision, redactor) for decision in decisions[:MAX_DECISIONS]]
    context: dict[str, object] = {
        "of": "trial",
        "title": visible(f"{trial.task.title} ({trial.phase})"),
        "headline": visible(redactor.text(write_ending(trial, opened.attempt, opened.steps.decided.verdict))),
        "instruction": instruction and replace(instruction, text=redactor.text(instruction.text)),
        "decisions_left_out": max(0, len(decisions) - MAX_DECISIONS),
    }
    return _download(request, run, episode, redactor, changes, account, context)


def _download(
    request: HttpRequest,
    run: Run,
    episode: Episode,
    redactor: Redactor,
    changes: Sequence[CapsuleChange],
    account: Account | None,
    context: dict[str, object],
) -> HttpResponse:
    style = static_text("css/report.css") + static_text("css/capsule.css")
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    digests: dict[str, Digest] = {}  # each once, under its first name
    for found in _list_digests(run, episode, changes, account):
        if found[1]:
            digests.setdefault(found[1], found)
    context |= {
        "claim": visible(redactor.text(request.GET.get("claim", "").strip()[:MAX_CLAIM])),
        "run": run,
        "experiment": run.experiment,
        "episode": episode,
        "changes": changes,
        "account": account,
        "digests": digests.values(),
        "taken_out": redactor.counts.total(),
        "version": settings.VERSION,
        "policy": f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'",
        "style": mark_safe(style),  # noqa: S308
    }
    text = render_to_string("library/capsule.html", context)
    sha256 = hashlib.sha256(text.encode())
    name = f"skillglass-capsule-{sha256.hexdigest()[:16]}.html"
    digest = base64.b64encode(sha256.digest()).decode()
    return HttpResponse(text, headers={**attach(name), "Repr-Digest": f"sha-256=:{digest}:"})


# --- a decision without secrets ---------------------------------------------------------------------------------


def _redact_change(change: FileChange, redactor: Redactor) -> FileChange:
    contents = read_contents([change.old, change.new])

    def redact_version(version: Version | None) -> Version | None:
        if version is None:
            return None
        content = contents[version.digest]
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return replace(version, content=content)  # not shown: the diff says that it is binary
        return replace(version, content=redactor.text(text).encode())

    return replace(change, old=redact_version(change.old), new=redact_version(change.new))


def _redact_evidence(shown: ShownTrial, redactor: Redactor) -> ShownTrial:
    if shown.excerpt is None:
        return shown
    segments = tuple(
        replace(segment, pieces=tuple((redactor.text(text), is_cut) for text, is_cut in segment.pieces))
        for segment in shown.excerpt.segments
    )
    return ShownTrial(shown.trial, replace(shown.excerpt, segments=segments))


# --- digests ----------------------------------------------------------------------------------------------------


def _list_digests(
    run: Run, episode: Episode, changes: Sequence[CapsuleChange], account: Account | None
) -> Iterator[Digest]:
    """Yield what a reader with the record can compare this file with."""
    yield ("setup", run.setup_digest, "the run's setup at launch, as canonical JSON")
    for change in changes:
        yield from _list_change_digests(change)
    if account is not None:
        yield from _list_account_digests(account)
    seal = Seal.objects.filter(entry__episode=episode).first()
    if seal is not None:
        yield ("seal", seal.seal, "setup and frozen library of this episode")
        yield ("frozen library", seal.library_digest, "every file of the library at the freeze")


def _list_change_digests(change: CapsuleChange) -> Iterator[Digest]:
    decision = change.decision
    name = f"decision {decision.number}"
    before, after = decision.before, decision.after
    yield (f"library before {name}", before.digest, _count_files(before))
    yield (f"library after {name}", after.digest, _count_files(after))
    yield (f"patch of {name}", decision.patch_id or "", "the author's patch as parsed, JSON")
    call: ModelCall | None = decision.call
    if call is not None:
        yield (f"prompt of {name}", call.request_id, "what the author was asked, JSON")
        yield (f"reply of {name}", call.reply_id or "", "what the author answered, JSON")
    for place, shown in enumerate(change.evidence, start=1):
        if shown.excerpt is not None:
            found = shown.excerpt.compaction
            what = f"the {found.kind} compaction ({found.version}) as the author read it"
            yield (f"evidence {place} of {name}", found.text_id, what)
    for file in change.files:
        if file.change.new is not None and not change.machine.is_proposal:
            yield (visible(file.change.path)[:120], file.change.new.digest, f"this file after {name}")


def _count_files(snapshot: Snapshot) -> str:
    return f"{plural(snapshot.files_total, 'file')}: path, content, mode"


def _list_account_digests(account: Account) -> Iterator[Digest]:
    trial = account.trial
    if trial.task_revision is not None:
        yield ("task revision", trial.task_revision.digest, visible(trial.task.key)[:120])
    if trial.snapshot is not None:
        yield ("library given to the trial", trial.snapshot.digest, _count_files(trial.snapshot))
    if account.trajectory is not None:
        total = account.trajectory.steps_total
        yield ("trajectory", account.trajectory.digest, f"all {total} steps, by the digests of their chunks")
    for view in account.verdicts:
        yield ("verifier", view.verdict.verifier_digest, f"the verifier of {visible(view.verdict.source)[:60]}")
        yield ("verifier's output", view.verdict.output_id or "", "as it was printed, secrets taken out")
    if account.attempt is not None:
        yield (
            "source",
            account.attempt.source_digest,
            "everything that was read from the imported folder, and the version of the readers",
        )
