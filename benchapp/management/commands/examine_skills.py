"""Read a release's skills, and its oracle logs, without importing them."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from django.core.management.base import BaseCommand

from benchapp.analysis.diagnoses.diagnosis import RULES
from benchapp.analysis.diagnoses.library_shelf import GROUPS, SEVERITIES, LibraryRule, LocatedHit
from benchapp.management.lookups import end_on
from benchapp.papers.published_rows import Cells, align_columns, read_published_rows
from benchapp.papers.release import (
    COPIED,
    HUMAN,
    LINT,
    METHODS,
    MODELS,
    PAPER,
    TASKS,
    Beside,
    NoRelease,
    OracleLog,
    Release,
    Tally,
    compare_with_paper,
    count_paper_libraries,
    examine,
    group_libraries,
    read_logs,
    read_release,
)
from runner.authoring.contract.skill_file import PATTERNS
from runner.authoring.copied import LEAKED, LEAKED_RUN, SIZE

SHOWN_PROBLEMS = 200
UNKNOWN = "-"
MAX_PLACES = 200
_ODD = ("frontmatter", "skill-file")


class Command(BaseCommand):
    help = (
        "Compares the skills of a SkillLearnBench release by method: patterns, lint, diagnostics, overlap with human "
        "skills, and the paper's numbers. Writes nothing."
    )
    requires_system_checks: list[str] = []  # needs neither a database nor a broker

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "folder", type=Path, metavar="FOLDER", help="folder that contains skills/<config>/<task>/<skill>/"
        )
        parser.add_argument("--by-model", action="store_true", help="one line or column per method and model")
        parser.add_argument("--logs", action="store_true", help="read the oracle logs in eval_keypoints/, too")
        parser.add_argument(
            "--json", dest="as_json", action="store_true", help="print one JSON object with tables and problems"
        )

    def handle(self, *args: object, folder: Path, by_model: bool, logs: bool, as_json: bool, **options: object) -> None:
        with end_on(NoRelease):
            release = read_release(folder)
        made = list(_build_tables(release, by_model=by_model, logs=logs))
        problems = list(release.problems)
        if as_json:
            found = {"tables": [asdict(table) for table in made], "problems": [each.as_json() for each in problems]}
            self.stdout.write(json.dumps(found, ensure_ascii=False, indent=1))
            return
        for table in made:
            self.stdout.write("\n".join([*render_table(table), "", ""]))
        self.stdout.write(f"File problems: {len(problems):,}")
        for each in problems[:SHOWN_PROBLEMS]:
            place = f", {each.place}" if each.place else ""
            self.stdout.write(f"  {each.path}{place}: expected {each.expected}; {each.message}")
        if len(problems) > SHOWN_PROBLEMS:
            self.stdout.write(f"  ... and {len(problems) - SHOWN_PROBLEMS:,} more")


def _build_tables(release: Release, *, by_model: bool, logs: bool) -> Iterator[ExaminedTable]:
    # Go task by task: the human skills for the comparison are read once.
    in_turn = sorted(release.libraries, key=lambda library: library.task)
    examined = {library.name: examine(library, release) for library in in_turn}

    def tallies(by_model: bool) -> list[Tally]:
        groups = group_libraries(release.libraries, by_model=by_model)
        return [Tally(name, [examined[library.name] for library in libraries]) for name, libraries in groups]

    shown, cells = tallies(by_model), Cells(row for row in read_published_rows(PAPER))
    if shown:
        yield tabulate_coverage(shown)
        yield tabulate_patterns(shown)
        yield tabulate_beside(compare_with_paper(tallies(by_model=False), cells))
        yield tabulate_lint(shown)
        yield tabulate_diagnostics(shown)
        yield tabulate_leaks(shown)
        yield tabulate_leak_places(shown)
        yield tabulate_odd_skills(shown)
    if logs:
        yield tabulate_logs(list(read_logs(release)), cells)


@dataclass(frozen=True, slots=True)
class ExaminedTable:
    """A table for a terminal: every cell is text, every row as wide as `columns`; `notes` come below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def tabulate_coverage(tallies: Sequence[Tally]) -> ExaminedTable:
    rows = []
    for tally in tallies:
        is_whole = tally.name == tally.examined[0].library.method  # else one model's part of it
        is_known = tally.examined[0].library.method in (*METHODS, HUMAN)
        models = f"{len(tally.models)} of {len(MODELS)}" if tally.name in METHODS else UNKNOWN
        tasks = f"{len(tally.tasks)} of {TASKS}"
        wanted = count_paper_libraries(tally.name) if is_whole else TASKS
        counted = f"{tally.libraries} of {wanted}" if is_known else str(tally.libraries)
        left_out = sum(len(each.library.omitted) for each in tally.examined)
        instructions = sum(each.library.instruction is not None for each in tally.examined)
        rows.append((tally.name, models, tasks, counted, str(tally.skills), str(left_out), f"{instructions}"))
    columns = ("method", "models", "tasks", "libraries", "skills", "files left out", "with instruction")
    notes = (
        "k of what the paper has (arXiv 2604.20087: six models, twenty tasks). Files left out are named by a "
        "MANIFEST.json and",
        "count for patterns. Where no instruction is here, words that a skill has from it are not taken out of its "
        "overlap.",
    )
    return ExaminedTable("What this folder covers", columns, tuple(rows), notes)


