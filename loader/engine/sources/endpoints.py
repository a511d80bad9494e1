"""Endpoints of REST APIs as deliveries: their pages land as JSON documents, which the load then reads."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from loader.contract.manifest.loads import RawLoad
from loader.contract.manifest.sources import SourceSpec
from loader.domain.extras import packages_of
from loader.domain.historization.history import parse_instant
from loader.domain.sources.marks import INSTANT, Reading, finish_window, kind_of
from loader.domain.sources.provenance import SOURCE_FILE
from loader.engine.conversions import typed
from loader.engine.pyspark_types import row_of
from loader.engine.session import source_hosts, source_landing
from loader.engine.sources.deliveries import Delivery, Reject, read_delivery
from loader.engine.sources.windows import FrameMeasure
from metadata.domain.sources.formats import JSON
from metadata.domain.sources.locations import ANYWHERE
from metadata.domain.sources.reading_options import options_of
from metadata.domain.sql import quote_identifier

if TYPE_CHECKING:
    from loader.readers.rest.landing import Landing

# A cancelled run waits no longer than this for the next try of a request.
_PAUSE_SECONDS = 1.0
_REPORT_SECONDS = 5.0


@dataclass(frozen=True)
class LandedPages:
    """Pages of a run: the source that reads them as files, their number, and warnings for the run.

    ``doubt`` is the reason why they may not be all, empty if they are proven complete.
    """

    source: SourceSpec
    count: int
    warnings: tuple[str, ...] = ()
    doubt: str = ""


def land_pages(
    spark: SparkSession, load: RawLoad, run_id: str, phase: Callable[[str], None], *, since: str | None = None
) -> LandedPages:
    """Land the pages of an endpoint for a run. Raise Refusal: see ``loader.readers.rest.landing``.

    ``phase`` reports progress, and raises if the run was cancelled. ``since`` is the mark of the last load.
    """
    with packages_of("rest"):
        from loader.readers.rest.landing import land

    place, runs_kept = source_landing(spark)
    progress = _Progress(phase)
    landing = land(
        load.source,
        place,
        dataset=load.dataset,
        run_id=run_id,
        runs_kept=runs_kept,
        hosts=source_hosts(spark),
        since=since,
        pause=progress.pause,
        progress=progress.page,
    )
    known = options_of(JSON)
    options = {name: value for name, value in load.source.options.items() if name in known}
    if landing.is_empty:
        options.pop("path", None)
    source = replace(load.source, location=str(landing.folder), format=JSON, options=options, api=None)
    return LandedPages(source, landing.pages, _warnings(landing, load.source.name), landing.doubt)


def _warnings(landing: "Landing", name: str) -> tuple[str, ...]:
    warnings = []
    if landing.is_repeated:
        warnings.append("An earlier attempt of this run had landed its pages: they were read again without a request.")
    if landing.doubt:
        warnings.append(
            f"{name}: the pages are not proven complete: {landing.doubt}. Keys that they lack stay open. Correct the "
            "paging options (total_path, has_more_path), or declare complete: trusted."
        )
    if landing.problem:
        warnings.append(f"{name}: a page {landing.problem}. It was loaded, as the option complete is trusted.")
    return tuple(warnings)


def read_endpoint(
    spark: SparkSession,
    load: RawLoad,
    run_id: str,
    phase: Callable[[str], None],
    reading: Reading | None,
    reject: Reject | None = None,
) -> tuple[Delivery, LandedPages]:
    """Land the pages of a run, from the mark on if the source has one, and check them. Raise Refusal.

    ``reject`` takes the rows with faults.
    """
    kinds = {c.name: kind_of(c.type) for c in load.source.columns if reading and c.name in reading.intake.watermark}
    zone = load.source.options.get("timezone", "UTC")
    window = reading.begin_window(load.source, kinds, zone) if reading is not None else None
    bounds = reading.bounds(window) if reading is not None and window is not None else None
    since = next((_parameter(text, kinds[name]) for name, text in (bounds or {}).items()), None)
    pages = land_pages(spark, load, run_id, phase, since=since)
    phase("reading and checking")
    delivery = read_delivery(spark, pages.source, roots=ANYWHERE, reject=reject)
    delivery.doubt = pages.doubt
    page = F.concat(F.lit(f"{load.source.location}/"), F.col(SOURCE_FILE))
    delivery.rows_with_provenance = delivery.rows_with_provenance.withColumn(SOURCE_FILE, page)
    if window is not None:
        try:
            values = _values(load, kinds)
            maxima = [F.max(value).cast("string").alias(name) for name, value in values.items()]
            highest = row_of(delivery.frame.agg(*maxima).first()).asDict()
            measure = FrameMeasure(lambda: delivery.frame, values, load.source)
            end = finish_window(window, load.source.name, kinds, highest, reading, measure)
            delivery.window = replace(end, is_open=True)
        except BaseException:
            delivery.release()
            raise
    return delivery, pages


def _parameter(text: str, kind: str) -> str:
    """Return a mark as endpoints expect it: an instant in ISO 8601, in UTC."""
    if kind != INSTANT:
        return text
    return parse_instant(text).isoformat().replace("+00:00", "Z")


def _values(load: RawLoad, names: Iterable[str]) -> dict[str, Column]:
    """Return the expressions of the values of watermark columns in the delivered rows."""
    types = {column.name: column.type for column in load.source.columns}
    return {name: typed(F.col(quote_identifier(name)), types[name], load.source.options) for name in names}


class _Progress:
    """Reports of the page that is asked for, at most one in some seconds, and waits that notice a cancelled run."""

    def __init__(self, phase: Callable[[str], None]):
        self._phase, self._page, self._reported = phase, 1, 0.0

    def page(self, number: int) -> None:
        self._page = number
        if time.monotonic() - self._reported >= _REPORT_SECONDS:
            self._report()

    def pause(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, _PAUSE_SECONDS))
            self._report()

    def _report(self) -> None:
        self._reported = time.monotonic()
        self._phase(f"requesting page {self._page:,}")
