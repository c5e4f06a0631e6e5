"""Check skills in folders by the rules of the diagnostics, for an editor or a CI job. Needs no record.

With one, it adds how trials ended that read the same lines. A library is known by a file of the same path and content;
where none has it, by the one most alike, and then only lines that did not change count.

SARIF is version 2.1.0 as GitHub's code scanning takes it: relative addresses, a line for every result, at most 25,000.
"""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from benchapp.analysis.diagnoses.diagnosis import RULES, Diagnosis
from benchapp.analysis.diagnoses.library_shelf import MAX_FILES, LocatedHit, Sources
from benchapp.analysis.lineage import attribution
from benchapp.analysis.lineage.library_states import read_histories
from benchapp.analysis.lineage.line_history import Lineage, WorkedTrial, read_lineage
from benchapp.models import Blob, Episode, LibraryFinding, SnapshotFile
from benchapp.record.textual_change import is_binary, match_files, match_lines, split_bare_lines
from benchapp.record.visible import one_line
from benchapp.stats.inference.shares import Rate
from runner.authoring.contract.skill_file import SKILL_FILE
from runner.base.digests import digest_bytes, library_digest
from runner.base.text import plural
from runner.base.trees import read_tree
from runner.base.types import DecisionStatus, File, Files

COULD_NOT_RUN = 2
LEVELS = {"alarm": "error", "warning": "warning", "note": "note"}  # severity -> level, the worst first
READERS = "readers-of-line"  # a note from the record; no fault, so it fails nothing
NOT_SKILLS = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
MAX_QUOTE = 80
MAX_RESULTS = 25_000
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MAX_EPISODES = 200  # with the same file: the newest
MAX_VERSIONS = 50  # of a file that has changed since: the newest are compared


class Command(BaseCommand):
    help = (
        "Checks skills in folders by the rules of the diagnostics. Writes nothing and needs no database. Exit status: "
        "0 without findings of the level, 1 with some, 2 where it could not run."
    )
    requires_system_checks: list[str] = []  # needs neither a database nor a broker

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="folder of skills, or one skill")
        parser.add_argument("--format", choices=("text", "json", "sarif"), default="text", help="default: text")
        parser.add_argument(
            "--fail-on",
            choices=tuple(LEVELS.values()),
            default="warning",
            help="the least level that makes the exit status 1 (default: warning)",
        )
        parser.add_argument(
            "--record", action="store_true", help="add what the record knows: how trials ended that read the same lines"
        )

    def handle(
        self, *args: object, paths: list[Path], format: str, fail_on: str, record: bool, **options: object
    ) -> None:
        try:
            folders = lint_paths(paths)
            for linted in folders if record else ():
                for leak in find_recorded_leaks(linted.files):
                    linted.add(leak.rule, LEVELS[leak.severity], leak.path, leak.line, leak.says)
                for path, first, last, sentence in find_read_lines(linted.files):
                    linted.add(READERS, "note", path, first, sentence, last)
            if format == "sarif":
                self.stdout.write(render_sarif(folders, settings.VERSION))
            else:
                self.stdout.write({"text": render_text, "json": render_json}[format](folders))
        except CannotLint as error:
            raise CommandError(str(error), returncode=COULD_NOT_RUN) from error
        except Exception as error:  # status 1 means findings, so that no failure may end with it
            raise CommandError(f"{type(error).__name__}: {error}", returncode=COULD_NOT_RUN) from error
        if fails(list_findings(folders), fail_on):
            raise SystemExit(1)


