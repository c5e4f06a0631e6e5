"""The scripted model working on a task: looks around, may read skills, writes a program, checks the result, submits.

An attempt is a generator: it yields turns and is sent the answer to each. Everything it does follows from its dice, the
instruction and these answers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from demo.playbooks import LESSONS, PLAYBOOKS, Lesson, Playbook, PlaybookCase, recognise
from demo.playbooks.habits import HAND_CHECK, KEEP_FILES, TIDY_UP
from demo.playbooks.playbook import find_narrowing
from demo.scripted_profile import Dice, ScriptedProfile

LIBRARY_HEADING = re.compile(r"^## Skill library\s*$", re.MULTILINE)
TRACES_HEADING = re.compile(r"^## Earlier trials of this family\s*$", re.MULTILINE)
FAILED_TRACE = re.compile(r"^### Trial .*\(failed", re.MULTILINE)
CITED_FILE = re.compile(r"(?<![\w/.-])((?:references|scripts)/[\w./-]+\.\w+)")
SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_CITED = 2
NOTES_BLOCK = "with open('notes.md', 'w')"


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One reply: some words and a command, or None for submit."""

    text: str
    command: str | None
    reasoning: str | None = None


Play = Generator[ScriptedTurn, str, None]


@dataclass(slots=True)
class ScriptedAttempt:
    """What the model knows in the course of one attempt."""

    playbook: Playbook
    case: PlaybookCase
    dice: Dice
    profile: ScriptedProfile
    handled: set[str] = field(default_factory=set)  # lessons its program will act on
    learned: set[str] = field(default_factory=set)  # lessons and habits some text has taught it
    guided: bool = False  # has it read a skill of the family?
    too_narrow: list[str] = field(default_factory=list)  # files that advice it read restricts itself to

    def read(self, text: str, *, from_trace: bool = False) -> None:
        """Learn lessons from a text: those its case needs, and the habits.

        Whether it acts on a lesson depends on the page, as the same rule works better in one skill than in another.
        """
        page = hashlib.sha256(text.encode()).hexdigest()[:12]
        wanted = [LESSONS[key] for key in self.case.needs] + [HAND_CHECK, KEEP_FILES, TIDY_UP]
        for paragraph in paragraphs(text):
            for lesson in wanted:
                if lesson.key not in self.learned and lesson.taught_by(paragraph):
                    self._take(lesson, paragraph, page, from_trace)

    def _take(self, lesson: Lesson, paragraph: str, page: str, from_trace: bool) -> None:
        files = find_narrowing(paragraph)
        if not from_trace and files and not files & set(self.case.files):
            self.too_narrow += sorted(files - set(self.too_narrow))
            return
        if from_trace and not self.dice.chance(f"trace/{lesson.key}", self.profile.learns_from_trace):
            return
        self.learned.add(lesson.key)
        if lesson.key in self.case.needs and not self.dice.chance(
            f"misapply/{lesson.key}/{page}", self.profile.misapplies
        ):
            self.handled.add(lesson.key)

    def open_in_data(self) -> list[str]:
        """Lessons it does not act on but that its files would show. Files cannot show what only a corpus says."""
        return [key for key in self.unhandled() if key in self.case.closer]

    def unhandled(self) -> list[str]:
        return [key for key in self.case.needs if key not in self.handled]

    def is_trap(self, key: str) -> bool:
        return any(key == playbook.lessons[-1].key for playbook in PLAYBOOKS)

    def say(self, purpose: str, *options: str) -> str:
        return self.dice.pick(f"say/{purpose}", options)


def attempt(instruction: str, dice: Dice, profile: ScriptedProfile, *, has_library: bool = False) -> Play:
    """One attempt at the task that `instruction` describes. `has_library`: known from outside the instruction."""
    task, library, traces = _parts(instruction)
    found = recognise(task)
    if found is None:
        yield from _at_a_loss()
        return
    state = ScriptedAttempt(found[0], found[1], dice, profile)
    yield from _look_around(state)
    if library or has_library:
        yield from _use_library(state)
    if traces:
        state.read(traces, from_trace=True)
    yield from _stumble(state)
    yield from _write(state, first=True)
    if _checks(state, traces):
        yield from _look_closer(state)
    yield from _hand_in(state)


