"""Charts of load runs, and of the warehouse over time.

Anomalies are numbers outside the band that the numbers before them had, as for quality checks of row counts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime
from itertools import groupby
from typing import Any

from django.db.models import Count, DateField, Q
from django.db.models.functions import Cast
from django.urls import reverse
from django.utils import timezone

from architecture.models import Environment
from elevata.core.words import counted
from elevata.web.charts import Chart, Point, Series, has_values
from loader.contract.check_outcomes import PROBLEMS
from loader.contract.run_states import VACUUM
from loader.domain.quality.bands import Band, bands_before
from loader.models import CheckResult, DatasetRun, LoadRun
from loader.selectors.loads import newest_loads
from loader.selectors.runs import CHANGES, RunTotals

# Loads that a dataset's charts show, and checks.
LOADS, CHECKS, DAYS = 100, 12, 60
# Newest measures of vacuums that the disk use of the warehouse is computed from.
MEASURES = 5000
Numbers = Sequence[float | None]


def _limits(bands: Iterable[Band | None]) -> tuple[tuple[float, float] | None, ...]:
    return tuple(None if band is None else (band.low, band.high) for band in bands)


def outside_bands(values: Numbers, bands: Sequence[Band | None]) -> frozenset[int]:
    """Return the places of the values that lie outside their bands."""
    pairs = enumerate(zip(values, bands, strict=True))
    return frozenset(
        place for place, (value, band) in pairs if band is not None and value is not None and not band.holds(value)
    )


def banded_chart(key: str, title: str, points: tuple[Point, ...], name: str, values: Numbers, **options: Any) -> Chart:
    """Return a chart of one series with the band that the values before each point had."""
    bands = bands_before(values)
    options = {"bands": _limits(bands), "anomalies": outside_bands(values, bands)} | options
    return Chart(key, title, points, (Series(name, tuple(values)),), **options)


def run_charts(totals: Iterable[RunTotals]) -> list[Chart]:
    """Return the charts of finished runs: rows, changes, duration, and failed checks.

    A run is compared with earlier ones of the same kind, scope and environment.
    """
    finished = [total for total in totals if total.run.is_finished and total.run.finished_at is not None]
    finished.sort(key=lambda total: (total.run.requested_at, total.run.pk))
    if not finished:
        return []
    runs = [total.run for total in finished]
    points = tuple(Point(run.requested_at, run.run_id, reverse("run_page", args=[run.run_id])) for run in runs)
    groups = _comparable(runs)
    rows = tuple(total.rows for total in finished)
    changes = {name: tuple(total.changes.get(name) for total in finished) for name in CHANGES}
    changed = [sum(total.changes.values()) if total.changes else None for total in finished]
    seconds = tuple(run.seconds for run in runs)
    failed = _failed_checks([run.pk for run in runs])
    charts = (
        Chart("rows", "Rows", points, (Series("Rows", rows),), anomalies=_anomalies(rows, groups)),
        Chart("changes", "Changes", points, change_series(changes), anomalies=_anomalies(changed, groups)),
        Chart(
            "duration", "Duration", points, (Series("Duration", seconds),), unit="s",
            anomalies=_anomalies(seconds, groups),
        ),
        Chart("checks", "Failed checks", points, (Series("Failed", tuple(failed.get(run.pk) for run in runs), "bad"),)),
    )  # fmt: skip
    return has_values(charts)


def largest_comparable_group(runs: Sequence[LoadRun]) -> list[LoadRun]:
    """Return the runs of the kind and scope that most of these have, so that a chart has one scale."""
    groups = _comparable(runs)
    return [runs[place] for place in max(groups, key=len)] if groups else []


def _comparable(runs: Sequence[LoadRun]) -> list[list[int]]:
    """Return the places of the runs, grouped by kind, scope and environment."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for place, run in enumerate(runs):
        groups[run.kind, run.environment_id, tuple(sorted(run.scope.items()))].append(place)
    return list(groups.values())


