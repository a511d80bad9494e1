"""Invariants of stored histories (rules 14, 15, 21).

The messages are those of ``loader.domain.reference.invariants``. Stored tables have further checks: hashes, the
partition of each version, and the rawcore table, which must match the open versions. The history is read in one pass
by key, and its open segment once more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from architecture.domain.tables import CLOSED, DELETED, OPEN, ColumnSpec
from loader.contract.manifest.reads import CheckManifest
from loader.contract.refusals import Refusal
from loader.domain.historization import history as rules
from loader.domain.historization.hash_coverage import hashed_over
from loader.domain.historization.history import Era, ever_tracked, may_repeat, noted_eras
from loader.engine.expressions import any_of
from loader.engine.historization.events.log_guards import EVENT_LOG_CHANGED, EVENT_LOG_MISSING
from loader.engine.historization.stored_tables import StoredTable
from loader.engine.session import persisted
from loader.engine.tables.commits import open_files
from loader.engine.tables.tables import DeltaTable
from loader.engine.time_limits import in_time
from metadata.domain.history.history_columns import open_end
from metadata.domain.history.history_policy import BATCH_FILES, TOMBSTONE, HistoryPolicy
from metadata.domain.sensitivity import MASK
from metadata.domain.types import parse, spark_type

LIVE = "live"

# Unit of a finding's count, in words.
TABLE_BEHIND = "TABLE_BEHIND"
MESSAGES = {
    EVENT_LOG_CHANGED: "changes of the event log by another writer",
    EVENT_LOG_MISSING: "versions of a history whose event log is missing or empty",
    TABLE_BEHIND: "runs that were applied and are missing in the table",
    "NULL_KEY": "versions without a key",
    "NULL_START": "versions without a start",
    "ENTITY_KEY": "versions whose entity key is not that of their business key",
    "HISTORY_KEY": "versions whose history key is not that of their entity key and start",
    "EMPTY_INTERVAL": "versions that end where they start, or before",
    "OVERLAP": "versions that start before the one before them ends",
    "SEVERAL_OPEN": "keys with more than one open version",
    "REPEATED_VALUE": "versions that repeat the values of the one right before them",
    "STATE": "versions whose state does not say how they opened or closed",
    "SEGMENT": "versions that lie in the wrong partition",
    "ACTIVE": "versions that are marked active and not open, or open and not active",
    "ROW_HASH": "open versions whose row hash is not that of their values",
    "SAME_START": "versions that start when another of their key does",
    "SEVERAL_ACTIVE": "keys with more than one active version",
    "RAWCORE_MISSING": "keys with an open version that rawcore lacks",
    "RAWCORE_EXTRA": "keys in rawcore without an open version",
    "RAWCORE_DIFFERS": "keys in rawcore whose row hash is not that of the open version",
    "RAWCORE_TWICE": "keys that rawcore holds more than once",
}


def check(spark: SparkSession, warehouse: str, manifest: CheckManifest, job_group: str) -> dict:
    """Return the broken invariants of a history, each with its count and sample keys.

    Raise Refusal ``NO_TABLE`` if a table does not exist yet, ``NO_COLUMN`` if it lacks a technical column,
    ``READ_TIMEOUT`` if the check takes too long.
    """
    with in_time(spark, job_group, f"check {manifest.name}", manifest.timeout_seconds):
        history, rawcore = (DeltaTable(spark, warehouse, table.key) for table in (manifest.history, manifest.rawcore))
        for table, spec in ((history, manifest.history), (rawcore, manifest.rawcore)):
            if not table.exists():
                raise Refusal(
                    "NO_TABLE",
                    f"{spec.qualified_name} does not exist in the warehouse yet",
                    hint="A load run creates it.",
                )
        versions = _consistent_versions(history, rawcore)
        conditions = _Conditions(
            manifest,
            StoredTable.of(history, manifest.history, versions[0]),
            StoredTable.of(rawcore, manifest.rawcore, versions[1]),
            _newest_notes(history),
        )
        count = conditions.history.frame.count()
        event_log = _event_log(spark, warehouse, manifest, count)
        findings = [*_missing_runs(manifest, history), *event_log, *_findings(conditions.broken(), manifest)]
        return {
            "table_version": versions[0],
            "rawcore_version": versions[1],
            "versions": count,
            "findings": findings,
            **_shown_columns(findings, manifest),
            "rawcore_behind": any(finding["code"].startswith("RAWCORE") for finding in findings)
            and _sequence(rawcore) < _sequence(history),
        }


def _sequence(table: DeltaTable) -> int:
    """Return the sequence of the newest run in the table, -1 if there is none."""
    last_run = table.newest_run_commit()
    return last_run.sequence if last_run else -1


def _missing_runs(manifest: CheckManifest, history: DeltaTable) -> list[dict]:
    """Return a finding if the table lacks runs that were applied to the history."""
    applied, sequence = manifest.newest_applied, _sequence(history)
    if applied is None or sequence >= applied:
        return []
    count = applied - max(sequence, 0)
    return [{"code": TABLE_BEHIND, "message": MESSAGES[TABLE_BEHIND], "count": count, "samples": []}]


def _event_log(spark: SparkSession, warehouse: str, manifest: CheckManifest, versions: int) -> list[dict]:
    """Return a finding if the event log is missing, or another writer changed it since its newest run."""
    if manifest.event_log is None:
        return []
    event_log = DeltaTable(spark, warehouse, manifest.event_log.key)
    counts = {EVENT_LOG_CHANGED: len(event_log.foreign_changes())}
    if not event_log.exists() or not open_files(spark, event_log).all:
        counts[EVENT_LOG_MISSING] = versions
    return [{"code": code, "message": MESSAGES[code], "count": n, "samples": []} for code, n in counts.items() if n]


def _consistent_versions(history: DeltaTable, rawcore: DeltaTable) -> tuple[int, int]:
    """Return versions of both tables, read without a history commit in between."""
    while True:
        history_version, rawcore_version = history.version(), rawcore.version()
        if history.version() == history_version:
            return history_version, rawcore_version


def _newest_notes(history: DeltaTable) -> Mapping[str, str] | None:
    """Return the notes of the newest run's commit, None without one. The metadata may have changed since."""
    last_run = history.newest_run_commit()
    return last_run.notes if last_run else None


