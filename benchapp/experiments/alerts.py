"""Record an alert when an experiment ends, waits for an operator or has spent its budget, and send it by webhook or
mail.

Workers look when they reconcile, so nothing has to happen at the moment itself, and a killed worker loses none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from smtplib import SMTPException
from urllib.request import Request, urlopen

from django.conf import settings
from django.core.mail import send_mail
from django.db.models import Count, Exists, Max, OuterRef, Q
from django.utils import timezone

from benchapp.experiments.work.budgets import REASON
from benchapp.models import Alert, Episode, Experiment
from benchapp.record.visible import one_line
from benchapp.stats.metrics.tally import TrialTally, tally_by_phase
from runner.base.text import plural

log = logging.getLogger(__name__)

FRESH = timedelta(hours=1)  # older endings cause no alert; what could not be sent by then is dropped
QUIET = timedelta(minutes=10)  # at most one alert of a kind about an experiment in this time
SENT_AT_ONCE = 5
SECONDS = 10.0  # to wait for the receiver
MAX_NAME = 200


def note_and_send() -> None:
    """Record and send new alerts. Safe at any time, from any number of processes."""
    for alert in _find_news():
        Alert.objects.bulk_create([alert], ignore_conflicts=True)  # another worker may have seen it too
    for column, receiver, send in (
        ("posted_at", settings.ALERT_WEBHOOK, _post),
        ("mailed_at", settings.ALERT_EMAIL, _mail),
    ):
        if receiver:
            due = Alert.objects.filter(**{column: None}, at__gt=timezone.now() - FRESH).order_by("id")
            for alert in due.select_related("experiment")[:SENT_AT_ONCE]:
                _send_once(alert, column, send)


def _find_news() -> Iterator[Alert]:
    now = timezone.now()
    own = Experiment.objects.not_deleted().filter(origin=Experiment.Origin.RUN)
    ended = own.filter(status__in=(Experiment.Status.DONE, Experiment.Status.CANCELLED), finished_at__gt=now - FRESH)
    alerted = Alert.objects.filter(experiment=OuterRef("pk"), kind=Alert.Kind.ENDED, at__gte=OuterRef("finished_at"))
    for experiment in ended.exclude(Exists(alerted)).defer("spec", "estimate"):
        tallies = tally_by_phase(list(experiment.runs.all()))
        tally = sum((part for run in tallies.values() for part in run.values()), TrialTally())
        how = "was cancelled" if experiment.status == Experiment.Status.CANCELLED else "has ended"
        words = f"{_name(experiment)} {how}: {tally.passed} of {tally.scored} trials passed."
        yield Alert(experiment=experiment, kind=Alert.Kind.ENDED, key=str(experiment.finished_at), words=words)
    blocked = Episode.objects.own().filter(status=Episode.Status.BLOCKED)
    spent = Q(blocked_reason__startswith=REASON)
    for kind, wanted in ((Alert.Kind.BUDGET, spent), (Alert.Kind.BLOCKED, ~spent)):
        rows = (
            blocked.filter(wanted).order_by().values_list("run__experiment").annotate(count=Count("pk"), last=Max("pk"))
        )
        for pk, count, last in rows:
            if Alert.objects.filter(experiment=pk, kind=kind).filter(Q(key=str(last)) | Q(at__gt=now - QUIET)).exists():
                continue
            experiment = Experiment.objects.defer("spec", "estimate").get(pk=pk)
            what = "has spent its budget" if kind == Alert.Kind.BUDGET else "needs you"
            words = f"{_name(experiment)} {what}: {plural(count, 'episode')} stopped."
            yield Alert(experiment=experiment, kind=kind, key=str(last), words=words)


def _name(experiment: Experiment) -> str:
    return one_line(experiment.name, MAX_NAME)


# --- sending --------------------------------------------------------------------------------------------------------


def _send_once(alert: Alert, column: str, send: Callable[[Alert], None]) -> None:
    """Send it if no other worker does. If the receiver does not answer, try again for an hour. A webhook's address may
    hold a secret, so the log has only the kind of error."""
    row = Alert.objects.filter(pk=alert.pk)
    if not row.filter(**{column: None}).update(**{column: timezone.now()}):
        return
    try:
        send(alert)
    except (OSError, ValueError, SMTPException) as error:
        log.warning("alert %s not %s: %s", alert.pk, column.removesuffix("_at"), type(error).__name__)
        row.update(**{column: None})


def _mail(alert: Alert) -> None:
    link = f"\n\n{settings.ALERT_ORIGIN}{alert.experiment.get_absolute_url()}" if settings.ALERT_ORIGIN else ""
    send_mail(f"Skillglass: {alert.words}"[:200], f"{alert.words}{link}\n", None, settings.ALERT_EMAIL)


def _post(alert: Alert) -> None:
    """Post it as JSON. Chat servers show `text`."""
    payload = {
        "text": alert.words,
        "kind": alert.kind,
        "experiment": str(alert.experiment.public_id),
        "url": f"{settings.ALERT_ORIGIN}{alert.experiment.get_absolute_url()}",
        "at": alert.at.isoformat(),
    }
    content, headers = json.dumps(payload).encode(), {"Content-Type": "application/json"}
    with urlopen(Request(settings.ALERT_WEBHOOK, content, headers), timeout=SECONDS):  # noqa: S310  (settings check it)
        pass