class CannotLint(ValueError):
    """There is nothing to read at a path. The message names it."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """`path`: relative to where the command runs.
    `line` from 1, 0 for the whole file; `last`: where it spans several."""

    rule: str
    level: str
    path: str
    line: int
    says: str
    last: int = 0


@dataclass
class LintedFolder:
    """Skills next to each other. `not_read`: what the rules did not see, and why."""

    folder: Path
    skills: list[str]
    files: dict[str, File] = field(default_factory=dict)
    findings: list[LintFinding] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)

    def add(self, rule: str, level: str, path: str, line: int, message: str, last: int = 0) -> None:
        self.findings.append(LintFinding(rule, level, show_path(self.folder / path), line, message, last))


def lint_paths(paths: Iterable[Path]) -> list[LintedFolder]:
    """Lint every skill at or below the paths. Raise CannotLint where one of them has none."""
    folders: dict[Path, set[str]] = {}
    for path in paths:
        found = list(_find_skills(path))
        if not found:
            raise CannotLint(f"{path}: no {SKILL_FILE} there or in a folder below")
        for skill in found:
            folders.setdefault(skill.parent, set()).add(skill.name)
    return [_lint(LintedFolder(folder, sorted(skills))) for folder, skills in sorted(folders.items())]


def _find_skills(path: Path) -> Iterator[Path]:
    """Yield folders with a SKILL.md. One in other letters counts as well: no harness loads it, and a rule says so."""
    if path.is_file() and path.name.lower() == SKILL_FILE.lower():
        path = path.parent
    if not path.is_dir():
        raise CannotLint(f"{path}: expected a folder of skills, a skill's folder or its {SKILL_FILE}")
    for folder, names, files in os.walk(path.resolve()):
        if any(name.lower() == SKILL_FILE.lower() for name in files):
            yield Path(folder)
            names.clear()  # what is inside belongs to the skill
        names[:] = sorted(set(names) - NOT_SKILLS)


def _lint(linted: LintedFolder) -> LintedFolder:
    for skill in linted.skills:
        tree = read_tree(linted.folder / skill, skip=NOT_SKILLS)
        linted.files |= {f"{skill}/{path}": file for path, file in tree.files.items() if path != ".DS_Store"}
        linted.not_read += [f"{show_path(linted.folder / skill)}/{reason}" for reason in tree.left_out]
    if len(linted.files) > MAX_FILES:
        linted.not_read.append(f"{show_path(linted.folder)}: all but the first {MAX_FILES:,} files")
    diagnosis = Diagnosis(linted.files, Sources())
    linted.not_read += [f"{show_path(linted.folder / path)}: read only at its beginning" for path in diagnosis.cut]
    linted.not_read += [
        f"{show_path(linted.folder)}: {count:,} more of {rule}" for rule, count in diagnosis.left_out.items()
    ]
    for found in diagnosis.found:
        linted.add(found.rule.id, LEVELS[found.severity], found.hit.path, found.line, _say(found))
    return linted


def _say(hit: LocatedHit) -> str:
    quoted = one_line(hit.quote, MAX_QUOTE) if hit.rule.id != "secret" else ""  # never print it in a log
    return one_line(hit.hit.says, 300) + (f": “{quoted}”" if quoted else "")


def show_path(path: Path) -> str:
    """Return the path below the current folder, else the whole path."""
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def describe_rules() -> list[dict[str, str]]:
    """Return every rule with its id, level, short text and help."""
    rules = [
        {"id": rule.id, "level": LEVELS[rule.severity], "text": rule.says, "help": rule.help, "group": rule.group}
        for rule in RULES.values()
    ]
    text = "Trials in the record read these lines; the note counts how they ended."
    help = "Look at the library page: the counts are association, not effect. A probe reruns tasks without the lines."
    return [*rules, {"id": READERS, "level": "note", "text": text, "help": help, "group": "record"}]


# --- what is printed ------------------------------------------------------------------------------------------------


def list_findings(folders: Sequence[LintedFolder]) -> list[LintFinding]:
    """Return all findings, file by file."""
    found = [finding for linted in folders for finding in linted.findings]
    return sorted(found, key=lambda each: (each.path, each.line, _rank(each)))


def _rank(finding: LintFinding) -> int:
    return list(LEVELS.values()).index(finding.level)


def fails(findings: Iterable[LintFinding], at: str) -> bool:
    """Return whether a fault has this level or a worse one."""
    worst = list(LEVELS.values()).index(at)
    return any(finding.rule != READERS and _rank(finding) <= worst for finding in findings)


def render_text(folders: Sequence[LintedFolder]) -> str:
    findings = list_findings(folders)
    lines = [
        f"{one_line(each.path, 500)}{f':{each.line}' if each.line else ''}: {each.level}: {each.says} [{each.rule}]"
        for each in findings
    ]
    lines += [f"not read: {one_line(reason, 500)}" for linted in folders for reason in linted.not_read]
    counts = Counter(each.level for each in findings)
    skills, files = sum(len(each.skills) for each in folders), sum(len(each.files) for each in folders)
    totals = [plural(counts[level], level) for level in LEVELS.values()]
    return "\n".join([*lines, f"{plural(skills, 'skill')} in {plural(files, 'file')}: {', '.join(totals)}"])


def render_json(folders: Sequence[LintedFolder]) -> str:
    report = {
        "skills": [show_path(each.folder / skill) for each in folders for skill in each.skills],
        "files": sum(len(each.files) for each in folders),
        "findings": [asdict(each) for each in list_findings(folders)],
        "not_read": [reason for each in folders for reason in each.not_read],
        "rules": describe_rules(),
    }
    return json.dumps(report, ensure_ascii=False, indent=1)


def render_sarif(folders: Sequence[LintedFolder], version: str) -> str:
    findings, rules = list_findings(folders), describe_rules()
    not_read = [reason for each in folders for reason in each.not_read]
    if len(findings) > MAX_RESULTS:
        not_read.append(f"{len(findings) - MAX_RESULTS:,} findings, the least severe, are left out")
        findings = sorted(findings, key=_rank)[:MAX_RESULTS]
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    driver = {"name": "Skillglass", "version": version, "rules": [_render_rule(rule) for rule in rules]}
    notes = [{"level": "warning", "message": {"text": f"Not read: {_plain(reason)}"}} for reason in not_read]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "results": [_render_result(each, places[each.rule]) for each in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=1)


def _render_rule(rule: dict[str, str]) -> dict[str, object]:
    return {
        "id": rule["id"],
        "shortDescription": {"text": rule["text"]},
        "help": {"text": rule["help"]},
        "defaultConfiguration": {"level": rule["level"]},
        "properties": {"tags": ["skills", rule["group"]]},
    }


def _render_result(finding: LintFinding, place: int) -> dict[str, object]:
    region = {"startLine": max(1, finding.line)}  # code scanning refuses a result without a line
    if finding.last > finding.line:
        region["endLine"] = finding.last
    location = {"artifactLocation": {"uri": quote(finding.path)}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": place,
        "level": finding.level,
        "message": {"text": _plain(finding.says)},
        "locations": [{"physicalLocation": location}],
    }


def _plain(text: str) -> str:
    """Take links apart: in a SARIF message "[words](address)" is one."""
    return text.replace("](", "] (")


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file in the state `place` of an episode. `cell`: whose no-skill trials the baseline has."""

    lineage: Lineage
    baseline: attribution.Baseline
    cell: Hashable
    place: int
    is_scripted: bool


