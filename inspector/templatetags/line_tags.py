"""Lines of files and of differences as HTML, and how their readers ended. Put together here and not by templates,
because a page has hundreds of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import urlencode

from django import template
from django.http import QueryDict
from django.utils.safestring import SafeString

from benchapp.stats.inference.shares import Rate
from inspector.pages.library.blame_view import LineSpan
from inspector.pages.library.changes import ShownFile
from inspector.pages.library.rail import RailStop
from inspector.templatetags.hostile_tags import isolate_rtl
from inspector.web.text.diff import FOLDED, DiffRow, LinePiece, LineReaders, LineSign

register = template.Library()

NONE = SafeString('<span class="muted">none</span>')


@register.filter
def pieces(row: DiffRow) -> SafeString:
    """The text of a line in its colours, with changed words marked."""
    note = f'<small class="eof">{escape(row.note)}</small>' if row.note else ""
    return SafeString("".join(map(_draw_piece, row.pieces)) + note)


def _draw_piece(piece: LinePiece) -> str:
    text = str(isolate_rtl(escape(piece.text)))
    if piece.kind == FOLDED:
        more = f"<summary>{len(piece.text):,} characters more</summary>"
        return f'<details class="rest">{more}{text}</details>'
    if piece.kind:
        text = f'<span class="{piece.kind}">{text}</span>'
    return f"<mark>{text}</mark>" if piece.is_marked else text


@register.filter
def readers_cell(readers: LineReaders | None) -> SafeString:
    """The bar of a line: later trials that read it, and how many of them passed."""
    if not readers or not readers.scored:
        return SafeString('<td class="readers"></td>')
    passed, scored = readers.passed, readers.scored
    return SafeString(
        f'<td class="readers" title="{passed} of {scored} later readers of this line passed">'
        f'<svg width="26" height="7" viewBox="0 0 {scored} 7" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="readers-all" width="{scored}" height="7"/>'
        f'<rect class="readers-passed" width="{passed}" height="7"/></svg>'
        f"{f'<span>{passed}/{scored}</span>' if readers.is_first else ''}</td>"
    )


@register.simple_tag(takes_context=True)
def unified_rows(
    context: template.Context, rows: Iterable[DiffRow], index: int | str, shown: ShownFile | str
) -> SafeString:
    """The rows of one block. `index` and `shown` are "" where no library's page shows it: then no line has readers."""
    has_readers, has_authors = (shown.has_readers, shown.has_authors) if isinstance(shown, ShownFile) else (False,) * 2
    drawn, file = [], f"f{escape(str(index))}"
    for row in rows:
        readers = readers_cell(row.readers) if has_readers else ""
        author = _draw_author(context, row) if has_authors else ""
        kind, place = f' class="{row.sign}"' if row.mark else "", f"{file}-R{row.new}"
        number = f'<a id="{place}" href="#{place}" tabindex="-1">{row.new}</a>'
        if not row.new:
            number = f'<a id="{file}-L{row.old}"></a>'
        drawn.append(
            f'<tr{kind}>{readers}{author}<td class="n old">{"" if row.old is None else row.old}</td>'
            f'<td class="n">{number}</td>'
            f'<td class="g">{row.mark}</td><td class="code">{pieces(row)}</td></tr>\n'
        )
    return SafeString("".join(drawn))


def _draw_author(context: template.Context, row: DiffRow) -> str:
    """Which of several decisions wrote an added line."""
    if not row.readers or not row.readers.by or row.sign is not LineSign.ADD:
        return '<td class="by"></td>'
    number = row.readers.by
    return f'<td class="by"><a href="{escape(_address_decision(context, number))}">d{number}</a></td>'


@register.simple_tag(takes_context=True)
def stop_url(context: template.Context, stop: RailStop) -> str:
    """Where the page shows this stop, with the rest of the query as it is."""
    if stop.decision:
        return _address_decision(context, stop.decision.number)
    return _change_query(context, {"from": stop.before.key, "to": stop.after.key, "decision": None, "file": None})


def _address_decision(context: template.Context, number: int) -> str:
    return _change_query(context, {"decision": str(number), "from": None, "to": None, "file": None})


def _change_query(context: template.Context, changes: Mapping[str, str | None]) -> str:
    """As Django's `querystring`, which copies the whole query each time: too slow for hundreds of links."""
    query: QueryDict = context["request"].GET
    kept: dict[str, list[str]] = {name: query.getlist(name) for name in query}
    for name, value in changes.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = [value]
    return f"?{urlencode(kept, doseq=True)}" if kept or query else ""


@register.simple_tag(takes_context=True)
def blamed_rows(context: template.Context, span: LineSpan, state: str, chosen: int | str) -> SafeString:
    """The lines of one change. `chosen`: the number of the line that the page is about, "" for none."""
    drawn: list[str] = []
    for row in span.rows:
        url = f"{escape(_change_query(context, {'at': state, 'line': str(row.new)}))}#L{row.new}"
        marked = ' class="at-line"' if row.new == chosen else ""
        drawn.append(
            f'<tr id="L{row.new}"{marked}>'
            f'{"" if drawn else _draw_origin(span, url)}<td class="n"><a href="{url}" tabindex="-1">{row.new}</a></td>'
            f'<td class="code">{pieces(row)}</td></tr>'
        )
    return SafeString("".join(drawn))


def _draw_origin(span: LineSpan, url: str) -> str:
    """Return who wrote the lines, for the first of them."""
    origin, card = span.origin, f"card-{span.origin.place}"
    word = f"<small>{escape(origin.word)}</small>"
    by = f"<span>d{origin.decision.number}</span> {word}" if origin.decision else word
    return (
        f'<td class="who" rowspan="{len(span.rows)}"><a href="{url}" data-card="{card}" aria-describedby="{card}">'
        f"<b>{escape(origin.state.key)}</b> {by}</a></td>"
    )


@register.filter
def passed_of(rate: Rate | None) -> SafeString:
    """How a group of later trials ended: passed of those scored, and of how many where some were not."""
    if not rate or not rate.planned:
        return NONE
    if not rate.scored:
        return SafeString(f'<span class="muted">0 scored of {rate.planned}</span>')
    planned = f' <span class="muted">of {rate.planned}</span>' if rate.missing else ""
    return SafeString(f"{rate.passed}/{rate.scored}{planned}")