def paragraphs(text: str) -> Iterator[str]:
    """List items, headings and paragraphs, each joined to one line."""
    block: list[str] = []
    for line in text.splitlines():
        starts = not line.strip() or re.match(r"\s*([-*+#|>]|\d+[.)])\s", line)
        if starts and block:
            yield " ".join(block)
            block = []
        if line.strip():
            block.append(line.strip())
    if block:
        yield " ".join(block)


def _parts(instruction: str) -> tuple[str, bool, str]:
    """The task's own text, whether there is a library, and the earlier trials."""
    library, traces = LIBRARY_HEADING.search(instruction), TRACES_HEADING.search(instruction)
    ends = [match.start() for match in (library, traces) if match]
    return (
        instruction[: min(ends, default=len(instruction))],
        library is not None,
        (instruction[traces.start() :] if traces else ""),
    )


def _at_a_loss() -> Play:
    yield ScriptedTurn("I look at what is there.", "ls")
    yield ScriptedTurn("This is a kind of task I have no procedure for.", None)


def _look_around(state: ScriptedAttempt) -> Play:
    case, main = state.case, state.case.main_file
    if state.dice.chance("wrong-path", state.profile.drafts_badly / 2):
        yield ScriptedTurn("Let me look at the data.", f"head -n 5 data/{main}")
        yield ScriptedTurn("The files are right here, not in a folder.", f"ls && head -n 5 {main}")
    else:
        yield ScriptedTurn(
            state.say("look", "First a look at the folder.", "I start by looking at what is there."), "ls && wc -l *"
        )
        heads = " && ".join(f"head -n 4 {name}" for name in case.files)
        yield ScriptedTurn(
            state.say("head", "Now the first lines of the input.", "What does the input look like?"), heads
        )


def _use_library(state: ScriptedAttempt) -> Play:
    listing = yield ScriptedTurn("Are there skills for this?", "ls ../skills")
    slugs = [word for word in listing.split() if SLUG.fullmatch(word)]
    if not slugs or "[no output]" in listing or "[exit code" in listing:
        return
    if state.dice.chance("skip-skills", state.profile.skips_skills):
        return
    chosen = _chosen(state, slugs)
    if not chosen:
        yield ScriptedTurn("", "ls -R ../skills", reasoning="None of these names sounds like my task. I go on without.")
    for slug in chosen:
        text = yield ScriptedTurn(
            state.say(f"open/{slug}", f"I read the skill {slug}.", f"{slug} may help; I read it first."),
            f"cat ../skills/{slug}/SKILL.md",
        )
        if state.playbook.fits(slug) or any(LESSONS[key].taught_by(text) for key in state.case.needs):
            state.read(text)
            state.guided = True
        yield from _follow(state, slug, text)


def _chosen(state: ScriptedAttempt, slugs: list[str]) -> list[str]:
    """The skills it opens, in order: those whose names fit, sometimes with a wrong one first."""
    own = sorted((slug for slug in slugs if state.playbook.fits(slug)), key=lambda slug: -state.playbook.fits(slug))
    rest = [slug for slug in slugs if slug not in own]
    second = [slug for slug in rest if any(book.fits(slug) for book in _other_books(state))]
    if second and state.dice.chance("open-second", state.profile.opens_second):
        own.append(second[0])
    wrong = [slug for slug in rest if slug not in own]
    if own and wrong and state.dice.chance("wrong-first", state.profile.opens_wrong_first):
        own.insert(0, wrong[0])
    return own


def _other_books(state: ScriptedAttempt) -> list[Playbook]:
    """The other families whose lessons the case needs."""
    return [
        playbook
        for playbook in PLAYBOOKS
        if playbook is not state.playbook and any(lesson.key in state.case.needs for lesson in playbook.lessons)
    ]


def _follow(state: ScriptedAttempt, slug: str, text: str) -> Play:
    for path in dict.fromkeys(CITED_FILE.findall(text)[:MAX_CITED]):
        if state.dice.chance(f"follow/{path}", state.profile.follows_references):
            cited = yield ScriptedTurn(f"It points to {path}.", f"cat ../skills/{slug}/{path}")
            state.read(cited)


