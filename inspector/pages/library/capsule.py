"""The evidence capsule: one static HTML file with the diff, the steps, the checks and the digests behind one claim.

It needs no script and asks the network for nothing. Equal records give equal bytes (there is no time in it), so its own
SHA-256, which its file name carries, can be told with the claim. Secrets are taken out once more on the way out.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from benchapp.analysis.deciding.reading_steps import read_step_index
from benchapp.models import Attempt, Decision, Episode, ModelCall, Run, Seal, SkillUse, Snapshot, Trajectory, Trial
from benchapp.record.redaction import Redactor
from benchapp.record.trajectory_store import read_steps
from inspector.pages.compare.report import static_text
from inspector.pages.library.changes import FileChange, ShownFile, Version, draw_changes, read_contents
from inspector.pages.library.library import TimeMachine, open_time_machine
from inspector.pages.library.rail import ShownTrial
from inspector.pages.trials.decided_checks import decide_checks
from inspector.pages.trials.outline import read_chunk_summaries
from inspector.pages.trials.trial import LongText, choose_attempt, choose_trajectory, inspect_trial
from inspector.pages.trials.verdict import VerdictView, read_verdicts
from inspector.web.text.drawn_steps import PAGE_STEPS, StepView, draw_steps, list_uses_by_step
from inspector.web.text.excerpt import EvidenceExcerpt
from inspector.web.text.visible import visible

MAX_CLAIM = 500  # characters
MAX_STEPS = 400  # of one trial: where it has more, its beginning and its end
MAX_FILES = 30
MAX_FINDINGS = 20
MAX_DECISIONS = 8  # that followed one trial


@dataclass(frozen=True, slots=True)
class Capsule:
    """`name`: with the beginning of the SHA-256 of the text, as UTF-8."""

    text: str
    sha256: str

    @property
    def name(self) -> str:
        return f"skillglass-capsule-{self.sha256[:16]}.html"


@dataclass(frozen=True, slots=True)
class Digest:
    """What can be checked: a name, the digest, and what it is the digest of."""

    what: str
    digest: str
    of: str


@dataclass(frozen=True, slots=True)
class Account:
    """A trial as a capsule tells it. `first`, `last`: its steps in their order; `gap`: how many are left out between them.
    `deciding`: (step, what it did) of the steps that led to its failed checks, by rule."""

    trial: Trial
    attempt: Attempt | None
    verdicts: tuple[VerdictView, ...]
    trajectory: Trajectory | None
    first: tuple[StepView, ...]
    gap: int
    last: tuple[StepView, ...]
    uses: tuple[SkillUse, ...]
    deciding: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class CapsuleChange:
    """A decision and what it did to the library; what it asked for where it was refused. Its texts without secrets."""

    machine: TimeMachine
    decision: Decision
    summary: str
    error: str
    findings: tuple[object, ...]
    files: tuple[ShownFile, ...]
    files_left_out: int
    evidence: tuple[ShownTrial, ...]


def build_decision_capsule(run: Run, episode: Episode, decision: Decision, claim: str) -> Capsule:
    """`run` as `Run.objects.for_detail` gives it."""
    redactor = Redactor()
    change = _read_change(run, episode, decision, redactor)
    account = _read_account(decision.after_trial, redactor) if decision.after_trial else None
    title = f"Decision {decision.number} in {episode.title}"
    return _seal(run, episode, title, claim, redactor, changes=[change], account=account, of="decision")


def build_trial_capsule(trial: Trial, claim: str) -> Capsule:
    """`trial` as `Trial.objects.for_detail` gives it: its steps and checks, then the decisions that followed from it."""
    redactor = Redactor()
    episode, run = trial.episode, trial.episode.run
    account = _read_account(trial, redactor)
    inspection = inspect_trial(trial, {"view": "rough"})  # its ending and instruction; steps are drawn by the account
    decisions = list(trial.decisions.select_related(*DECISION_WITH).order_by("number"))
    changes = [_read_change(run, episode, decision, redactor) for decision in decisions[:MAX_DECISIONS]]
    return _seal(
        run,
        episode,
        f"{trial.task.title} ({trial.phase})",
        claim,
        redactor,
        changes=changes,
        account=account,
        of="trial",
        headline=inspection.ending,
        instruction=inspection.instruction,
        decisions_left_out=max(0, len(decisions) - MAX_DECISIONS),
    )


DECISION_WITH = ("family", "before", "after", "call", "after_trial__task__family", "after_trial__episode__run")


def _seal(
    run: Run,
    episode: Episode,
    title: str,
    claim: str,
    redactor: Redactor,
    *,
    changes: list[CapsuleChange],
    account: Account | None,
    of: str,
    headline: str = "",
    instruction: LongText | None = None,
    decisions_left_out: int = 0,
) -> Capsule:
    style = static_text("css/report.css") + static_text("css/capsule.css")
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    digests: dict[str, Digest] = {}  # each once, under its first name
    for found in _list_digests(run, episode, changes, account):
        if found.digest:
            digests.setdefault(found.digest, found)
    context = {
        "title": visible(title),
        "headline": visible(redactor.text(headline)),
        "claim": visible(redactor.text(claim.strip()[:MAX_CLAIM])),
        "of": of,
        "run": run,
        "experiment": run.experiment,
        "episode": episode,
        "changes": changes,
        "decisions_left_out": decisions_left_out,
        "account": account,
        "instruction": instruction and replace(instruction, text=redactor.text(instruction.text)),
        "digests": list(digests.values()),
        "taken_out": redactor.counts.total(),
        "version": settings.VERSION,
        "policy": f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'",
        "style": mark_safe(style),  # noqa: S308
    }
    text = render_to_string("library/capsule.html", context)
    return Capsule(text, hashlib.sha256(text.encode()).hexdigest())


# --- a trial ----------------------------------------------------------------------------------------------------


def _read_account(trial: Trial, redactor: Redactor) -> Account:
    """Of the counting attempt, else of the latest one."""
    attempts = list(trial.attempts.order_by("number"))
    attempt = choose_attempt(attempts, "")
    verdicts = read_verdicts(attempt, clean=lambda text: visible(redactor.text(text)))
    trajectory = choose_trajectory(list(attempt.trajectories.filter(is_superseded=False)) if attempt else [], "")
    uses = list(attempt.skill_uses.order_by("step", "id")[:200]) if attempt else []
    total = trajectory.steps_total if trajectory else 0
    half = MAX_STEPS if total <= MAX_STEPS else MAX_STEPS // 2
    first = _draw(trajectory, 1, half, uses, redactor)
    last = _draw(trajectory, total - half + 1, half, uses, redactor) if total > MAX_STEPS else ()
    gap = max(0, total - MAX_STEPS)
    deciding = tuple(_find_deciding(trajectory, verdicts, redactor))
    return Account(trial, attempt, tuple(verdicts), trajectory, first, gap, last, tuple(uses), deciding)


def _find_deciding(
    trajectory: Trajectory | None, verdicts: Sequence[VerdictView], redactor: Redactor
) -> Iterator[tuple[int, str]]:
    """As the trial's page finds them."""
    if trajectory is None or not verdicts:
        return
    index = read_step_index(trajectory, len(read_chunk_summaries(trajectory)))
    for one in decide_checks(verdicts[0], index).trail:
        yield one.step, visible(redactor.text(one.words))


