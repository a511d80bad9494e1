"""Metrics for Prometheus.

Each process of the web server counts its requests. gunicorn's processes share a folder
(``PROMETHEUS_MULTIPROC_DIR``, see ``gunicorn.conf.py``), so each of them returns the sum. All other metrics are
queried from the control database on demand, so they are equal in all processes, and correct after a restart.
Labels are routes, states and kinds, never names that users choose, so their number is bounded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import DatabaseError
from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, Max, Min, QuerySet
from django.http import HttpRequest
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from architecture.models import DryRun, Execution, Lease, Refresh
from elevata.audit.services import chain, recorded_heads
from elevata.core.database import shared_now
from elevata.jobs import states
from elevata.jobs.models import Worker
from elevata.jobs.registry import live_workers
from elevata.notifications.models import Delivery
from loader.models import DatasetRun, LoadRun, ReadRequest
from loader.selectors.runs import CHANGES, sum_of

log = logging.getLogger(__name__)

CONTENT_TYPE = CONTENT_TYPE_LATEST
# Period of the metrics about finished jobs, so that queries stay fast as tables grow.
LATELY = timedelta(days=1)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)

REQUESTS = Counter("elevata_http_requests", "Answers given, by route.", ["route", "method", "status"])
SECONDS = Histogram(
    "elevata_http_request_seconds", "How long answers took until they were begun.", ["route"], buckets=_BUCKETS
)


def count_request(request: HttpRequest, status: int, seconds: float) -> None:
    """Count one response by its route; unknown addresses count as the route ``none``."""
    method = request.method if request.method in _METHODS else "other"
    route = route_of(request)
    REQUESTS.labels(route, method, str(status)).inc()
    SECONDS.labels(route).observe(seconds)


def route_of(request: HttpRequest) -> str:
    """Return the name of the request's route; ``none`` for an unknown address."""
    match = getattr(request, "resolver_match", None)
    return (match.view_name or "unnamed") if match is not None else "none"


def exposition() -> bytes:
    """Return all metrics as text."""
    registry = CollectorRegistry()
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        MultiProcessCollector(registry)
        of_requests = b""
    else:
        of_requests = generate_latest(REGISTRY)
    registry.register(ControlDatabase())
    return of_requests + generate_latest(registry)


class ControlDatabase(Collector):
    """Metrics from the control database: queue, runs, leases, workers, the chain and webhook deliveries."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield all metrics, or only ``elevata_database_up`` if the database does not answer."""
        try:
            families = list(_families(shared_now()))
        except DatabaseError as error:
            log.warning("no metrics of the control database: %s", error)
            families = []
        yield _gauge("elevata_database_up", "Whether the control database answered.", int(bool(families)))
        yield from families


def _families(now: datetime) -> Iterator[GaugeMetricFamily]:
    yield from _queues(now)
    yield _by_state("elevata_load_runs", "Load runs, by state.", LoadRun)
    yield _by_state("elevata_executions", "Executions, by state.", Execution)
    yield from _recent_runs(now)
    yield from _leases(now)
    yield from _workers(now)
    yield _gauge("elevata_chain_unsealed_rows", "Rows that are committed and not linked yet.", chain.unsealed())
    newest = recorded_heads.read().newest
    unrecorded = max(0, chain.head().sequence - (newest.sequence if newest is not None else 0))
    yield _gauge("elevata_chain_unrecorded_links", "Links after the head recorded outside the database.", unrecorded)
    yield from _deliveries(now)


def _queues(now: datetime) -> Iterator[GaugeMetricFamily]:
    length = GaugeMetricFamily("elevata_queue_length", "What waits for a worker, by kind.", labels=["kind"])
    age = GaugeMetricFamily("elevata_queue_oldest_seconds", "Since when the oldest waits, by kind.", labels=["kind"])
    for kind, rows, since in (
        ("load_run", LoadRun.objects.filter(status=LoadRun.Status.QUEUED), "queued_at"),
        ("execution", Execution.objects.filter(status=states.QUEUED), "requested_at"),
        ("dry_run", DryRun.objects.filter(status=states.QUEUED), "requested_at"),
        ("refresh", Refresh.objects.filter(status=states.QUEUED), "requested_at"),
        ("read", ReadRequest.objects.filter(status=ReadRequest.Status.QUEUED), "requested_at"),
    ):
        waiting = rows.order_by().aggregate(count=Count("pk"), oldest=Min(since))
        length.add_metric([kind], waiting["count"])
        age.add_metric([kind], _since(waiting["oldest"], now))
    yield length
    yield age


