"""Rules over a library's files: the authoring contract, dead and duplicate files, cues in how a skill is written, and
text that came from one task, from its verifier or from a reference skill.

Groups of cues are those of SkillGenBench's static diagnostics (section 4.3); the paper names what they measure and
prints no rules, so the cues are ours.

A leak is found by comparing texts. That proves only that they share words. It matters because later trials meet the
same text: a library that holds an answer measures memory, not skill.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations, islice

from benchapp.analysis.diagnoses.library_shelf import (
    LibraryHit,
    LibraryRule,
    Severity,
    Shelf,
    ShelfText,
    Sighting,
    Sources,
)
from runner.authoring.contract.contract import RULES, broken_skill_rules, lint, slug_problem
from runner.authoring.contract.skill_file import SKILL_FILE
from runner.authoring.copied import CopySource, shingles_of, split_words
from runner.authoring.occasion import BrokenRule, Occasion, Proposal, confinement_problem
from runner.base.constants import Constant, find_constants
from runner.base.types import AuthorMode, Family, Patch

# rule of the contract -> the group that shows it, and what to do about a hit. Rules about one patch (operations,
# scope) do not apply here.
_GROUPS = {
    "path-layout": ("contract", "Move the file into scripts/, references/ or assets/, where agents look for it."),
    "slug-format": ("contract", "Rename the folder, and the name in its SKILL.md with it."),
    "skill-file": ("contract", "Add a SKILL.md, in capitals, or move the files into a skill that has one."),
    "frontmatter": (
        "contract",
        "Begin the file with a line of three hyphens, name: and description:, and three hyphens again.",
    ),
    "name-is-folder": ("contract", "Give the folder and the name in the frontmatter the same spelling."),
    "name-length": ("contract", "Shorten the name, and the folder with it."),
    "description-length": ("contract", "Say what the skill does and when to use it; move the rest into the body."),
    "compatibility-length": ("contract", "Name the programs and versions that it needs, and nothing else."),
    "body-length": (
        "safety",
        "Move details into files in references/ and name these in SKILL.md: an agent reads the whole body each time.",
    ),
    "frontmatter-key": (
        "contract",
        "Put the entry under metadata, or remove it: agents ignore what the format does not have.",
    ),
    "description-quality": (
        "description",
        "Write one sentence that says what the skill does, on what, and when to use it. Agents choose by it alone.",
    ),
    "tier3-uncited": ("files", "Name the file by its path in SKILL.md where it is needed, or delete it."),
    "citation-dangling": ("files", "Correct the path, or add the file."),
    "resource-depth": ("files", "Move the file directly into scripts/, references/ or assets/."),
    "vague-file-name": ("files", "Name the file after its contents."),
    "script-interaction": (
        "environment",
        "Take input from arguments and files, and list what must be installed in SKILL.md.",
    ),
}
_KEY = {"name-is-folder": "name", "name-length": "name", "description-quality": "description"}
PLACES_SHOWN = 3  # of one constant in one file
FEW_TASKS = 3  # below this number, constants and conventions look the same
VERIFIER_WORDS = 8
REFERENCE_WORDS = 12
LONG_RUN = 25  # words; shorter ones may be common code
MUCH_SHARED = 0.3  # of a file's words
MIN_NAME = 8  # characters of a hidden check's name that can be searched for

_ABOUT_CHECKING = re.compile(
    r"\bhidden (?:tests?|checks?|cases?|verifiers?)\b|\bground[- _]truth (?:expects?|uses?|values?|answers?|is)\b"
    r"|\b(?:the )?(?:verifier|grader|evaluator|test suite|hidden test|tests?) (?:expects?|checks?|requires?|compares?|wants?"  # noqa: E501
    r"|asserts?|looks? for|will check|verif(?:y|ies))\b"
    r"|\b(?:oracle|reference) (?:solution|answer)s?\b|\btest_outputs?\.py\b|\breward\.(?:txt|json)\b|\bexpected_output\b"  # noqa: E501
    r"|\bto pass the (?:tests?|verifier|checks?|grader)\b",
    re.IGNORECASE,
)


def find_broken_rules(shelf: Shelf) -> Iterator[BrokenRule]:
    """Yield every broken rule of the contract in these files; one call for all rules of one library."""
    upserts = {text.path: text.text for text in shelf.texts.values() if not confinement_problem(text.path)}
    family = Family("", "", "", "", "", ())
    occasion = Occasion(AuthorMode.INDUCE, family)
    proposal = Proposal(Patch("", "create", upserts, ()), occasion)
    yield from broken_skill_rules(proposal)
    yield from lint(proposal)
    headless = {path.partition("/")[0] for path in shelf.files} - set(shelf.skills)
    for skill in sorted(headless):
        path = next(path for path in shelf.files if path.partition("/")[0] == skill)
        yield BrokenRule("skill-file", path, f"the folder {skill!r} has no {SKILL_FILE}, so no harness loads it")
    for skill in shelf.skills:
        if problem := slug_problem(skill):
            yield BrokenRule("slug-format", f"{skill}/{SKILL_FILE}", f"the folder is named {skill[:80]!r}: {problem}")


def _find_rule(rule: str) -> Callable[[Shelf, Sources], Iterator[LibraryHit]]:
    def find(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
        for broken in _list_broken(shelf):
            if broken.rule == rule:
                text = shelf.texts.get(broken.path)
                start, end = _find_place(text, broken) if text else (0, 0)
                yield LibraryHit(broken.path, start, end, broken.message[:1].upper() + broken.message[1:])

    return find


def _list_broken(shelf: Shelf) -> tuple[BrokenRule, ...]:
    """Return the result, cached for a shelf: sixteen rules ask."""
    if "contract" not in shelf.__dict__:
        broken = dict.fromkeys(each for each in find_broken_rules(shelf) if not _is_of_omitted(shelf, each))
        shelf.__dict__["contract"] = tuple(broken)
    found: tuple[BrokenRule, ...] = shelf.__dict__["contract"]
    return found


def _is_of_omitted(shelf: Shelf, broken: BrokenRule) -> bool:
    """Does it name a file that existed but was not imported?"""
    skill = broken.path.partition("/")[0]
    return broken.rule == "citation-dangling" and any(
        path.startswith(f"{skill}/") and path.partition("/")[2] in broken.message for path in shelf.omitted
    )


def _find_place(text: ShelfText, broken: BrokenRule) -> tuple[int, int]:
    """Return the span of the line, key or words that the message names; (0, 0) if the text has none of them."""
    if at_line := re.match(r"line (\d+):", broken.message):
        return text.line_span(int(at_line[1]))
    key = _KEY.get(broken.rule)
    quoted = re.search(r"'([^']+)'|names (\S+),", broken.message)
    wanted = rf"^{key}:.*$" if key else re.escape(next(filter(None, quoted.groups()), "")) if quoted else ""
    place = re.search(wanted, text.text, re.MULTILINE) if wanted else None
    return place.span() if place else (0, 0)


CONTRACT = tuple(
    LibraryRule(
        rule,
        group,
        "warning" if RULES[rule].paper == "error" else "note",
        RULES[rule].says,
        help,
        _find_rule(rule),
        is_heuristic=rule in ("description-quality", "vague-file-name", "script-interaction", "citation-dangling"),
    )
    for rule, (group, help) in _GROUPS.items()
)


SHINGLE = 5
ALIKE = 0.5  # Jaccard over word shingles of whole skills; at least this much makes near-duplicates
COMMON = 40  # a shingle in more skills is boilerplate and left out of the count of pairs


def find_dead_files(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    """Yield files that neither SKILL.md nor any other text of the skill names, not even by the bare name."""
    for path in shelf.files:
        skill, _, inner = path.partition("/")
        name = inner.rpartition("/")[2]
        if inner == "SKILL.md" or skill not in shelf.skills or name.lower().startswith("license"):
            continue
        stem = name.rpartition(".")[0] or name
        wanted = (name, stem) if len(stem) > 3 and name.endswith(".py") else (name,)
        others = (text.text for text in shelf.of(skill) if text.path != path)
        if name == "__init__.py" or any(word in text for text in others for word in wanted):
            continue
        sentence = "No other file of the skill names it, so an agent finds it only by listing the folder"
        yield LibraryHit(path, 0, 0, sentence)


def find_empty_files(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for path, file in shelf.files.items():
        if not file.content.strip() and not path.endswith("__init__.py"):
            yield LibraryHit(path, 0, 0, "The file is empty")


def find_near_duplicates(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    sets = {
        skill: set(shingles_of([word.text for text in shelf.of(skill) for word in split_words(text.text)], SHINGLE))
        for skill in shelf.skills
    }
    holders: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for skill, shingles in sets.items():
        for shingle in shingles:
            holders[shingle].append(skill)
    shared: Counter[tuple[str, str]] = Counter()
    for skills in holders.values():
        if 1 < len(skills) <= COMMON:
            shared.update(combinations(sorted(skills), 2))
    for (first, second), both in sorted(shared.items()):
        either = len(sets[first]) + len(sets[second]) - both
        if both / either >= ALIKE:
            note = f"Shares {both:,} of {either:,} runs of {SHINGLE} words with {first} (Jaccard {both / either:.2f})"
            yield LibraryHit(shelf.head(second).path, 0, 0, note)


FILES = (
    LibraryRule(
        "dead-file",
        "files",
        "note",
        "No other file of its skill names it.",
        "Name it in SKILL.md where it is needed, or delete it.",
        find_dead_files,
    ),
    LibraryRule(
        "empty-file",
        "files",
        "note",
        "The file is empty.",
        "Fill it or delete it.",
        find_empty_files,
        is_heuristic=False,
    ),
    LibraryRule(
        "near-duplicate",
        "duplicates",
        "warning",
        f"Two skills share at least {ALIKE:.0%} of their runs of {SHINGLE} words (exact Jaccard).",
        "Join them, or say in both descriptions when to use which.",
        find_near_duplicates,
    ),
)


MAX_HITS = 5  # of one pattern in one file
LONG_WORDS = 4_000
PARSED_CHARS = 100_000

_UNPINNED = re.compile(
    r"^(?![^\S\n]*#).*?\b(?:pip3? install|uv pip install|npm install|conda install)\s+(?!-r\b)([^\n`]+)", re.M
)
_HOME = re.compile(
    r"(?<![\w/])(?:/Users/[A-Za-z0-9_.-]+|/home/(?!user\b|\$)[A-Za-z0-9_.-]+(?=/)|[A-Z]:\\Users\\[^\s\\]+)"
)
_PLACEHOLDER = re.compile(
    r"\b(?:TODO|FIXME|TBD|XXX)\b(?!-)|<(?:your|insert|fill)[- _][^>\n]{1,40}>|\blorem ipsum\b|\[(?:insert|your) [^\]\n]{1,40}\]",  # noqa: E501
    re.I,
)
_VAGUE = re.compile(
    r"\b(?:as (?:appropriate|needed|necessary)|if (?:needed|necessary|appropriate)|where (?:appropriate|applicable)"
    r"|handle (?:all )?(?:the )?(?:edge|corner) cases|and so on|use (?:common sense|good judge?ment|best practices)"
    r"|be careful(?! to)|follow best practices)\b",
    re.I,
)
_RISKY = re.compile(
    r"\brm\s+-[a-z]*r[a-z]*f?[a-z]*\s+(?:/(?![\w.])|~|\$HOME|\*)|\b(?:curl|wget)\b[^\n|]{0,200}\|\s*(?:sudo\s+)?(?:ba|z)?sh\b"
    r"|\bchmod\s+(?:-R\s+)?777\b|\bgit push\b[^\n]{0,400}(?:--force\b(?!-with)| -f\b)|--no-verify\b|\bverify\s*=\s*False\b"  # noqa: E501
    r"|\bsudo\s+\w+|\bDROP (?:TABLE|DATABASE)\b|\bmkfs\b|\bdd if=|:\(\)\s*\{|--privileged\b|\bos\.system\(|\bshell\s*=\s*True"  # noqa: E501
    r"|(?<![\w.])eval\(",
)
_SECRET = re.compile(
    r"\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}\b|\bsk-[A-Za-z0-9_-]{20,}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\bxox[abp]-[A-Za-z0-9-]{10,}|\beyJ[A-Za-z0-9_-]{15,1000}+\.[A-Za-z0-9_-]{10,}\."
)
_STEERING = re.compile(
    r"\b(?:ignore|disregard|forget) (?:all |any )?(?:the )?(?:previous|prior|above|earlier|other) (?:instructions?|prompts?|rules?)"  # noqa: E501
    r"|\b(?:do not|don't|never) (?:tell|mention|reveal|inform) (?:this |it )?(?:to )?the user\b|\bsystem prompt\b",
    re.I,
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def _find_pattern(pattern: re.Pattern[str], sentence: str) -> Callable[[Shelf, Sources], Iterator[LibraryHit]]:
    def find(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
        for text in shelf.texts.values():
            for match in islice(pattern.finditer(text.text), MAX_HITS):
                yield LibraryHit(text.path, match.start(), match.end(), sentence)

    return find


def find_unpinned(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for text in shelf.texts.values():
        for match in islice(_UNPINNED.finditer(text.text), MAX_HITS):
            if not re.search(r"[=<>~]=|@\d|==", match.group(1)):
                yield LibraryHit(text.path, match.start(1), match.end(1), "Installs without saying which version")


def find_unclosed_fence(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for text in (text for text in shelf.texts.values() if text.path.endswith(".md")):
        opened: re.Match[str] | None = None
        for match in _FENCE.finditer(text.text):
            mark = match.group(1)
            if opened is None:
                opened = match
            elif mark[0] == opened.group(1)[0] and len(mark) >= len(opened.group(1)) and _is_bare(text.text, match):
                opened = None
        if opened is not None:
            yield LibraryHit(text.path, opened.start(), opened.end(), "A block of code is opened here and never closed")


def _is_bare(text: str, match: re.Match[str]) -> bool:
    return not text[match.end() : (text + "\n").index("\n", match.end())].strip()


def find_broken_python(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for text in shelf.texts.values():
        if not text.path.endswith(".py") or len(text.text) > PARSED_CHARS:
            continue
        try:
            ast.parse(text.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            start, end = text.line_span(getattr(error, "lineno", None) or 1)
            yield LibraryHit(text.path, start, end, f"Python cannot read it: {str(error)[:200]}")


def find_long_skills(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for head in map(shelf.head, shelf.skills):
        if (words := len(head.text.split())) > LONG_WORDS:
            yield LibraryHit(head.path, 0, 0, f"{words:,} words in one SKILL.md; details belong into references/")


WRITING = (
    LibraryRule(
        "install-unpinned",
        "environment",
        "note",
        "Installs a package without a version.",
        "Name the version that you tried, so that the skill works the same tomorrow.",
        find_unpinned,
    ),
    LibraryRule(
        "home-path",
        "environment",
        "warning",
        "Names the home folder of one machine.",
        "Use a path relative to the skill or the task, or $HOME.",
        _find_pattern(_HOME, "A home folder of one machine"),
    ),
    LibraryRule(
        "placeholder",
        "grounding",
        "warning",
        "Leaves a gap to be filled in.",
        "Fill the gap, or say where the value comes from.",
        _find_pattern(_PLACEHOLDER, "A gap that was left"),
    ),
    LibraryRule(
        "code-fence",
        "procedure",
        "warning",
        "A block of code is not closed.",
        "Close the block with a line of the same marks; a file that was cut off ends like this.",
        find_unclosed_fence,
        is_heuristic=False,
    ),
    LibraryRule(
        "script-broken",
        "procedure",
        "warning",
        "A Python file does not parse.",
        "Run the file once where agents run it, and correct it.",
        find_broken_python,
        is_heuristic=False,
    ),
    LibraryRule(
        "vague-instruction",
        "constraints",
        "note",
        "Leaves the decision to the reader in words that say nothing.",
        "Name the case and what to do in it.",
        _find_pattern(_VAGUE, "Says nothing that could be followed or checked"),
    ),
    LibraryRule(
        "risky-command",
        "safety",
        "warning",
        "A command that destroys, hides or trusts too much.",
        "Use a narrower command, or say why this one is safe here.",
        _find_pattern(_RISKY, "Risky"),
    ),
    LibraryRule(
        "secret",
        "safety",
        "alarm",
        "Looks like a key or token.",
        "Remove it, and revoke it where it is valid: anyone who has the skill has it. Read it from a variable instead.",
        _find_pattern(_SECRET, "Looks like a key or token"),
    ),
    LibraryRule(
        "steering",
        "safety",
        "warning",
        "Speaks to the agent over the heads of its user or prompt.",
        "Remove it: a skill is advice for a task, and must not set aside what its user or prompt says.",
        _find_pattern(_STEERING, "Speaks over the head of the user or the prompt"),
    ),
    LibraryRule(
        "too-long",
        "safety",
        "note",
        f"A SKILL.md of more than {LONG_WORDS:,} words.",
        "Move details into files in references/ and name these in SKILL.md.",
        find_long_skills,
    ),
)


def find_episode_constants(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for text in shelf.texts.values():
        shown: dict[object, int] = {}
        for constant, start, end in find_constants(text.text):
            seen = sources.sightings.get(constant, ())
            if len(seen) != 1 or shown.get(constant, 0) >= PLACES_SHOWN:
                continue
            if constant.kind == "path" and not seen[0].siblings:
                continue  # names of files mostly belong to the family, and nothing here could decide it
            shown[constant] = shown.get(constant, 0) + 1
            one, sentence = seen[0], _describe_sighting(constant, seen[0], sources)
            # With only one task, a family's and a task's constants look the same.
            weight: Severity | None = (
                None if one.siblings and one.own and sources.tasks_seen >= FEW_TASKS else "warning"
            )
            yield LibraryHit(text.path, start, end, sentence, one.trial, one.step, one.field, weight)


def _describe_sighting(constant: Constant, sighting: Sighting, sources: Sources) -> str:
    sentence = f"{_KINDS[constant.kind]} seen in 1 of {sources.tasks_seen} tasks looked through: {sighting.task}"
    if not sighting.own:
        sentence += ", in a trial outside this episode"
    if not sighting.siblings:
        sentence += "; of its family no other task was looked through, so it may belong to the family"
    return sentence


_KINDS = {"path": "A path", "id": "An id, date or address", "number": "A number"}


def find_hidden_checks(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    names = {spoken.text.lower(): spoken for spoken in sources.hidden_checks if _is_telling(spoken.text)}
    if not names:
        return
    pattern = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))), re.IGNORECASE)
    for text in shelf.texts.values():
        for match in pattern.finditer(text.text):
            spoken = names[match.group().lower()]
            yield LibraryHit(text.path, match.start(), match.end(), f"The name of {spoken.who}", trial=spoken.trial)


def _is_telling(name: str) -> bool:
    return len(name) >= MIN_NAME and ("_" in name or name.count(" ") >= 2 or "::" in name)


def find_verifier_text(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    """Yield words shared with verifier texts, except those of the task's instruction, which every agent sees."""
    corpus = CopySource.of((each.text for each in sources.verifier_texts), VERIFIER_WORDS).without(sources.public_texts)
    for text in shelf.texts.values():
        for run in corpus.runs_in(text.text, distinct=4):
            source = sources.verifier_texts[run.source]
            sentence = f"{run.words} words in a row also in {source.who}"
            weight: Severity | None = "warning" if source.is_printed else None  # it may print what the agent wrote
            yield LibraryHit(text.path, run.start, run.end, sentence, source.trial, severity=weight)


