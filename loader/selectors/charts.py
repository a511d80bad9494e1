"""Charts of loads: of the runs of a list, and of one dataset over time.

Anomalies are numbers outside the band that the numbers before them had, as for quality checks of row counts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime
from itertools import groupby, pairwise
from typing import Any

from django.db.models import Count, DateField, Q
from django.db.models.functions import Cast
from django.urls import reverse
from django.utils import timezone

from architecture.models import Environment
from architecture.services.states import current_environment
from elevata.core.words import counted
from elevata.web.charts import Chart, Point, Series, has_values
from loader.domain.quality.bands import Band, bands_before
from loader.domain.quality.results import PROBLEMS
from loader.domain.run_states import BRINGING, VACUUM
from loader.models import CheckResult, DatasetRun, LoadRun
from loader.selectors.loads import newest_loads
from loader.selectors.quality_results import CheckLine, check_lines
from loader.selectors.runs import CHANGES, RunTotals
from metadata.models import TargetDataset

# Loads that a dataset's charts show, and checks.
LOADS, CHECKS, DAYS = 100, 12, 60
# Newest measures of vacuums that the disk use of the warehouse is computed from.
MEASURES = 5000
Numbers = Sequence[float | None]


def _limits(bands: Iterable[Band | None]) -> tuple[tuple[float, float] | None, ...]:
    return tuple(None if band is None else (band.low, band.high) for band in bands)


def _outside(values: Numbers, bands: Sequence[Band | None]) -> frozenset[int]:
    """Return the places of the values that lie outside their bands."""
    pairs = enumerate(zip(values, bands, strict=True))
    return frozenset(
        place for place, (value, band) in pairs if band is not None and value is not None and not band.holds(value)
    )


def _banded(key: str, title: str, points: tuple[Point, ...], name: str, values: Numbers, **options: Any) -> Chart:
    """Return a chart of one series with the band that the values before each point had."""
    bands = bands_before(values)
    options = {"bands": _limits(bands), "anomalies": _outside(values, bands)} | options
    return Chart(key, title, points, (Series(name, tuple(values)),), **options)


# Charts of load runs.


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
        Chart("changes", "Changes", points, _change_series(changes), anomalies=_anomalies(changed, groups)),
        Chart(
            "duration", "Duration", points, (Series("Duration", seconds),), unit="s",
            anomalies=_anomalies(seconds, groups),
        ),
        Chart("checks", "Failed checks", points, (Series("Failed", tuple(failed.get(run.pk) for run in runs), "bad"),)),
    )  # fmt: skip
    return has_values(charts)


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
        places |= {group[place] for place in _outside(own, bands_before(own))}
    return frozenset(places)


def _change_series(changes: dict[str, tuple]) -> tuple[Series, ...]:
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


# Charts of a dataset.


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

    changed = [_total(row.counts.get(name) for name in CHANGES) for row in loads]
    bands = bands_before(changed)
    history = (Series("Versions", of("versions")), Series("Open versions", of("open"), "layer-history"))
    return [
        _banded("rows", "Rows", points, "Rows", of("rows")),
        Chart(
            "changes",
            "Changes",
            points,
            _change_series({name: of(name) for name in CHANGES}),
            anomalies=_outside(changed, bands),
        ),
        _banded("duration", "Duration", points, "Duration", tuple(row.seconds for row in loads), unit="s"),
        _freshness(points),
        Chart("history", "Growth of history", points, history),
    ]


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _freshness(points: tuple[Point, ...]) -> Chart:
    """Return the hours between each load and the one before; the last point is the time since the newest load."""
    times = (*points, Point(timezone.now(), "now"))
    hours = (None, *((after.at - before.at).total_seconds() / 3600 for before, after in pairwise(times)))
    note = "hours since the load before, the last point until now"
    bands = bands_before(hours)
    # A gap that is still open is an anomaly once it is too long, and never too short.
    late = frozenset(
        place
        for place in _outside(hours, bands)
        if place < len(points) or _is_above(hours[place], bands[place])
    )
    return _banded("freshness", "Freshness", times, "Since the load before", hours, unit="h", note=note, anomalies=late)


def _is_above(value: float | None, band: Band | None) -> bool:
    return value is not None and band is not None and value > band.high


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
    return [_disk_chart(points, [_sizes(row.counts) for row in rows], "measured by vacuums and their dry runs")]


_SIZES = {"Current files": "current_bytes", "Former files": "former_bytes", "Log": "log_bytes"}


def _sizes(counts: dict[str, int]) -> tuple[int | None, ...]:
    """Return the sizes that a vacuum measured, in the order of ``_SIZES``, over all tables of its dataset."""
    return tuple(counts.get(field) for field in _SIZES.values())


def _disk_chart(points: tuple[Point, ...], sizes: Sequence[tuple[int | None, ...]], note: str, zone: str = "") -> Chart:
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
        newest |= {key: _sizes(counts) for key, _, counts in measures}
        days.append((day, tuple(_total(sizes) for sizes in zip(*newest.values(), strict=True))))
    days = days[-DAYS:]
    if not days:
        return None
    address = reverse("run_list") + f"?kind={VACUUM}"
    points = tuple(Point(_midnight(day), "vacuums until this day", address) for day, _ in days)
    note = f"{counted(len(newest), 'dataset')} measured by vacuums and their dry runs"
    return _disk_chart(points, [sizes for _, sizes in days], note, zone="UTC")