def _by_state(name: str, description: str, model: type[LoadRun] | type[Execution]) -> GaugeMetricFamily:
    """Return the number of rows in each state, also if it is 0."""
    counts = dict(model.objects.order_by().values_list("status").annotate(Count("pk")))
    family = GaugeMetricFamily(name, description, labels=["state"])
    for state, _ in model.STATUSES:
        family.add_metric([state], counts.get(state, 0))
    return family


def _recent_runs(now: datetime) -> Iterator[GaugeMetricFamily]:
    """Yield the numbers and durations of finished runs that were requested within the last day."""
    runs = LoadRun.objects.filter(requested_at__gte=now - LATELY, finished_at__isnull=False, started_at__isnull=False)
    took = ExpressionWrapper(F("finished_at") - F("started_at"), output_field=DurationField())
    ended = GaugeMetricFamily("elevata_runs_ended_day", "Runs of the last day.", labels=["kind", "state"])
    for kind, state, count in runs.order_by().values_list("kind", "status").annotate(Count("pk")):
        ended.add_metric([kind, state], count)
    yield ended
    longest = GaugeMetricFamily("elevata_run_seconds_day_max", "The longest run of the last day.", labels=["kind"])
    mean = GaugeMetricFamily("elevata_run_seconds_day_mean", "Runs of the last day, on average.", labels=["kind"])
    for kind, most, usual in (
        runs.annotate(took=took).order_by().values_list("kind").annotate(most=Max("took"), usual=Avg("took"))
    ):
        longest.add_metric([kind], most.total_seconds())
        mean.add_metric([kind], usual.total_seconds())
    yield longest
    yield mean
    yield _rows_written(DatasetRun.objects.filter(run__in=runs, status=DatasetRun.Status.SUCCEEDED))


def _rows_written(dataset_runs: QuerySet[DatasetRun]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "elevata_rows_written_day", "Rows that runs of the last day wrote to histories.", labels=["change"]
    )
    # Raw datasets have rows, not changes. Each change is counted once, in the dataset whose history it was written to.
    sums = dataset_runs.exclude(kind="raw").aggregate(**{name: sum_of(name) for name in CHANGES})
    for change in CHANGES:
        family.add_metric([change], sums[change] or 0)
    return family


def _leases(now: datetime) -> Iterator[GaugeMetricFamily]:
    leases = Lease.objects.exclude(holder_kind="").order_by()
    totals = leases.aggregate(count=Count("pk"), oldest=Min("taken_at"), quietest=Min("heartbeat_at"))
    yield _gauge("elevata_leases_held", "Datasets that are being written to.", totals["count"])
    yield _gauge("elevata_lease_age_seconds", "Since when the oldest lease is held.", _since(totals["oldest"], now))
    silence = _since(totals["quietest"], now)
    yield _gauge("elevata_lease_heartbeat_age_seconds", "The oldest heartbeat of a lease that is held.", silence)


def _workers(now: datetime) -> Iterator[GaugeMetricFamily]:
    totals = Worker.objects.order_by().aggregate(newest=Max("heartbeat_at"))
    yield _gauge("elevata_workers_alive", "Workers with a fresh heartbeat.", len(live_workers()))
    if totals["newest"] is not None:
        age = _since(totals["newest"], now)
        yield _gauge("elevata_worker_heartbeat_age_seconds", "The newest heartbeat of any worker.", age)


def _deliveries(now: datetime) -> Iterator[GaugeMetricFamily]:
    waiting = Delivery.objects.filter(status__in=states.ACTIVE).order_by()
    totals = waiting.aggregate(count=Count("pk"), oldest=Min("event__at"))
    yield _gauge("elevata_deliveries_waiting", "Notices on their way by webhook or e-mail.", totals["count"])
    yield _gauge("elevata_deliveries_oldest_seconds", "Since when the oldest waits.", _since(totals["oldest"], now))
    failed = Delivery.objects.filter(status=Delivery.Status.FAILED, finished_at__gte=now - LATELY).count()
    yield _gauge("elevata_deliveries_failed_day", "Notices given up within the last day.", failed)


def _gauge(name: str, description: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, description, value=value)


def _since(moment: datetime | None, now: datetime) -> float:
    """Return the seconds since ``moment``; 0 for None."""
    return 0.0 if moment is None else max(0.0, (now - moment).total_seconds())
