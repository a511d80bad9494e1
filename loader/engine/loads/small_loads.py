"""Small loads: one Spark job with a task per dataset, instead of some ten jobs for each dataset.

The tasks (``loader.engine.arrow``) write files; the load of each dataset then commits them, with the guards and commit
metadata of any load. The general way is used for a delivery that is not plain, and if a table changed in the meantime.
"""

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

from architecture.domain.tables import DELETED, OPEN, TableSpec
from loader.contract.manifest.loads import HashComponent, LoadManifest, RawcoreLoad, RawLoad
from loader.contract.refusals import Refusal
from loader.domain.historization import history as rules
from loader.domain.historization.hash_coverage import HASHED, only_compared_otherwise
from loader.domain.historization.load_guards import DeleteGuard
from loader.domain.small_loads import delimiter_of, small_pairs
from loader.engine.arrow.deliveries import Column, DeliveredFile, Delivery
from loader.engine.arrow.parquet_files import Field, StoredFile, Table
from loader.engine.arrow.small_load import SmallLoad, load_small
from loader.engine.arrow.versions import CHANGED, NEW, History, Part
from loader.engine.arrow.versions import DELETED as DELETED_STATE
from loader.engine.arrow.versions import Stamp as ArrowStamp
from loader.engine.historization.batches import snapshot_notes
from loader.engine.historization.former_keys import tables_with_keys
from loader.engine.historization.parents import NULLED
from loader.engine.historization.policy_notes import columns_hashed
from loader.engine.historization.targets import Stamp, Target
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.session import source_roots
from loader.engine.sources.files import DeliveredFile as ListedFile
from loader.engine.sources.files import check_places, check_unchanged, list_files
from loader.engine.tables.commits import DIRECT, commit, open_files, path_in_use
from loader.engine.tables.direct_commits import rows_in
from loader.engine.tables.table_files import TableFiles
from loader.engine.tables.tables import DeltaTable, metadata_of
from loader.engine.task_modules import ship_modules
from metadata.domain.history.history_columns import open_end
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sql import quote_identifier
from metadata.domain.types import from_spark, parse, stored_type

log = logging.getLogger(__name__)

_LOCAL = "file:"
_MAPPING, _BY_NAME = "delta.columnMapping.mode", ("none", "name")
_STORED_NAME, _NUMBER = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"


class _NotSmall(Exception):
    """Error raised for a load that takes the general way; its text is the reason."""