def tabulate_patterns(tallies: Sequence[Tally]) -> ExaminedTable:
    rows = []
    for tally in tallies:
        shares = [_format_share(tally.patterns[letter], tally.skills) for letter in PATTERNS]
        rows.append((tally.name, str(tally.skills), f"{tally.skills / tally.libraries:.3f}", *shares))
    columns = ("method", "skills", "per task", "A instructions", "B scripts", "C MCP or subagents")
    return ExaminedTable("Skills and their patterns", columns, tuple(rows))


def tabulate_beside(lines: Iterable[Beside]) -> ExaminedTable:
    notes = (
        "Printed: Figure 3 (second-hand, from a reading of the picture) and Table 5. Why is computed from the counts.",
    )
    return ExaminedTable("Next to the paper's numbers", Beside._fields, tuple(lines), notes)


def tabulate_lint(tallies: Sequence[Tally]) -> ExaminedTable:
    """Tabulate the rules of the contract. A rule that found nothing anywhere has no row."""
    names = ((rule, rule) for rule in RULES if rule in LINT)
    rows = _by_weight(tallies, names, lambda rule: rule.id)
    return ExaminedTable("Lint: findings in skills", ("rule", "weight", *(tally.name for tally in tallies)), rows)


def tabulate_diagnostics(tallies: Sequence[Tally]) -> ExaminedTable:
    left_out = sum(tally.left_out for tally in tallies)
    notes: tuple[str, ...] = (
        "Leak rules that need trials (constants, verifiers, hidden checks) had none; human skills are the reference.",
    )
    if left_out:
        notes += (f"{left_out} more findings of one rule in one library are not counted.",)
    columns = ("group", "weight", *(tally.name for tally in tallies))
    rows = _by_weight(tallies, GROUPS.items(), lambda rule: rule.group)
    return ExaminedTable("Diagnostics by group: findings in skills", columns, rows, notes)


def _by_weight(
    tallies: Sequence[Tally], titles: Iterable[tuple[str, str]], key: Callable[[LibraryRule], str]
) -> tuple[tuple[str, ...], ...]:
    """Return a row per title and weight with a finding in any tally. titles: (`key` of a rule, row's name)."""
    rows = []
    for wanted, title in titles:
        for severity in SEVERITIES:
            found = [
                [pair for pair in tally.found if (key(pair[1].rule), pair[1].severity) == (wanted, severity)]
                for tally in tallies
            ]
            if any(found):
                rows.append((title, severity, *map(_count_places, tallies, found)))
    return tuple(rows)


def tabulate_leaks(tallies: Sequence[Tally]) -> ExaminedTable:
    rows: list[tuple[str, ...]] = []
    for tally in tallies:
        found = tally.meters
        if not found:
            rows.append((tally.name, *(UNKNOWN,) * 5))
            continue
        copied, whole = sum(each.is_copied for each in found), sum(each.share == 1 for each in found)
        shares, cites = sum(each.shares for each in found), sum(bool(each.cites) for each in found)
        counts = (_format_share(count, len(found)) for count in (shares, copied, whole, cites))
        rows.append((tally.name, str(len(found)), *counts))
    columns = ("method", "skills", "shares text", f"> {COPIED:.0%}", "100%", "cites its path")
    notes = (
        f"SKILL.md against all text files of the task's human skills, in runs of {SIZE} words. Shares text: at least "
        f"{LEAKED} runs",
        f"or short whole lines, or {LEAKED_RUN} words in a row. Cites its path: an absolute path into a human skill's "
        "folder.",
    )
    return ExaminedTable("Leak meter: generated skills against human skills", columns, tuple(rows), notes)


