"""Bounded queries for pages, with columns masked before the query runs.

Kinds and their arguments:

    sample      limit, newest, …             rows of a table; ``newest``: the last loaded rows first; or those of a
                                             selection (``loader.domain.queries.row_selection``)
    changes     run_id, op, limit            changes of a run in a history by key (``historization.changes``)
    key_search  text, limit                  business keys of a history or rawcore table that start with text
    versions    entity_key | business_key    every version of one key, oldest first
    as_of       at, limit, text, known_at    rows valid at an instant (at a number, if the history is dated by
                                             numbers), from the table version of the clock time ``known_at``;
                                             ``tombstone``: state label of rows that mark a deleted key,
                                             ``inclusive_ends``: an interval includes its end
    origin      entity_key, limit            delivered rows of a key in raw (``loader.spark.queries.origins``)
    discover    (source)                     columns and inferred types of a file
    quarantine  limit, run_id                waiting rows of the dataset's quarantine, newest first; of one run, also
                                             those of a raw dataset's delivery that it refused
    profile     known_version                profile of the table (``loader.spark.quality.profiles``); ``unchanged`` if
                                             the table still has the version that is known
    quality     checks, at                   results of quality checks (CheckSpec as JSON) on the table as it is
    sql         text, query, replaced, limit  one SELECT over ``sources`` (``loader.spark.queries.select_statements``)
    try_model   query, text, limit, sample, compare  a model before it is saved (``loader.spark.queries.trials``)

changes, key_search and as_of are ordered by business key; with ``after`` (a key's values as text) they start
behind that key.

Every answer has the Delta version that was read. Values are text, as Spark casts them, and NULL is null, so that pages
need not convert them.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import OPEN, ColumnSpec, TableSpec
from loader.domain.historization.history import parse_instant
from loader.domain.manifest.codec import from_json
from loader.domain.manifest.reads import Masking, ReadManifest
from loader.domain.quality.checks import CheckSpec, without_sensitive
from loader.domain.queries.masking import masked_names
from loader.domain.queries.query_results import MOST_QUARANTINED, MOST_ROWS, ORIGIN, first_rows
from loader.domain.queries.row_selection import RowSelection
from loader.domain.refusals import Refusal
from loader.spark.expressions import all_of
from loader.spark.quality.frame_checks import RowChecker, placeholder_values
from loader.spark.quality.profiles import profile
from loader.spark.quality.quarantine import RECORD_TEXT, quarantine_table, waiting_rows
from loader.spark.queries import history_queries, select_statements, trials
from loader.spark.queries.history_queries import after_key, changes
from loader.spark.queries.origins import read_origin
from loader.spark.queries.row_selections import select_rows
from loader.spark.sources.deliveries import discover
from loader.spark.tables.tables import DeltaTable
from metadata.domain import types
from metadata.domain.sensitivity import MASK, MASK_CHANGED
from metadata.domain.sql import quote_identifier

# Masking of column values before a query runs, so that no result, order or match reveals them.


def masked(
    frame: DataFrame, keys: Mapping[str, str], table: TableSpec, masking: Masking
) -> tuple[DataFrame, list[str]]:
    """Return the frame without masked values, and the names of the masked columns.

    A masked column has a hash of its value, the row's entity key and the secret. The hash only shows if versions of
    one key differ, and ``hidden`` replaces it in the answer. ``keys`` are stable keys by column name.
    """
    salt = _salt(frame, keys, table, masking)
    columns, names = [], []
    for name in frame.columns:
        own = F.col(quote_identifier(name))
        key = keys.get(name)
        if key in masking.hashed:
            own = _hash(F.lit(masking.secret), own)
        elif key not in masking.shown and not (key is None and name.lower() in masking.shown_names):
            own = _hash(salt, F.lit(name), own.cast("string"))
            names.append(name)
        columns.append(own.alias(name))
    return frame.select(*columns), names


def _salt(frame: DataFrame, keys: Mapping[str, str], table: TableSpec, masking: Masking) -> Column:
    entity = next((column.key for column in table.of_purpose("entity_key")), None)
    of_row = [F.col(quote_identifier(name)) for name in frame.columns if keys.get(name) == entity and entity]
    return F.concat_ws(" ", F.lit(masking.secret), *of_row)


def _hash(*parts: Column) -> Column:
    """Return the hash of the parts; a NULL value has its own hash, but a hash of two parts stays NULL."""
    *first, last = parts
    absent = F.when(last.isNull(), F.lit("-")).otherwise(F.lit("+"))
    hashed = F.sha2(F.concat_ws(" ", *first, absent, last), 256)
    return F.when(last.isNotNull(), hashed) if len(parts) == 2 else hashed


def hidden(columns: Sequence[str], rows: Iterable[Sequence[Any]], names: Sequence[str]) -> list[list[Any]]:
    """Return rows with masks instead of the values of masked columns.

    A value that differs from the previous row's has a mask of its own.
    """
    places = [place for place, name in enumerate(columns) if name in names]
    masked_rows: list[list[Any]] = []
    before: Sequence[Any] | None = None
    for row in rows:
        values = list(row)
        for place in places:
            differs = before is not None and before[place] != row[place]
            values[place] = MASK_CHANGED if differs else MASK
        masked_rows.append(values)
        before = row
    return masked_rows


def read(spark: SparkSession, warehouse: str, manifest: ReadManifest, job_group: str) -> dict:
    """Answer one query; raise Refusal if the table does not exist or the query takes too long."""
    with in_time(spark, job_group, f"read {manifest.kind}", manifest.timeout_seconds):
        return _answer(spark, warehouse, manifest)


@contextmanager
def in_time(spark: SparkSession, job_group: str, what: str, seconds: float) -> Iterator[None]:
    """Run jobs in the scheduler pool of reads; cancel them and raise ``READ_TIMEOUT`` after ``seconds``."""
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "read")
    context.setJobGroup(job_group, what)
    late = threading.Event()

    def give_up() -> None:
        late.set()
        context.cancelJobGroup(job_group)

    timer = threading.Timer(seconds, give_up)
    timer.start()
    try:
        yield
    except Exception:
        if late.is_set():
            raise Refusal(
                "READ_TIMEOUT",
                f"The read took longer than {seconds:.0f} seconds",
                hint="Read less, or try again when no load is running.",
            ) from None
        raise
    finally:
        timer.cancel()


def _discovered(spark: SparkSession, _: str, manifest: ReadManifest) -> dict:
    source = manifest.source
    return discover(spark, source.location, source.format, source.options)


def _origin(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict:
    return read_origin(spark, warehouse, manifest, _limit(manifest.arguments))


def _answer(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict:
    arguments = manifest.arguments
    if manifest.kind in _WITHOUT_TABLE:
        return _WITHOUT_TABLE[manifest.kind](spark, warehouse, manifest)
    kinds: dict[str, Callable[[DataFrame, TableSpec, dict], DataFrame]] = {
        "key_search": _key_search,
        "versions": _versions,
        "as_of": _as_of,
    }
    if manifest.kind not in (*kinds, "changes", "profile", "quality", "sample"):
        raise Refusal("UNKNOWN_READ", f"There is no read of kind {manifest.kind}")
    table = DeltaTable(spark, warehouse, manifest.table.key)
    if not table.exists():
        raise Refusal(
            "NO_TABLE",
            f"{manifest.table.qualified_name} does not exist in the warehouse yet",
            hint="A load run creates it.",
        )
    known_at = arguments.get("known_at")
    if known_at and manifest.kind == "as_of":
        with history_queries.within_retention(manifest.table, known_at):
            commit = history_queries.commit_known_at(table, manifest.table, known_at)
            frame, hidden_then = _readable(table, manifest, commit.version)
            present = history_queries.frame_as_known(frame, table, manifest.table, commit.version)
            names = [now for then, now in zip(frame.columns, present.columns, strict=True) if then in hidden_then]
            answer = _rows(_as_of(present, manifest.table, arguments), arguments, names)
            return {"table_version": commit.version, "committed_at": commit.at.isoformat(), **answer}
    version = table.version()
    if manifest.kind == "profile":
        return _profile(table, manifest, version)
    if manifest.kind == "quality":
        return _checked(spark, warehouse, table, manifest, version)
    frame, names = _readable(table, manifest, version)
    if manifest.kind == "changes":
        answer = changes(frame, manifest.table, arguments, _limit(arguments))
        for change in answer["changes"] if names else ():
            sides = [side for side in ("before", "after") if change[side] is not None]
            change |= zip(sides, hidden(answer["columns"], [change[side] for side in sides], names), strict=True)
        return {"table_version": version, "masked": names, **answer}
    if manifest.kind == "sample":
        selection, newest = RowSelection.from_arguments(arguments), bool(arguments.get("newest"))
        result = select_rows(frame, manifest.table, selection, names, newest=newest)
    else:
        result = kinds[manifest.kind](frame, manifest.table, arguments)
    return {"table_version": version, **_rows(result, arguments, names, in_order=manifest.kind == "versions")}


def _readable(table: DeltaTable, manifest: ReadManifest, version: int) -> tuple[DataFrame, list[str]]:
    """Return the frame of a table version, masked for the reader, and the names of the masked columns."""
    frame = table.frame_as_of(version)
    if manifest.masking is None:
        return frame, []
    return masked(frame, history_queries.column_keys(table, version), manifest.table, manifest.masking)


def _quarantined(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict:
    """Return waiting rows of a quarantine, with masks instead of masked values.

    The text of a malformed record is masked for every reader without the permission to read sensitive values: it may
    have columns that nobody described.
    """
    frame = waiting_rows(spark, warehouse, manifest.table, manifest.arguments.get("run_id", ""))
    if frame is None:
        return {"table_version": -1, "columns": [], "rows": [], "truncated": False, "masked": []}
    names = _masked_columns(manifest)
    names += [RECORD_TEXT] if manifest.masking is not None and RECORD_TEXT in frame.columns else []
    shown = frame.select(
        *(F.lit(None).alias(name) if name in names else F.col(quote_identifier(name)) for name in frame.columns)
    )
    version = quarantine_table(spark, warehouse, manifest.table.key).version()
    return {"table_version": version, **_rows(shown, manifest.arguments, names, most=MOST_QUARANTINED)}


def _masked_columns(manifest: ReadManifest) -> list[str]:
    described = manifest.table.of_purpose("business_key", "attribute")
    return masked_names(described, manifest.masking) if manifest.masking is not None else []


def _profile(table: DeltaTable, manifest: ReadManifest, version: int) -> dict:
    """Return the profile of a table's business columns; masked columns have counts and no values."""
    if manifest.arguments.get("known_version") == version:
        return {"table_version": version, "unchanged": True}
    described = manifest.table.of_purpose("business_key", "attribute") or manifest.table.columns
    frame = table.frame_as_of(version)
    names = [column.name for column in described if column.name in frame.columns]
    hidden = _masked_columns(manifest)
    profiled = profile(frame.select(*map(quote_identifier, names)), hidden)
    return {"table_version": version, "columns": names, "masked": hidden, **profiled}


