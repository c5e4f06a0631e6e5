"""`/comments/`: mentions of the reader and the latest comments; and the thread at one place,
as a part of its page or alone."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString

from benchapp.models import Comment, Mention, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.comments import (
    MAX_CHARS,
    CommentPlace,
    CommentRefused,
    NoSuchPlace,
    comments_for,
    mentions_of,
    place_of,
    read_mentions,
    retract_comment,
    thread_at,
    write_comment,
)
from inspector.web.access import needs, user_of
from inspector.web.responses import paginate, render_page, wants_fragment
from inspector.web.text.markdown import render_markdown
from runner.base.text import parse_id, plural

PER_PAGE = 50
MENTIONS = 20
SHOWN_CHARS = 600  # of a comment in a list; the thread has all of it


def comments(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    reader = user_of(request)
    page = paginate(request, comments_for(reader).order_by("-written_at", "-pk"), per_page=PER_PAGE)
    mentions = list(mentions_of(reader)[:MENTIONS])
    data = {
        "mentions": [{**_comment_twin(found.comment, reader), "read_at": found.read_at} for found in mentions],
        "unread": sum(found.read_at is None for found in mentions),
        "comments": [_comment_twin(comment, reader) for comment in page],
    }
    context = {"mention_rows": mentions, "shown_chars": SHOWN_CHARS}
    return render_page(request, "people/comments.html", data=data, context=context, page=page, as_json=as_json)


def about(request: HttpRequest) -> HttpResponse:
    """Show the thread at one place: a fragment for htmx, else a page of its own."""
    return _thread(request, _place(request))


@needs(User.Level.REVIEWER)
def write(request: HttpRequest) -> HttpResponse:
    """Save a comment. The place is in the address, the text in the form; `parent` is the comment it answers."""
    place, author = _place(request), user_of(request)
    text, answers = request.POST.get("text", ""), request.POST.get("parent", "")
    parent = get_object_or_404(Comment, public_id=parse_id(answers)) if answers else None
    try:
        write_comment(place, author, text, parent=parent)
    except CommentRefused as refusal:
        return _thread(request, place, problem=str(refusal), text=text, answers=answers)
    if wants_fragment(request):
        return _thread(request, place, taken=answers)
    return HttpResponseRedirect(f"{reverse('comments-about')}?{request.GET.urlencode()}")


@needs(User.Level.REVIEWER)
def retract(request: HttpRequest, public_id: UUID) -> HttpResponse:
    comment = get_object_or_404(comments_for(user_of(request)), public_id=public_id)
    try:
        retract_comment(comment, user_of(request))
    except CommentRefused as refusal:
        raise PermissionDenied(str(refusal)) from refusal
    if wants_fragment(request):
        return _thread(request, _place(request))
    return HttpResponseRedirect(comment.address)


def read(request: HttpRequest) -> HttpResponse:
    """Mark the reader's mentions as read: all, or those at the place in the address. Open to every level."""
    place = _place(request).name if request.GET else ""
    count = read_mentions(user_of(request), place=place)
    if wants_fragment(request):
        return HttpResponse(status=204)
    messages.success(request, f"{plural(count, 'mention')} marked as read.")
    return redirect("comments")


def _place(request: HttpRequest) -> CommentPlace:
    try:
        place = place_of(request.GET)
    except NoSuchPlace as error:
        raise Http404(str(error)) from error
    if place.is_closed_to(user_of(request)):
        raise PermissionDenied("Submit your blind review to see comments here.")
    return place


def _thread(
    request: HttpRequest,
    place: CommentPlace,
    *,
    problem: str = "",
    text: str = "",
    answers: str = "",
    taken: str | None = None,
) -> HttpResponse:
    """Render a thread. `problem`: why `text`, which answers `answers`, was refused.
    `taken`: the comment that the saved text answers."""
    comments, total = thread_at(place, user_of(request))
    mine = Mention.objects.filter(user=user_of(request), comment__place=place.name, read_at=None)
    context = {
        "place": place,
        "thread": [(_render_text(first), [_render_text(each) for each in answered]) for first, answered in comments],
        "query": request.GET.urlencode(),
        "problem": problem,
        "text": text,
        "written_to": answers,
        "taken": taken,
        "max_chars": MAX_CHARS,
        "total": total,
        "earlier": total - sum(not each.retracted_at for first, answered in comments for each in (first, *answered)),
        "unread": set(mine.values_list("comment", flat=True)),
    }
    template = "people/_thread.html" if wants_fragment(request) else "people/thread.html"
    status = 422 if problem and not wants_fragment(request) else 200
    response = render(request, template, context, status=status)
    response["Vary"] = "Cookie, HX-Request"
    return response


def _render_text(comment: Comment) -> tuple[Comment, SafeString | None]:
    """Return a comment with its text as harmless HTML; a retracted one has no text."""
    return comment, None if comment.retracted_at else render_markdown(comment.text)


COMMENT = JsonShape(
    "id=public_id on place url=address author=author.username written_at retracted_at",
    ("text", lambda comment: None if comment.retracted_at else comment.text),
)


def _comment_twin(comment: Comment, reader: User) -> dict[str, object]:
    return {**COMMENT.read(comment), "own": comment.author_id == reader.pk}