def find_recorded_leaks(files: Files) -> list[LibraryFinding]:
    """Return leaks that the record found in a library with exactly these files:
    trials show where the text comes from."""
    found = LibraryFinding.objects.filter(diagnosis__snapshot__digest=library_digest(files), group="leak")
    kept = found.filter(diagnosis__episode__run__experiment__deleted_at=None).exclude(trial=None)
    return list({(each.rule, each.path, each.line): each for each in kept}.values())


def find_read_lines(files: Files) -> Iterator[tuple[str, int, int, str]]:
    """Yield (path, first line, last line, sentence) for lines that came and went together and that trials with a
    verdict read, over all libraries that had the same file."""
    for path, file in files.items():
        own, digest = digest_bytes(file.content), "" if is_binary(file.content) else _choose_version(path, file.content)
        known = _find_known(path, digest) if digest else []
        if not known:
            continue
        written = zip(*(each.lineage.blame.states[each.place][path] for each in known), strict=True)
        # The life of a line in every library: lines with the same one have the same readers.
        lives = [
            tuple(each.lineage.blame.lines[number] for each, number in zip(known, numbers, strict=True))
            for numbers in written
        ]
        recorded = split_bare_lines(file.content if digest == own else Blob.objects.read(digest))
        kept = match_lines(recorded, split_bare_lines(file.content))
        numbered = enumerate((() if place is None else lives[place] for place in kept), 1)
        for life, group in groupby(numbered, key=lambda pair: pair[1]):
            lines = [number for number, _ in group]
            pairs = [
                (each, *pair)
                for each, line in zip(known, life, strict=bool(life))
                for pair in attribution.list_trials_with_line(each.lineage, each.place, path, line)
            ]
            ended = _count_ended(pairs)
            if ended.read.scored:
                sentences = [*attribution.describe_readers(ended), "Association, not effect."]
                sentences += ["Other lines of the file have changed since."] if digest != own else []
                if any(each.is_scripted for each in known):
                    sentences.append("A scripted model took part: no LLM is measured.")
                yield path, lines[0], lines[-1], " ".join(sentences)


