"""Replay of history cases on the Spark engine, each in temporary tables of its own.

Column changes of a case are executed as steps on the tables, like changes of metadata. Its rows are checked and
committed like those of a load. A refused batch leaves the tables and their columns unchanged.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import DELETED, OPEN, TableSpec, event_log_table, history_table, rawcore_table
from loader.contract.manifest.loads import LoadManifest, RawcoreLoad, StageColumn
from loader.contract.refusals import Refusal
from loader.domain.historization import history as rules
from loader.domain.historization.load_guards import check_later
from loader.domain.historization.stage import entity_key_components, row_hash_components
from loader.domain.reference.batch import Columns
from loader.domain.reference.batch_files import ACTIVE, END, FILES
from loader.domain.reference.cases import Case, Outcome, run_case
from loader.domain.reference.table import Header
from loader.engine.historization.batches import dated_by_run, find_batch
from loader.engine.historization.detection import Detection, by_key_list, by_window
from loader.engine.historization.history_batches.file_batches import FilesBatch
from loader.engine.historization.history_batches.history_files import as_rows
from loader.engine.historization.stage import key_hashes, typed_columns
from loader.engine.historization.targets import Target
from loader.engine.java_errors import accident
from loader.engine.loads.dataset_load import Task, guard_of
from loader.engine.loads.rawcore_loads import historize
from loader.engine.tables import steps
from loader.engine.tables.tables import DeltaTable
from metadata.domain import naming
from metadata.domain.history.history_policy import BATCH_FILES, HistoryPolicy
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ATTRIBUTE, BUSINESS_KEY, ColumnState, DatasetState
from metadata.domain.types import DataType, parse, spark_type

log = logging.getLogger(__name__)

SIDE_BY_SIDE = 4
_LAYER = "rawcore"


def replay(
    spark: SparkSession, warehouse: str, cases: Iterable[Case], tell: Callable[[Outcome], None] = lambda _: None
) -> list[Outcome]:
    """Run the cases, several in parallel; call ``tell`` with each outcome."""

    def run(case: Case) -> Outcome:
        try:
            outcome = run_case(case, lambda header: SparkEngine(spark, warehouse, header))
        except Exception as failure:  # an error in one case must not end the others
            log.exception("case %s failed", case.id)
            outcome = Outcome(case.id, False, accident(case.id, failure).one_line(), ())
        tell(outcome)
        return outcome

    with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="case") as pool:
        return list(pool.map(run, cases))


@dataclass
class SparkEngine:
    """History table of one case, with the same methods ``apply`` and ``rows`` as the reference engine."""

    spark: SparkSession
    warehouse: str
    header: Header
    columns: Columns = field(default_factory=Columns)
    keys: dict[str, str] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.key = str(uuid5(NAMESPACE_URL, f"{self.header.id}/{id(self)}/{threading.get_ident()}"))

    def change_policy(self, policy: HistoryPolicy) -> None:
        """Use this history policy from the next batch on."""
        self.header = replace(self.header, policy=policy)

    # --- batches ----------------------------------------------------------------------------------

    def apply(self, batch: Mapping[str, Any]) -> None:
        """Apply a batch completely, or raise Refusal and change nothing."""
        run_id = batch["run_id"]
        if run_id in self.sequences:
            self._load(batch, self.sequences[run_id])
            return
        before = (self.header, self.columns, dict(self.keys))
        tables = [self._table(spec) for spec in self._specs()] if self.columns.types else []
        versions = [(table, table.version()) for table in tables]
        try:
            self._evolve(batch)
            self._load(batch, len(self.sequences) + 1)
        except Refusal:
            self.header, self.columns, self.keys = before
            for table, version in versions:
                if table.version() > version >= 0:
                    self.spark.sql(f"RESTORE TABLE {table.sql_name} TO VERSION AS OF {version}")
            raise
        self.sequences[run_id] = len(self.sequences) + 1

    def _load(self, batch: Mapping[str, Any], sequence: int) -> None:
        load = self._rawcore_load(sequence)
        manifest = LoadManifest(
            run_id=batch["run_id"],
            load_timestamp=rules.parse_instant(batch["at"]).isoformat(),
            attempt=1,
            raw=(),
            rawcore=(load,),
            allow_empty=bool(batch.get("allow_empty")),
            allow_deletes=bool(batch.get("allow_deletes")),
        )
        task = Task(self.spark, self.warehouse, manifest, lambda _: None)
        session = task.session(sequence)
        target = Target.of(session, self.warehouse, load)
        committed = target.leading.committed_sequence(load.leading.key)
        if committed >= sequence:
            return
        policy = self.header.policy
        if dated_by_run(policy):
            last_run = target.last_run
            check_later(name=load.name, at=manifest.load_timestamp, newest=(last_run.at if last_run else None,))
        if policy.input == BATCH_FILES:
            files = FilesBatch(load, target, task.stamp)
            rows = {file: self._file_rows(batch.get(file) or []) for file in FILES}
            frames = {file: as_rows(session, file_rows) for file, file_rows in rows.items()}
            self._run(task, session, target, files, partial(files.prepare, frames, sum(map(len, rows.values()))))
        else:
            stage = self._stage(session, batch["rows"], load.name)
            detection = self._detection(session, load, batch)
            dated = find_batch(session, load, target, task.stamp, committed, detection)
            self._run(
                task,
                session,
                target,
                dated,
                lambda: dated.prepare(stage, guard=guard_of(manifest), expected=len(batch["rows"])),
            )

    @staticmethod
    def _run(task: Task, session: SparkSession, target: Target, batch, prepare: Callable[[], None]) -> None:
        try:
            prepare()
            historize(task, session, batch, target)
        finally:
            batch.release()

    def _stage(self, session: SparkSession, rows: list[Mapping[str, Any]], name: str) -> DataFrame:
        """Return the rows of a batch, typed and checked like a delivery."""
        policy, names = self.header.policy, self._physical
        delivered = {*self.columns.present, *self.header.carried}
        wanted = {n: type_ for n, type_ in self.columns.types.items() if n in delivered}
        wanted |= {n: DataType(type_) for n, type_ in policy.delivered_only.items() if n not in wanted}
        stored = {n: names.get(n, n) for n in wanted}
        renamed = [{stored[n]: value for n, value in row.items() if n in stored} for row in rows]
        frame = as_rows(session, renamed, tuple(stored.values()))
        columns = [StageColumn(stored[n], str(type_), quote_identifier(stored[n])) for n, type_ in wanted.items()]
        return typed_columns(frame, columns, name)

    def _detection(self, session: SparkSession, load: RawcoreLoad, batch: Mapping[str, Any]) -> Detection | None:
        """Return the evidence of deleted keys in a batch, as ``loader.domain.reference.detection`` describes it."""
        if "keys" in batch:
            listed = self._stage(session, batch["keys"], load.name)
            return by_key_list(key_hashes(listed, load), len(batch["keys"]))
        if "window" not in batch:
            return None
        name, start = batch["window"]["column"], batch["window"]["from"]
        literal = None if start is None else F.lit(start).cast(spark_type(self.columns.types[name]))
        return by_window(self._physical[name], literal)

    def _file_rows(self, rows: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows of a batch file with the columns of the source (rule 5) and those of the file itself."""
        names = self._physical
        read = {*self.columns.present, *self.header.keys, *self._file_columns}
        return [{names.get(n, n): value for n, value in row.items() if n in read} for row in rows]

    # --- columns ----------------------------------------------------------------------------------

    def _evolve(self, batch: Mapping[str, Any]) -> None:
        """Change the tables to the source columns of the batch (rules 16 and 17)."""
        header, columns = self.header, self.columns
        rename = batch.get("rename") or {}
        if rename:
            moves = columns.moves(rename, header.carried) if columns.types else rename
            columns, header = columns.renamed(moves), header.renamed(moves)
            self.keys = {moves.get(n, n): key for n, key in self.keys.items()}
        delivered = {n: parse(type_) for n, type_ in (batch.get("columns") or {}).items()}
        if delivered or not columns.types:
            columns, _ = columns.delivered(delivered or header.columns)
        needed = [n for n in header.carried if n in header.keys or n in header.columns]
        missing = {n: header.columns[n] for n in needed if n not in columns.types}
        columns = Columns({**columns.types, **missing}, columns.present)
        self.header, self.columns = header, columns
        for name in columns.types:
            self.keys.setdefault(name, str(uuid5(NAMESPACE_URL, f"{self.key}/{len(self.keys)}/{name}")))
        specs = self._specs()
        observed = {spec.key: table for spec in specs if (table := self._table(spec).observe())}
        failed: list[dict] = []

        def emit(event: str, **fields: Any) -> None:
            if fields.get("error"):
                failed.append(fields["error"])

        if not steps.execute(self.spark, self.warehouse, plan_steps(specs, observed), emit):
            raise Refusal(failed[0]["code"], failed[0]["message"])

    # --- descriptions -----------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        """Return the catalog name of the case, unique since parallel cases publish their tables."""
        return f"case_{self.key.replace('-', '')}"

    @property
    def _file_columns(self) -> tuple[str, ...]:
        """Return the technical columns of batch files; the history has its own columns for them."""
        policy = self.header.policy
        return (policy.time, END, ACTIVE) if policy.input == BATCH_FILES else ()

    @property
    def _physical(self) -> dict[str, str]:
        """Return the names of data columns in the tables: their own, or another name instead of a reserved one."""
        reserved = naming.reserved_column_names(_LAYER, self._name)
        names: dict[str, str] = {}
        for name in self.columns.types:
            if name not in self._file_columns:
                taken = name.lower() in reserved or name.startswith("__")
                names[name] = naming.free_name(f"data_{name}" if taken else name, [*reserved, *names.values()])
        return names

    def _state(self) -> DatasetState:
        columns = tuple(
            ColumnState(
                self.keys[name],
                called,
                str(self.columns.types[name]),
                role=BUSINESS_KEY if name in self.header.keys else ATTRIBUTE,
            )
            for name, called in self._physical.items()
        )
        return DatasetState(
            self.key,
            "replay",
            _LAYER,
            self._name,
            columns,
            historize=True,
            history_key=str(uuid5(NAMESPACE_URL, f"{self.key}/history")),
            history_policy=self.header.policy.renamed(self._physical).to_dict(),
        )

    def _specs(self) -> tuple[TableSpec, ...]:
        state = self._state()
        event_log = event_log_table(state)
        return (history_table(state), *([event_log] if event_log else []))

    def _table(self, spec: TableSpec) -> DeltaTable:
        return DeltaTable(self.spark, self.warehouse, spec.key)

    def _rawcore_load(self, sequence: int) -> RawcoreLoad:
        state = self._state()
        names = self._physical
        present = {names.get(n) for n in (*self.columns.present, *self.header.keys)}
        return RawcoreLoad(
            dataset=state.key,
            name=self.header.id,
            table=rawcore_table(state),
            history=history_table(state),
            event_log=event_log_table(state),
            inputs=(),
            entity_key=entity_key_components(state),
            row_hash=tuple(part for part in row_hash_components(state) if part.column in present),
            policy=state.history_choices,
            sequence=sequence,
        )

    # --- rows of the table ------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per version, values typed as in cases; open ends are None except for batch files."""
        if not self.columns.types:
            return []
        spec, policy = history_table(self._state()), self.header.policy
        frame = self._table(spec).frame()
        names = self._physical
        purposes = {"valid_from": "started_at", "valid_to": "ended_at", "state": "state", "active": "active",
                "opened_by": "run_id", "closed_by": "closed_by", "segment": "segment"}  # fmt: skip
        present = {column.purpose: column.name for column in spec.columns}
        chosen = {shown: present[purpose] for shown, purpose in purposes.items() if purpose in present}
        everything = [(f"v{i}", name) for i, name in enumerate(names.values())]
        everything += [(f"s_{shown}", name) for shown, name in chosen.items()]
        types = {f.name: f.dataType for f in frame.schema.fields}
        collected = frame.select(*(_readable(name, types[name]).alias(alias) for alias, name in everything)).collect()
        versions = []
        for row in collected:
            value = {alias: _value(row[alias], types[name]) for alias, name in everything}
            version = {shown: value[f"s_{shown}"] for shown in chosen}
            segment = version.pop("segment")
            is_open = segment == OPEN or (segment == DELETED and version.get("closed_by") is None)
            if policy.input != BATCH_FILES:
                version.pop("active", None)
                version["valid_to"] = None if is_open else version["valid_to"]
            else:
                version.pop("state", None)
            when = {name: version.pop(name) for name in ("valid_from", "valid_to")}
            versions.append(version | {name: value[f"v{i}"] for i, name in enumerate(names)} | when)
        return versions


def _readable(name: str, type_: T.DataType):
    """Return timestamps as microseconds, since their Python values depend on the machine's time zone."""
    column = F.col(quote_identifier(name))
    return F.unix_micros(column) if isinstance(type_, T.TimestampType) else column


def _value(value: Any, type_: T.DataType) -> Any:
    if value is None:
        return None
    if isinstance(type_, T.TimestampType):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    return bytes(value) if isinstance(value, bytearray) else value
