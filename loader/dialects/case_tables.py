"""Tables of a history case: names, columns and policy at each batch, as a dataset with a raw table."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from architecture.domain.tables import ColumnSpec, TableSpec, history_table, rawcore_table
from loader.contract.manifest.loads import RawcoreLoad, StageColumn, StageInput
from loader.domain.historization.stage import entity_key_components, row_hash_components
from loader.domain.reference.batch import Columns
from loader.domain.reference.table import Header
from metadata.domain import naming
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ATTRIBUTE, BUSINESS_KEY, ColumnState, DatasetState
from metadata.domain.types import parse

SCHEMA, LAYER = "replay", "rawcore"


@dataclass(frozen=True)
class CaseTables:
    """Header and columns of a case before or after a batch; ``keys`` are the stable keys by column name."""

    header: Header
    key: str
    name: str
    columns: Columns = field(default_factory=Columns)
    keys: Mapping[str, str] = field(default_factory=dict)

    def evolved(self, batch: Mapping[str, Any]) -> "CaseTables":
        """Return the tables with the source columns of a batch (rules 16 and 17). Raise Refusal."""
        header, columns, keys = self.header, self.columns, dict(self.keys)
        rename = batch.get("rename") or {}
        if rename:
            moves = columns.moves(rename, header.carried) if columns.types else rename
            columns, header = columns.renamed(moves), header.renamed(moves)
            keys = {moves.get(name, name): key for name, key in keys.items()}
        delivered = {name: parse(type_) for name, type_ in (batch.get("columns") or {}).items()}
        if delivered or not columns.types:
            columns, _ = columns.delivered(delivered or header.columns)
        needed = [name for name in header.carried if name in header.keys or name in header.columns]
        missing = {name: header.columns[name] for name in needed if name not in columns.types}
        columns = Columns({**columns.types, **missing}, columns.present)
        for name in columns.types:
            keys.setdefault(name, str(uuid5(NAMESPACE_URL, f"{self.key}/{len(keys)}/{name}")))
        return replace(self, header=header, columns=columns, keys=keys)

    @property
    def physical(self) -> dict[str, str]:
        """Return the names of data columns in the tables: their own, or another name instead of a reserved one."""
        reserved = naming.reserved_column_names(LAYER, self.name)
        names: dict[str, str] = {}
        for name in self.columns.types:
            taken = name.lower() in reserved or name.startswith("__")
            names[name] = naming.free_name(f"data_{name}" if taken else name, [*reserved, *names.values()])
        return names

    @property
    def delivered(self) -> tuple[str, ...]:
        """Return the columns of the case that its batches deliver now."""
        return tuple(name for name in self.columns.types if name in {*self.columns.present, *self.header.carried})

    @property
    def state(self) -> DatasetState:
        columns = tuple(
            ColumnState(
                self.keys[name],
                called,
                str(self.columns.types[name]),
                role=BUSINESS_KEY if name in self.header.keys else ATTRIBUTE,
            )
            for name, called in self.physical.items()
        )
        return DatasetState(
            self.key,
            SCHEMA,
            LAYER,
            self.name,
            columns,
            historize=True,
            history_key=str(uuid5(NAMESPACE_URL, f"{self.key}/history")),
            history_policy=self.header.policy.renamed(self.physical).to_dict(),
        )

    @property
    def raw(self) -> TableSpec:
        """Return the raw table of the delivered rows."""
        key = str(uuid5(NAMESPACE_URL, f"{self.key}/raw"))
        data = tuple(
            ColumnSpec(self.keys[name], self.physical[name], str(self.columns.types[name]), "attribute")
            for name in self.delivered
        )
        own = (("run_id", "load_run_id", "string"), ("loaded_at", "loaded_at", "timestamp"))
        technical = tuple(ColumnSpec(f"{key}/{purpose}", name, type_, purpose) for purpose, name, type_ in own)
        return TableSpec(key, "raw", self.name, "raw", (*data, *technical))

    @property
    def tables(self) -> tuple[TableSpec, TableSpec]:
        """Return rawcore and history."""
        return rawcore_table(self.state), history_table(self.state)

    @property
    def load(self) -> RawcoreLoad:
        """Return the load of a batch, for the renderer."""
        state, raw, (table, history) = self.state, self.raw, self.tables
        present = {column.name for column in raw.columns}
        columns = tuple(
            StageColumn(column.name, column.type, quote_identifier(column.name))
            for column in raw.of_purpose("attribute")
        )
        return RawcoreLoad(
            dataset=state.key,
            name=self.header.id,
            table=table,
            history=history,
            inputs=(StageInput(raw, columns),),
            entity_key=entity_key_components(state),
            row_hash=tuple(part for part in row_hash_components(state) if part.column in present),
            policy=state.history_choices,
        )