def _choose_version(path: str, content: bytes) -> str:
    """Return the digest of the recorded file of this path that is equal, or most alike;
    empty where none is half the same."""
    recorded, own = SnapshotFile.objects.filter(path=path), digest_bytes(content)
    if recorded.filter(blob=own).exists():
        return own
    newest = dict.fromkeys(recorded.order_by("-snapshot").values_list("blob", flat=True)[:MAX_VERSIONS])
    contents = {**Blob.objects.read_many(list(newest)), own: content} if newest else {}
    found = match_files({digest: digest for digest in newest}, {path: own}, contents).get(path)
    return found.old if found else ""


def _find_known(path: str, digest: str) -> list[KnownFile]:
    snapshots = set(SnapshotFile.objects.filter(path=path, blob=digest).values_list("snapshot", flat=True))
    had_it = Q(trials__snapshot__in=snapshots) | Q(
        decisions__after__in=snapshots, decisions__status=DecisionStatus.APPLIED
    )
    kept = Episode.objects.filter(run__experiment__deleted_at=None).exclude(protocol="probe")
    episodes = kept.filter(pk__in=Episode.objects.filter(had_it).values("pk"))
    newest = list(episodes.select_related("run__experiment", "library").order_by("-pk")[:MAX_EPISODES])
    histories, found = read_histories(newest), []
    for episode in newest:
        run, states = episode.run, histories[episode.pk].states
        lineage = read_lineage(run, episode, states)
        places = [place for place, key in enumerate(lineage.snapshots) if key in snapshots]
        if places and not lineage.too_big:
            baseline = attribution.read_no_skill(run, {trial.task for trial in lineage.trials})
            cell = run.experiment_id, run.agent_model, run.harness
            found.append(KnownFile(lineage, baseline, cell, places[-1], run.scripted))
    return found


def _count_ended(pairs: list[tuple[KnownFile, WorkedTrial, bool | None]]) -> attribution.Ended:
    """Count as `count_endings` does, over several libraries.
    No-skill trials that several are compared with count once."""
    sides: dict[bool | None, list[WorkedTrial]] = {True: [], False: [], None: []}
    own, no_skill = list[WorkedTrial](), dict[Hashable, Rate]()
    for known, trial, read in pairs:
        sides[read].append(trial)
        slot = trial.task, trial.revision, trial.phase
        if read and trial.success is not None and slot in known.baseline:
            own.append(trial)
            no_skill[known.cell, slot] = known.baseline[slot]
    return attribution.Ended(
        read=attribution.count_rate(sides[True]),
        unread=attribution.count_rate(sides[False]),
        unknown=attribution.count_rate(sides[None]),
        own=attribution.count_rate(own),
        no_skill=sum(no_skill.values(), Rate()),
        slots=len(no_skill),
    )
