"""History batch files on Spark: earliest start, upsert, update, delete (rules 18 to 21).

Only the versions of the batch's keys are read. The four files are applied to them by a fold
(``loader.domain.historization.fold``), and the difference is written in one commit.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import CLOSED, OPEN, ObservedColumn
from loader.contract.manifest.loads import HistoryFiles, RawcoreLoad
from loader.contract.refusals import Refusal
from loader.domain.historization.file_fold import FilesFold
from loader.domain.historization.fold import Column as FoldColumn
from loader.domain.historization.history import form_note
from loader.domain.historization.sql_arrays import last, struct
from loader.domain.reference.batch_files import ACTIVE, DELETE, EARLIEST, END, FILES, UPDATE, UPSERT
from loader.engine.compared_texts import compared, types_by_name
from loader.engine.conversions import cut_to_microseconds, fits, has_nanoseconds, hex_of_base64, typed
from loader.engine.expressions import any_of, total, united
from loader.engine.hashing import digest
from loader.engine.historization import rawcore
from loader.engine.historization.events.arrivals import SAMPLES, refuse_conflicting
from loader.engine.historization.history_batches.history_files import as_rows
from loader.engine.historization.policy_notes import kept_hashes
from loader.engine.historization.targets import Stamp, Target
from loader.engine.historization.versions import ACTION, KEY, PACKED, VERSION, differing, packed_key
from loader.engine.pyspark_types import row_of
from loader.engine.row_limits import ONE_TASK_UP_TO_ROWS, REWRITE_UP_TO_ROWS
from loader.engine.samples import sample_rows
from loader.engine.session import forget
from metadata.domain.history.history_columns import FILES_OPEN_END
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import BINARY, STRING, TIME, TIMESTAMP, parse, spark_type

# Encoding of binary values in files, beside hex.
BASE64 = "base64"
_TIMES = (TIMESTAMP, TIME)


class FilesBatch:
    """History batch and the tables that it is written to."""

    def __init__(self, load: RawcoreLoad, target: Target, stamp: Stamp):
        self.load, self.target, self.stamp = load, target, stamp
        self.files = load.files or HistoryFiles()
        self.counts: dict[str, int] = {}
        self.after: dict[str, int] = {}
        self.warnings: list[str] = []
        last_run = target.last_run
        # Every commit repeats the horizon of a prune.
        self.notes: dict[str, str] = {}
        if last_run is not None and "forgotten" in last_run.notes:
            self.notes["forgotten"] = last_run.notes["forgotten"]
        self.notes |= form_note(self._policy, {}) | kept_hashes(load, last_run)
        self.notes |= target.former_keys.note(load)
        self._checkpoints: list[DataFrame] = []

    @property
    def _policy(self):
        return self.target.versions.policy

    @cached_property
    def _stored(self) -> dict[str, ObservedColumn]:
        """Return the data columns of the table, also those that are no longer described."""
        described = {column.name: column for column in self.target.versions.spec.columns}
        observed = self.target.versions.table.observe()
        assert observed is not None
        return {
            c.name: c for c in observed.columns if c.name not in described or described[c.name].purpose == "attribute"
        }

    @cached_property
    def _types(self) -> dict[str, str]:
        """Return the types of key and data columns that rows may have; files have described ones only."""
        stored = {name: column.type for name, column in self._stored.items()} if self.files.rows is not None else {}
        described = self.target.versions.spec.of_purpose("business_key", "attribute")
        return stored | {column.name: column.type for column in described}

    @cached_property
    def _fold(self) -> FilesFold:
        columns = tuple(FoldColumn(c.key or c.name, c.name, spark_type(parse(c.type))) for c in self._stored.values())
        return FilesFold(columns, quote_text(self.stamp.run_id), f"TIMESTAMP {quote_text(self.stamp.loaded_at)}")

    def prepare(self, files: Mapping[str, DataFrame], expected: int | None = None) -> None:
        """Check the files, whose columns are text, and compute their changes. Raise Refusal for invalid files.

        ``expected`` is the maximum number of rows, None if unknown.
        """
        before = self.target.version_counts()
        self._small = before["versions"] <= REWRITE_UP_TO_ROWS // 4
        size = max(before["versions"], expected if expected is not None else ONE_TASK_UP_TO_ROWS + 1)
        self._one_task = size <= ONE_TASK_UP_TO_ROWS
        frames = {file: self._read(file, files[file]) for file in FILES}
        rows = united((frames[file] for file in FILES), DataFrame.unionByName)
        if self._one_task:
            rows = rows.coalesce(1)
        rows = self._checkpoint(rows)
        distinct = self._distinct_rows(rows)
        self._result = self._checkpoint(self._fold_rows(distinct))
        self._count(before)

    def _checkpoint(self, frame: DataFrame) -> DataFrame:
        """Return the frame as a checkpoint that lasts until ``release``."""
        checkpoint = frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        self._checkpoints.append(checkpoint)
        return checkpoint

    # --- reading ----------------------------------------------------------------------------------

    def _read(self, file: str, frame: DataFrame) -> DataFrame:
        """Return a file's rows as typed ``file, key…, at, until, active, marked, v``.

        Raise Refusal for NULL keys and times.
        """
        if not frame.columns:  # no such file
            keys = [c.name for c in self.target.versions.business_key]
            time = END if file == DELETE else self._policy.time
            frame = as_rows(frame.sparkSession, [], (*keys, time))
        self._check_columns(file, frame)
        keys = [c.name for c in self.target.versions.business_key]
        time = END if file == DELETE else self._policy.time
        versions = file in (UPSERT, UPDATE)
        types = self._types
        own = [c for c in self._fold.columns if c.name in types and c.name in frame.columns] if versions else []
        wanted = {name: types[name] for name in keys} | {c.name: types[c.name] for c in own}
        wanted[time] = "timestamp"
        if versions:
            wanted |= {
                name: type_ for name, type_ in ((END, "timestamp"), (ACTIVE, "boolean")) if name in frame.columns
            }
        self._check_values(file, frame, wanted, keys, time)
        value = {name: typed(self._plain(name, type_), type_) for name, type_ in wanted.items()}
        end = F.coalesce(value.get(END, F.lit(None)), F.lit(FILES_OPEN_END).cast("timestamp"))
        active = F.coalesce(value.get(ACTIVE, F.lit(None)), end >= F.lit(FILES_OPEN_END).cast("timestamp"))
        marked = [self._is_marked(c.name) if c in own else F.lit(False) for c in self._fold.columns]
        values = [
            (value[c.name] if c in own else F.lit(None)).cast(c.type).alias(f"c{i}")
            for i, c in enumerate(self._fold.columns)
        ]
        return frame.select(
            F.lit(file).alias("file"),
            F.struct(*(value[name].alias(f"k{i}") for i, name in enumerate(keys))).alias(PACKED),
            value[time].alias("at"),
            end.alias("until"),
            active.alias("active"),
            (F.array(*marked) if marked else F.array().cast("array<boolean>")).alias("marked"),
            (F.struct(*values) if values else F.expr("named_struct()")).alias("v"),
        )

    def _check_columns(self, file: str, frame: DataFrame) -> None:
        """Raise Refusal MISSING_COLUMN if a file lacks a key column or the time."""
        keys = [c.name for c in self.target.versions.business_key]
        time = END if file == DELETE else self._policy.time
        missing = [name for name in (*keys, time) if name not in frame.columns]
        if missing:
            raise Refusal(
                "MISSING_COLUMN",
                f"{self.load.name}: the {file} file has no column {missing[0]}",
                column=missing[0],
                hint=f"Every row of it names its key ({', '.join(keys)}) and {time}.",
            )

    def _plain(self, name: str, type_: str = STRING) -> Column:
        """Return a value with NULL instead of the NULL marker and, in data columns, the "as before" marker.

        Timestamps and times are cut to microseconds.
        """
        column = F.col(quote_identifier(name))
        if self.files.null_string is not None and parse(type_).name == STRING:
            column = F.coalesce(column, F.lit(""))
        of_the_files = name in (self._policy.time, END, ACTIVE)
        null_string = self.files.null_string or self._policy.null_string
        for mark in (null_string, None if of_the_files else self._unmodified):
            if mark is not None:
                column = F.when(column != mark, column)
        if type_ == BINARY and self.files.binary == BASE64:
            return hex_of_base64(column)
        return cut_to_microseconds(column) if type_ in _TIMES else column

    @property
    def _unmodified(self) -> str | None:
        return self.files.unmodified_string or self._policy.unmodified_string

    def _is_marked(self, name: str) -> Column:
        mark = self._unmodified
        if mark is None:
            return F.lit(False)
        return F.coalesce(F.col(quote_identifier(name)) == mark, F.lit(False))

    def _check_values(self, file: str, frame: DataFrame, wanted: Mapping[str, str], keys: list[str], time: str) -> None:
        misfit = {name: ~fits(self._plain(name, type_), type_) for name, type_ in wanted.items()}
        too_fine = [self._plain(name) for name, type_ in wanted.items() if type_ in _TIMES]
        null_key = any_of(self._plain(name, wanted[name]).isNull() for name in keys)
        null_time = self._plain(time, wanted[time]).isNull()
        marked = any_of(self._is_marked(name) for name in wanted if file != UPDATE)
        sums = row_of(
            frame.agg(
                F.count(F.lit(1)).alias("rows"),
                F.count_if(null_key).alias("keys"),
                F.count_if(null_time).alias("times"),
                F.count_if(marked).alias("marked"),
                total(F.count_if(has_nanoseconds(text)) for text in too_fine).alias("cut"),
                *(F.count_if(condition).alias(f"m{i}") for i, condition in enumerate(misfit.values())),
            ).first()
        )
        self.counts["rows"] = self.counts.get("rows", 0) + sums["rows"]
        if sums["cut"]:
            self.warnings.append(f"{sums['cut']} times of the {file} file were cut to microseconds.")
        for i, (name, condition) in enumerate(misfit.items()):
            if sums[f"m{i}"]:
                shown = frame.where(condition).select(F.col(quote_identifier(name))).limit(SAMPLES).collect()
                raise Refusal(
                    "VALUE_DOES_NOT_FIT",
                    f"{self.load.name}: {sums[f'm{i}']} values of {name} in the {file} file do not fit {wanted[name]}",
                    column=name,
                    count=sums[f"m{i}"],
                    samples=tuple(row[0] for row in shown),
                    hint="Correct the file, or change the column's type.",
                )
        only_in_updates = "are marked as unmodified, which only an update file may"
        for count, code, message, bad in (
            (sums["marked"], "UNMODIFIED_IN_UPSERT", only_in_updates, marked),
            (sums["keys"], "NULL_KEY", "have no value in their business key", null_key),
            (sums["times"], "NULL_TIME", f"have no value in {time}", null_time),
        ):
            if count:
                raise Refusal(
                    code,
                    f"{self.load.name}: {count} rows of the {file} file {message}",
                    count=count,
                    samples=sample_rows(frame.where(bad), dict.fromkeys((*keys, time, *wanted))),
                    hint="Correct the file and send the whole batch again.",
                )

    def _distinct_rows(self, rows: DataFrame) -> DataFrame:
        """Return each row once. Raise Refusal if rows of one key and time differ (rule 21)."""
        key_type: Any = rows.schema[PACKED].dataType  # a struct
        key = [
            (column.key, compared(F.col(f"{PACKED}.k{i}"), parse(column.type).name), key_type[f"k{i}"].dataType)
            for i, column in enumerate(self.target.versions.business_key)
        ]
        kind = F.when(F.col("file") == UPDATE, UPSERT).otherwise(F.col("file"))
        keyed = self.target.former_keys.kept(rows.withColumn(KEY, digest(key)), KEY, self.load.leading)
        per_row = keyed.withColumn("kind", kind)
        types = types_by_name(self.target.versions.spec)
        texts = [compared(F.col(f"v.c{i}"), types.get(c.name, "")) for i, c in enumerate(self._fold.columns)]
        parts = ["until", "active", "marked", "v"]
        if any(c.name in types for c in self._fold.columns):
            per_row = per_row.withColumn("same", F.struct(*(text.alias(f"c{i}") for i, text in enumerate(texts))))
            parts.insert(3, "same")
        content = struct(**{part: part for part in parts})
        per_time = per_row.groupBy(KEY, "kind", "at").agg(
            F.any_value(PACKED).alias(PACKED),
            F.count(F.lit(1)).alias("n"),
            F.expr(f"min({content})").alias("low"),
            F.expr(f"max({content})").alias("high"),
            # Of identical rows in both files, that of the upsert file is used.
            F.max("file").alias("file"),
        )
        differ = any_of(~F.col(f"low.{part}").eqNullSafe(F.col(f"high.{part}")) for part in parts[:4])
        totals = row_of(
            per_time.agg(
                F.count_if(differ).alias("conflicts"),
                F.coalesce(F.sum("n") - F.count(F.lit(1)), F.lit(0)).alias("same"),
            ).first()
        )
        self.counts["duplicates"] = totals["same"]
        refuse_conflicting(self.load.name, totals["conflicts"], per_time.where(differ), "at", "start")
        return per_time

    # --- the fold ---------------------------------------------------------------------------------

    def _fold_rows(self, rows: DataFrame) -> DataFrame:
        fold = self._fold
        row = struct(at="at", until="low.until", active="low.active", marked="low.marked", v="low.v")

        def of(file: str, value: str) -> Column:
            return F.expr(f"sort_array(collect_list({value}) FILTER (WHERE file = '{file}'))").alias(file)

        per_key = rows.groupBy(KEY).agg(
            F.any_value(PACKED).alias(PACKED),
            of(EARLIEST, "at"),
            of(UPSERT, row),
            of(UPDATE, row),
            of(DELETE, "at"),
        )
        joined = per_key.alias("b").join(self._versions(per_key).alias("h"), KEY, "left")
        whole = joined.select(
            F.col(KEY),
            F.coalesce(f"h.{PACKED}", f"b.{PACKED}").alias(PACKED),  # the first text of a key stays
            *(F.col(file) for file in FILES),
            F.coalesce(F.col("h.vs"), F.expr(fold.no_versions())).alias("old"),
        )
        after = whole.withColumn("__after", F.expr(fold.after("old", EARLIEST, UPSERT, UPDATE, DELETE)))
        return after.select(
            KEY,
            PACKED,
            "old",
            F.col("__after.vs").alias("new"),
            F.col("__after.ignored").alias("ignored"),
        )

    def _versions(self, keys: DataFrame) -> DataFrame:
        """Return the stored versions of these keys as sorted arrays."""
        table = self.target.versions
        key = table.name("entity_key")
        wanted = keys.select(F.col(KEY).alias("__wanted"))
        frame = table.frame()
        if self._one_task:
            frame = frame.coalesce(1)
        frame = frame.join(wanted, F.col(key) == F.col("__wanted"), "left_semi")
        values = F.struct(*(F.col(quote_identifier(c.name)).alias(f"c{i}") for i, c in enumerate(self._fold.columns)))
        version = F.struct(
            F.col(table.name("started_at")).alias("start"),
            F.col(table.name("ended_at")).alias("until"),
            F.col(table.name("active")).alias("active"),
            F.col(table.name("run_id")).alias("opened"),
            F.col(table.name("loaded_at")).alias("loaded"),
            F.col(table.name("closed_by")).alias("closed"),
            F.lit(None).cast("timestamp").alias("closed_at"),
            values.alias("v"),
        )
        rows = frame.select(F.col(key).alias(KEY), packed_key(table.spec), version.alias("version"))
        return rows.groupBy(KEY).agg(
            F.min_by(PACKED, "version.start").alias(PACKED), F.sort_array(F.collect_list("version")).alias("vs")
        )

    def _count(self, before: Mapping[str, int]) -> None:
        sums = {
            "opened": "sum(size(filter(new, n -> NOT exists(old, o -> o.start = n.start))))",
            "removed": "sum(size(filter(old, o -> NOT exists(new, n -> n.start = o.start))))",
            "closed": "sum(size(filter(new, n -> NOT n.active AND exists(old, o -> o.start = n.start AND o.active))))",
            "ignored": "sum(ignored)",
            "touched": "count_if(exists(old, o -> NOT exists(new, n -> n <=> o)))",
            "gained": "sum(size(filter(new, n -> n.active)) - size(filter(old, o -> o.active)))",
        }
        columns = (F.expr(f"coalesce({sql}, 0)").alias(name) for name, sql in sums.items())
        totals = row_of(self._result.agg(*columns).first())
        self._touched = totals["touched"] > 0
        self.counts |= {name: totals[name] for name in ("opened", "closed", "removed")}
        self.counts["unknown_ignored"] = totals["ignored"]
        self.after = {
            "versions": before["versions"] + totals["opened"] - totals["removed"],
            "open": before["open"] + totals["gained"],
        }

    # --- writing ----------------------------------------------------------------------------------

    def write_history(self) -> None:
        self.target.versions.write(
            self._difference(),
            self.load.sequence,
            touches=self._touched,
            small=self._small,
            segments={OPEN, CLOSED},
        )

    def _difference(self) -> DataFrame:
        table = self.target.versions
        versions = table.with_values(differing(self._result), self._fold.columns)
        values = {
            "history_key": table.history_key(F.col(table.name("entity_key")), F.col(f"{VERSION}.start")),
            "started_at": F.col(f"{VERSION}.start"),
            "ended_at": F.col(f"{VERSION}.until"),
            "active": F.col(f"{VERSION}.active"),
            "state": F.lit(None),
            "run_id": F.col(f"{VERSION}.opened"),
            "loaded_at": F.col(f"{VERSION}.loaded"),
            "closed_by": F.col(f"{VERSION}.closed"),
            "segment": F.when(F.col(f"{VERSION}.active"), OPEN).otherwise(CLOSED),
        }
        return table.rows(versions, values, (ACTION,))

    def write_rawcore(self) -> None:
        if self._small:
            rawcore.rebuild(self.target)
            return
        current = "array_max(transform(filter({0}, n -> n.active), n -> " + struct(start="n.start", it="n") + ")).it"
        rows = self._result.where(f"NOT ({last('old')} <=> {last('new')})").select(
            F.col(KEY).alias(self.target.versions.spec.column("entity_key").name),
            *self.target.versions.unpacked_key(),
            F.expr(current.format("new")).alias("__n"),
        )
        changes = rows.select(
            "*",
            F.col("__n").isNotNull().alias("__live"),
            *(F.col(f"__n.v.c{i}").alias(c.name) for i, c in enumerate(self._fold.columns)),
            F.col("__n.opened").alias("__opened"),
            F.col("__n.loaded").alias("__loaded"),
        ).drop("__n")
        rawcore.write_live_rows(self.target, changes)

    def release(self) -> None:
        self.target.former_keys.release()
        for frame in self._checkpoints:
            forget(frame)