def _checked(spark: SparkSession, warehouse: str, table: DeltaTable, manifest: ReadManifest, version: int) -> dict:
    """Return the results of quality checks on the table as it is."""
    at, specs = manifest.arguments["at"], [from_json(CheckSpec, spec) for spec in manifest.arguments["checks"]]
    checker = RowChecker(
        spark.newSession(),
        warehouse,
        at=parse_instant(at),
        key=tuple(column.name for column in manifest.table.of_purpose("business_key")),
        own=manifest.table.key,
        fill=placeholder_values("", at),
    )
    checked = checker.check(table.frame_as_of(version), specs)
    results = without_sensitive(checked.results, specs, manifest.arguments["sensitive"])
    return {"table_version": version, "results": [result.as_json() for result in results]}


def _rows(
    frame: DataFrame, arguments: dict, masked_names: list[str], *, in_order: bool = False, most: int = MOST_ROWS
) -> dict:
    """Return the rows as text, without the last ones if they have more than ``MOST_BYTES`` characters.

    With ``in_order``, masks show if a value differs from the previous row's.
    """
    limit = _limit(arguments, most)
    rows = frame.select(*(_as_text(frame, name) for name in frame.columns)).limit(limit + 1).collect()
    chosen = first_rows(rows[:limit], select_statements.MOST_BYTES)
    if in_order:
        chosen = hidden(frame.columns, chosen, masked_names)
    else:
        chosen = [masked_row for row in chosen for masked_row in hidden(frame.columns, [row], masked_names)]
    return {
        "columns": frame.columns,
        "rows": chosen,
        "truncated": len(rows) > len(chosen),
        "masked": [name for name in frame.columns if name in masked_names],
    }


