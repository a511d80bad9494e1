"""Charts of one dataset over time: its loads, quality checks and disk use."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from django.urls import reverse
from django.utils import timezone

from architecture.services.environments import current_environment
from elevata.web.charts import Chart, Point, Series, has_values
from loader.contract.run_states import BRINGING, VACUUM
from loader.domain.quality.bands import bands_before
from loader.models import DatasetRun
from loader.selectors.charts import (
    CHECKS,
    LOADS,
    _is_above,
    banded_chart,
    change_series,
    disk_chart,
    disk_sizes,
    outside_bands,
    sum_of_known,
)
from loader.selectors.quality_results import CheckLine, check_lines
from loader.selectors.runs import CHANGES
from metadata.models import TargetDataset


def dataset_charts(dataset: TargetDataset, user: Any = None) -> list[Chart]:
    """Return the charts of a dataset's newest loads, its quality checks and its disk use; of a history, its base's.

    Numbers of checks that tell sensitive values are left out, unless the user may read these.
    """
    base = dataset.history_of or dataset
    loads = _loads(base)
    points = tuple(
        Point(row.run.load_timestamp, row.run.run_id, reverse("run_page", args=[row.run.run_id])) for row in loads
    )
    charts = [*_load_charts(points, loads), *_check_charts(base, user), *_disk_charts(base)]
    return has_values(charts)


def _loads(base: TargetDataset) -> list[DatasetRun]:
    """Return the newest loads of a dataset that succeeded and were not reverted, the oldest first."""
    rows = DatasetRun.objects.filter(
        dataset_key=base.key,
        status=DatasetRun.Status.SUCCEEDED,
        run__kind__in=BRINGING,
        run__environment=current_environment(),
        reverted_by__isnull=True,
    )
    newest = rows.select_related("run").only(
        "counts", "seconds", "run__run_id", "run__load_timestamp", "finished_at"
    ).order_by("-pk")[:LOADS]  # fmt: skip
    return sorted(newest, key=lambda row: (row.run.load_timestamp, row.pk))


def _load_charts(points: tuple[Point, ...], loads: Sequence[DatasetRun]) -> list[Chart]:
    if not loads:
        return []

    def of(name: str) -> tuple[int | None, ...]:
        return tuple(row.counts.get(name) for row in loads)

    changed = [sum_of_known(row.counts.get(name) for name in CHANGES) for row in loads]
    bands = bands_before(changed)
    history = (Series("Versions", of("versions")), Series("Open versions", of("open"), "layer-history"))
    return [
        banded_chart("rows", "Rows", points, "Rows", of("rows")),
        Chart(
            "changes",
            "Changes",
            points,
            change_series({name: of(name) for name in CHANGES}),
            anomalies=outside_bands(changed, bands),
        ),
        banded_chart("duration", "Duration", points, "Duration", tuple(row.seconds for row in loads), unit="s"),
        _freshness(points),
        Chart("history", "Growth of history", points, history),
    ]


def _freshness(points: tuple[Point, ...]) -> Chart:
    """Return the hours between each load and the one before; the last point is the time since the newest load."""
    times = (*points, Point(timezone.now(), "now"))
    hours = (None, *((after.at - before.at).total_seconds() / 3600 for before, after in pairwise(times)))
    note = "hours since the load before, the last point until now"
    bands = bands_before(hours)
    # A gap that is still open is an anomaly once it is too long, and never too short.
    late = frozenset(
        place for place in outside_bands(hours, bands) if place < len(points) or _is_above(hours[place], bands[place])
    )
    options = {"unit": "h", "note": note, "anomalies": late}
    return banded_chart("freshness", "Freshness", times, "Since the load before", hours, **options)


def _check_charts(base: TargetDataset, user: Any) -> list[Chart]:
    """Return a chart of each active check's last results: its number with its limits, or the share of failed rows."""
    lines = [line for line in check_lines(base, user) if line.check.active and line.results]
    return [_check_chart(line) for line in lines[:CHECKS]]


def _check_chart(line: CheckLine) -> Chart:
    results = sorted(line.results, key=lambda result: (result.at, result.pk))
    points = tuple(
        Point(
            result.at,
            result.run.run_id if result.run else "check on request",
            reverse("run_page", args=[result.run.run_id]) if result.run else "",
        )
        for result in results
    )
    failed = frozenset(place for place, result in enumerate(results) if result.is_problem)
    key, title = f"check-{line.check.key}", f"Check {line.check.name}"
    if any(result.value is not None for result in results):
        limits = tuple(None if r.low is None and r.high is None else (r.low, r.high) for r in results)
        values = tuple(result.value for result in results)
        return Chart(key, title, points, (Series("Value", values),), bands=limits, anomalies=failed)
    shares = tuple(None if r.failed is None else 100 * r.failed / (r.total or r.failed or 1) for r in results)
    return Chart(key, title, points, (Series("Failed rows", shares, "bad"),), unit="%", anomalies=failed)


def _disk_charts(base: TargetDataset) -> list[Chart]:
    """Return the sizes of a dataset's tables, as its vacuums and their dry runs measured them."""
    measured = DatasetRun.objects.filter(
        dataset_key=base.key,
        run__kind=VACUUM,
        run__environment=current_environment(),
        status=DatasetRun.Status.SUCCEEDED,
        finished_at__isnull=False,
    )
    rows = list(measured.select_related("run").order_by("-finished_at", "-pk")[:LOADS])[::-1]
    if not rows:
        return []
    points = tuple(
        Point(row.finished_at, row.run.run_id, reverse("run_page", args=[row.run.run_id]))
        for row in rows
        if row.finished_at is not None
    )
    return [disk_chart(points, [disk_sizes(row.counts) for row in rows], "measured by vacuums and their dry runs")]
