"""From an available skill to a passing trial: available, read, followed, passed. Per run and per skill.

Available: the trial's library holds the skill; where no library is recorded, it was seen to be mounted. Read: read,
invoked or executed in the counting attempt. Followed: by a heuristic over words. Passed: the trial's own verdict.
Counted are trials that have ended, outside tainted episodes. The numbers are associations: trials that read differ
from others before they read, so they cannot show an effect of reading on passing.

Did the actions after reading a skill look like the skill? A skill names things: programs it has run, paths,
identifiers, options. Those names are its *cues*. Count only cues that are neither in the task's own text nor in an
action up to the reading: the result is their share in later actions. Actions are tool calls, not the agent's words. A
skill of plain prose names nothing, so its share is unknown. A high share does not show that the advice was
understood, nor a low one that it was ignored.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import QuerySet

from benchapp.models import Blob, Chunk, Run, SkillUse, SnapshotFile, Trial
from benchapp.record.json_shape import Shaped
from benchapp.record.trajectory_store import steps_of_chunk
from benchapp.stats.metrics.tally import TrialTally
from runner.base.recent import Recent
from runner.base.types import Source, Step, UseKind
from runner.trajectories.fields import tool_call_text
from runner.trajectories.readers.shell_words import invocations

LEAST_SHARE = 0.25  # of the cues; from this share on a skill counts as followed
RULE = "following/1"
MAX_CUES = 200  # of one skill, in the order of its text
MAX_TEXT_CHARS = 100_000  # of one file of a skill
MAX_ACTION_CHARS = 1_000_000  # of the tool calls of one trajectory, each side of the reading
MAX_CUE_CHARS = 80
TEXTS = (".md", ".markdown", ".txt", ".rst")

# Programs and names that nearly every trajectory has, with or without a skill.
_COMMON = frozenset(
    "ls cd cat echo head tail wc grep sed awk mkdir rm cp mv pwd test true false exit set export source find sort "
    "uniq cut tr touch chmod which env python python3 pip pip3 bash sh node npm apt apt-get sudo git print len str "
    "int open import e.g i.e etc vs".split()
)
_FENCE = re.compile(r"^(?:```|~~~)[ \t]*([\w+-]*)[^\n]*\n(.*?)^(?:```|~~~)[ \t]*$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]{1,200})`")
_SHELL_WORDS = frozenset({"", "sh", "bash", "shell", "console", "zsh"})
_NAME = re.compile(
    r"""
    (?<![\w./<-])(?:
      (?:\.{0,2}/)?(?:[\w.-]+/)+[\w.-]*[\w]          # a/path, /a/path
      | [A-Za-z_][\w-]*\.(?:py|sh|json|csv|tsv|md|txt|ya?ml|toml|sql|js|ts|xml|html|xlsx?|pdf|docx?|pptx?|parquet|db|ini|cfg)\b
      | [A-Za-z_]\w+(?:\.[A-Za-z_]\w+)+              # module.name
      | [A-Za-z]\w*_\w+                              # snake_case, CONSTANT_CASE
      | [a-z]+[A-Z]\w+                               # camelCase
      | [A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+            # PascalCase
      | --[a-z][\w-]+                                # --option
    )
    """,  # noqa: E501
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class SkillReading:
    """The first use of a skill in a trial, with its place (`trajectory`, `step`) where the source has it."""

    kind: str
    trajectory: int | None
    step: int | None
    digest: str = ""  # of the trajectory


@dataclass(frozen=True, slots=True)
class NoiseRate:
    """One skill available to one trial: was it read, was it followed, did the trial pass?

    `is_own`: the skill belongs to the trial's family; None if no family is named like the skill, so that its owner is
    unknown. `others`: other skills of its library that the trial read. `following`: None if it was not computed.
    """

    trial: int
    episode: int
    skill: str
    snapshot: int | None
    library: str  # digest of the snapshot
    instruction: str  # digest of the task's text
    success: bool | None
    is_own: bool | None
    reading: SkillReading | None
    others: tuple[str, ...] = ()
    following: Following | None = None

    def has_followed(self, least: float) -> bool | None:
        if self.reading is None:
            return False
        return self.following.is_followed(least) if self.following else None

    @property
    def is_for_it(self) -> bool:
        """Could the trial be expected to read it? Not where the skill is known to be another family's."""
        return self.is_own is not False


@dataclass(frozen=True, slots=True)
class Funnel(Shaped):
    """Trials at each stage, each with how they ended. `judged`: read, and it is known whether they followed."""

    available: TrialTally
    read: TrialTally
    judged: TrialTally
    followed: TrialTally

    @property
    def unread(self) -> TrialTally:
        return _subtract(self.available, self.read)

    @property
    def not_followed(self) -> TrialTally:
        return _subtract(self.judged, self.followed)

    @property
    def unknown(self) -> int:
        """Count the trials that read the skill where nothing shows whether they followed it."""
        return self.read.total - self.judged.total


def chances_of(run: Run, trials: QuerySet[Trial] | None = None) -> list[NoiseRate]:
    """List every (trial, skill) of the run, in the order of the trials. Four queries, no blob. `trials` narrows them;
    the owner of a skill comes from the whole run."""
    wanted = Trial.objects.all() if trials is None else trials
    wanted = wanted.filter(episode__run=run, episode__is_tainted=False, is_done=True)
    facts = (
        *("pk", "episode_id", "success", "task__family__slug", "snapshot_id", "snapshot__digest"),
        "task_revision__instruction_id",
    )
    rows = list(wanted.order_by("episode__ordinal", "episode_id", "pk").values_list(*facts))
    uses = _uses(wanted)
    held = read_skills_held({row[4] for row in rows if row[4]})
    slugs: dict[int, set[str]] = defaultdict(set)  # of the families of each episode's trials, also of planned ones
    met = Trial.objects.filter(episode__run=run, task__family__isnull=False).order_by().distinct()
    for episode, slug in met.values_list("episode_id", "task__family__slug"):
        slugs[episode].add(slug)
    found: list[NoiseRate] = []
    for trial, episode, success, family, snapshot, library, instruction in rows:
        mounted, read = uses.get(trial, (set(), {}))
        given = held.get(snapshot, set()) if snapshot else mounted
        for skill in sorted(given):
            is_own = None if skill not in slugs[episode] else skill == family
            others = tuple(sorted(other for other in read if other != skill and other in given))
            texts = library or "", instruction or ""
            found.append(NoiseRate(trial, episode, skill, snapshot, *texts, success, is_own, read.get(skill), others))
    return found


def funnel_of(chances: Iterable[NoiseRate], least: float = LEAST_SHARE) -> Funnel:
    """Count in trials: one that read two skills counts once at each stage, at the furthest for any of them."""
    trials: dict[int, list[NoiseRate]] = defaultdict(list)
    for chance in chances:
        trials[chance.trial].append(chance)
    stages: dict[str, list[bool | None]] = {name: [] for name in ("available", "read", "judged", "followed")}
    for group in trials.values():
        success, read = group[0].success, [chance for chance in group if chance.reading]
        known = [chance.has_followed(least) for chance in read]
        stages["available"].append(success)
        if read:
            stages["read"].append(success)
        if any(each is not None for each in known):
            stages["judged"].append(success)
        if any(known):
            stages["followed"].append(success)
    return Funnel(**{name: _tally(outcomes) for name, outcomes in stages.items()})


@dataclass(frozen=True, slots=True)
class SkillFunnel:
    """One skill of one episode: the same name in another episode is another skill."""

    episode: int
    skill: str
    funnel: Funnel
    own: Funnel | None  # over the trials of its family; None where its owner is unknown
    chances: tuple[NoiseRate, ...]

    @property
    def bypassed(self) -> list[NoiseRate]:
        return select_bypassed(self.chances)

    @property
    def rivals(self) -> list[NoiseRate]:
        return rivals(self.chances)

    @property
    def failed(self) -> list[NoiseRate]:
        return select_read_and_failed(self.chances)


def by_skill(chances: Iterable[NoiseRate], least: float = LEAST_SHARE) -> list[SkillFunnel]:
    """Group by skill, in the order of first occurrence of the episodes; within an episode by name."""
    groups: dict[tuple[int, str], list[NoiseRate]] = defaultdict(list)
    for chance in chances:
        groups[chance.episode, chance.skill].append(chance)
    order = {episode: place for place, episode in enumerate(dict.fromkeys(episode for episode, _ in groups))}
    found = []
    for (episode, skill), group in sorted(groups.items(), key=lambda item: (order[item[0][0]], item[0][1])):
        own = [chance for chance in group if chance.is_own]
        known = any(chance.is_own is not None for chance in group)
        funnels = funnel_of(group, least), funnel_of(own, least) if known else None
        found.append(SkillFunnel(episode, skill, *funnels, tuple(group)))
    return found


def select_bypassed(chances: Iterable[NoiseRate]) -> list[NoiseRate]:
    """Return silent bypasses: the skill was available to the trial, and it read no skill of the library."""
    return [chance for chance in chances if chance.is_for_it and chance.reading is None and not chance.others]


def rivals(chances: Iterable[NoiseRate]) -> list[NoiseRate]:
    """Return trials that had the skill available, and read others of the library instead."""
    return [chance for chance in chances if chance.is_for_it and chance.reading is None and chance.others]


def select_read_and_failed(chances: Iterable[NoiseRate]) -> list[NoiseRate]:
    return [chance for chance in chances if chance.reading is not None and chance.success is False]


def with_following(chances: Sequence[NoiseRate], found: Mapping[tuple[int, str], Following]) -> list[NoiseRate]:
    """Add `found`, by (trial, skill)."""
    return [replace(chance, following=found.get((chance.trial, chance.skill))) for chance in chances]


def _uses(trials: QuerySet[Trial]) -> dict[int, tuple[set[str], dict[str, SkillReading]]]:
    """Return trial -> (mounted, skill -> its first use). A use without a step comes last, in every database."""
    rows = SkillUse.objects.filter(attempt__counts=True, attempt__trial__in=trials).order_by("id")
    found: dict[int, tuple[set[str], dict[str, SkillReading]]] = {}
    for trial, skill, kind, trajectory, step, digest in rows.values_list(
        "attempt__trial_id", "skill", "kind", "trajectory_id", "step", "trajectory__digest"
    ):
        mounted, read = found.setdefault(trial, (set(), {}))
        if kind == UseKind.MOUNTED:
            mounted.add(skill)
        else:
            former = read[skill].step if skill in read else None
            if skill not in read or (step is not None and (former is None or step < former)):
                read[skill] = SkillReading(kind, trajectory, step, digest or "")
    return found


def read_skills_held(snapshots: set[int]) -> dict[int, set[str]]:
    """Return snapshot -> the skills it holds: folders with a SKILL.md."""
    found: dict[int, set[str]] = defaultdict(set)
    files = SnapshotFile.objects.filter(snapshot__in=snapshots, path__endswith="/SKILL.md").order_by()
    for snapshot, skill in files.values_list("snapshot_id", "skill"):
        found[snapshot].add(skill)
    return found


def _tally(outcomes: Sequence[bool | None]) -> TrialTally:
    scored = [outcome for outcome in outcomes if outcome is not None]
    return TrialTally(len(outcomes), len(outcomes), len(scored), sum(scored))


def _subtract(one: TrialTally, other: TrialTally) -> TrialTally:
    names = ("total", "done", "scored", "passed")
    return TrialTally(*(getattr(one, name) - getattr(other, name) for name in names))


MAX_BYTES = 48 * 1024 * 1024  # of trajectories, uncompressed, that one call reads
MAX_TRAJECTORY_BYTES = 8 * 1024 * 1024  # of one of them, from its beginning
MAX_KEPT = 50_000  # (trial, skill) pairs in memory; some hundred bytes each
MAX_TRAJECTORIES = 5_000  # that one call reads

_Key = tuple[str, int, str, str, str]


@dataclass(frozen=True, slots=True)
class Inspection:
    """`found` by (trial, skill). `left`: readings that exceeded the limit. `cut`: those of trajectories too long to be
    read to their end, so that late actions were not seen."""

    found: Mapping[tuple[int, str], Following]
    left: int
    cut: int


# By the digests of the texts that were searched.
KEPT: Recent[_Key, tuple[Following, bool]] = Recent(MAX_KEPT)


@dataclass(frozen=True, slots=True)
class _PlacedReading:
    """A chance that was read at a known step of a known trajectory, from a known snapshot."""

    chance: NoiseRate
    key: _Key
    trajectory: int
    step: int
    snapshot: int


def look_for_following(chances: Iterable[NoiseRate], *, max_bytes: int = MAX_BYTES) -> Inspection:
    """Search every chance that was read, if its library and the step of the reading are recorded."""
    read = []
    for chance in chances:
        reading, snapshot = chance.reading, chance.snapshot
        if reading and reading.step and reading.trajectory and snapshot:
            key = reading.digest, reading.step, chance.library, chance.skill, chance.instruction
            read.append(_PlacedReading(chance, key, reading.trajectory, reading.step, snapshot))
    known = {place.key: value for place in read if (value := KEPT.get(place.key)) is not None}
    missing = [place for place in read if place.key not in known]
    chunks, cut, left = _plan({place.trajectory for place in missing}, max_bytes)
    searched: dict[int, list[_PlacedReading]] = {trajectory: [] for trajectory in chunks.values()}
    for place in missing:
        searched.get(place.trajectory, []).append(place)
    places = [place for group in searched.values() for place in group]
    cues = _cues({(place.snapshot, place.chance.skill) for place in places})
    instructions = _texts({place.chance.instruction for place in places if place.chance.instruction})
    for trajectory, steps in _trajectories(chunks):
        for place in searched[trajectory]:
            names = cues[place.snapshot, place.chance.skill]
            instruction = instructions.get(place.chance.instruction, "")
            answer = following(names, steps, read_at=place.step, instruction=instruction)
            known[place.key] = answer, trajectory in cut
            if trajectory not in cut:
                KEPT.put(place.key, known[place.key])
    found = {(place.chance.trial, place.chance.skill): known[place.key][0] for place in read if place.key in known}
    unread = sum(place.trajectory in left for place in missing)
    return Inspection(found, unread, sum(was_cut for _, was_cut in known.values()))


def _plan(wanted: Iterable[int], max_bytes: int) -> tuple[dict[int, int], set[int], set[int]]:
    """Return what to read, chunk -> trajectory, in order; trajectories with later chunks unread;
    those with none read."""
    sizes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    rows = Chunk.objects.filter(trajectory__in=list(wanted)).order_by("trajectory_id", "ordinal")
    for trajectory, chunk, size in rows.values_list("trajectory_id", "pk", "blob__size"):
        sizes[trajectory].append((chunk, size))
    chunks: dict[int, int] = {}
    cut, left, room = set(), set(), max_bytes
    for place, (trajectory, parts) in enumerate(sizes.items()):
        own, taken = min(room, MAX_TRAJECTORY_BYTES) if place < MAX_TRAJECTORIES else -1, []
        for chunk, size in parts:
            if size > own:
                cut.add(trajectory)
                break
            own, room = own - size, room - size
            taken.append(chunk)
        chunks.update(dict.fromkeys(taken, trajectory))
        if not taken:
            left.add(trajectory)
    return chunks, cut, left


def _trajectories(chunks: Collection[int]) -> Iterator[tuple[int, list[Step]]]:
    """Yield (pk, its steps with tool calls), one trajectory in memory at a time. One query."""
    rows = Chunk.objects.filter(pk__in=list(chunks)).order_by("trajectory_id", "ordinal")
    present: int | None = None
    steps: list[Step] = []
    for chunk in rows.select_related("blob").iterator(chunk_size=4):
        if present is not None and present != chunk.trajectory_id:
            yield present, steps
            steps = []
        present = chunk.trajectory_id
        steps += [step for step in steps_of_chunk(chunk.blob.content()) if step.tool_calls]
    if present is not None:
        yield present, steps


def _cues(wanted: set[tuple[int, str]]) -> dict[tuple[int, str], tuple[str, ...]]:
    """Return (snapshot, skill) -> its cues. Equal texts are read and searched once."""
    rows = SnapshotFile.objects.filter(
        snapshot__in={snapshot for snapshot, _ in wanted}, skill__in={skill for _, skill in wanted}
    )
    files: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    for snapshot, skill, path, blob in rows.values_list("snapshot_id", "skill", "path", "blob_id"):
        if (snapshot, skill) in wanted:
            files[snapshot, skill][path.partition("/")[2]] = blob
    texts = _texts({blob for each in files.values() for path, blob in each.items() if path.lower().endswith(TEXTS)})
    done: dict[tuple[tuple[str, str], ...], tuple[str, ...]] = {}
    found: dict[tuple[int, str], tuple[str, ...]] = dict.fromkeys(wanted, ())
    for place, paths in files.items():
        manifest = tuple(sorted(paths.items()))
        if manifest not in done:
            done[manifest] = cues_of({path: texts.get(blob, "") for path, blob in paths.items()})
        found[place] = done[manifest]
    return found


def _texts(digests: set[str]) -> dict[str, str]:
    contents = Blob.objects.read_many(sorted(digests))
    return {digest: content.decode("utf-8", "replace") for digest, content in contents.items()}


@dataclass(frozen=True, slots=True)
class Following:
    """`found` of `cues`, both in the order of the skill's text, without cues used before the reading."""

    found: tuple[str, ...]
    cues: tuple[str, ...]

    @property
    def share(self) -> float | None:
        """Return the share of the cues that were found; None if the skill names nothing to search for."""
        return len(self.found) / len(self.cues) if self.cues else None

    def is_followed(self, least: float) -> bool | None:
        """Were at least this share of the cues found, and at least one? None if unknown."""
        return None if self.share is None else bool(self.found) and self.share >= least


def cues_of(files: Mapping[str, str]) -> tuple[str, ...]:
    """List a skill's names. `files`: path inside the skill -> text. Of files other than prose only the path counts."""
    found: dict[str, None] = {}
    for path in sorted(files, key=lambda name: (name != "SKILL.md", name)):
        if path != "SKILL.md" and path.startswith(("scripts/", "references/", "assets/")):
            found.setdefault(path, None)
        if path.lower().endswith(TEXTS):
            text = files[path][:MAX_TEXT_CHARS]
            match = re.match(r"---\n.*?\n---\n", text, re.DOTALL)
            found.update(dict.fromkeys(_names(text[match.end() :] if match else text)))
    return tuple(found)[:MAX_CUES]


def following(cues: Iterable[str], steps: Iterable[Step], *, read_at: int, instruction: str) -> Following:
    """Compare the actions with the cues. `steps`: of the trajectory that read the skill at step `read_at`."""
    before, after = _actions(steps, read_at)
    new = tuple(cue for cue in cues if not _occurs(cue, before) and not _occurs(cue, instruction))
    return Following(tuple(cue for cue in new if _occurs(cue, after)), new)


def _names(text: str) -> Iterator[str]:
    """Yield names in the order of the text, as near as three passes come to it."""
    for match in _FENCE.finditer(text):
        if match[1].lower() in _SHELL_WORDS:
            yield from _programs(match[2])
    for match in _INLINE.finditer(text):
        words = match[1].split()
        if len(words) > 1 or re.fullmatch(r"[a-z][a-z0-9]+-[a-z0-9-]+", match[1]):
            yield from _programs(match[1])
    for match in _NAME.finditer(text):
        if _says_something(name := match[0].strip(".,;:")):
            yield name


def _programs(command: str) -> Iterator[str]:
    for invocation in invocations(command.replace("\n$ ", "\n").removeprefix("$ ")):
        name = posixpath.basename(invocation.program)
        if re.fullmatch(r"[a-z][\w.+-]*", name) and _says_something(name):
            yield name


def _says_something(name: str) -> bool:
    return 3 <= len(name) <= MAX_CUE_CHARS and name.lower() not in _COMMON and not name.endswith("SKILL.md")


def _actions(steps: Iterable[Step], read_at: int) -> tuple[str, str]:
    """Return (tool calls up to the reading, tool calls after it), as texts."""
    sides: tuple[list[str], list[str]] = ([], [])
    room = [MAX_ACTION_CHARS, MAX_ACTION_CHARS]
    for step in steps:
        if step.source is not Source.AGENT or step.is_copied_context:
            continue
        side = int(step.number > read_at)
        for call in step.tool_calls:
            text = tool_call_text(call)[: room[side]]
            room[side] -= len(text)
            sides[side].append(text)
    return "\n".join(sides[0]), "\n".join(sides[1])


def _occurs(cue: str, text: str) -> bool:
    """Does the cue occur as a whole name? `sort_by` is not in `resort_bytes`."""
    at = text.find(cue)
    while at >= 0:
        end = at + len(cue)
        if not (_is_word(text[at - 1 : at]) and at) and not _is_word(text[end : end + 1]):
            return True
        at = text.find(cue, at + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