def _limit(arguments: dict, most: int = MOST_ROWS) -> int:
    return min(int(arguments.get("limit", 50)), most)


def _as_text(frame: DataFrame, name: str) -> Column:
    return F.col(quote_identifier(name)).cast("string").alias(name)


def _business_key(table: TableSpec) -> list[str]:
    return [quote_identifier(column.name) for column in table.of_purpose("business_key")]


def _key_search(frame: DataFrame, table: TableSpec, arguments: dict) -> DataFrame:
    """Return the keys whose first business-key column starts with the text, ignoring case."""
    names = _business_key(table)
    text = str(arguments.get("text", ""))
    matching = frame.where(F.startswith(F.lower(F.col(names[0]).cast("string")), F.lower(F.lit(text))))
    entity_key = quote_identifier(table.column("entity_key").name)
    return after_key(matching, table, arguments).select(*names, entity_key).distinct().orderBy(*names)


def _versions(frame: DataFrame, table: TableSpec, arguments: dict) -> DataFrame:
    """Return the versions of one key, given its entity key or its business-key values."""
    if arguments.get("entity_key"):
        condition = F.col(quote_identifier(table.column("entity_key").name)) == F.lit(arguments["entity_key"])
    else:
        values = dict(arguments["business_key"])
        condition = all_of(
            F.col(quote_identifier(column.name)).cast("string") == F.lit(str(values[column.name]))
            for column in table.of_purpose("business_key")
        )
    return frame.where(condition).orderBy(quote_identifier(table.column("started_at").name))