@dataclass(frozen=True)
class _Conditions:
    """Conditions that must hold for a history and its rawcore table."""

    manifest: CheckManifest
    history: StoredTable
    rawcore: StoredTable
    noted: Mapping[str, str] | None  # None if no run wrote the history

    @property
    def pruned(self) -> bool:
        """Return True if the oldest remaining version may have had a predecessor."""
        return "forgotten" in (self.noted or {})

    @cached_property
    def eras(self) -> tuple[Era, ...]:
        return noted_eras(self.noted or {})

    @cached_property
    def hashed(self) -> list[tuple[str, ...]]:
        """Return stable keys of the columns that an open version's row hash may cover.

        There is one tuple for each recorded set of columns, and none if the sets are unknown.
        """
        if self.noted is None:
            return [tuple(part.key for part in self.manifest.row_hash)]
        return hashed_over(self.noted, self.history.families) or []

    @property
    def policy(self) -> HistoryPolicy:
        return HistoryPolicy.from_dict(self.manifest.policy)

    @property
    def tombstones(self) -> bool:
        return self.policy.deletes == TOMBSTONE

    def broken(self) -> DataFrame:
        """Return one row per broken invariant and version: ``code``, ``key`` (values as text), ``start``."""
        return self._broken_versions().unionByName(self._broken_rawcore())

    def _broken_versions(self) -> DataFrame:
        rows = self._in_order(self._versions())
        sound = F.col("sound")
        flags = {
            "NULL_KEY": F.col("no_key"),
            "NULL_START": ~F.col("no_key") & F.col("start").isNull(),
            "ENTITY_KEY": ~F.col("no_key") & ~F.array_contains("own_entity_keys", F.col("entity_key")),
            **{code: sound & flag for code, flag in self._flags().items()},
        }
        codes = F.array_compact(F.array(*(F.when(flag, code) for code, flag in flags.items())))
        return rows.select(F.explode(codes).alias("code"), "key", F.col("start").cast("string").alias("start"))

    def _versions(self) -> DataFrame:
        """Return the versions with fixed column names; ``until`` is NULL for an open version."""
        of = self.history
        ended, key = of.column("ended_at"), of.business_key
        end = open_end(self.policy, self.history.spec.column("ended_at").type)
        never = F.lit(end).try_cast(spark_type(parse(self.history.spec.column("ended_at").type)))
        no_key = any_of(column.isNull() for column in (of.column("entity_key"), *key))
        return of.frame.select(
            of.column("entity_key").alias("entity_key"),
            of.column("history_key").alias("history_key"),
            of.column("row_hash").alias("row_hash"),
            of.column("started_at").alias("start"),
            F.when(~ended.eqNullSafe(never), ended).alias("until"),
            of.column("state").alias("state"),
            of.column("segment").alias("segment"),
            (of.column("active") if of.has("active") else F.lit(None).cast("boolean")).alias("active"),
            no_key.alias("no_key"),
            (~no_key & of.column("started_at").isNotNull()).alias("sound"),
            F.array(*(column.cast("string") for column in key)).alias("key"),
            of.digest(self._compared_columns()).alias("values"),
            F.array(*(digest for keys in self.hashed for digest in of.hashed(keys)))
            .cast("array<string>")
            .alias("own_row_hashes"),
            F.array(*of.hashed(part.key for part in self.manifest.entity_key)).alias("own_entity_keys"),
            of.digest(of.key_of("entity_key") | of.key_of("started_at")).alias("own_history_key"),
        )

    def _compared_columns(self) -> dict[str, str]:
        """Return the columns in which neighbouring versions may differ: tracked attributes and retired columns.

        Two versions may differ only in a column that was retired since, or that was tracked only under an earlier
        history policy.
        """
        policy, of = self.policy, self.history

        def is_tracked(column: ColumnSpec) -> bool:
            never = column.name in policy.uncompared
            now = policy.track is None or column.name in policy.track
            return not never and (now or ever_tracked(self.eras, column.key))

        tracked = {
            c.key: of.names[c.key] for c in of.spec.of_purpose("attribute") if c.key in of.names and is_tracked(c)
        }
        described = {of.names[column.key] for column in of.spec.columns if column.key in of.names}
        return tracked | {f"retired {name}": name for name in of.frame.columns if name not in described}

    @staticmethod
    def _in_order(rows: DataFrame) -> DataFrame:
        """Add to each version the values of the version before and after it that the checks need."""
        of_key = Window.partitionBy("sound", "entity_key")
        in_time = of_key.orderBy("start", F.col("until").isNull(), "until")
        return rows.select(
            "*",
            F.row_number().over(in_time).alias("number"),
            F.lag("start").over(in_time).alias("earlier_start"),
            F.lag("until").over(in_time).alias("earlier_until"),
            F.lag("state").over(in_time).alias("earlier_state"),
            F.lag("values").over(in_time).alias("earlier_values"),
            F.lead("start").over(in_time).alias("later_start"),
            F.count_if(F.col("until").isNull()).over(of_key).alias("open_versions"),
            F.count_if(F.col("active")).over(of_key).alias("active_versions"),
        )

    def _flags(self) -> dict[str, Column]:
        """Return for each invariant the condition that a version with a key and a start violates it."""
        is_first = F.col("number") == 1
        flags = {
            "HISTORY_KEY": ~F.col("history_key").eqNullSafe(F.col("own_history_key")),
            "ROW_HASH": F.lit(bool(self.hashed))
            & F.col("segment").eqNullSafe(OPEN)
            & ~_true(F.array_contains("own_row_hashes", F.col("row_hash"))),
        }
        if self.policy.input == BATCH_FILES:
            return flags | {
                "SAME_START": _true(F.col("earlier_start") == F.col("start")),
                "SEVERAL_ACTIVE": is_first & (F.col("active_versions") > 1),
                "SEGMENT": ~_true(F.col("segment").isin(OPEN, CLOSED, DELETED)),
            }
        live_open = self._is_live_open()
        flags |= {
            "EMPTY_INTERVAL": _true(F.col("until") <= F.col("start")),
            "OVERLAP": ~is_first & _true(F.col("earlier_until").isNull() | (F.col("earlier_until") > F.col("start"))),
            "SEVERAL_OPEN": is_first & (F.col("open_versions") > 1),
            "REPEATED_VALUE": self._repeats(),
            "STATE": self._has_wrong_state(),
            "SEGMENT": ~_true(F.array_contains(self._segments(live_open), F.col("segment"))),
        }
        if self.history.has("active"):
            flags["ACTIVE"] = ~F.col("active").eqNullSafe(live_open)
        return flags

    def _is(self, state: str, column: str = "state") -> Column:
        return F.col(column).eqNullSafe(self.policy.label(state))

    def _is_live_open(self) -> Column:
        is_open = F.col("until").isNull()
        return is_open & ~self._is(rules.DELETED) if self.tombstones else is_open

    def _repeats(self) -> Column:
        if may_repeat(self.eras, (column.key for column in self.history.spec.of_purpose("attribute"))):
            return F.lit(False)
        same = _follows() & (F.col("earlier_values") == F.col("values"))
        return same & F.col("earlier_state").eqNullSafe(F.col("state")) if self.tombstones else same

    def _has_wrong_state(self) -> Column:
        """Return the condition that a state does not match how the version opened or closed (rules 14, 15)."""
        is_open, followed = F.col("until").isNull(), _true(F.col("later_start") == F.col("until"))
        may_follow = F.lit(self.pruned) & (F.col("number") == 1)
        if self.tombstones:
            # A tombstone follows the live version that it ends; another version or a tombstone ends a live one.
            follows_live = _follows() & self._is(LIVE, "earlier_state")
            wrong = F.when(self._is(rules.DELETED), ~(follows_live | may_follow)).otherwise(~self._is(LIVE))
            return (~is_open & ~followed) | wrong
        new = self._is(rules.NEW) | (may_follow & self._is(rules.CHANGED))
        opened = F.when(_follows(), self._is(rules.CHANGED)).otherwise(new)
        closed = F.when(followed, self._is(rules.CHANGED)).otherwise(self._is(rules.DELETED))
        return ~F.when(is_open, opened).otherwise(closed)

    def _segments(self, live_open: Column) -> Column:
        """Return the segments that a version may be in.

        The segments that a load reads must be exact: open, and the last versions of deleted keys.
        """
        is_last = F.col("later_start").isNull()
        return (
            F.when(live_open, F.array(F.lit(OPEN)))
            .when(is_last, F.array(F.lit(DELETED)))
            .when(self._is(rules.DELETED), F.array(F.lit(CLOSED), F.lit(DELETED)))
            .otherwise(F.array(F.lit(CLOSED)))
        )

    def _broken_rawcore(self) -> DataFrame:
        """Return the keys whose rawcore rows do not match the open live versions.

        A row is missing, extra, repeated, or has another row hash.
        """
        open_versions = self._open_versions().alias("h")
        of = self.rawcore
        rows = (
            of.frame.groupBy(of.column("entity_key").alias("entity_key"))
            .agg(
                F.count(F.lit(1)).alias("rows"),
                F.max(of.column("row_hash")).alias("row_hash"),
                F.any_value(F.array(*(column.cast("string") for column in of.business_key))).alias("key"),
            )
            .alias("r")
        )
        code = (
            F.when(F.col("h.there").isNull(), "RAWCORE_EXTRA")
            .when(F.col("r.rows").isNull(), "RAWCORE_MISSING")
            .when(F.col("r.rows") > 1, "RAWCORE_TWICE")
            .when(~F.col("h.row_hash").eqNullSafe(F.col("r.row_hash")), "RAWCORE_DIFFERS")
        )
        joined = open_versions.join(rows, F.col("h.entity_key") == F.col("r.entity_key"), "full_outer")
        key = F.coalesce(F.col("h.key"), F.col("r.key"))
        return joined.select(code.alias("code"), key.alias("key"), F.lit(None).cast("string").alias("start")).where(
            F.col("code").isNotNull()
        )

    def _open_versions(self) -> DataFrame:
        of = self.history
        return of.frame.where(of.column("segment") == OPEN).select(
            of.column("entity_key").alias("entity_key"),
            of.column("row_hash").alias("row_hash"),
            F.array(*(column.cast("string") for column in of.business_key)).alias("key"),
            F.lit(True).alias("there"),
        )