def _stumble(state: ScriptedAttempt) -> Play:
    """Look at the data before writing. Sometimes this shows something that no skill mentions."""
    for key in state.open_in_data():
        if not state.is_trap(key) and state.dice.chance(f"stumble/{key}", state.profile.stumbles):
            yield ScriptedTurn(
                "Before I write anything, a closer look at the values.", state.case.closer[key].split("; wc")[0]
            )
            state.handled.add(key)
            state.learned.add(f"found/{key}")


def _write(state: ScriptedAttempt, *, first: bool) -> Play:
    program = state.case.program(frozenset(state.handled))
    slip = _slip(state)
    if slip == "notes" and NOTES_BLOCK in program:
        program = program[: program.index(NOTES_BLOCK)]
    lines = program.splitlines(keepends=True)
    bad_draft = first and lines[0].startswith("import ") and state.dice.chance("bad-draft", state.profile.drafts_badly)
    written = "".join(lines[1:]) if bad_draft else program
    yield ScriptedTurn(
        _plan(state) if first else "I change the program accordingly.", f"cat > solve.py <<'EOF'\n{written}EOF"
    )
    show = f"python3 solve.py && head -n 6 {state.case.output}"
    yield ScriptedTurn(state.say("run", "Run it.", "Now run it and look at the result."), show)
    if bad_draft:
        repair = f"{{ echo '{lines[0].strip()}'; cat solve.py; }} > fixed.py && mv fixed.py solve.py"
        yield ScriptedTurn("I forgot an import.", f"{repair} && {show}")


def _plan(state: ScriptedAttempt) -> str:
    """What the model says as it writes: the base procedure and each lesson it acts on, in its own words."""
    thoughts = ["I write the program."]
    for key in state.case.needs:
        if key in state.handled:
            lesson = LESSONS[key]
            thoughts.append(lesson.surprise if f"found/{key}" in state.learned else lesson.thought)
    if state.too_narrow and state.unhandled():
        thoughts.append(f"The skill's remark on {state.too_narrow[0]} does not concern my files.")
    return " ".join(thoughts)


def _checks(state: ScriptedAttempt, traces: str) -> bool:
    probability = state.profile.checks_by_hand
    if FAILED_TRACE.search(traces):
        probability = state.profile.checks_after_failures
    if HAND_CHECK.key in state.learned:
        probability = state.profile.checks_when_asked
    return state.dice.chance("hand-check", probability)


def _look_closer(state: ScriptedAttempt) -> Play:
    missing = state.open_in_data()
    if not missing:
        case = state.case
        yield ScriptedTurn(
            HAND_CHECK.thought, f"sed -n 2,3p {case.output} && sed -n 2,4p {case.main_file} && cat notes.md"
        )
        return
    seen = []
    for key in missing:
        yield ScriptedTurn(HAND_CHECK.thought if key == missing[0] else "One more look.", state.case.closer[key])
        rate = state.profile.sees_trap if state.is_trap(key) else state.profile.sees_gap
        if state.dice.chance(f"see/{key}", rate):
            seen.append(key)
    if seen:
        state.handled.update(seen)
        yield ScriptedTurn(" ".join(LESSONS[key].surprise for key in seen), f"wc -l {state.case.output}")
        yield from _write(state, first=False)


def _slip(state: ScriptedAttempt) -> str:
    """The part of the request that it forgets in this attempt, or ""."""
    rate = state.profile.slips / 2 if state.guided else state.profile.slips
    if KEEP_FILES.key in state.learned or not state.dice.chance("slip", rate):
        return ""
    return state.dice.pick("which-slip", ("notes", "tidy-up"))


def _hand_in(state: ScriptedAttempt) -> Play:
    if (
        TIDY_UP.key in state.learned
        and KEEP_FILES.key not in state.learned
        and state.dice.chance("tidy", state.profile.tidies)
    ):
        yield ScriptedTurn(TIDY_UP.thought, f"rm -f solve.py && ls && wc -l {state.case.output}")
    elif _slip(state) == "tidy-up":
        yield ScriptedTurn("Done. I tidy up after myself.", f"rm -f solve.py && ls && wc -l {state.case.output}")
    else:
        yield ScriptedTurn(
            state.say("last", "A last look at the folder.", "Everything in place?"), "ls && cat notes.md"
        )
    yield ScriptedTurn(state.say("submit", "The result is in place.", f"{state.case.output} is written."), None)