def _anomalies(values: Numbers, groups: Iterable[Sequence[int]]) -> frozenset[int]:
    places: set[int] = set()
    for group in groups:
        own = [values[place] for place in group]
        places |= {group[place] for place in outside_bands(own, bands_before(own))}
    return frozenset(places)


def change_series(changes: dict[str, tuple]) -> tuple[Series, ...]:
    tones = {"new": "ok", "changed": "accent", "deleted": "bad", "reappeared": "warn"}
    return tuple(Series(name.capitalize(), values, tones[name]) for name, values in changes.items())


def _failed_checks(runs: Collection[int]) -> dict[int, int]:
    """Return the number of failed checks of each run that ran some."""
    failed = Count("pk", filter=Q(outcome__in=PROBLEMS))
    rows = CheckResult.objects.filter(run__in=list(runs)).order_by().values("run_id").annotate(failed=failed)
    return {row["run_id"]: row["failed"] for row in rows}


def freshness_chart(environment: Environment) -> Chart | None:
    """Return the number of datasets by the day of their last load; None before the first load."""
    loaded = newest_loads(environment).filter(finished_at__isnull=False)
    by_day = loaded.values(day=Cast("finished_at", DateField())).annotate(count=Count("pk")).order_by("-day")[:DAYS]
    days = list(by_day)[::-1]
    if not days:
        return None
    address = reverse("dataset_list")
    points = tuple(Point(_midnight(row["day"]), "last loaded this day", address) for row in days)
    counts = tuple(row["count"] for row in days)
    note = "datasets by the day of their last load"
    return Chart("freshness", "Freshness", points, (Series("Datasets", counts),), note=note, zone="UTC")


def _midnight(day: Any) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=timezone.get_current_timezone())


def sum_of_known(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _is_above(value: float | None, band: Band | None) -> bool:
    return value is not None and band is not None and value > band.high


_SIZES = {"Current files": "current_bytes", "Former files": "former_bytes", "Log": "log_bytes"}


def disk_sizes(counts: dict[str, int]) -> tuple[int | None, ...]:
    """Return the sizes that a vacuum measured, in the order of ``_SIZES``, over all tables of its dataset."""
    return tuple(counts.get(field) for field in _SIZES.values())


def disk_chart(points: tuple[Point, ...], sizes: Sequence[tuple[int | None, ...]], note: str, zone: str = "") -> Chart:
    columns = zip(_SIZES, zip(*sizes, strict=True), ("accent", "warn", "idle"), strict=True)
    series = tuple(Series(name, values, tone) for name, values, tone in columns)
    return Chart("disk", "Disk use", points, series, unit="bytes", note=note, zone=zone)


def warehouse_disk_chart(environment: Environment) -> Chart | None:
    """Return the sizes of all datasets that vacuums measured, by day; None before the first vacuum.

    A dataset counts with its newest measure until that day.
    """
    measured = DatasetRun.objects.filter(
        run__kind=VACUUM,
        run__environment=environment,
        status=DatasetRun.Status.SUCCEEDED,
        finished_at__isnull=False,
    )
    values = measured.order_by("-finished_at", "-pk").values_list("dataset_key", "finished_at", "counts")
    newest: dict[Any, tuple[int | None, ...]] = {}
    days: list[tuple[date, tuple[int | None, ...]]] = []
    newest_first: list[Any] = list(values[:MEASURES])  # Any: no row lacks finished_at
    for day, measures in groupby(newest_first[::-1], key=lambda row: row[1].date()):
        newest |= {key: disk_sizes(counts) for key, _, counts in measures}
        days.append((day, tuple(sum_of_known(sizes) for sizes in zip(*newest.values(), strict=True))))
    days = days[-DAYS:]
    if not days:
        return None
    address = reverse("run_list") + f"?kind={VACUUM}"
    points = tuple(Point(_midnight(day), "vacuums until this day", address) for day, _ in days)
    note = f"{counted(len(newest), 'dataset')} measured by vacuums and their dry runs"
    return disk_chart(points, [sizes for _, sizes in days], note, zone="UTC")
