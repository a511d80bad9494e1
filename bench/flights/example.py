"""Datasets and models of examples/flights, described from its files without a database."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from architecture.domain.tables import TableSpec, tables_of
from architecture.domain.views import query_of_model
from bench.history.dataset import Dataset, described_model
from elevata.bootstrap.places import ROOT
from metadata.domain.models import reads_of
from metadata.domain.state import DatasetState

EXAMPLE = ROOT / "examples" / "flights"


@dataclass(frozen=True)
class Source:
    """Dataset of the example's system: file and options of its deliveries, and its tables."""

    dataset: Dataset
    file: str
    options: Mapping[str, Any]


class Flights:
    """The example: its sources, and its models in the order in which they are built."""

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        described = _read(EXAMPLE / "systems" / "nyc.yaml")["system"]
        return tuple(_source(item, described["short_name"]) for item in described["datasets"])

    @cached_property
    def models(self) -> tuple[DatasetState, ...]:
        described = [_read(path)["dataset"] for path in sorted((EXAMPLE / "models").glob("*.yaml"))]
        by_name = {f"{item['schema']}.{item['name']}": item for item in described}
        order = TopologicalSorter({name: reads_of(item["select"]) for name, item in by_name.items()}).static_order()
        models: list[DatasetState] = []
        for name in (name for name in order if name in by_name):
            item = by_name[name]
            models.append(
                described_model(
                    name,
                    item["select"],
                    (*self._tables, *models),
                    materialization=item.get("materialization", "table"),
                    increment=item.get("increment"),
                )
            )
        return tuple(models)

    @cached_property
    def states(self) -> dict[str, DatasetState]:
        """Return the states of all tables that models read, and of the models, by stable key."""
        return {state.key: state for state in (*self._tables, *self.models)}

    @property
    def inputs(self) -> tuple[TableSpec, ...]:
        """Return the tables that the models read and no model writes."""
        return tuple(table for state in self._tables for table in tables_of(state))

    @property
    def _tables(self) -> tuple[DatasetState, ...]:
        return tuple(source.dataset.state for source in self.sources)

    def compiled(self, model: DatasetState, called: Callable[[TableSpec], str]) -> str:
        """Return the SELECT of a model for Spark; ``called`` returns the SQL for a table."""
        return query_of_model(model, self.states, called).sql


def _read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def _source(described: Mapping[str, Any], system: str) -> Source:
    types = {column["name"]: column["type"] for column in described["columns"]}
    key = [column["name"] for column in described["columns"] if "business_key" in column]
    historize = described.get("historize", True)
    dataset = Dataset(described["name"], types, *key, system=system, historize=historize)
    return Source(dataset, described["location"], described.get("options", {}))
