"""Small warehouse for tests of the engine: rows are delivered as files, and the tables read back as rows."""

import csv
import json
import shutil
import tempfile
import threading
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Self
from uuid import NAMESPACE_DNS, uuid5

import pyarrow as pa
import pyarrow.parquet as pq

from architecture.domain.steps.features import SPARK
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import (
    ColumnSpec,
    TableSpec,
    event_log_table,
    history_table,
    raw_table,
    rawcore_table,
    tables_of,
)
from loader.contract.manifest.loads import HashComponent, LoadManifest, RawcoreLoad, RawLoad, StageColumn, StageInput
from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.domain.historization.stage import row_hash_components
from loader.engine.arrow.parquet_files import arrow_type
from loader.engine.loads.load import LoadAttempt
from loader.engine.tables import steps
from loader.engine.tables.tables import DeltaTable
from metadata.domain.history.history_policy import APPEND, CDC, EFFECTIVE, HistoryPolicy
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ColumnState, DatasetState
from metadata.domain.types import parse

# Initial tables of tests in this process, by their description.
_BEGUN: dict[str, "Dataset"] = {}


def stable(*parts: str) -> str:
    return str(uuid5(NAMESPACE_DNS, "/".join(parts)))


@dataclass
class Dataset:
    """One source with its raw table, rawcore table and history, and its loads so far."""

    spark: object
    folder: Path
    name: str = "item"
    columns: dict[str, str] = field(default_factory=lambda: {"id": "integer", "v": "string"})
    keys: tuple[str, ...] = ("id",)
    historize: bool = True
    delivery_checked: bool = True
    policy: dict = field(default_factory=dict)
    readers: str = SPARK
    format: str = "jsonl"
    options: dict = field(default_factory=dict)
    sequence: int = 0
    events: list[dict] = field(default_factory=list)

    @property
    def warehouse(self) -> str:
        return str(self.folder / "warehouse")

    @property
    def _dated(self) -> bool:
        return self.policy.get("input") in ("effective", "cdc")

    @property
    def _feed(self) -> bool:
        policy = HistoryPolicy.from_dict(self.policy)
        return policy.input in (EFFECTIVE, CDC, APPEND) and not policy.closes_absent

    def _columns(self, typed: bool) -> tuple[ColumnState, ...]:
        return tuple(
            ColumnState(
                stable(self.name, name),
                name,
                type_ if typed else "string",
                role="business_key" if name in self.keys else "attribute",
            )
            for name, type_ in self.columns.items()
        )

    @property
    def raw_state(self) -> DatasetState:
        columns = self._columns(typed=self.format != "jsonl")
        return DatasetState(stable("raw", self.name), "raw", "raw", f"raw_t_{self.name}", columns)

    @property
    def state(self) -> DatasetState:
        return DatasetState(
            stable("rawcore", self.name),
            "rawcore",
            "rawcore",
            f"rc_t_{self.name}",
            self._columns(typed=True),
            historize=self.historize,
            history_key=stable("hist", self.name),
            history_policy=self.policy,
        )

    @property
    def history_spec(self) -> TableSpec:
        return history_table(self.state)

    @property
    def rawcore_spec(self) -> TableSpec:
        return rawcore_table(self.state)

    def tables(self) -> tuple[TableSpec, ...]:
        return (*tables_of(self.raw_state), *tables_of(self.state))

    def table(self, spec: TableSpec) -> DeltaTable:
        return DeltaTable(self.spark, self.warehouse, spec.key)

    def given(self, *loads: tuple[list[dict], str]) -> Self:
        """Return the dataset after these loads (rows and time), as the starting point of a test.

        The loads run once per process; later calls copy their tables, since the same input gives the same
        tables. A test of a load itself calls ``load``. The catalog's names belong to the original tables, not
        to copies: a test that reads by name calls ``evolve`` first.
        """
        assert self.sequence == 0, "a test begins once"
        described = repr([type(self), *(getattr(self, attribute.name) for attribute in fields(self)[2:]), loads])
        begun = _BEGUN.get(described)
        if begun is None:
            begun = _BEGUN[described] = self._begun(loads)
        shutil.copytree(begun.folder, self.folder, dirs_exist_ok=True)
        self.sequence, self.events = begun.sequence, list(begun.events)
        return self

    def _begun(self, loads: tuple[tuple[list[dict], str], ...]) -> Self:
        begun = replace(self, folder=Path(tempfile.mkdtemp(prefix="begun-", dir=self.folder.parent)), events=[])
        if not loads:
            begun.evolve()
            return begun
        begun.given(*loads[:-1])
        rows, at = loads[-1]
        status, event = begun.load(rows, at=at)
        assert status == "succeeded", event
        return begun

    def prepare(self) -> None:
        """Create or change the tables to the present description."""
        if not Path(self.warehouse).exists():
            self.given()
        self.evolve()

    def evolve(self) -> list[str]:
        """Create what is missing; return the steps that ran."""
        observed = {t.key: observation for t in self.tables() if (observation := self.table(t).observe())}
        planned = plan_steps(self.tables(), observed, readers=self.readers)
        assert steps.execute(self.spark, self.warehouse, planned, self._record)
        return [step.describe() for step in planned]

    def _record(self, event: str, **fields) -> None:
        self.events.append({"event": event} | fields)

    def deliver(self, rows: list[dict]) -> Path:
        """Write the rows as a file of the dataset's format, a file per delivery."""
        path = self.folder / f"{self.name}-{len(list(self.folder.glob(f'*.{self.format}')))}.{self.format}"
        if self.format == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif self.format == "csv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(self.columns))
                writer.writeheader()
                writer.writerows(rows)
        else:
            types = pa.schema([(name, arrow_type(parse(type_))) for name, type_ in self.columns.items()])
            pq.write_table(pa.Table.from_pylist(rows, types), path)
        return path

    def manifest(self, path: Path, *, at: str, run_id: str, **options) -> LoadManifest:
        raw = raw_table(self.raw_state)
        state = self.state
        delivered = tuple(
            DeliveredColumn(stable("src", self.name, name), name, type_, business_key=name in self.keys)
            for name, type_ in self.columns.items()
        )
        return LoadManifest(
            run_id=run_id,
            load_timestamp=at,
            attempt=1,
            raw=(
                RawLoad(
                    raw.key,
                    raw.qualified_name,
                    raw,
                    SourceSpec(f"t.{self.name}", str(path), self.format, delivered, self.options, not self._dated),
                    tuple((name, name) for name in self.columns),
                    feed=self._feed,
                ),
            ),
            rawcore=(
                RawcoreLoad(
                    dataset=state.key,
                    name=state.qualified_name,
                    table=self.rawcore_spec,
                    history=self.history_spec if self.historize else None,
                    inputs=(
                        StageInput(
                            raw,
                            tuple(
                                StageColumn(name, type_, quote_identifier(name)) for name, type_ in self.columns.items()
                            ),
                            options=self.options,
                            feed=self._feed,
                        ),
                    ),
                    entity_key=tuple(HashComponent(c.key, c.name) for c in state.business_key),
                    row_hash=row_hash_components(state),
                    event_log=event_log_table(state),
                    sequence=self.sequence,
                    delivery_checked=self.delivery_checked,
                    policy=self.policy,
                    depends_on=(raw.key,),
                ),
            ),
            **options,
        )

    def attempt(self, manifest: LoadManifest, canceled: threading.Event | None = None) -> tuple[str, list[dict]]:
        """Run one attempt; return its status and events."""
        self.events = []
        attempt = LoadAttempt(
            self.spark, self.warehouse, manifest, self._record, canceled or threading.Event(), manifest.run_id
        )
        return attempt.run(), self.events

    def load(self, rows: list[dict], *, at: str, run_id: str | None = None, **options) -> tuple[str, dict]:
        """Deliver and load the rows; return the status and the rawcore dataset's finishing event."""
        self.prepare()
        self.sequence += 1
        manifest = self.manifest(self.deliver(rows), at=at, run_id=run_id or f"run-{self.sequence}", **options)
        status, events = self.attempt(manifest)
        return status, finished(events, self.state.key)

    def again(self, manifest: LoadManifest, **changes) -> tuple[str, dict]:
        status, events = self.attempt(replace(manifest, attempt=manifest.attempt + 1, **changes))
        return status, finished(events, self.state.key)

    def history(self) -> list[dict]:
        """Return the history's rows in order: data columns, interval as text, state and runs."""
        spec = self.history_spec
        shown: list[ColumnSpec] = [*spec.of_purpose("business_key", "attribute")]
        frame = self.table(spec).frame()
        columns = [f"{quote_identifier(c.name)}" for c in shown]
        rows = frame.selectExpr(
            *columns,
            "date_format(version_started_at, \"yyyy-MM-dd'T'HH:mm:ss'Z'\") AS started",
            "date_format(version_ended_at, \"yyyy-MM-dd'T'HH:mm:ss'Z'\") AS ended",
            "version_state AS state",
            "load_run_id AS opened_by",
            "closed_by_run_id AS closed_by",
            "version_segment AS segment",
        ).collect()
        return sorted(
            (row.asDict() for row in rows), key=lambda row: (*(str(row[k]) for k in self.keys), row["started"])
        )

    def current(self) -> list[dict]:
        """Return rawcore's business columns in key order."""
        spec = self.rawcore_spec
        names = [quote_identifier(c.name) for c in spec.of_purpose("business_key", "attribute")]
        rows = [row.asDict() for row in self.table(spec).frame().select(*names).collect()]
        return sorted(rows, key=lambda row: tuple(str(row[k]) for k in self.keys))


def finished(events: list[dict], dataset: str) -> dict:
    """Return the one finishing event of a dataset."""
    (event,) = [e for e in events if e["event"] == "dataset_finished" and e["dataset"] == dataset]
    return event
