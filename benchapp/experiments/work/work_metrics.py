"""What waits, runs and was spent, in the text format of Prometheus: for schedulers that start workers, and for alarms.

Only what was launched here counts. How trials ended is left out: a reviewer who must not know it may read this.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from django.db.models import Count, Q
from django.db.models.functions import Now
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from benchapp.experiments.work.call_queue import list_outages
from benchapp.experiments.work.progress import workforce
from benchapp.models import Attempt, Episode, Experiment, Run
from benchapp.stats.metrics.spending import spending_of

OF_RUN = ("run__agent_model", "run__experiment__spec__sandbox", "run__experiment__spec__worker_labels")


def render_metrics() -> bytes:
    """Read all of it now, with the same number of queries for any number of runs. What only the broker knows is missing
    without it."""
    registry = CollectorRegistry()
    registry.register(WorkMetrics())
    return generate_latest(registry)


class WorkMetrics(Collector):
    def collect(self) -> Iterator[Metric]:
        yield self._count_episodes()
        yield from self._ask_broker()
        yield self._count_attempts()
        yield from self._sum_spending()

    def _count_episodes(self) -> Metric:
        """An episode works on one trial at a time, so `waiting` is how many more places would be used at once."""
        episodes = GaugeMetricFamily(
            "skillglass_episodes",
            "Unfinished episodes. waiting: for a worker, now. postponed: between two tries. blocked, paused: for a "
            "person.",
            labels=["state", "agent_model", "sandbox", "worker_labels"],
        )
        now, open_ones = Now(), Q(status__in=[Episode.Status.WAITING, Episode.Status.RUNNING])
        held = open_ones & ~Q(lease_owner="") & Q(lease_until__gte=now)
        postponed = open_ones & Q(lease_owner="", lease_until__gte=now)
        counts = {
            "waiting": open_ones & ~held & ~postponed,
            "running": held,
            "postponed": postponed,
            "blocked": Q(status=Episode.Status.BLOCKED),
            "paused": Q(status=Episode.Status.PAUSED),
        }
        sums = {state: Count("pk", filter=which) for state, which in counts.items()}
        unfinished = Episode.objects.own().unfinished().order_by().values_list(*OF_RUN).annotate(**sums)
        rows = [*unfinished] or [("", "", None, *[0] * len(counts))]
        for model, sandbox, needs, *found in rows:
            for state, count in zip(counts, found, strict=True):
                episodes.add_metric([state, model, sandbox or "", ",".join(sorted(needs or ()))], count)
        return episodes

    def _ask_broker(self) -> Iterator[Metric]:
        crew = workforce()
        if crew.workers is None or crew.queued is None:
            return
        states = Counter("busy" if place.episode else "idle" for place in crew.workers)
        places = GaugeMetricFamily(
            "skillglass_places", "Trials that the workers at hand take at a time.", labels=["state"]
        )
        for state in ("busy", "idle"):
            places.add_metric([state], states[state])
        yield places
        yield GaugeMetricFamily(
            "skillglass_queued", "Jobs in the queue: hints at episodes, and other work.", crew.queued
        )
        silent = GaugeMetricFamily(
            "skillglass_model_silent_seconds",
            "Since the first failed call to a model that does not answer.",
            labels=["model"],
        )
        for outage in list_outages():
            silent.add_metric([outage.model], (timezone.now() - outage.since).total_seconds())
        yield silent

    def _count_attempts(self) -> Metric:
        attempts = CounterMetricFamily(
            "skillglass_attempts",
            "Attempts that ended, by how: finished, or ended by the machine.",
            labels=["status", "agent_model"],
        )
        own = Attempt.objects.filter(is_copy=False, trial__episode__run__experiment__origin=Experiment.Origin.RUN)
        ended = own.exclude(status=Attempt.Status.RUNNING).order_by()
        for status, model, count in ended.values_list("status", "trial__episode__run__agent_model").annotate(
            Count("pk")
        ):
            attempts.add_metric([status, model], count)
        return attempts

    def _sum_spending(self) -> Iterator[Metric]:
        tokens = CounterMetricFamily(
            "skillglass_tokens", "Known tokens, by who used them.", labels=["part", "model", "direction"]
        )
        dollars = CounterMetricFamily("skillglass_cost_usd", "Known cost in US dollars.", labels=["part", "model"])
        runs = list(
            Run.objects.filter(experiment__origin=Experiment.Origin.RUN, experiment__deleted_at=None).defer("setup")
        )
        spent, sums = spending_of(runs), Counter[tuple[str, str, str]]()
        cost: defaultdict[tuple[str, str], float] = defaultdict(float)
        for run in runs:
            for part, model, each in zip(
                ("agent", "author", "judge"), (run.agent_model, run.author_model, ""), spent[run.pk].parts, strict=True
            ):
                sums[part, model, "input"] += each.input_tokens or 0
                sums[part, model, "output"] += each.output_tokens or 0
                cost[part, model] += each.cost_usd or 0
        for labels, count in sums.items():
            tokens.add_metric([*labels], count)
        for of, usd in cost.items():
            dollars.add_metric([*of], usd)
        yield tokens
        yield dollars
