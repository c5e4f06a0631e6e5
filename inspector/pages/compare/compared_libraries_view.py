"""`/compare/libraries/`: how the libraries of each group grew, and who read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from benchapp.models import Episode
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import HIDDEN, Words
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import Rate, pooled_interval
from benchapp.stats.learning.libraries import FILE_KINDS, Churn, LibrarySize, read_library_numbers
from benchapp.stats.learning.reuse import PhaseReuse, Reuse, SkillReuse, reuse
from inspector.charts import OF_PAGES
from inspector.charts.cards import build_gallery
from inspector.charts.chart_request import sheet_of
from inspector.pages.compare.lanes import draw_share
from inspector.pages.compare.results import begin_page, begin_twin
from inspector.web.closed_pages import words_of
from inspector.web.responses import next_url, paginate, render_page
from runner.base.types import DecisionStatus, Phase

GROUPS_PER_PAGE = 25
LATER = (Phase.DEPLOYMENT, Phase.REPLAY, Phase.EVALUATION)  # trials that a finished library was carried to


@dataclass(frozen=True, slots=True)
class GroupLibraries(Shaped):
    """One group, its replicates added up; tainted episodes are left out."""

    group: Group
    libraries: tuple[LibrarySize, ...]
    churn: tuple[Churn, ...]
    reuse: tuple[Reuse, ...]

    json_shape = JsonShape(
        *("label=group.label", "runs=group.runs", ("libraries", lambda each: len(each.libraries)), "skills"),
        ("files", lambda each: dict(each.files)),
        ("decisions", lambda each: dict(each.decisions)),
        *("skills_created=created", "skills_deleted=deleted"),
        ("lines_added", lambda each: each.lines[0]),
        ("lines_removed", lambda each: each.lines[1]),
        "later_trials=later",
        ("never_read", lambda each: JsonShape("skill", "mounted").read_all(each.never_read)),
    )

    @property
    def is_library(self) -> bool:
        """Whether there is anything to show: a condition without skills has empty libraries that nobody wrote to."""
        return bool(self.skills or self.decisions)

    @property
    def skills(self) -> int:
        return sum(library.skills for library in self.libraries)

    @property
    def files(self) -> list[tuple[str, int]]:
        """Kind -> files, in the order of FILE_KINDS; kinds without a file are left out."""
        total: Counter[str] = Counter()
        for library in self.libraries:
            total.update(library.files)
        return [(kind, total[kind]) for kind in FILE_KINDS if total[kind]]

    @property
    def decisions(self) -> list[tuple[str, int]]:
        total: Counter[str] = Counter()
        for of_run in self.churn:
            total.update(of_run.decisions)
        return [(status.value, total[status.value]) for status in DecisionStatus if total[status.value]]

    @property
    def created(self) -> int:
        return sum(of_run.created for of_run in self.churn)

    @property
    def deleted(self) -> int:
        return sum(of_run.deleted for of_run in self.churn)

    @property
    def lines(self) -> tuple[int, int]:
        return sum(each.lines_added for each in self.churn), sum(each.lines_removed for each in self.churn)

    @property
    def later(self) -> PhaseReuse:
        """Trials that the finished library was carried to."""
        return _add_up(*self.reuse)

    @property
    def drawn(self) -> SafeString:
        """The share of later trials that read a skill of theirs, with its interval; empty where no trial had one to read."""
        share = self.later.share_of_mounted
        if share is None:
            return SafeString("")
        counts = [_add_up(of_run) for of_run in self.reuse]
        ends = pooled_interval([Rate(each.read_own, each.mounted) for each in counts if each.mounted])
        says = f"{self.later.read_own} of {self.later.mounted} later trials read a skill"
        return draw_share(self.group.condition, share, ends, says)

    @property
    def answers(self) -> tuple[int, int]:
        """Answers of the author that changed the library, and all of them."""
        found = dict(self.decisions)
        return found.get(DecisionStatus.APPLIED.value, 0), sum(found.values())

    @property
    def never_read(self) -> list[SkillReuse]:
        return [skill for of_run in self.reuse for skill in of_run.never_read]


def _add_up(*runs: Reuse) -> PhaseReuse:
    found = [of_run.phases[phase] for of_run in runs for phase in LATER if phase in of_run.phases]
    names = PhaseReuse.__dataclass_fields__
    return PhaseReuse(**{name: sum(getattr(each, name) for each in found) for name in names})


@require_safe
def compared_libraries(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    page = paginate(request, _sort_readers_first(sheet.groups), per_page=GROUPS_PER_PAGE)
    shown = _of_groups(list(page), comparison.choices.as_of, words_of(request))
    data = {**begin_twin(request, sheet), "groups": shown, "next": next_url(request, page)}
    libraries = [each for each in shown if each.is_library]
    context = {
        **begin_page(comparison, "compare-libraries"),
        "page": page,
        "shown": libraries,
        "answer": _answer(libraries),
        "gallery": build_gallery(OF_PAGES["compare-libraries"], sheet),
        "without": sum(not each.is_library for each in shown),
    }
    return render_page(request, "compare/compare_libraries.html", data=data, context=context, as_json=as_json)


def _sort_readers_first(groups: Sequence[Group]) -> list[Group]:
    """Groups with a library first, so that no page of others hides them."""
    runs = [run.pk for group in groups for run in group.runs]
    held = set(Episode.objects.filter(run__in=runs, library__files_total__gt=0).values_list("run", flat=True))
    return sorted(groups, key=lambda group: not any(run.pk in held for run in group.runs))


def _answer(shown: Sequence[GroupLibraries]) -> list[str]:
    """Who read the libraries, and what of them nobody read."""
    read, mounted = (sum(getattr(each.later, name) for each in shown) for name in ("read_own", "mounted"))
    skills, unread = sum(each.skills for each in shown), sum(len(each.never_read) for each in shown)
    said = [f"Agents opened a skill in {read:,} of {mounted:,} later trials."] if mounted else []
    if mounted and skills:
        which = "Every skill was" if not unread else f"{unread:,} skill{' was' if unread == 1 else 's were'} never"
        said.append(f"{which} opened by some trial." if not unread else f"{which} opened.")
    return said


def _of_groups(groups: Sequence[Group], as_of: datetime | None, words: Words) -> list[GroupLibraries]:
    """Only of the groups on the page: a history of a whole campaign takes a second to read. Skills that are closed to the
    reader have no names."""
    runs = [run for group in groups for run in group.runs]
    libraries, uses = read_library_numbers(runs, as_of), dict(reuse(runs, as_of))
    for pk in words.closed_runs().filter(pk__in=uses).values_list("pk", flat=True):
        uses[pk] = replace(uses[pk], skills=tuple(replace(skill, skill=HIDDEN) for skill in uses[pk].skills))
    return [
        GroupLibraries(
            group,
            tuple(size for run in group.runs for size in libraries[run.pk].sizes if not size.tainted),
            tuple(libraries[run.pk].churn for run in group.runs),
            tuple(uses[run.pk] for run in group.runs),
        )
        for group in groups
    ]