def tabulate_leak_places(tallies: Sequence[Tally]) -> ExaminedTable:
    """Tabulate the skills behind the last three columns."""
    found = [each for tally in tallies for each in tally.meters if each.is_copied or each.cites]
    found.sort(key=lambda each: (-(each.share or 0), each.path))
    rows = tuple(
        (each.path, f"{each.share:.3f}" if each.share is not None else UNKNOWN, str(each.longest), " ".join(each.cites))
        for each in found[:MAX_PLACES]
    )
    columns = ("skill", "share", "longest run", "cites")
    return ExaminedTable("Skills that copy or cite", columns, rows, _note_left_out(found))


def tabulate_odd_skills(tallies: Sequence[Tally]) -> ExaminedTable:
    """Tabulate skills that no harness can read: frontmatter that does not parse, or no SKILL.md."""
    found = [(path, each) for tally in tallies for path, each in tally.found if each.rule.id in _ODD]
    rows = tuple(
        (f"{path}/{each.hit.path}", str(each.line or UNKNOWN), each.hit.says) for path, each in found[:MAX_PLACES]
    )
    notes = ("They are counted in every table.", *_note_left_out(found)) if found else ()
    return ExaminedTable("Odd skills", ("file", "line", "what"), rows, notes)


def tabulate_logs(found: Sequence[OracleLog], cells: Cells) -> ExaminedTable:
    """Tabulate a row per task, then one over tasks: means over the task's logs."""
    by_task: dict[str, list[OracleLog]] = {}
    for log in found:
        by_task.setdefault(log.task, []).append(log)
    lines = [_summarise_task(task, logs, cells) for task, logs in sorted(by_task.items())]
    columns = (
        *("task", "logs", "messages", "calls", "of last lines", "input", "output", "USD", "used", "Table 9"),
        "skills used",
    )
    rows = [_render_line(line) for line in lines]
    if lines:
        means = map(_mean, zip(*(line[2:10] for line in lines), strict=True))
        rows.append(_render_line(["mean of tasks", str(len(found)), *means, ""]))
    printed = [cells.one("Figure 3", metric, condition="human-authored").printed for metric in ("steps", "tool_calls")]
    notes = (
        "Calls: every tool_use block. Of last lines: as upstream counts, one line per message. Input counts cached "
        "tokens. Used: mean",
        "share of the task's human skills, in per cent, next to Table 9's. Figure 3 prints for human skills (over all "
        "instances,",
        f"second-hand) {printed[0]} steps and {printed[1]} tool calls. These logs have no verdict, and are not the "
        "runs of the paper's tables.",
    )
    return ExaminedTable("Oracle logs by task", columns, tuple(rows), notes)


def _summarise_task(task: str, found: Sequence[OracleLog], cells: Cells) -> list[object]:
    printed = cells.many("Table 9", "use", condition="human-authored", group=task)
    names = sorted({f"{skill} ({', '.join(kinds)})" for log in found for skill, kinds in log.used.items()})
    figures = [
        _mean(getattr(log, name) for log in found)
        for name in ("messages", "calls", "calls_of_last_lines", "input_tokens", "output_tokens", "cost_usd", "use")
    ]
    use = None if figures[-1] is None else 100 * figures[-1]
    table_9 = float(printed[0].number) if printed else None
    return [task, str(len(found)), *figures[:-1], use, table_9, "; ".join(names) or "none"]


def _mean(values: Iterable[object]) -> float | None:
    """Return the mean, None as soon as one value is missing: a mean of the others would be of other logs."""
    known = list(values)
    numbers = [float(value) for value in known if isinstance(value, int | float)]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(known) else None


def _render_line(line: Sequence[object]) -> tuple[str, ...]:
    digits = (0, 0, 2, 2, 2, 0, 0, 3, 2, 2, 0)
    return tuple(
        UNKNOWN if value is None else f"{value:,.{places}f}" if isinstance(value, float) else str(value)
        for value, places in zip(line, digits, strict=True)
    )


def _format_share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.1f}%)" if total else UNKNOWN


def _count_places(tally: Tally, found: Sequence[tuple[str, LocatedHit]]) -> str:
    return f"{len(found)} in {tally.places(found)}" if found else "0"


def _note_left_out(found: Sequence[object]) -> tuple[str, ...]:
    return (f"{len(found) - MAX_PLACES} more are not listed.",) if len(found) > MAX_PLACES else ()


def _make_printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def render_table(table: ExaminedTable) -> Iterator[str]:
    """Render the table. Text of a release is hostile: what a terminal might obey is replaced."""
    lines = [[_make_printable(cell) for cell in row] for row in (table.columns, *table.rows)]
    yield from (table.title, "")
    yield from align_columns(lines) if table.rows else ("none",)
    yield from (("", *table.notes) if table.notes else ())
