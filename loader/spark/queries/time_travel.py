"""Time travel: a table as of a clock time, with the present names of its columns."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from architecture.domain.states.tables import TableSpec
from loader.domain.historization.history import parse_instant
from loader.domain.runs.refusals import Refusal
from loader.spark.tables.tables import COLUMN, DeltaTable, properties_of
from metadata.domain.sql import quote_identifier

_NEEDED = ("entity_key", "business_key", "started_at", "ended_at", "state", "segment")
_PHYSICAL = "delta.columnMapping.physicalName"
# How Delta and Spark say that a version can no longer be read.
_GONE = (
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_FILE_NOT_FOUND",
    "FAILED_READ_FILE.FILE_NOT_EXIST",
)


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
    jvm = table.spark._jvm
    clock = jvm.java.sql.Timestamp(int(instant.timestamp() * 1000))
    last, recreatable, earliest = True, True, True
    history = table.snapshot().deltaLog().history()
    found = history.getActiveCommitAtTime(clock, _nothing(table), last, recreatable, earliest)
    return Commit(found.version(), datetime.fromtimestamp(found.timestamp() / 1000, UTC))


def frame_as_known(frame: DataFrame, table: DeltaTable, spec: TableSpec, version: int) -> DataFrame:
    """Return the frame of an earlier table version with the present names of its columns.

    Raise Refusal ``OTHER_LAYOUT`` if a technical column that queries need did not exist then.
    """
    now = _names_now(table, spec, version)
    present = [now.get(name, name) for name in frame.columns]
    lacking = [column.name for column in spec.of_purpose(*_NEEDED) if column.name not in present]
    if lacking:
        raise Refusal(
            "OTHER_LAYOUT",
            f"{spec.qualified_name} had no column {lacking[0]} then: its history was kept in another layout",
            hint="Choose a later time.",
        )
    return frame.select(
        *(F.col(quote_identifier(name)).alias(alias) for name, alias in zip(frame.columns, present, strict=True))
    )


def column_keys(table: DeltaTable, version: int) -> dict[str, str]:
    """Return the stable keys of a version's columns by the names they had then."""
    log = table.snapshot().deltaLog()
    metadata = log.getSnapshotAt(version, _nothing(table), _nothing(table), False).metadata()
    properties = properties_of(metadata.configuration())
    keys = {physical: name.removeprefix(COLUMN) for name, physical in properties.items() if name.startswith(COLUMN)}
    fields = json.loads(metadata.schema().json())["fields"]
    physical = {field["name"]: field["metadata"].get(_PHYSICAL, field["name"]) for field in fields}
    return {name: keys[own] for name, own in physical.items() if own in keys}


def _names_now(table: DeltaTable, spec: TableSpec, version: int) -> dict[str, str]:
    """Return the present name of each column by its name in ``version``, matched by stable key."""
    log = table.snapshot().deltaLog()
    metadata = log.getSnapshotAt(version, _nothing(table), _nothing(table), False).metadata()
    then = {
        field["metadata"].get(_PHYSICAL, field["name"]): field["name"]
        for field in json.loads(metadata.schema().json())["fields"]
    }
    known = ((column.name, metadata.configuration().get(COLUMN + column.key)) for column in spec.columns)
    return {then[physical.get()]: name for name, physical in known if physical.isDefined() and physical.get() in then}


def _nothing(table: DeltaTable):
    return getattr(table.spark._jvm, "scala.Option").empty()


@contextmanager
def within_retention(spec: TableSpec, known_at: str) -> Iterator[None]:
    """Convert Delta's errors about missing files of a version into a Refusal."""
    try:
        yield
    except Exception as failure:
        if any(code in str(failure) for code in _GONE):
            raise beyond_retention(spec, known_at) from None
        raise


def beyond_retention(spec: TableSpec, known_at: str) -> Refusal:
    return Refusal(
        "BEYOND_RETENTION",
        f"what {spec.qualified_name} held on {_shown(known_at)} is no longer kept",
        hint="Choose a later time. How long old versions are kept is the table's delta.deletedFileRetentionDuration "
        "and delta.logRetentionDuration; raising them helps from now on.",
    )


def _shown(instant: str) -> str:
    return f"{parse_instant(instant):%Y-%m-%d %X} UTC"