def _draw(
    trajectory: Trajectory | None, first: int, count: int, uses: Sequence[SkillUse], redactor: Redactor
) -> tuple[StepView, ...]:
    if trajectory is None:
        return ()
    skills = list_uses_by_step(uses, trajectory)
    drawn: list[StepView] = []
    for start in range(first, first + count, PAGE_STEPS):
        stored = read_steps(trajectory, start, min(PAGE_STEPS, first + count - start))
        cleaned = [replace(found, step=redactor.step(found.step)) for found in stored]
        drawn += draw_steps(cleaned, skills=skills, kept={})
    return tuple(drawn)


# --- a decision -------------------------------------------------------------------------------------------------


def _read_change(run: Run, episode: Episode, decision: Decision, redactor: Redactor) -> CapsuleChange:
    machine = open_time_machine(run, episode, {"decision": str(decision.number), "view": "source"})
    changed = [_redact_change(change, redactor) for change in machine.changed[:MAX_FILES]]
    return CapsuleChange(
        machine=machine,
        decision=decision,
        summary=redactor.text(decision.summary),
        error=redactor.text(decision.error),
        findings=tuple(redactor.value(found) for found in decision.findings[:MAX_FINDINGS]),
        files=tuple(draw_changes(changed, whole=True)),
        files_left_out=max(0, len(machine.changed) - MAX_FILES),
        evidence=tuple(_redact_evidence(shown, redactor) for shown in machine.evidence),
    )


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
    return ShownTrial(shown.trial, EvidenceExcerpt(shown.excerpt.compaction, segments, shown.excerpt.kept))


