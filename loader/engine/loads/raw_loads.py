"""Load of a delivery into raw."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.contract.manifest.loads import RawLoad
from loader.domain.sources.mark_warnings import window_warnings
from loader.domain.sources.marks import AHEAD
from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.engine.loads.dataset_load import Outcome, Task, check_quality
from loader.engine.loads.tries import retry
from loader.engine.quality.delivery_quarantine import DeliveryQuarantine, notes_of
from loader.engine.session import USER_METADATA
from loader.engine.sources.deliveries import Delivery, read_delivery
from loader.engine.sources.endpoints import read_endpoint
from loader.engine.sources.feeds import Feed
from loader.engine.sources.kept_deliveries import OwnDelivery, stored_rows
from loader.engine.sources.key_lists import KeyList, remove_other_key_lists, write_key_list
from loader.engine.sources.marks import reading_of
from loader.engine.sources.schemas import contract_schema
from loader.engine.tables.commits import commit, open_files
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier


def load_raw(task: Task, load: RawLoad) -> Outcome:
    """Check the whole delivery, then write it to raw, in addition to other deliveries or in their place.

    Read and write again if another writer commits first.
    """
    outcome = Outcome()
    retry(lambda: _load_raw(task, load, outcome), outcome)
    return outcome


def _load_raw(task: Task, load: RawLoad, outcome: Outcome) -> None:
    session = task.session(0)
    raw = DeltaTable(session, task.warehouse, load.table.key)
    if outcome.version_before is None:
        outcome.version_before = raw.version()
    own = OwnDelivery.of(session, raw, load, task.manifest.run_id) if load.keeps_all and not load.feed else None
    is_first = own is None or not own.is_repeated
    if task.small is not None and is_first and task.small.fits(files := open_files(session, raw)):
        task.phase("writing raw")
        if own is not None:
            session.conf.set(USER_METADATA, task.commit_metadata(0, notes=own.notes(task.small.rows)))
        outcome.counts = task.small.write_raw(session, files, own.recorded if own is not None else None)
        DeliveryQuarantine(session, task.warehouse, load, task.stamp).clear()
        outcome.schema = contract_schema(load.source)
        outcome.version_after = raw.version()
        return
    task.phase("reading and checking")
    quarantine = DeliveryQuarantine(session, task.warehouse, load, task.stamp)
    feed = Feed.of(session, task.warehouse, load, task.manifest) if load.feed else None
    if feed is not None and not feed.part:
        outcome.counts = {"rows": feed.rows, "duplicates": 0} | feed.counts
        outcome.warnings += feed.warnings
        outcome.version_after = raw.version()
        return
    reading, pages = reading_of(session, task.warehouse, load, task.manifest), None
    if load.source.api is not None:
        delivery, pages = read_endpoint(session, load, task.manifest.run_id, task.phase, reading, quarantine.write)
    else:
        part, earlier = (feed.part, feed.earlier_rows()) if feed is not None else ((), None)
        stored = None if load.feed else partial(stored_rows, raw, load)
        delivery = read_delivery(
            session, load.source, part, reading, reject=quarantine.write, earlier=earlier, stored=stored
        )
        feed = feed.after_reading(delivery.opened) if feed is not None else None
    notes = own.notes(delivery.rows) if own is not None else {}
    notes |= notes_of(delivery.quarantined, delivery.doubt)
    key_list: KeyList | None = None
    try:
        if reading is not None and delivery.window is not None:
            window = replace(delivery.window, bounds=reading.bounds(delivery.window))
            notes |= window.as_note()
            outcome.window = {"from": window.bounds, "to": dict(window.end)}
            outcome.window |= {AHEAD: dict(window.ahead)} if window.ahead else {}
            is_empty = load.source.api is not None and not delivery.rows
            warnings = window_warnings(window, load.source.name, reading, is_empty=is_empty)
            outcome.warnings += [warning for warning in warnings if warning not in outcome.warnings]
        if load.key_list is not None:
            key_list = write_key_list(session, raw, load, delivery, task.manifest.run_id, task.phase)
            notes |= key_list.as_note()
        session.conf.set(USER_METADATA, task.commit_metadata(0, notes=notes))
        task.phase("writing raw")
        delivered = [F.col(quote_identifier(name)).alias(raw_name) for raw_name, name in load.columns]
        run_id = load.table.column("run_id").name
        rows = delivery.rows_with_provenance.select(
            *delivered,
            F.lit(task.manifest.run_id).alias(run_id),
            task.stamp.loaded().alias(load.table.column("loaded_at").name),
            F.col(SOURCE_FILE).alias(load.table.column("source_file").name),
            F.col(SOURCE_ROW).alias(load.table.column("source_row").name),
            task.stamp.timestamp().cast("date").alias(load.table.column("load_day").name),
        )
        with delivery.reading():
            if load.quality:
                check_quality(task, session, load, rows, outcome)
                task.phase("writing raw")
            _write_raw(session, raw, rows, feed or own, last=delivery.check_unchanged)
    finally:
        delivery.release()
    _record_delivery(outcome, delivery, feed)
    if not delivery.quarantined:
        quarantine.clear()
    if key_list is not None:
        remove_other_key_lists(session, raw, key_list)
        outcome.counts |= key_list.counts
        outcome.warnings += key_list.warnings(load.name)
    if pages is not None:
        outcome.counts |= {"files": pages.count}
        outcome.warnings += pages.warnings
    outcome.version_after = raw.version()


def _record_delivery(outcome: Outcome, delivery: Delivery, feed: Feed | None) -> None:
    outcome.counts = {"rows": delivery.rows, "duplicates": delivery.duplicates}
    if delivery.superseded:
        outcome.counts["superseded"] = delivery.superseded
    if delivery.empty:
        outcome.counts["empty_records"] = delivery.empty
    if delivery.quarantined:
        outcome.counts["quarantined"], outcome.faults = delivery.quarantined, delivery.faults
    outcome.drift, outcome.schema = list(delivery.unknown), delivery.schema
    outcome.warnings += delivery.warnings
    if feed is not None:
        outcome.counts |= feed.counts
        outcome.warnings += feed.warnings


def _write_raw(
    session: SparkSession,
    raw: DeltaTable,
    rows: DataFrame,
    added: Feed | OwnDelivery | None,
    *,
    last: Callable[[], None],
) -> None:
    """Commit the rows: they are ``added`` to those of other runs, or replace them."""
    types = {field.name: field.dataType for field in raw.schema().fields}
    typed = rows.select(*(
        (F.col(quote_identifier(name)) if name in rows.columns else F.lit(None)).cast(type_).alias(name)
        for name, type_ in types.items()
    ))  # fmt: skip
    if added is None:
        files = open_files(session, raw)
        commit(files, None, add=typed, remove=files.all, last=last)
        return
    replaced = added.replaced_rows()
    commit(
        added.table,
        None,
        add=typed,
        gone=replaced,
        gone_from=added.table.all if replaced is not None else None,
        last=last,
        recorded=added.recorded,
    )
