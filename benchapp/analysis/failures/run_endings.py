"""How the agents of a run ended, and whether its author's answers were usable: what a pass rate does not show.

A model that never calls a tool fails every task under every condition, and an author without a usable answer leaves its
agents without skills. The numbers look like results of learning but are not. Only rows are read, no contents.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from benchapp.models import Chunk, Decision, Episode, Run, Trial
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.visible import visible
from benchapp.stats.learning.computed_runs import Fact, RunCache, take_or_read
from benchapp.stats.metrics.agent_ends import AgentEnd, end_of
from runner.agents import MODELLESS
from runner.base.text import plural
from runner.base.types import DecisionStatus
from runner.engine.author_step import LEFT_OUT
from runner.trajectories.readers import PLAIN_TEXT

# A tenth of the trials moves a rate by ten points at most. Below it, how agents ended explains no difference that a
# page with some dozens of trials can show. The JSON always has the counts.
LEAST_SHARE = 0.1
# Half of the answers: a rejected or unreadable answer now and then is part of what is measured.
LEAST_USABLE = 0.5
USABLE = (DecisionStatus.APPLIED, DecisionStatus.NO_OP)
SAID: Mapping[AgentEnd, str] = {
    AgentEnd.TIME: "ended at the time limit",
    AgentEnd.TURNS: "ended at the turn limit",
    AgentEnd.TOKENS: "ended at the token limit",
    AgentEnd.CONTEXT: "ended because the model's context was full",
    AgentEnd.OUTPUT: "ended with a reply that reached the limit on output tokens before it called a tool",
    AgentEnd.NO_CALL: "ended with replies that called no tool",
    AgentEnd.PROGRAM: "ended because the agent's program failed",
    AgentEnd.MACHINERY: "ended with a failure of the machinery",
}


@dataclass(frozen=True, slots=True)
class AuthorAnswers:
    """An author's answers about one family. applied: usable ones that changed the library; left_out: other ones,
    skipped by an operator."""

    family: str  # its key
    name: str = ""
    total: int = 0
    usable: int = 0
    applied: int = 0
    left_out: int = 0

    def __add__(self, other: AuthorAnswers) -> AuthorAnswers:
        return AuthorAnswers(
            self.family,
            self.name or other.name,
            self.total + other.total,
            self.usable + other.usable,
            self.applied + other.applied,
            self.left_out + other.left_out,
        )


@dataclass(frozen=True, slots=True)
class Endings(Shaped):
    """The endings of one run, or of several added up. trials: those that ended. observed: those with recorded calls.
    silent: those observed without a call. skills: a library of it holds one. is_open: it continues."""

    trials: int = 0
    observed: int = 0
    silent: int = 0
    ends: Mapping[AgentEnd, int] = field(default_factory=dict)
    answers: tuple[AuthorAnswers, ...] = ()
    skills: bool = False
    is_open: bool = False

    json_shape = JsonShape(
        "trials",
        ("never_called_a_tool", JsonShape("count=silent of=observed").read),
        ("ends", lambda found: {end.value: found.ends[end] for end in AgentEnd if found.ends.get(end)}),
        ("author_answers", JsonShape("total=asked usable skipped=left_out").read),
        "equals_no_skill sentences",
    )

    @classmethod
    def restore(cls, fact: Fact) -> Endings:
        """Restore from its `asdict`."""
        ends = {AgentEnd(end): count for end, count in fact["ends"].items()}
        answers = tuple(AuthorAnswers(**each) for each in fact["answers"])
        return cls(**{**fact, "ends": ends, "answers": answers})

    def __add__(self, other: Endings) -> Endings:
        found = {each.family: each for each in self.answers}
        for each in other.answers:
            found[each.family] = found.get(each.family, AuthorAnswers(each.family)) + each
        return Endings(
            self.trials + other.trials,
            self.observed + other.observed,
            self.silent + other.silent,
            Counter(self.ends) + Counter(other.ends),
            tuple(found.values()),
            self.skills or other.skills,
            self.is_open or other.is_open,
        )

    @property
    def asked(self) -> int:
        return sum(each.total for each in self.answers)

    @property
    def usable(self) -> int:
        return sum(each.usable for each in self.answers)

    @property
    def left_out(self) -> int:
        return sum(each.left_out for each in self.answers)

    @property
    def equals_no_skill(self) -> bool:
        """Was an author asked, while no library ever held a skill? Then its agents worked as under no-skill."""
        return self.asked > 0 and not self.skills and not any(each.applied for each in self.answers)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return what a reader of the rates must know, worst first; empty if nothing matters."""
        return (*self._of_author(), *self._of_agents())

    def _of_author(self) -> Iterator[str]:
        far = " so far" if self.is_open else ""
        were = "answer was" if self.asked == 1 else "answers were"
        answers = f"{self.usable} of {self.asked} author {were} usable"
        if self.equals_no_skill:
            made = " and none made a skill" if self.usable else ""
            yield f"{answers}{made}{far}: no library holds a skill, so this equals no-skill."
        elif self.asked and self.usable < LEAST_USABLE * self.asked:
            rest = "; the others left the library as it was" if self.usable else ": the library stayed as it was"
            yield f"{answers}{far}{rest}."
        lost = [each for each in self.answers if each.total and not each.usable]
        if lost and self.usable:
            names = ", ".join(visible(each.name or each.family) for each in lost[:5]) + (
                " and others" if len(lost) > 5 else ""
            )
            yield f"No author answer was usable in {len(lost)} of {len(self.answers)} families{far}: {names}."
        if self.left_out:
            yield f"An operator skipped {plural(self.left_out, 'author answer')}."

    def _of_agents(self) -> Iterator[str]:
        if self.silent and self.silent >= LEAST_SHARE * self.observed:
            yield f"{self.silent} of {self.observed} trials never called a tool."
        for end, words in SAID.items():
            count = self.ends.get(end, 0)
            if end is AgentEnd.NO_CALL and count <= self.silent:
                continue  # already included
            if count and count >= LEAST_SHARE * self.trials:
                yield f"{count} of {self.trials} trials {words}."


