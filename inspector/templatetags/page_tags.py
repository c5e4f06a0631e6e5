"""How numbers, states and times are written, and what a template looks up.
One rule for all: an unknown value says "unknown", never 0."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from django import template
from django.core.paginator import Page
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from benchapp.analysis.lineage.library_states import LibraryState
from benchapp.models import Comment, LibraryDiagnosis, Run, Square, Trial
from benchapp.models.stand_ins import StandIn
from benchapp.record.visible import visible
from benchapp.review.comments import place_in_words
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.condition_names import name_condition, name_run
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.inference.sentences import render_p
from benchapp.stats.inference.shares import Rate
from benchapp.stats.metrics.amounts import DAY, HOUR, MINUTE
from benchapp.stats.metrics.catalogue import name_role
from inspector.evolution.decision_words import describe_request, write_summary
from inspector.pages.people.comments import CommentedChart, CommentedSteps
from inspector.web.text.formats import (
    GLYPHS,
    UNKNOWN,
    all_tokens,
    compact,
    cost,
    duration,
    estimated_usd,
    headline,
    in_a_line,
    known,
    number,
    percent,
    points,
    spent_cost,
    status_word,
    tokens,
    usd,
    whole_points,
)
from runner.base.text import plural

if TYPE_CHECKING:  # a page that shows neither need not load them
    from inspector.pages.compare.tabs_view import TaskCell
    from inspector.pages.runs.run_view import GridCell

Item = TypeVar("Item")
register = template.Library()
for written in (
    *(known, percent, points, whole_points, number, compact, tokens, all_tokens, usd, cost, estimated_usd),
    *(spent_cost, duration, headline, status_word),
):
    register.filter(written)
register.filter("step_line", in_a_line)
register.filter("decision_summary", write_summary)
register.filter("decision_request", describe_request)

_TONES = {
    "ok": ("passed", "applied", "answered"),
    "bad": ("failed", "rejected", "blocked", "crash-looping"),
    "warn": ("stuck", "trials blocked", "paused", "cancelled", "unscored", "skipped", "interrupted", "infrastructure")
    + ("scripted", "tainted"),
    "acc": ("running", "frozen"),
}
TONES = {word: tone for tone, words in _TONES.items() for word in words}
FIELD_WORDS = {"tool_calls": "call", "observations": "result"}


@register.simple_tag
def badge(word: str, text: str = "") -> SafeString:
    """A state as a word in its tone: passed, failed, running, ... ; `text` is shown in its place."""
    shown = text or status_word(word)
    return format_html('<span class="badge {}">{}</span>', TONES.get(word, ""), shown)


@register.simple_tag
@lru_cache(maxsize=2_000)  # a table repeats a few of them a hundred times
def condition(code: str, form: str = "title") -> SafeString:
    """The mark and the plain name of a condition; its code shows on hover.
    `form`: title, or short for a narrow place."""
    name = name_condition(code)
    words = visible(name.short if form == "short" else name.title) if code != Run.UNKNOWN else "condition unknown"
    mark = condition_mark(code)
    return format_html('<span class="condition" title="{}">{}<span>{}</span></span>', visible(code), mark, words)


@register.simple_tag
def condition_mark(code: str) -> SafeString:
    """Return the mark alone, for a row with its words elsewhere;
    nothing for a condition that no protocol here knows."""
    name = name_condition(code)
    if not name.colour:
        return SafeString("")
    return format_html(
        '<svg class="mark c-{}" viewBox="-8 -8 16 16" aria-hidden="true"><use href="#shape-{}"/></svg>',
        name.colour,
        name.shape,
    )


@register.filter
def condition_title(code: str) -> str:
    return visible(name_condition(code).title)


@register.filter
def run_title(run: Run) -> str:
    """What people call a run: its condition's plain name and the replicate, without mark-up."""
    if run.condition != Run.UNKNOWN:
        return visible(name_run(run.condition, run.replicate))
    return "condition unknown" + ("" if run.replicate is None else f", replicate {run.replicate}")