def _as_of(frame: DataFrame, table: TableSpec, arguments: dict) -> DataFrame:
    """Return the rows whose interval ``[started_at, ended_at)`` contains the instant; open ones have no end."""
    at = _instant(arguments["at"], table.column("started_at"))
    started, ended, segment, state = (
        F.col(quote_identifier(table.column(purpose).name))
        for purpose in ("started_at", "ended_at", "segment", "state")
    )
    not_ended = ended.isNull() | (segment == OPEN) | (ended > at)
    if arguments.get("inclusive_ends"):
        not_ended = not_ended | (ended == at)
    valid = frame.where((started <= at) & not_ended)
    if arguments.get("tombstone"):
        valid = valid.where(~state.eqNullSafe(arguments["tombstone"]))
    names = _business_key(table)
    if arguments.get("text"):
        valid = valid.where(
            F.startswith(F.lower(F.col(names[0]).cast("string")), F.lower(F.lit(str(arguments["text"]))))
        )
    return after_key(valid, table, arguments).orderBy(*names)


def _instant(at: object, column: ColumnSpec) -> Column:
    """Return the requested instant in the type of the version start: a timestamp, its day, or a number."""
    dated_by = types.parse(column.type).name
    try:
        if dated_by in (types.INTEGER, types.BIGINT):
            return F.lit(int(str(at))).cast("bigint")
        instant = parse_instant(str(at))
    except ValueError:
        what = "a number" if dated_by in (types.INTEGER, types.BIGINT) else "a time like 2026-11-21T08:15:00Z"
        raise Refusal("BAD_INSTANT", f"versions are dated by {column.type} here, and {at!r} is not {what}") from None
    return F.lit(instant.isoformat()).cast("timestamp").cast("date" if dated_by == types.DATE else "timestamp")


_WITHOUT_TABLE: dict[str, Callable[[SparkSession, str, ReadManifest], dict]] = {
    "sql": select_statements.run,
    "try_model": trials.try_model,
    ORIGIN: _origin,
    "discover": _discovered,
    "quarantine": _quarantined,
}