# --- digests ----------------------------------------------------------------------------------------------------


def _list_digests(
    run: Run, episode: Episode, changes: Sequence[CapsuleChange], account: Account | None
) -> Iterator[Digest]:
    """What a reader with the record can hold this file against."""
    yield Digest("setup", run.setup_digest, "the run's setup at launch, as canonical JSON")
    for change in changes:
        yield from _list_change_digests(change)
    if account is not None:
        yield from _list_account_digests(account)
    seal = Seal.objects.filter(entry__episode=episode).first()
    if seal is not None:
        yield Digest("seal", seal.seal, "setup and frozen library of this episode")
        yield Digest("frozen library", seal.library_digest, "every file of the library at the freeze")


def _list_change_digests(change: CapsuleChange) -> Iterator[Digest]:
    decision = change.decision
    name = f"decision {decision.number}"
    before, after = decision.before, decision.after
    yield Digest(f"library before {name}", before.digest, _count_files(before))
    yield Digest(f"library after {name}", after.digest, _count_files(after))
    yield Digest(f"patch of {name}", decision.patch_id or "", "the author's patch as parsed, JSON")
    call: ModelCall | None = decision.call
    if call is not None:
        yield Digest(f"prompt of {name}", call.request_id, "what the author was asked, JSON")
        yield Digest(f"reply of {name}", call.reply_id or "", "what the author answered, JSON")
    for place, shown in enumerate(change.evidence, start=1):
        if shown.excerpt is not None:
            found = shown.excerpt.compaction
            what = f"the {found.kind} compaction ({found.version}) as the author read it"
            yield Digest(f"evidence {place} of {name}", found.text_id, what)
    for file in change.files:
        if file.change.new is not None and not change.machine.is_proposal:
            yield Digest(visible(file.change.path)[:120], file.change.new.digest, f"this file after {name}")


def _count_files(snapshot: Snapshot) -> str:
    return f"{snapshot.files_total} file{'' if snapshot.files_total == 1 else 's'}: path, content, mode"


def _list_account_digests(account: Account) -> Iterator[Digest]:
    trial = account.trial
    if trial.task_revision is not None:
        yield Digest("task revision", trial.task_revision.digest, visible(trial.task.key)[:120])
    if trial.snapshot is not None:
        yield Digest("library given to the trial", trial.snapshot.digest, _count_files(trial.snapshot))
    if account.trajectory is not None:
        total = account.trajectory.steps_total
        yield Digest("trajectory", account.trajectory.digest, f"all {total} steps, by the digests of their chunks")
    for view in account.verdicts:
        yield Digest("verifier", view.verdict.verifier_digest, f"the verifier of {visible(view.verdict.source)[:60]}")
        yield Digest("verifier's output", view.verdict.output_id or "", "as it was printed, secrets taken out")
    if account.attempt is not None:
        yield Digest(
            "source",
            account.attempt.source_digest,
            "everything that was read from the imported folder, and the version of the readers",
        )