def describe_endings(runs: Sequence[Endings]) -> tuple[str, ...]:
    """Describe the replicates of one condition, added up."""
    together = sum(runs, Endings())
    alike = sum(each.equals_no_skill for each in runs)
    if not alike or together.equals_no_skill:
        return together.sentences
    return (
        f"{alike} of {len(runs)} replicates have no skill in any library, so these equal no-skill.",
        *together.sentences,
    )


KEPT: RunCache[Endings] = RunCache(500)
EndedTrials = tuple[str, bool, bool, int]  # what ended them, are calls recorded, did any happen, how many trials


def read_endings(runs: Iterable[Run]) -> dict[int, Endings]:
    """Return run pk -> how its trials ended, for every given run. Three grouped queries, none for runs cached in memory
    or on disk."""
    wanted = list(runs)
    found = KEPT.read_all(wanted, lambda missing: take_or_read(missing, "endings", _read, asdict, Endings.restore))
    return {run.pk: replace(found[run.pk], is_open=run.is_open) for run in wanted}


def _read(runs: Sequence[Run]) -> dict[int, Endings]:
    pks = [run.pk for run in runs]
    without_model = {run.pk for run in runs if run.harness in MODELLESS}  # they make no calls that could be missing
    trials: dict[int, list[EndedTrials]] = defaultdict(list)
    for run, kind, observed, called, count in _count_trials(pks):
        trials[run].append((kind, observed and run not in without_model, called, count))
    answers: dict[int, list[AuthorAnswers]] = defaultdict(list)
    for row in _count_answers(pks):
        answers[row[0]].append(AuthorAnswers(*row[1:]))
    with_skills = Episode.objects.filter(run__in=pks, library__skills_total__gt=0).order_by()
    skilled = set(with_skills.values_list("run_id", flat=True).distinct())
    found = {}
    for pk in pks:
        ends: Counter[AgentEnd] = Counter()
        for kind, _, _, count in trials[pk]:
            if (end := end_of(kind)) is not None:
                ends[end] += count
        found[pk] = Endings(
            trials=sum(count for *_, count in trials[pk]),
            observed=sum(count for _, observed, _, count in trials[pk] if observed),
            silent=sum(count for _, observed, called, count in trials[pk] if observed and not called),
            ends=dict(ends),
            answers=tuple(answers[pk]),
            skills=pk in skilled,
        )
    return found


def _count_trials(runs: Sequence[int]) -> QuerySet[Trial, tuple[int, str, bool, bool, int]]:
    """Return (run, type of what ended it, does its trajectory record calls, has it one, how many trials)."""
    attempt = {"trajectory__attempt__trial": OuterRef("pk"), "trajectory__attempt__counts": True}
    chunks = Chunk.objects.filter(**attempt, trajectory__is_superseded=False)
    telling = chunks.exclude(trajectory__source_format=PLAIN_TEXT)
    ended = Trial.objects.filter(episode__run__in=runs, is_done=True).order_by()
    marked = ended.annotate(observed=Exists(telling), called=Exists(telling.exclude(summary__tools={})))
    return marked.values_list("episode__run", "exception_type", "observed", "called").annotate(count=Count("pk"))


def _count_answers(runs: Sequence[int]) -> QuerySet[Decision, tuple[int, str, str, int, int, int, int]]:
    """Return (run, family, its name, answers, usable ones, applied ones, skipped ones)."""
    decisions = Decision.objects.filter(episode__run__in=runs).order_by("family__ordinal", "family__key")
    return decisions.values_list("episode__run", "family__key", "family__name").annotate(
        total=Count("pk"),
        usable=Count("pk", filter=Q(status__in=USABLE)),
        applied=Count("pk", filter=Q(status=DecisionStatus.APPLIED)),
        left_out=Count("pk", filter=Q(error__startswith=LEFT_OUT)),
    )
