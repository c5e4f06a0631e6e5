"""The reader of a trajectory: texts with their colours and cuts, rows of the outline, the map next to it.

Put together here and not by templates, because a page has thousands of rows and pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape as html_escape

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from benchapp.record.visible import RIGHT_TO_LEFT, visible, visible_between
from inspector.pages.review.exhibits.masking import HIDDEN
from inspector.reader.cards import CardPart, CardText, Layer
from inspector.reader.outline import BINS, WIDEST, ChunkHeading, Clock, MapMark, OutlineLine, join_headings
from inspector.templatetags.hostile_tags import fold_blanks, isolate_rtl
from inspector.web.text.formats import compact

register = template.Library()

HIT = "hit"
MAP_WIDTH = 14
LONG, MANY_TOKENS = 1, 500  # of one step: seconds, and tokens that it wrote
SHORT_LABEL = 34  # characters that fit a row


@register.simple_tag
def card_text(text: CardText, step: int, piece_at: str, absent: str = "") -> SafeString:
    """A field: each shown stretch as a block, folds between them.
    Without an address of its pieces a fold has what is at hand, or `absent`."""
    drawn = (
        _draw_fold(text, part, step, piece_at, absent) if part.is_fold else _draw_block(text, part)
        for part in text.parts
    )
    return mark_safe("".join(drawn))  # noqa: S308 (each part is escaped)


@register.simple_tag
def call_title(call: CardText) -> SafeString:
    """A call in a line: its tool and its main argument."""
    argument = f": {_draw_block(call, call.title)}" if call.title else ""
    return mark_safe(f'<div class="call-title"><b>{escape(call.field.label)}</b>{argument}</div>')  # noqa: S308 (escaped)


def _draw_block(text: CardText, part: CardPart) -> str:
    kind = text.field.kind
    direction = "" if kind == "call" else ' dir="auto"'  # each line of a text, never of code
    place = f'data-field="{text.field.name}" data-start="{part.part.start}"'
    return f'<pre class="{kind}" {place}{direction}>\n{_draw_part(part, is_code=kind == "call")}</pre>'


def _draw_fold(text: CardText, part: CardPart, step: int, piece_at: str, absent: str) -> str:
    where = f" <span>{part.where}</span>" if part.where else ""
    summary = f"<summary><b>{part.more}</b>{where}</summary>"
    opened = '<div class="more" tabindex="0" role="region" aria-label="Unfolded text">'
    kind = text.field.kind
    if not piece_at:
        return f'<details class="rest {kind}">{summary}{opened}{fold_blanks(part.part.text or absent)}</div></details>'
    end = "" if part.hides_size else f"&end={part.part.end}"
    address = escape(f"{piece_at}&step={step}&field={text.field.name}&start={part.part.start}{end}")
    asked = f'hx-get="{address}" hx-trigger="toggle once" hx-target="find .more"'
    return (
        f'<details class="rest {kind}" {asked}>{summary}{opened}<a href="{address}">as plain text</a></div></details>'
    )


@register.simple_tag
def masked(text: str) -> SafeString:
    """The text with every mask marked up. Its characters stay as they are: offsets count them."""
    return mark_safe(fold_blanks(text).replace(HIDDEN, f'<span class="mask">{HIDDEN}</span>'))  # noqa: S308 (escaped)


def _draw_part(part: CardPart, *, is_code: bool) -> str:
    """A shown stretch of a text. All its characters stay in the page, and only they."""
    raw = part.part.raw
    drawn = _draw_pieces(raw, part.layers) if part.layers else [fold_blanks(visible(raw))]
    return "".join(map(isolate_rtl, drawn) if is_code else drawn)


def _draw_pieces(raw: str, layers: Sequence[Layer]) -> Iterator[str]:
    edges = sorted({0, len(raw), *(min(max(edge, 0), len(raw)) for start, end, _ in layers for edge in (start, end))})
    waiting = sorted(layers, reverse=True)
    active: list[Layer] = []
    for start, end in zip(edges, edges[1:], strict=False):
        while waiting and waiting[-1][0] <= start:
            active.append(waiting.pop())
        active = [layer for layer in active if layer[1] > start]
        kinds = dict.fromkeys(kind for _, _, kind in active)
        text = fold_blanks(visible_between(raw, start, end))
        others = " ".join(kind for kind in kinds if kind != HIT)
        text = mark_safe(f'<span class="{others}">{text}</span>') if others else text  # noqa: S308 (classes are ours)
        yield f"<mark>{text}</mark>" if HIT in kinds else text


@register.simple_tag
def outline_lines(lines: Iterable[OutlineLine], query: str, first: int = 1, last: int = 0) -> SafeString:
    """Rows of the outline. Those from `first` to `last` are on the page; the others' addresses ask for their chunk."""
    return mark_safe("".join(_draw_line(line, escape(query), first, last) for line in lines))  # noqa: S308 (escaped)


