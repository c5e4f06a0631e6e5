"""`/launch/server/`: your own model server, or a preset: what it can do, and storing it as a preset.

A worker calls the server, as it will when runs use the model; this process calls no address that somebody types here. A
worker's keys are not the operator's: only an admin may pair a key with a new server.
"""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from benchapp.experiments.work.progress import workforce
from benchapp.experiments.work.tryouts import TryoutRequest, ask_for_tryout, find_tryout
from benchapp.models import User
from inspector.web.access import needs, user_of
from inspector.web.responses import render_page
from runner.base.errors import SetupError
from runner.models import SMALL_PREFIX, is_small
from runner.models.presets import may_send_key, preset_files, store_preset
from runner.models.tryout import draft_preset

MAX_FIELD = 500  # characters
FIELDS = ("preset", "address", "model", "key_variable")


@needs(User.Level.OPERATOR, to_change=True)
def server(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    shown = find_tryout(request.GET.get("tried", ""))
    asked = shown.asked if shown else TryoutRequest(preset=request.GET.get("preset", "")[:MAX_FIELD])
    problem, status, stores = "", 200, request.POST.get("act") == "store"
    if stores and (shown is None or not shown.can_be_stored):
        problem, status = "Try the server first.", 409
    elif stores and shown:
        name = request.POST.get("name", "").strip()
        if name and "small" in request.POST and not is_small(name):
            name = f"{SMALL_PREFIX}{name}"
        try:
            _require_pair(str(shown.values.get("key_variable", "")), str(shown.values["api_base"]), user_of(request))
            path = store_preset(name, shown.values)
        except SetupError as error:
            problem, status = str(error), 422
        else:
            messages.success(request, f"Stored as {path}. Workers on other machines need this file too.")
            return HttpResponseRedirect(f"{reverse('launch')}?{urlencode({'model': name})}")
    elif request.method == "POST":
        shown = None
        asked = TryoutRequest(**{name: request.POST.get(name, "").strip()[:MAX_FIELD] for name in FIELDS})
        try:
            _require(asked, user_of(request))
        except SetupError as error:
            problem, status = str(error), 422
        else:
            if job := ask_for_tryout(asked):
                return HttpResponseRedirect(f"{reverse('launch-server')}?{urlencode({'tried': job})}")
            problem, status = "The broker does not answer.", 503
    crew = workforce()
    data = {"tried": shown, "workers": None if crew.workers is None else len(crew.workers)}
    if as_json:
        return render_page(request, "launch/server.html", data=data, as_json=True, status=status)
    try:
        presets = sorted(preset_files())
    except SetupError as error:
        presets, problem = [], problem or str(error)
    model = str(shown.values.get("agent_model", "")) if shown else ""
    plain = "".join(each if each.isascii() and each.isalnum() else "-" for each in model.rpartition("/")[2].lower())
    context = {
        "asked": asked,
        "problem": problem,
        "presets": presets,
        "crew": crew,
        "offered_name": plain.strip("-")[:40],
        "typed_name": request.POST.get("name", ""),
        "is_small": "small" in request.POST if stores else shown is not None and shown.is_small,
        "all_busy": bool(crew.workers) and all(each.state == "busy" for each in crew.workers or ()),
        "is_gone": bool(request.GET.get("tried")) and shown is None,
    }
    return render_page(request, "launch/server.html", data=data, context=context, status=status)


def _require(asked: TryoutRequest, user: User) -> None:
    """Check what is known without asking the server."""
    if asked.preset:
        if asked.preset not in preset_files():
            raise SetupError(f"there is no preset {asked.preset!r}")
    elif not asked.address:
        raise SetupError("Give the server's address, or choose a preset.")
    else:
        draft_preset(asked.address, asked.model or "any", asked.key_variable or None)
        _require_pair(asked.key_variable, asked.address, user)


def _require_pair(key_variable: str, address: str, user: User) -> None:
    if key_variable and not user.may(User.Level.ADMIN) and not may_send_key(key_variable, address):
        raise SetupError(
            f"Only an admin may send {key_variable} to this server: no preset pairs the two, and"
            " SKILLGLASS_KEY_VARIABLES does not list it."
        )
