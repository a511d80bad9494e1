"""Time travel in histories: tables as they were known at a time, and the versions valid at a time."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import OPEN, ColumnSpec, TableSpec
from loader.contract.refusals import Refusal
from loader.domain.historization.history import parse_instant
from loader.engine.pyspark_types import jvm_of
from loader.engine.queries.row_selections import after_key, business_key, quoted_column
from loader.engine.tables.table_files import misses_version
from loader.engine.tables.tables import COLUMN, PHYSICAL_NAME, DeltaTable, properties_of
from metadata.domain import types
from metadata.domain.sql import quote_identifier

_NEEDED = ("entity_key", "business_key", "started_at", "ended_at", "state", "segment")


@dataclass(frozen=True)
class Commit:
    """Version of a table and the clock time of its commit."""

    version: int
    at: datetime


def commit_known_at(table: DeltaTable, spec: TableSpec, known_at: str) -> Commit:
    """Return the newest commit at or before ``known_at`` (ISO 8601).

    Raise Refusal ``NOT_KNOWN_YET`` before the first commit, ``BEYOND_RETENTION`` before the oldest readable
    one.
    """
    instant = parse_instant(known_at)
    commit = _nearest_commit(table, instant)
    if commit.at <= instant:
        return commit
    if commit.version > 0:
        raise beyond_retention(spec, known_at)
    first = f"{commit.at:%Y-%m-%d %X} UTC"
    raise Refusal(
        "NOT_KNOWN_YET",
        f"{spec.qualified_name} was not there on {_shown(known_at)}: its first commit is of {first}",
        hint="This is the time of the clock, not the date of a load. Choose a later one, or leave it empty.",
    )


def _nearest_commit(table: DeltaTable, instant: datetime) -> Commit:
    """Return the newest commit at or before ``instant``; if all are later, the oldest that can be read."""
    jvm = jvm_of(table.spark)
    clock = jvm.java.sql.Timestamp(int(instant.timestamp() * 1000))
    last, recreatable, earliest = True, True, True
    history = table.snapshot().deltaLog().history()
    commit = history.getActiveCommitAtTime(clock, _scala_none(table), last, recreatable, earliest)
    return Commit(commit.version(), datetime.fromtimestamp(commit.timestamp() / 1000, UTC))


def frame_as_known(frame: DataFrame, table: DeltaTable, spec: TableSpec, version: int) -> DataFrame:
    """Return the frame of an earlier table version with the present names of its columns.

    Raise Refusal ``OTHER_LAYOUT`` if a technical column that queries need did not exist then.
    """
    names = present_names(frame, table, spec, version)
    lacking = [column.name for column in spec.of_purpose(*_NEEDED) if column.name not in names]
    if lacking:
        raise Refusal(
            "OTHER_LAYOUT",
            f"{spec.qualified_name} had no column {lacking[0]} then: its history was kept in another layout",
            hint="Choose a later time.",
        )
    return frame.select(
        *(F.col(quote_identifier(name)).alias(alias) for name, alias in zip(frame.columns, names, strict=True))
    )


def column_keys(table: DeltaTable, version: int) -> dict[str, str]:
    """Return the stable keys of a version's columns by their names in that version."""
    log = table.snapshot().deltaLog()
    metadata = log.getSnapshotAt(version, _scala_none(table), _scala_none(table), False).metadata()
    properties = properties_of(metadata.configuration())
    keys = {physical: name.removeprefix(COLUMN) for name, physical in properties.items() if name.startswith(COLUMN)}
    fields = json.loads(metadata.schema().json())["fields"]
    physical = {field["name"]: field["metadata"].get(PHYSICAL_NAME, field["name"]) for field in fields}
    return {name: keys[own] for name, own in physical.items() if own in keys}


def present_names(frame: DataFrame, table: DeltaTable, spec: TableSpec, version: int) -> list[str]:
    """Return the present names of a version's columns, matched by stable key."""
    log = table.snapshot().deltaLog()
    metadata = log.getSnapshotAt(version, _scala_none(table), _scala_none(table), False).metadata()
    then = {
        field["metadata"].get(PHYSICAL_NAME, field["name"]): field["name"]
        for field in json.loads(metadata.schema().json())["fields"]
    }
    pairs = ((column.name, metadata.configuration().get(COLUMN + column.key)) for column in spec.columns)
    names = {then[physical.get()]: name for name, physical in pairs if physical.isDefined() and physical.get() in then}
    return [names.get(name, name) for name in frame.columns]


def _scala_none(table: DeltaTable):
    return getattr(jvm_of(table.spark), "scala.Option").empty()


@contextmanager
def within_retention(spec: TableSpec, known_at: str) -> Iterator[None]:
    """Convert Delta's errors about missing files of a version into a Refusal."""
    try:
        yield
    except Exception as failure:
        if misses_version(failure):
            raise beyond_retention(spec, known_at) from None
        raise


def beyond_retention(spec: TableSpec, known_at: str) -> Refusal:
    return not_kept(f"what {spec.qualified_name} held on {_shown(known_at)}")


def not_kept(what: str) -> Refusal:
    """Return the refusal to read an earlier version whose log or files were removed."""
    return Refusal(
        "BEYOND_RETENTION",
        f"{what} is no longer kept",
        hint="Choose a later time. How long old versions are kept is the table's delta.deletedFileRetentionDuration "
        "and delta.logRetentionDuration; raising them helps from now on.",
    )


def _shown(instant: str) -> str:
    return f"{parse_instant(instant):%Y-%m-%d %X} UTC"


def valid_at(frame: DataFrame, table: TableSpec, arguments: dict) -> DataFrame:
    """Return the rows whose interval ``[started_at, ended_at)`` contains the instant; open ones have no end."""
    at = _instant(arguments["at"], table.column("started_at"))
    started, ended, segment, state = (
        F.col(quoted_column(table, purpose)) for purpose in ("started_at", "ended_at", "segment", "state")
    )
    not_ended = ended.isNull() | (segment == OPEN) | (ended > at)
    if arguments.get("inclusive_ends"):
        not_ended = not_ended | (ended == at)
    valid = frame.where((started <= at) & not_ended)
    if arguments.get("tombstone"):
        valid = valid.where(~state.eqNullSafe(arguments["tombstone"]))
    return after_key(valid, table, arguments).orderBy(*business_key(table))


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