def _draw_line(line: OutlineLine, query: str, first: int, last: int) -> str:
    classes = f"{' error' * line.is_error}{' skill' * line.has_skill}{' deciding' * line.is_deciding}"
    icon = "skill" if line.has_skill else line.kind.value
    note = f"<small>{html_escape(line.note)}</small>" if line.note else ""
    elsewhere = "" if first <= line.number <= last else f"?at={line.number}{query}"
    label = html_escape(line.label)
    title = f' title="{label}"' if len(line.label) > SHORT_LABEL else ""
    first_strong = RIGHT_TO_LEFT.search(label)
    direction = ' dir="auto"' if first_strong else ""
    # A label that begins from the left may be code: its words from the right stay apart.
    begins_left = first_strong and any(letter.isalpha() for letter in label[: first_strong.start()])
    words = (isolate_rtl(label) if begins_left else label) or "nothing said"
    bars = _draw_bars(*line.bars) if line.bars else ""
    return (
        f'<li class="{line.kind.value}{classes}{line.missed}"><a href="{elsewhere}#step-{line.number}"{title}>'
        f'<b>{line.number}</b><svg class="icon" aria-hidden="true"><use href="#i-{icon}"/></svg>'
        f'<span class="t"{direction}>{words}{note}</span>{bars}</a></li>\n'
    )


@register.simple_tag
def chunk_headings(headings: Sequence[ChunkHeading], rows_at: str, trajectory: object, query: str) -> SafeString:
    """The outline of a long trajectory: what is below a heading comes from `rows_at` when it is opened."""
    asked, kept = escape(f"&trajectory={trajectory}"), escape(query)
    return mark_safe("".join(_draw_heading(one, rows_at, asked, kept) for one in join_headings(headings)))  # noqa: S308 (numbers, ids and a query that is escaped)


def _draw_heading(one: ChunkHeading, rows_at: str, asked: str, query: str) -> str:
    errors = f'<span class="error">{one.errors:,} error{"s" * (one.errors != 1)}</span>' if one.errors else ""
    skills = f'<span class="skill">{one.skills:,} skill use{"s" * (one.skills != 1)}</span>' if one.skills else ""
    return (
        f'<details class="stretch" hx-get="{rows_at}?first={one.first}&amp;last={one.last}{asked}"'
        f' hx-trigger="toggle once" hx-target="find .rows" data-first="{one.first}" data-last="{one.last}"'
        f"{' data-here' * one.is_here}><summary><b>{one.first:,}–{one.last:,}</b>{errors}{skills}</summary>"
        f'<div class="rows"><a href="?at={one.first}{query}#step-{one.first}">Go to step {one.first:,}</a></div></details>\n'  # noqa: E501
    )


def _draw_bars(took: float, tokens: float) -> str:
    bars = ((took, 0, "time"), (tokens, 5, "out"))
    drawn = "".join(
        f'<rect class="bar-{kind}" y="{y}" width="{width:.1f}" height="3.5"/>' for width, y, kind in bars if width
    )
    return f'<svg class="bars" width="{WIDEST}" height="9" aria-hidden="true">{drawn}</svg>'


@register.simple_tag
def step_map(marks: Sequence[MapMark], total: int, query: str, first: int, last: int) -> SafeString:
    """The map next to the outline, for the mouse; the outline says the same in words."""
    height = max(total, 1)
    kept, least = escape(query), height / BINS * 2.5  # a band of one step among thousands would be thinner than a hair
    drawn = "".join(
        f'<a href="?at={mark.step}{kept}#step-{mark.step}" tabindex="-1"><rect class="{mark.kind}" x="2" y="{mark.top}"'
        f' width="{MAP_WIDTH - 4}" height="{max(mark.height, least):g}"/></a>'
        for mark in marks
    )
    view = f'<rect class="view" data-view x="0.5" y="{first - 1}" width="{MAP_WIDTH - 1}" height="{max(last - first + 1, 1)}"/>'  # noqa: E501
    return mark_safe(  # noqa: S308 (numbers, and a query that is escaped)
        f'<svg class="minimap" viewBox="0 0 {MAP_WIDTH} {height}" preserveAspectRatio="none" aria-hidden="true"'
        f' data-total="{total}">{drawn}{view}</svg>'
    )


@register.simple_tag
def step_facts(clock: Clock, tokens: int | None, tokens_in: int | None, time: str) -> SafeString:
    """How long a step took and what it wrote, where that is much; on hover all that the record has."""
    took, since = clock
    parts = [f"{took:.1f} s" if took < 100 else f"{took:,.0f} s"] if took and took >= LONG else []
    parts += [f"{compact(tokens)} tok"] if tokens and tokens >= MANY_TOKENS else []
    known = [f"{took:,.1f} s" if took is not None else "", f"{tokens_in:,} tokens in" if tokens_in is not None else ""]
    known += [f"{tokens:,} out" if tokens is not None else "", f"{write_clock(since)} after the start" if since else ""]
    known += [time[:19].replace("T", " ")]
    title = escape(", ".join(filter(None, known)))
    if not title:
        return SafeString("")
    return mark_safe(f'<span class="step-facts" title="{title}">{escape(" · ".join(parts))}</span>')  # noqa: S308 (escaped)


def write_clock(seconds: float) -> str:
    """65 -> "1:05", 3725 -> "1:02:05"."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