@dataclass
class PreparedLoad:
    """Files that a task wrote for a raw load and its rawcore load, and the table versions it was planned for."""

    raw: RawLoad
    load: RawcoreLoad
    stamp: Stamp
    files: tuple[ListedFile, ...]
    versions: dict[str, int]
    written: dict[str, Any] = field(default_factory=dict)
    raw_is_written: bool = False

    def fits(self, *tables: TableFiles) -> bool:
        """Return True if these tables still have the versions for which the task was planned."""
        return all(files.version == self.versions[files.table.key] for files in tables)

    @property
    def rows(self) -> int:
        """Return the number of delivered rows."""
        return self.written["counts"]["rows"]

    def write_raw(
        self, session: SparkSession, files: TableFiles, recorded: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """Commit the delivered rows, and return the counts.

        They replace the former delivery's, or with ``recorded`` (``loader.engine.tables.commits.commit``) add to them.
        """
        location, roots = self.raw.source.location, source_roots(session)

        def check() -> None:
            check_places(location, roots, self.files)
            check_unchanged(session, location, roots, self.files)

        written = self.written["raw"]
        if recorded is None:
            commit(files, None, written=written, remove=files.all, last=check)
        else:
            commit(files, None, written=written, recorded=recorded, last=check)
        self.raw_is_written = True
        return {"rows": self.rows, "duplicates": 0}


class SmallBatch:
    """Batch whose changes a task computed and whose files it wrote."""

    warnings: Sequence[str] = ()

    def __init__(self, prepared: PreparedLoad, target: Target):
        self.load, self.target, self._written = prepared.load, target, prepared.written
        counts, self._closes_absent = self._written["counts"], HistoryPolicy.from_dict(self.load.policy).closes_absent
        self.counts = {
            "rows": counts["rows"],
            "duplicates": 0,
            "new": counts["new"] - counts["reappeared"],
            "reappeared": counts["reappeared"],
            "changed": counts["changed"],
            "deleted": counts["deleted"],
            "unchanged": counts["unchanged"],
        }
        if not self._closes_absent:
            self.counts["missing"] = counts["stored"] - counts["unchanged"] - counts["changed"]
        self.after: dict[str, int] = {}
        if target.history:
            before = target.version_counts()
            self.after = {
                "versions": before["versions"] + counts["new"] + counts["changed"],
                "open": before["open"] + counts["new"] - counts["deleted"],
            }

    @property
    def notes(self) -> dict[str, str]:
        return snapshot_notes(self.load, self.target)

    def check(self, guard: DeleteGuard) -> None:
        """Raise Refusal for a snapshot that closes more keys than the guard permits."""
        counts = self._written["counts"]
        if self._closes_absent:
            guard.check(
                name=self.load.name, rows=counts["rows"], would_close=counts["deleted"], open_keys=counts["stored"]
            )

    def write_history(self) -> None:
        if self.target.history is None:
            return
        versions = self.target.versions
        replaced = versions.files_of(OPEN) if self._written["replaces"] else None
        self._commit(versions.files, versions.spec, "history", replaced)

    def write_rawcore(self) -> None:
        files = self.target.rawcore_files
        self._commit(files, self.load.table, "rawcore", files.all if self._written["replaces"] else None)

    def _commit(self, files: TableFiles, table: TableSpec, name: str, replaced: list[Any] | None) -> None:
        commit(files, table.key, self.load.sequence, written=self._written[name], remove=replaced)

    def release(self) -> None:
        """Do nothing: no rows are cached."""


def small_batch(prepared: PreparedLoad | None, target: Target) -> SmallBatch | None:
    """Return the batch that a task prepared; None if there is none, or if its tables have changed."""
    if prepared is None or not prepared.raw_is_written:
        return None
    tables = [target.rawcore_files, *([target.versions.files] if target.history else [])]
    return SmallBatch(prepared, target) if prepared.fits(*tables) else None


def prepare_small_loads(
    spark: SparkSession,
    warehouse: str,
    manifest: LoadManifest,
    stamp: Stamp,
    datasets: Collection[str],
    side_by_side: int,
) -> dict[str, PreparedLoad]:
    """Run the small loads among ``datasets`` in one job; return each by the keys of its two datasets.

    The files are written, not committed. There are no small loads without the direct commit path, which alone commits
    written files, or without a local warehouse. Loads that are missing in the result take the general way.
    """

    def task_of(pair: tuple[RawLoad, RawcoreLoad]) -> tuple[PreparedLoad, SmallLoad] | None:
        try:
            return _plan_load(spark, warehouse, *pair, manifest, stamp)
        except (_NotSmall, Refusal, *JAVA_ERRORS) as reason:  # the general way raises the refusals
            log.info("%s takes the general way: %s", pair[1].name, reason)
        except Exception:  # an error in one dataset must not end the others
            log.exception("%s takes the general way", pair[1].name)
        return None

    if path_in_use().name != DIRECT or not warehouse.startswith(("/", _LOCAL)):
        return {}
    pairs = [pair for pair in small_pairs(manifest) if all(load.dataset in datasets for load in pair)]
    with ThreadPoolExecutor(side_by_side) as pool:
        planned = [task for task in pool.map(inheritable_thread_target(spark)(task_of), pairs) if task is not None]
    prepared, tasks = [load for load, _ in planned], [task for _, task in planned]
    if not tasks:
        return {}
    try:
        context = spark.sparkContext
        ship_modules(context)
        written = context.parallelize(tasks, len(tasks)).map(load_small).collect()
    except JAVA_ERRORS:
        log.exception("the small loads could not be run as one job; each is loaded by itself")
        return {}
    by_dataset: dict[str, PreparedLoad] = {}
    for small, result in zip(prepared, written, strict=True):
        if "not_plain" in result:
            log.info("%s takes the general way: %s", small.load.name, result["not_plain"])
            continue
        small.written = result
        by_dataset |= {small.raw.dataset: small, small.load.dataset: small}
    return by_dataset


def _plan_load(
    spark: SparkSession, warehouse: str, raw: RawLoad, load: RawcoreLoad, manifest: LoadManifest, stamp: Stamp
) -> tuple[PreparedLoad, SmallLoad]:
    """Return the load and its task. Raise _NotSmall if files or tables need the general way."""
    listed = tuple(list_files(spark, raw.source.location, source_roots(spark)))
    if not all(file.path.startswith(_LOCAL) for file in listed):
        raise _NotSmall("its files are not on this machine")
    target = Target.of(spark, warehouse, load)
    raw_files = open_files(spark, DeltaTable(spark, warehouse, raw.table.key))
    tables = [raw_files, target.rawcore_files, *([target.versions.files] if target.history else [])]
    if any(files.version < 0 for files in tables):
        raise _NotSmall("a table is missing")
    _check_state(target, load)
    current_files = target.versions.files_of(OPEN) if target.history else target.rawcore_files.all
    rows = rows_in(current_files)
    if rows is None or rows > manifest.small_rows:
        raise _NotSmall("the table is large")
    deleted_files = target.versions.files_of(DELETED) if target.history else []
    leading = target.versions.files if target.history else target.rawcore_files
    types = {column.name: column.type for column in raw.source.columns}
    by_expression = {quote_identifier(name): delivered for name, delivered in raw.columns}
    stage = {column.name: by_expression[column.expression] for column in load.inputs[0].columns}
    task = SmallLoad(
        delivery=_delivery(raw, listed),
        stamp=ArrowStamp(stamp.run_id, rules.parse_instant(stamp.at), rules.parse_instant(stamp.loaded_at)),
        raw=_table(raw_files, {name: types[delivered] for name, delivered in raw.columns}),
        raw_columns=raw.columns,
        raw_stamps=_stamps(raw.table),
        raw_provenance=(raw.table.column("source_file").name, raw.table.column("source_row").name),
        raw_day=raw.table.column("load_day").name,
        rawcore=_table(target.rawcore_files, {name: types[delivered] for name, delivered in stage.items()}),
        rawcore_stamps=_stamps(load.table),
        stage_columns=tuple(stage.items()),
        entity_key=(load.table.column("entity_key").name, _parts(load.entity_key)),
        row_hash=(load.table.column("row_hash").name, _parts(load.row_hash)),
        foreign_keys=tuple((key.column, _parts(key.components)) for key in load.foreign_keys),
        history=_history(target, load, {name: types[delivered] for name, delivered in stage.items()}),
        open_files=_stored_files(leading, current_files),
        ended_files=_stored_files(leading, deleted_files),
        closes_absent=HistoryPolicy.from_dict(load.policy).closes_absent,
        limit=manifest.small_rows,
    )
    versions = {files.table.key: files.version for files in tables}
    return PreparedLoad(raw, load, stamp, listed, versions), task


def _check_state(target: Target, load: RawcoreLoad) -> None:
    """Raise _NotSmall if the run is applied, a table changed since its newest run, or hashes cover other columns."""
    if target.leading.committed_sequence(load.leading.key) >= load.sequence:
        raise _NotSmall("the run is in the table already")
    last_run, followed = target.last_run, target.rawcore.newest_run_commit()
    if (last_run and last_run.foreign) or (followed and followed.foreign):
        raise _NotSmall("another writer changed it")
    if last_run and last_run.notes.get(NULLED):
        raise _NotSmall("foreign keys were NULL for unknown parents")
    _check_keys(target, load)
    if target.history is None:
        if last_run and only_compared_otherwise(last_run.notes, columns_hashed(load)):
            raise _NotSmall("its row hashes are of another version")
        return
    if last_run is None:
        if target.versions.files.all:
            raise _NotSmall("its versions are of no run")
        return
    if followed is None or followed.sequence < last_run.sequence:
        raise _NotSmall("rawcore is behind its history")
    if last_run.version != target.history.version() or not last_run.counts:
        raise _NotSmall("its newest commit is not a run's")
    if last_run.notes.get(HASHED) != columns_hashed(load):
        raise _NotSmall("its row hashes cover other columns")


def _check_keys(target: Target, load: RawcoreLoad) -> None:
    """Raise _NotSmall if stored keys may be hashed in another way, or a child's values are compared as another type."""
    if any(part.type is not None for key in load.foreign_keys for part in key.components):
        raise _NotSmall("a foreign key is compared as its parent's type")
    for spec in tables_with_keys(load):
        if target.former_keys.may_have_some(spec):
            raise _NotSmall(f"keys of {spec.qualified_name} may be hashed in another way")


def _delivery(raw: RawLoad, listed: Sequence[ListedFile]) -> Delivery:
    columns = tuple(Column(c.name, c.type, c.business_key or not c.nullable) for c in raw.source.columns)
    files = tuple(DeliveredFile(file.path.removeprefix(_LOCAL), file.size, file.written, file.name) for file in listed)
    return Delivery(raw.source.format, files, columns, delimiter_of(raw.source))


def _history(target: Target, load: RawcoreLoad, types: dict[str, str]) -> History | None:
    if target.history is None:
        return None
    spec, policy = target.versions.spec, HistoryPolicy.from_dict(load.policy)
    end = open_end(policy, spec.column("ended_at").type)
    return History(
        table=_table(target.versions.files, types),
        purposes={column.purpose: column.name for column in spec.columns},
        key_ids=(spec.column("entity_key").key, spec.column("started_at").key),
        labels={state: policy.label(state) for state in (NEW, CHANGED, DELETED_STATE)},
        open_until=rules.parse_instant(end) if end else None,
    )


def _table(files: TableFiles, types: dict[str, str]) -> Table:
    """Return a table's layout. Raise _NotSmall if a column has another type in the table than in ``types``."""
    metadata = metadata_of(files.table.snapshot())
    if metadata.properties.get(_MAPPING, "none") not in _BY_NAME:
        raise _NotSmall("its columns are mapped by id")
    fields = tuple(_field(column) for column in metadata.fields)
    for column in fields:
        if column.name in types and parse(column.type) != stored_type(parse(types[column.name])):
            raise _NotSmall(f"{column.name} has another type in the table")
    folder = files.table.location.removeprefix("file://").removeprefix(_LOCAL)
    return Table(folder, fields, metadata.partition_by)


def _field(column: dict[str, Any]) -> Field:
    described = column["metadata"].get(_TEXT_TYPE) or column["type"]
    if not isinstance(described, str):
        raise _NotSmall(f"{column['name']} is nested")
    stored_name, number = column["metadata"].get(_STORED_NAME, column["name"]), column["metadata"].get(_NUMBER)
    return Field(column["name"], str(from_spark(described)), stored_name, number, column["nullable"])


def _stored_files(files: TableFiles, wanted: Sequence[Any]) -> tuple[StoredFile, ...]:
    folder = files.table.location.removeprefix("file://").removeprefix(_LOCAL)
    stored = []
    for action in (json.loads(file.json())["add"] for file in wanted):
        path = unquote(action["path"])
        if "deletionVector" in action or path.startswith(("/", _LOCAL)):
            raise _NotSmall("a file has deleted rows, or is another table's")
        stored.append(StoredFile(f"{folder}/{path}", action["partitionValues"]))
    return tuple(stored)


def _parts(components: Sequence[HashComponent]) -> tuple[Part, ...]:
    return tuple((part.key, part.column) for part in components)


def _stamps(table: TableSpec) -> tuple[str, str]:
    return table.column("run_id").name, table.column("loaded_at").name