def find_reference_text(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    """Yield words shared with references. A few words of common code are weak; a long run or a large share is not."""
    corpus = CopySource.of((each.text for each in sources.references), REFERENCE_WORDS).without(sources.public_texts)
    for text in shelf.texts.values() if corpus.shingles else ():
        runs = list(corpus.runs_in(text.text, distinct=7))
        shared, total = sum(run.words for run in runs), len(split_words(text.text))
        for run in runs:
            weak = run.words < LONG_RUN and shared / total < MUCH_SHARED
            sentence = (
                f"{run.words} words in a row also in {sources.references[run.source].who}; "
                f"in all {shared:,} of this file's {total:,} words are shared"
            )
            yield LibraryHit(text.path, run.start, run.end, sentence, severity="note" if weak else None)


def find_talk_of_checking(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for text in shelf.texts.values():
        for match in _ABOUT_CHECKING.finditer(text.text):
            yield LibraryHit(text.path, match.start(), match.end(), "Mentions how the work is checked")


LEAKS = (
    LibraryRule(
        "episode-constant",
        "leak",
        "alarm",
        "A path, id or number that the trials of exactly one task show, and those of no other task looked through. "
        "Paths count only where another task of the family was looked through too.",
        "Replace it by how to find the value: another task has another one.",
        find_episode_constants,
    ),
    LibraryRule(
        "hidden-check-name",
        "leak",
        "alarm",
        "The name of a check that agents are not shown.",
        "Remove it: who reads it learns what is tested, not how to do the task.",
        find_hidden_checks,
        is_heuristic=False,
    ),
    LibraryRule(
        "verifier-text",
        "leak",
        "alarm",
        f"At least {VERIFIER_WORDS} words in a row that a verifier wrote.",
        "Say in your own words what to do; keep the grader out of it.",
        find_verifier_text,
    ),
    LibraryRule(
        "reference-text",
        "leak",
        "alarm",
        f"At least {REFERENCE_WORDS} words in a row that a curated or human skill of the same family has.",
        "Find out whether the author could see that skill; if so, the comparison with it says nothing.",
        find_reference_text,
    ),
    LibraryRule(
        "talk-of-checking",
        "leak",
        "warning",
        "Mentions tests, graders or reference answers.",
        "Say what a good result is, not how somebody grades it.",
        find_talk_of_checking,
    ),
)
