"""History written directly by a test, valid or not, without the engine."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import types as T

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import TableSpec, history_table, rawcore_table
from loader.contract.manifest.reads import CheckManifest, ReadManifest
from loader.domain.historization.hashing import digest
from loader.domain.historization.stage import entity_key_components, row_hash_components
from loader.engine.tables import steps
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ColumnState, DatasetState
from tests.loader.harness import stable


@dataclass
class WrittenHistory:
    """History and rawcore table; a version is a dict of data values, and technical values by purpose."""

    spark: object
    folder: Path
    policy: dict = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=lambda: {"id": "integer", "v": "string"})
    keys: tuple[str, ...] = ("id",)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> DatasetState:
        """Return the dataset; ``names`` maps former to present names of renamed columns."""
        columns = (
            ColumnState(
                stable("written", name),
                self.names.get(name, name),
                type_,
                role="business_key" if name in self.keys else "attribute",
            )
            for name, type_ in self.columns.items()
        )
        return DatasetState(
            stable("written"),
            "rawcore",
            "rawcore",
            self.names.get("rc_t", "rc_t"),
            tuple(columns),
            historize=True,
            history_key=stable("written", "hist"),
            history_policy=self.policy,
        )

    @property
    def history(self) -> TableSpec:
        return history_table(self.state)

    @property
    def rawcore(self) -> TableSpec:
        return rawcore_table(self.state)

    @property
    def warehouse(self) -> str:
        return str(self.folder / "warehouse")

    def table(self, spec: TableSpec) -> DeltaTable:
        return DeltaTable(self.spark, self.warehouse, spec.key)

    def create(self) -> None:
        """Create the tables, or add new columns."""
        specs = (self.rawcore, self.history)
        observed = {spec.key: observation for spec in specs if (observation := self.table(spec).observe())}
        assert steps.execute(self.spark, self.warehouse, plan_steps(specs, observed), lambda *_, **__: None)

    def write(self, *versions: dict[str, Any], rawcore: list[dict[str, Any]] | None = None) -> None:
        """Append versions, and their open ones (or ``rawcore``) to rawcore."""
        self.create()
        self._append(self.history, versions)
        current = [row for row in versions if row["segment"] == "open"] if rawcore is None else rawcore
        self._append(self.rawcore, current)

    def manifest(self, samples: int = 5) -> CheckManifest:
        return CheckManifest(
            "rawcore.rc_t",
            self.history,
            self.rawcore,
            entity_key_components(self.state),
            row_hash_components(self.state),
            self.policy,
            samples,
        )

    def reading(self, **arguments: Any) -> ReadManifest:
        return ReadManifest("as_of", table=self.history, arguments=arguments)

    def _append(self, spec: TableSpec, rows: Any) -> None:
        table = self.table(spec)
        schema = table.frame().schema
        described = {column.name: column for column in spec.columns}
        values = [
            tuple(_typed(self._value(row, described[field.name]), field.dataType) for field in schema) for row in rows
        ]
        frame = self.spark.createDataFrame(values, schema)
        frame.select(*map(quote_identifier, schema.names)).coalesce(1).write.format("delta").mode("append").save(
            table.location
        )

    def _value(self, row: dict[str, Any], column: Any) -> Any:
        """Return the version's value; a missing hash is computed."""
        for name in (column.purpose, column.name):
            if name in row:
                return row[name]
        types = {column.name: column.type for column in self.state.columns}
        typed = {name: _python(row.get(name), type_) for name, type_ in types.items()}
        entity_key = row.get("entity_key") or _digest(entity_key_components(self.state), typed)
        if column.purpose == "entity_key":
            return entity_key
        if column.purpose == "row_hash":
            return _digest(row_hash_components(self.state), typed)
        if column.purpose == "history_key":
            spec = self.history
            started = spec.column("started_at")
            start = _python(row["started_at"], started.type)
            return digest([(spec.column("entity_key").key, entity_key), (started.key, start)])
        return None


def version(id: int | None, start: Any, end: Any = None, state: str = "new", **more: Any) -> dict[str, Any]:
    """Return a version with the usual columns; its partition follows from its end and state."""
    segment = "open" if end is None else "deleted" if state == "deleted" else "closed"
    return {"id": id, "v": "a", "started_at": start, "ended_at": end, "state": state, "segment": segment} | more


def _digest(components: Any, values: dict[str, Any]) -> str:
    return digest([(part.key, values[part.column]) for part in components])


def _python(value: Any, type_: str) -> Any:
    if not isinstance(value, str) or type_ not in ("timestamp", "date"):
        return value
    return date.fromisoformat(value) if type_ == "date" else datetime.fromisoformat(value).replace(tzinfo=UTC)


def _typed(value: Any, type_: T.DataType) -> Any:
    known = {T.TimestampType(): "timestamp", T.DateType(): "date"}
    return _python(value, known.get(type_, ""))