@register.filter
def agent_model(run: Run) -> object:
    return "no model" if run.works_without_model else known(run.agent_model)


@register.filter
def role_title(role: str) -> str:
    """A role in the words of its metric: traps, not adversarial. Its code stays in addresses and files."""
    return visible(name_role(role))


@register.simple_tag
def judged(effect: Effect, text: str = "") -> SafeString:
    """The glyph and words of an effect; `text` is shown in their place."""
    tone = f"{effect.tone}{' clear' if effect.is_clear else ''}"
    return format_html('<span class="judged {}"><span>{}</span>{}</span>', tone, effect.glyph, text or effect.words)


@register.simple_tag
def stand_in_badge(stand_ins: Collection[StandIn] | None, noun: str = "model") -> SafeString:
    """Mark every place that shows numbers of a scripted, recorded or very small model, or of no model."""
    named = [each for each in StandIn if each in (stand_ins or ())]
    if len(named) > 1:  # "no model" next to a scripted one reads as a contradiction
        named = [each for each in named if each is not StandIn.NO]
    badges = ((each.sentence, each.value, noun) for each in named)
    return format_html_join(" ", '<span class="badge warn" title="{}">{} {}</span>', badges)


@register.filter
def p_value(p: float | None) -> str:
    """As in a sentence; "none" where there is none."""
    return "none" if p is None else render_p(p)


@register.filter
def field_word(name: str) -> str:
    """A field of a step as the trial page calls it: `tool_calls/2` is a call, `observations/0` a result."""
    return FIELD_WORDS.get(name.partition("/")[0], name)


@register.filter
def of_key(words: Mapping[str, str], key: str) -> str:
    return words.get(key, key)


@register.filter
def at(items: Sequence[Item], place: int) -> Item | None:
    """None where the sequence is shorter."""
    return items[place] if place < len(items) else None


@register.filter
def of_state(diagnoses: Mapping[int, LibraryDiagnosis] | None, state: LibraryState) -> LibraryDiagnosis | None:
    """Return what rules found in a state of a library; None if no rule has read it, or it is empty."""
    return diagnoses.get(state.snapshot.pk) if diagnoses and state.snapshot else None


@register.filter
def glyph(status: str) -> str:
    return GLYPHS.get(status, "?")


@register.simple_tag
def when(moment: datetime | None) -> SafeString:
    """A point in time: relative in words, exact on hover and for machines."""
    if moment is None:
        return UNKNOWN
    seconds = (timezone.now() - moment).total_seconds()
    if seconds < -MINUTE or seconds >= 30 * DAY:
        return _render_time(moment, f"{moment:%d %b %Y}")
    for limit, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= limit:
            return _render_time(moment, f"{seconds // limit:.0f} {unit} ago")
    return _render_time(moment, "just now")


@register.simple_tag
def until(moment: datetime | None) -> SafeString:
    """Return a future point in time: "in 40 s", exact on hover; "now" after it has passed."""
    if moment is None:
        return UNKNOWN
    seconds = (moment - timezone.now()).total_seconds()
    return _render_time(moment, f"in {duration(seconds)}" if seconds > 0 else "now")


def _render_time(moment: datetime, words: str) -> SafeString:
    exact = moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact, words)


@register.filter
def wish_word(wish: str) -> str:
    """Return what happens to an episode after its current trial has ended."""
    return {"pause": "pauses after this trial", "cancel": "ends after this trial"}.get(wish, wish)


@register.inclusion_tag("shared/_rate.html")
def rate(value: Rate | None) -> dict[str, object]:
    """k/n with the percentage and, from ten on, its interval."""
    return {"rate": value, **_build_interval(value)}


@register.inclusion_tag("shared/_interval.html")
def interval_bar(value: Rate) -> dict[str, object]:
    return _build_interval(value)


