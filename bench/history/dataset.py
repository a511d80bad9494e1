"""Dataset of a benchmark with its raw table, rawcore and history, and load runs of the product over it."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from pyspark.sql import SparkSession

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import event_log_table, history_table, raw_table, rawcore_table, tables_of
from loader.domain.manifest.loads import HashComponent, LoadManifest, RawcoreLoad, RawLoad, StageColumn, StageInput
from loader.domain.manifest.sources import DeliveredColumn, SourceSpec
from loader.spark.loads.load import SUCCEEDED, LoadAttempt
from loader.spark.tables import steps
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ColumnState, DatasetState


def _stable(*parts: str) -> str:
    return str(uuid5(NAMESPACE_DNS, "/".join(("bench", *parts))))


class Dataset:
    """One source and its three tables, as metadata would describe them.

    ``types`` are the columns with their types, ``key`` is the business key among them.
    """

    def __init__(self, name: str, types: Mapping[str, str], key: str) -> None:
        columns = tuple(
            # The same keys in every dataset: then all of them hash a row alike.
            ColumnState(_stable("column", column), column, type_, role="business_key" if column == key else "attribute")
            for column, type_ in types.items()
        )
        self.name, self.key, self._types = name, key, dict(types)
        self.raw_state = DatasetState(_stable("raw", name), "raw", "raw", f"raw_bench_{name}", columns)
        self.state = DatasetState(
            _stable("rawcore", name),
            "rawcore",
            "rawcore",
            f"rc_bench_{name}",
            columns,
            historize=True,
            history_key=_stable("hist", name),
        )
        self.raw = raw_table(self.raw_state)
        self.history = history_table(self.state)
        self.tables = (*tables_of(self.raw_state), *tables_of(self.state))

    def raw_load(self, location: str, format_name: str, **source: Any) -> RawLoad:
        """Return the load of raw from this location; ``source`` are further fields of its ``SourceSpec``."""
        delivered = tuple(
            DeliveredColumn(_stable("delivered", name), name, type_, business_key=name == self.key)
            for name, type_ in self._types.items()
        )
        return RawLoad(
            self.raw.key,
            self.raw.qualified_name,
            self.raw,
            SourceSpec(f"bench.{self.name}", location, format_name, delivered, **source),
            tuple((name, name) for name in self._types),
        )

    def rawcore_load(
        self, sequence: int, policy: Mapping[str, Any] | None = None, *, incremental: bool = False
    ) -> RawcoreLoad:
        """Return the load of rawcore and history; ``incremental`` is true if raw has only rows from a mark on."""
        columns = tuple(StageColumn(name, type_, quote_identifier(name)) for name, type_ in self._types.items())
        return RawcoreLoad(
            dataset=self.state.key,
            name=self.state.qualified_name,
            table=rawcore_table(self.state),
            history=self.history,
            inputs=(StageInput(self.raw, columns, incremental=incremental),),
            entity_key=tuple(HashComponent(c.key, c.name) for c in self.state.business_key),
            row_hash=tuple(HashComponent(c.key, c.name) for c in self.state.attributes),
            event_log=event_log_table(self.state),
            policy=dict(policy or {}),
            sequence=sequence,
            delivery_checked=True,
            depends_on=(self.raw.key,),
        )


def create_tables(spark: SparkSession, warehouse: str, datasets: Iterable[Dataset]) -> None:
    """Create the tables of these datasets. Raise RuntimeError if that fails."""
    planned = plan_steps(tuple(table for dataset in datasets for table in dataset.tables), {})
    if not steps.execute(spark, warehouse, planned, lambda event, **fields: None):
        raise RuntimeError("the tables could not be created")


def run_load(spark: SparkSession, warehouse: str, manifest: LoadManifest) -> list[dict[str, Any]]:
    """Run a load and return its events. Raise RuntimeError with the first error of a load that fails."""
    events: list[dict[str, Any]] = []

    def collect(event: str, **fields: Any) -> None:
        events.append(fields | {"event": event})

    attempt = LoadAttempt(spark, warehouse, manifest, collect, threading.Event(), manifest.run_id)
    if attempt.run() != SUCCEEDED:
        errors = [fields["error"] for fields in events if fields.get("error")]
        raise RuntimeError(errors[0]["message"] if errors else "the load run failed")
    return events
