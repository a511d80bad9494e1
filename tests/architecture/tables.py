"""Table specifications for tests of steps, and an in-memory warehouse that executes steps."""

from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

from architecture.domain.operations import Operation
from architecture.domain.steps.step import (
    ADD_COLUMN,
    CREATE_TABLE,
    DROP_COLUMN,
    DROP_TABLE,
    REBUILD_TABLE,
    RENAME_COLUMN,
    RENAME_TABLE,
    RETYPE_COLUMN,
    STAMP_KEYS,
    WIDEN_COLUMN,
    Step,
    stored,
)
from architecture.domain.tables import ColumnSpec, ObservedColumn, ObservedTable, TableSpec


def key(*names: str) -> str:
    return str(uuid5(NAMESPACE_DNS, "/".join(names)))


def column(name: str, type_: str = "string", of: str = "", purpose: str = "attribute") -> ColumnSpec:
    return ColumnSpec(key("column", of or name), name, type_, purpose)


def table(name: str, *columns: ColumnSpec, of: str = "", kind: str = "rawcore", owner: str = "") -> TableSpec:
    partitions = ("version_segment",) if any(c.name == "version_segment" for c in columns) else ()
    return TableSpec(key("table", of or name), "rawcore", name, kind, columns, partitions, owner)


def observed_table(spec: TableSpec, *, tied: bool = True) -> ObservedTable:
    columns = tuple(ObservedColumn(c.name, stored(c.type), key=c.key if tied else None) for c in spec.columns)
    return ObservedTable(spec.key, spec.qualified_name, columns, 3, spec.partition_by)


def observed(*specs: TableSpec, tied: bool = True) -> dict[str, ObservedTable]:
    return {spec.key: observed_table(spec, tied=tied) for spec in specs}


def operation(op: str, spec: TableSpec, col: ColumnSpec | None = None, **fields) -> Operation:
    named = {"column": col.name, "column_key": col.key} if col else {}
    return Operation(op, spec.qualified_name, spec.dataset_key, **(named | fields))


class Warehouse:
    """In-memory warehouse that executes steps and refuses changes that Delta or the catalog would refuse."""

    def __init__(self, tables: dict[str, ObservedTable]) -> None:
        self.tables = dict(tables)

    def run(self, step: Step) -> None:
        current = self.tables.get(step.table.key)
        if step.op == CREATE_TABLE:
            self._publish(step.table.key, step.table.qualified_name)
            self.tables[step.table.key] = observed_table(step.table)
            return
        assert current is not None, f"{step.describe()}: there is no table"
        if step.op == RENAME_TABLE:
            assert current.qualified_name == step.from_name
            self._publish(step.table.key, step.to_name)
            current = replace(current, qualified_name=step.to_name)
        elif step.op == DROP_TABLE:
            del self.tables[step.table.key]
            return
        self.tables[step.table.key] = replace(
            current, columns=self._columns(step, current), version=current.version + 1
        )

    def _publish(self, own: str, name: str) -> None:
        others = [table.qualified_name.lower() for other, table in self.tables.items() if other != own]
        assert name.lower() not in others, f"{name} is published already"

    def _columns(self, step: Step, current: ObservedTable) -> tuple[ObservedColumn, ...]:
        columns = {column.name: column for column in current.columns}
        if step.op == RENAME_COLUMN:
            columns[step.from_name] = replace(columns[step.from_name], name=step.to_name)
            # Delta refuses a change of case alone, because the name exists already.
            assert step.to_name.lower() not in [name.lower() for name in column_names(current)]
        elif step.op == ADD_COLUMN:
            assert step.column.name.lower() not in [name.lower() for name in column_names(current)]
            columns[step.column.name] = ObservedColumn(step.column.name, stored(step.column.type), key=step.column.key)
        elif step.op in (WIDEN_COLUMN, REBUILD_TABLE, RETYPE_COLUMN):
            for change in step.retyped:
                assert columns[change.name].type == change.from_type
                columns[change.name] = replace(columns[change.name], type=stored(change.to_type))
        elif step.op == DROP_COLUMN:
            del columns[step.column.name]
        elif step.op == STAMP_KEYS:
            keys = {name: key for key, name in step.stamps}
            columns = {
                n: replace(c, key=keys.get(n, None if c.key in step.untied else c.key)) for n, c in columns.items()
            }
        return tuple(columns.values())


def column_names(current: ObservedTable) -> list[str]:
    return [column.name for column in current.columns]


def after(steps: tuple[Step, ...], tables: dict[str, ObservedTable]) -> Warehouse:
    warehouse = Warehouse(tables)
    for step in steps:
        warehouse.run(step)
    return warehouse


def names_of(warehouse: Warehouse, spec: TableSpec) -> dict[str, str]:
    return {c.key: c.name for c in warehouse.tables[spec.key].columns if c.key}


def ops(steps: tuple[Step, ...]) -> list[str]:
    return [step.op for step in steps]


def report_on(before: TableSpec, wanted: TableSpec) -> list[Operation]:
    """Return the operations of a report that changes one table into the other."""
    was, will = ({c.key: c for c in spec.columns} for spec in (before, wanted))
    operations = [operation("drop_column", before, was[k]) for k in was if k not in will]
    for k in [k for k in was if k in will]:
        if was[k].name != will[k].name:
            operations.append(operation("rename_column", before, was[k], from_=was[k].name, to=will[k].name))
        if stored(was[k].type) != stored(will[k].type):
            operations.append(operation("retype_column", before, was[k], from_=was[k].type, to=will[k].type))
    return operations + [operation("add_column", before, will[k]) for k in will if k not in was]