def _follows() -> Column:
    """Return the condition that a version starts at the end of the one before it."""
    return _true(F.col("earlier_until") == F.col("start"))


def _true(condition: Column) -> Column:
    """Return the condition with NULL as false."""
    return F.coalesce(condition, F.lit(False))


def _findings(broken: DataFrame, manifest: CheckManifest) -> list[dict]:
    """Return count and samples for each finding, in the order of ``MESSAGES``."""
    broken = persisted(broken, StorageLevel.MEMORY_AND_DISK)
    try:
        counts = {row["code"]: row["count"] for row in broken.groupBy("code").count().collect()}
        samples = _samples(broken, manifest) if counts and manifest.samples else {}
    finally:
        broken.unpersist()
    return [
        {"code": code, "message": message, "count": counts[code], "samples": samples.get(code, [])}
        for code, message in MESSAGES.items()
        if code in counts
    ]


def _shown_columns(findings: list[dict], manifest: CheckManifest) -> dict:
    """Return the columns whose values the samples show and their number, as answers with rows have them.

    The answer is withheld by them once a column is classified.
    """
    rows = sum(len(finding["samples"]) for finding in findings)
    names = [column.name for column in manifest.history.of_purpose("business_key")]
    dated_by = HistoryPolicy.from_dict(manifest.policy).time_column
    names += [dated_by] if dated_by is not None else []
    masked = [name for name in names if name.lower() in manifest.sensitive]
    return {"columns": names if rows else [], "masked": masked if rows else [], "rows": rows}


def _samples(broken: DataFrame, manifest: CheckManifest) -> dict[str, list[dict]]:
    names = [column.name for column in manifest.history.of_purpose("business_key")]
    dated_by = HistoryPolicy.from_dict(manifest.policy).time_column or ""
    is_start_masked = dated_by.lower() in manifest.sensitive
    place = F.row_number().over(Window.partitionBy("code").orderBy("key", "start"))
    chosen = broken.withColumn("place", place).where(F.col("place") <= manifest.samples).orderBy("code", "place")
    samples: dict[str, list[dict]] = {}
    for row in chosen.collect():
        key = {
            name: MASK if name.lower() in manifest.sensitive else value
            for name, value in zip(names, row["key"], strict=True)
        }
        start = MASK if is_start_masked else row["start"]
        samples.setdefault(row["code"], []).append({"key": key} | ({"start": start} if row["start"] else {}))
    return samples
