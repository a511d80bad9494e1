"""Dataset of a benchmark with its raw table, rawcore and history, and load runs of the product over it."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from pyspark.sql import SparkSession

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import event_log_table, history_table, raw_table, rawcore_table, tables_of
from bench.problem import BenchProblem
from loader.contract.manifest.loads import HashComponent, LoadManifest, RawcoreLoad, RawLoad, StageColumn, StageInput
from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.engine.loads.load import SUCCEEDED, LoadAttempt
from loader.engine.tables import steps
from metadata.domain.history.history_columns import VALID_FROM, VALID_TO
from metadata.domain.models import ReadColumn, describe_select, reads_of, versions_of
from metadata.domain.models.increment import Increment
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ColumnState, DatasetState


def _stable(*parts: str) -> str:
    """Return a stable key of the benchmarks."""
    return str(uuid5(NAMESPACE_DNS, "/".join(("bench", *parts))))


class Dataset:
    """One source and its three tables, as metadata would describe them.

    ``types`` are the columns with their types, ``key`` are the business key's columns among them.
    """

    def __init__(
        self, name: str, types: Mapping[str, str], *key: str, system: str = "bench", historize: bool = True
    ) -> None:
        columns = tuple(
            # The same keys in every dataset: then all of them hash a row alike.
            ColumnState(_stable("column", column), column, type_, role="business_key" if column in key else "attribute")
            for column, type_ in types.items()
        )
        self.name, self.system, self.key, self._types = name, system, key, dict(types)
        self.raw_state = DatasetState(_stable("raw", name), "raw", "raw", f"raw_{system}_{name}", columns)
        self.state = DatasetState(
            _stable("rawcore", name),
            "rawcore",
            "rawcore",
            f"rc_{system}_{name}",
            columns,
            historize=historize,
            history_key=_stable("hist", name) if historize else None,
        )
        self.raw = raw_table(self.raw_state)
        self.history = history_table(self.state) if historize else None
        self.tables = (*tables_of(self.raw_state), *tables_of(self.state))

    def raw_load(self, location: str, format_name: str, **source: Any) -> RawLoad:
        """Return the load of raw from this location; ``source`` are further fields of its ``SourceSpec``."""
        delivered = tuple(
            DeliveredColumn(_stable("delivered", name), name, type_, business_key=name in self.key)
            for name, type_ in self._types.items()
        )
        return RawLoad(
            self.raw.key,
            self.raw.qualified_name,
            self.raw,
            SourceSpec(f"{self.system}.{self.name}", location, format_name, delivered, **source),
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


def described_model(
    name: str,
    select: str,
    inputs: Iterable[DatasetState],
    key: Iterable[str] = (),
    *,
    materialization: str = "table",
    increment: Mapping[str, Any] | None = None,
) -> DatasetState:
    """Return the state of a model over ``inputs``, with the columns that follow from its SELECT.

    ``key`` are the columns of its business key.
    """
    columns: dict[str, tuple[ReadColumn, ...]] = {}
    keys: dict[str, str] = {}
    for state in inputs:
        own = tuple(ReadColumn(column.name, column.type, True) for column in state.columns)
        columns[state.qualified_name], keys[state.qualified_name] = own, state.key
        if state.historize:
            history = history_table(state).qualified_name
            interval = (ReadColumn(column, "timestamp", True, True) for column in (VALID_FROM, VALID_TO))
            columns[versions_of(history)], keys[history] = (*own, *interval), state.key
    schema, _, own_name = name.partition(".")
    return DatasetState(
        _stable("model", name),
        schema,
        "bizcore",
        own_name,
        tuple(
            ColumnState(
                _stable(name, column.name),
                column.name,
                column.type,
                role="business_key" if column.name in key else "attribute",
            )
            for column in describe_select(select, columns).columns
        ),
        materialization=materialization,
        inputs=tuple(keys[read] for read in reads_of(select)),
        select=select,
        increment=Increment.from_dict(increment or {}).to_dict(),
    )


def create_tables(
    spark: SparkSession,
    warehouse: str,
    datasets: Iterable[Dataset],
    models: Iterable[DatasetState] = (),
    views: Iterable[str] = (),
) -> None:
    """Create the tables of datasets and models, and views by their statements. Raise BenchProblem if that fails."""
    tables = [table for dataset in datasets for table in dataset.tables]
    tables += [table for model in models for table in tables_of(model)]
    planned = plan_steps(tables, {}, views={tables[-1].key: tuple(views)})
    if not steps.execute(spark, warehouse, planned, lambda event, **fields: None):
        raise BenchProblem("the tables could not be created")


def run_load(spark: SparkSession, warehouse: str, manifest: LoadManifest) -> dict[str, dict[str, Any]]:
    """Run a load and return the last event of each dataset by its key. Raise BenchProblem with the first error."""
    events: list[dict[str, Any]] = []

    def collect(event: str, **fields: Any) -> None:
        events.append(fields | {"event": event})

    attempt = LoadAttempt(spark, warehouse, manifest, collect, threading.Event(), manifest.run_id)
    if attempt.run() != SUCCEEDED:
        errors = [fields["error"] for fields in events if fields.get("error")]
        raise BenchProblem(errors[0]["message"] if errors else "the load run failed")
    return {event["dataset"]: event for event in events if event["event"] == "dataset_finished"}