def _build_interval(value: Rate | None) -> dict[str, object]:
    """Low, high, width and middle in percent, for text and for the drawing."""
    if value is None or value.interval is None:
        return {"low": None}
    low, high = (100 * bound for bound in value.interval)
    return {"low": low, "high": high, "width": high - low, "point": value.percent}


@register.simple_tag
def square(trial: Trial) -> SafeString:
    """One trial as a square: its task must be loaded."""
    return SafeString(_render_square(trial, trial.task.title, role_title(trial.task.role), trial.get_absolute_url()))


@register.simple_tag
def squares(cell: GridCell | TaskCell, address: str) -> SafeString:
    """The trials of a cell of the grid; `address` is a trial's, with {} where its id belongs."""
    drawn = (
        _render_square(each, each.title, role_title(each.role), address.format(each.public_id)) for each in cell.squares
    )
    return SafeString("".join(drawn))


def _render_square(trial: Trial | Square, title: str, role: str, url: str) -> str:
    """Put together here and not by a template, because a grid has hundreds."""
    place = f"{title}, {trial.phase}, {role}" if role else f"{title}, {trial.phase}"
    use = ", read a skill" if trial.skills_read else ", skill not read" if trial.skills_mounted else ""
    label = escape(f"{place}: {status_word(trial.status)}{use}")
    kind = escape(trial.status) + (" read" if trial.skills_read else "")
    return (
        f'<a id="trial-{trial.public_id}" class="cell {kind}" href="{url}" data-square aria-label="{label}">'
        f"{glyph(trial.status)}</a>"
    )


@register.inclusion_tag("shared/_pager.html", takes_context=True)
def pager(context: template.Context, page: Page[object], noun: str, name: str = "page") -> dict[str, object]:
    """Links to the pages of a list by `?page=`, or by another name; they keep the rest of the query."""

    def link(number: int) -> str:
        query = context["request"].GET.copy()
        query[name] = str(number)
        return f"?{query.urlencode()}"

    before = link(page.previous_page_number()) if page.has_previous() else ""
    after = link(page.next_page_number()) if page.has_next() else ""
    return {"page": page, "noun": noun, "before": before, "after": after}


@register.inclusion_tag("shared/_sort_head.html", takes_context=True)
def sort_head(context: template.Context, key: str, label: str, current: str, kind: str = "") -> dict[str, object]:
    """A column head that sorts by `?sort=key`, and the other way round when it does already.
    Without a key it does not."""
    direction = {key: "ascending", f"-{key}": "descending"}.get(current, "")
    following = f"-{key}" if direction == "ascending" else key
    shown = {"key": key, "label": label, "kind": kind}
    return {**shown, "direction": direction, "next": following, "request": context["request"]}


@register.simple_tag
def choices_url(choices: Choices, **changes: object) -> str:
    """The query string of these choices with some of them changed: "?condition=no-skill&metric=ESR"."""
    return f"?{choices.query(**changes)}"


@register.simple_tag
def step_comments(commented: CommentedSteps | str | None, step: int) -> SafeString:
    """The link from a step to its comments. Nothing on pages that take none, such as those of a blind review."""
    if not isinstance(commented, CommentedSteps):
        return SafeString("")
    return _link_comments(commented.url(step), commented.counts.get(step, 0), f"step {step}")


@register.simple_tag
def chart_comments(commented: CommentedChart | str | None) -> SafeString:
    if not isinstance(commented, CommentedChart):
        return SafeString("")
    return _link_comments(commented.url, commented.count, "this chart", kind="plain ")


def _link_comments(url: str, count: int, place: str, *, kind: str = "") -> SafeString:
    word = plural(count, "comment") if count else "comment"
    html = '<a class="{}says{}" data-comment href="{}" aria-label="{} on {}">{}</a>'
    return format_html(html, kind, " some" if count else "", url, word, place, word)


@register.filter
def where(comment: Comment) -> str:
    """The place in a few words: "step 3", "tidy/SKILL.md line 7", "chart forest"."""
    return visible(place_in_words(comment.on, comment.place))
