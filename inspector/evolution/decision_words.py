"""What a step did to a library, in one word, a mark and a tone: the same on the strip,
the rail and every list of decisions."""

from __future__ import annotations

from benchapp.analysis.lineage.library_states import LibraryStep
from benchapp.models import Decision, Episode, Experiment, Run
from benchapp.record.recorded import slot_of
from runner.base.types import AuthorMode, DecisionStatus
from runner.protocols.qualification import WITH_CORPUS

DecisionWords = tuple[str, str, str]  # word, mark, tone: "", created, revised, refused
CURATED, CORPUS = "Curated skill", "Source material"
FROZEN, UNEXPLAINED = "Frozen library", "Came without an author"

_APPLIED = {
    "create": ("Created", "+", "created"),
    "replace": ("Replaced", "~", "revised"),
    "narrow": ("Narrowed", "~", "revised"),
    "revise": ("Revised", "~", "revised"),
    "merge": ("Merged", "~", "revised"),
    "revert": ("Taken back", "~", "revised"),
    "delete": ("Removed", "−", "revised"),
}
# Where the author names its skills there is no operation; then its mode names what it did.
_WRITTEN: dict[str, DecisionWords] = {
    AuthorMode.WRITE: ("Written", "+", "created"),
    AuthorMode.CRAFT: ("Drafted", "+", "created"),
    AuthorMode.REFINE: ("Refined", "~", "revised"),
    AuthorMode.DISTILL: ("Distilled", "+", "created"),
    AuthorMode.CONSOLIDATE: ("Distilled", "+", "created"),
    AuthorMode.OUTSIDE: ("Generated", "+", "created"),
}
_OTHER = {
    DecisionStatus.NO_OP: ("No change", "=", ""),
    DecisionStatus.REJECTED: ("Rejected", "!", "refused"),
    DecisionStatus.FAILED: ("Failed", "×", "refused"),
}


_ASKED = {
    AuthorMode.ZERO_SHOT: "write a first skill for {}, without any trial",
    AuthorMode.INDUCE: "write a first skill for {}, from its trials",
    AuthorMode.REVISE: "revise the skill for {}",
    AuthorMode.EVOLVE: "improve the library for {} after this trial",
    AuthorMode.WRITE: "write skills for {} from the task's text",
    AuthorMode.REFLECT: "reflect on its own trial of {}",
    AuthorMode.CORRECT: "correct the skills for {} with a teacher's advice",
    AuthorMode.CRAFT: "write skills for {} by a guide to writing skills",
    AuthorMode.DISTILL: "distill skills for {} from the corpus",
    AuthorMode.REFINE: "refine its own draft for {}",
    AuthorMode.CONSOLIDATE: "distill skills for {} from the corpus and trials without skills",
    AuthorMode.OUTSIDE: "write skills for {} with a program of its own",
}


def describe_request(decision: Decision) -> str:
    """Say what the author was asked for."""
    asked = _ASKED.get(AuthorMode(decision.mode)) if decision.mode in set(AuthorMode) else None
    return (asked or "{}").format(decision.family.name)


def write_summary(decision: Decision) -> str:
    """Return the author's summary, with the title of the task where it names the trial by its key."""
    trial = decision.after_trial
    return decision.summary.replace(str(slot_of(trial)), trial.task.title) if trial else decision.summary


def describe_decision(decision: Decision) -> DecisionWords:
    """Return (word, mark, tone) of a decision: what it did to the library in one word."""
    if decision.status == DecisionStatus.APPLIED:
        revised = _WRITTEN.get(decision.mode, ("Revised", "~", "revised"))
        return _APPLIED.get(decision.operation_type, revised)
    return _OTHER[DecisionStatus(decision.status)]


def describe_seeding(run: Run, episode: Episode) -> str:
    """Return the word for what comes into this library without an author.
    Of an import only the condition says "curated"."""
    if episode.protocol == "probe":
        return FROZEN
    if run.condition == WITH_CORPUS:
        return CORPUS
    is_own = run.experiment.origin == Experiment.Origin.RUN
    return CURATED if is_own or run.condition.startswith("curated") else UNEXPLAINED


def describe_step(step: LibraryStep, seeded: str = CURATED) -> DecisionWords:
    """`seeded`: the word for what comes in without an author."""
    entry = step.entry
    if entry.decision:
        return describe_decision(entry.decision)
    if entry.seeding:
        return (seeded, "+", "created")
    if entry.refusal:
        return ("Write refused" if entry.refusal.trial_id else "Source differs", "!", "refused")
    return ("Frozen", "", "")
