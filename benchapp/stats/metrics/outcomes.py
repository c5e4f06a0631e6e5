"""The trials of one run as columns: the input of every metric over trials. Pure numpy.

Fifty thousand model instances cost seconds; the same rows as columns cost a fraction, are small enough to cache, and
let metrics and intervals be array arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchapp.stats.inference.interval import Floats, Ints
from benchapp.stats.numerics import link
from runner.base.types import CorpusKind, Phase, Role

Mask = NDArray[np.bool_]

# Kinds of source material that skills are generated from (SkillGenBench, section 3.1).
CORPORA: tuple[str, ...] = ("", *(kind.value for kind in CorpusKind))  # "": none, or unknown
CODE_CORPORA = (CorpusKind.REPOSITORY.value,)  # the columns of the paper's Table 2
DOC_CORPORA = (CorpusKind.CODE_DOCUMENT.value, CorpusKind.DOMAIN_DOCUMENT.value)
CORPUS_NAMES = {
    CorpusKind.REPOSITORY.value: "Code Repo",
    CorpusKind.CODE_DOCUMENT.value: "Code Doc",
    CorpusKind.DOMAIN_DOCUMENT.value: "Domain Doc",
    "": "source unknown",
}
JUDGED = "judged."  # prefix of columns from a judging model: `benchapp.stats.judged`
LEARNING = (Phase.ACQUISITION, Phase.EVALUATION)  # a library is written between these tasks
PHASES: tuple[str, ...] = tuple(phase.value for phase in Phase)
ROLES: tuple[str, ...] = ("", *(role.value for role in Role))  # "": unknown in the source
PHASE_CODES = {name: code for code, name in enumerate(PHASES)}
ROLE_CODES = {name: code for code, name in enumerate(ROLES)}
CORPUS_CODES = {name: code for code, name in enumerate(CORPORA)}


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """One place per planned trial, in all columns alike: [n] each. NaN: unknown, never zero.

    `trial`, `task`, `family`, `environment`, `episode` are keys of the record; -1 where there is none. `cluster` is
    equal for trials that share a library, in every run alike: the episode where one owns a library, else the family,
    else the task. `phase`, `role` and `corpus` count into PHASES, ROLES and CORPORA; the last is the kind of source
    material in the task's environment. `ordinal` is the task's place in its family, from 1; 0: unknown. `seed`: its
    library was learned from this very task, instance 1 unless the condition names more (SkillLearnBench); without a
    library, what the others learn from without a number. `position` is the place inside episode and phase in the order
    of running, from 0. `library` is the key of the trial's snapshot, -1 where none is recorded. `ordered`: its episode
    ran its tasks one after another. `skills_invoked`: skills of its library that the harness' skill tool opened; NaN
    without such a tool. `finished`: seconds since 1970; NaN: not ended, or unknown.
    """

    trial: Ints
    task: Ints
    family: Ints
    environment: Ints
    episode: Ints
    cluster: Ints
    phase: Ints
    role: Ints
    corpus: Ints
    sample: Ints
    ordinal: Ints
    position: Ints
    library: Ints
    tainted: Mask
    done: Mask
    skipped: Mask
    ordered: Mask
    seed: Mask
    finished: Floats
    success: Floats
    reward: Floats
    outcome: Floats
    process: Floats
    overall: Floats
    turns: Floats
    input_tokens: Floats
    cached_tokens: Floats
    output_tokens: Floats
    cost_usd: Floats
    seconds: Floats
    skills_mounted: Floats
    skills_read: Floats
    skills_invoked: Floats

    def __len__(self) -> int:
        return len(self.trial)

    @property
    def ended(self) -> Mask:
        """[n]: ended or skipped by an operator, so without further results."""
        return np.asarray(self.done | self.skipped)

    def column(self, name: str) -> Floats:
        """Return a column of this name, computed or of a judge: [n], in its unit; success, used: 0 or 1, grades: 0..1.

        used: 1 where a skill was read, invoked or executed. usage: skills used of those mounted, unknown where none
        was; reads of skills outside the library cannot lift it over 1. usage_rate: the same for skills that the skill
        tool opened. total_tokens: input, which includes cached input, and output; unknown where either is.
        """
        if name == "used":
            return np.where(np.isnan(self.skills_read), np.nan, self.skills_read > 0)
        if name in ("usage", "usage_rate"):
            given = np.where(self.skills_mounted > 0, self.skills_mounted, np.nan)
            return np.minimum((self.skills_read if name == "usage" else self.skills_invoked) / given, 1.0)
        if name == "total_tokens":
            return self.input_tokens + self.output_tokens
        if name.startswith(JUDGED):
            return np.full(len(self), np.nan)
        return np.asarray(getattr(self, name))

    @property
    def first(self) -> Mask:
        """[n]: the trials of the first learning task of an ordered episode, before anything learned could help them."""
        learning = self.ordered & self.covering(LEARNING)
        begins = np.flatnonzero(learning & (self.position == 0))
        places, of_trial = np.unique(self.episode, return_inverse=True)
        task = np.full(len(places), -1, dtype=np.int64)
        # Where there are two phases the earlier one wins.
        begins = begins[np.argsort(-self.phase[begins], kind="stable")]
        task[of_trial[begins]] = self.task[begins]
        return np.asarray(learning & (self.task == task[of_trial]))

    def where(self, mask: Mask) -> Outcomes:
        """Return only the trials that the mask [n] keeps."""
        places = np.flatnonzero(mask)  # once, and not for every column
        return type(self)(*(getattr(self, name).take(places, axis=0) for name in self.__dataclass_fields__))

    def judgeable(self, name: str) -> Mask:
        """Return [n]: the trials that the shown judge had to score in this column; none where nobody judged the run."""
        return np.zeros(len(self), dtype=bool)

    @property
    def rehearsals(self) -> Mask:
        """[n]: acquisition trials of tasks that are deployed too. SkillLearnBench learns on the seed instance and then
        counts it among all instances. A try while learning is not a result of the library."""
        deployed = self.task[self.phase == PHASE_CODES[Phase.DEPLOYMENT]]
        return np.asarray((self.phase == PHASE_CODES[Phase.ACQUISITION]) & np.isin(self.task, deployed))

    def covering(self, phases: Sequence[str] = (), role: str | None = None) -> Mask:
        """Return [n]: the trials of these phases (none given: all) and of this role (None: all).

        For acquisition together with deployment, rehearsals are left out: a deployed task counts there.
        """
        mask: Mask = self.phase == PHASE_CODES[phases[0]] if phases else np.ones(len(self), dtype=bool)
        for phase in phases[1:]:
            mask |= self.phase == PHASE_CODES[phase]
        if {Phase.ACQUISITION, Phase.DEPLOYMENT} <= set(phases):
            mask &= ~self.rehearsals
        if role is not None:
            mask &= self.role == ROLE_CODES[role]
        return mask

    def is_interleaved_with(self, other: Outcomes) -> bool:
        """Did both run at the same time? At least half of the shorter one while the other one ran."""
        known = [each.finished[~np.isnan(each.finished)] for each in (self, other)]
        if not all(map(len, known)):
            return False
        starts, ends = zip(*((each.min(), each.max()) for each in known), strict=True)
        both = min(ends) - max(starts)
        return bool(both > 0 and 2 * both >= min(ends[0] - starts[0], ends[1] - starts[1]))

    def fill_missing(self, success: float) -> Outcomes:
        """Return a copy where every trial without a verdict has this one, 0 or 1."""
        return replace(self, success=np.where(np.isnan(self.success), success, self.success))

    def without(self, trials: Collection[int]) -> Outcomes:
        """Treat these trials (keys) as planned and not scored yet."""
        gone = np.isin(self.trial, list(trials))
        if not gone.any():
            return self
        blank = {name: np.where(gone, np.nan, self.column(name)) for name in MEASURED}
        return replace(self, done=self.done & ~gone, **blank)


def pool(parts: Sequence[Outcomes]) -> Outcomes:
    """Put the trials of several runs together. Tasks that some run's library links stay in one cluster.

    Scores of a judge are left out where not every run has them.
    """
    kinds = {type(each) for each in parts}
    kind = kinds.pop() if len(kinds) == 1 else Outcomes
    whole = kind(*(np.concatenate([getattr(each, field.name) for each in parts]) for field in fields(kind)))
    tasks, task = np.unique(whole.task, return_inverse=True)
    clusters, cluster = np.unique(whole.cluster, return_inverse=True)
    return replace(whole, cluster=link(task, len(tasks) + cluster, len(tasks) + len(clusters))[task])


MEASURED = tuple(field.name for field in fields(Outcomes) if field.type == "Floats")


def label_rows(first: Ints, *others: Ints) -> Ints:
    """Return labels 0.. of the rows of these columns, equal for equal rows: [n] each -> [n]. One column after the
    other: numpy sorts whole numbers faster than rows (three columns of 50,000: 6 ms against 56)."""
    labels = np.unique(first, return_inverse=True)[1]
    for column in others:
        values, codes = np.unique(column, return_inverse=True)
        labels = np.unique(labels * len(values) + codes, return_inverse=True)[1]
    return labels


def empty_outcomes() -> Outcomes:
    return Outcomes(*(np.empty(0, dtype=dtype) for dtype in _DTYPES.values()))


def outcomes_from(columns: Mapping[str, ArrayLike]) -> Outcomes:
    """Build from one sequence of n per field; None is unknown. Columns of the right type are not copied."""
    return Outcomes(*[np.asarray(columns[name], dtype=dtype) for name, dtype in _DTYPES.items()])


_KINDS = {"Ints": np.dtype(np.int64), "Floats": np.dtype(np.float64), "Mask": np.dtype(np.bool_)}
_DTYPES = {field.name: _KINDS[str(field.type)] for field in fields(Outcomes)}
