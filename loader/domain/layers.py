"""The SQL that people read: what each layer of a dataset does, as statements.

Stage is a real query. Raw, rawcore and history are done by the runner's engine, in one commit each;
their statements say the same in SQL's own words and are never executed.
"""

from collections.abc import Mapping

from architecture.domain.states.tables import TableSpec, history_table, raw_table, rawcore_table
from loader.domain.manifest import HashComponent, SourceSpec, StageColumn
from loader.domain.stage import stage_inputs, view_branches
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.sql import quote_identifier as quoted
from metadata.domain.state import DatasetState
from metadata.domain.types import parse, spark_type

_RUN, _AT = "{{ load_run_id }}", "{{ load_timestamp }}"


def entity_key_components(dataset: DatasetState) -> tuple[HashComponent, ...]:
    """What a dataset's entity key is hashed from: its business key."""
    return tuple(HashComponent(column.key, column.name) for column in dataset.business_key)


def row_hash_components(dataset: DatasetState) -> tuple[HashComponent, ...]:
    """What tells two states of a row apart: its tracked attributes; the time and the operation never are (rule 12)."""
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    return tuple(
        HashComponent(column.key, column.name)
        for column in dataset.attributes
        if column.name not in (policy.time_column, policy.op) and (policy.track is None or column.name in policy.track)
    )


def layer_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState], source: SourceSpec | None = None) -> str:
    """The statement that a dataset stands for; empty where there is none to show."""
    if dataset.materialization == "view":
        return view_sql(dataset, by_key)
    if dataset.layer == "raw":
        return raw_sql(dataset, source) if source else ""
    return rawcore_sql(dataset, by_key)


def raw_sql(dataset: DatasetState, source: SourceSpec) -> str:
    """What is read from where."""
    table = raw_table(dataset)
    names = {column.key: column.name for column in source.columns}
    selected = [
        _alias(quoted(next((names[key] for key in column.inputs if key in names), column.name)), column.name)
        for column in dataset.active_columns
    ]
    selected += [
        f"{_RUN} AS {quoted(table.column('run_id').name)}",
        f"current_timestamp() AS {quoted(table.column('loaded_at').name)}",
    ]
    return (
        "-- the whole delivery is checked against the source's contract before anything is written\n"
        f"INSERT OVERWRITE {_name(table)}\nSELECT\n  {_lines(selected)}\n"
        f"FROM {source.format}.{quoted(source.location)}"
    )


def view_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """A stage view over its tables: typed, renamed, its inputs united."""
    selects = [
        _select(
            [
                _typed(StageColumn(column.name, column.type, branch.columns[column.key]))
                for column in dataset.active_columns
            ],
            branch.table.qualified_name,
            " AND ".join(f"({condition})" for condition in branch.conditions),
        )
        for branch in view_branches(dataset, by_key)
    ]
    return f"CREATE VIEW {_qualified(dataset.qualified_name)} AS\n" + "\nUNION ALL\n".join(selects)


def rawcore_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """How current truth follows stage: one MERGE, fed by what history found different."""
    table = rawcore_table(dataset)
    key, row_hash = quoted(table.column("entity_key").name), quoted(table.column("row_hash").name)
    own = [column.name for column in table.of_purpose("business_key", "attribute", "foreign_key")]
    stamp = [f"{quoted('load_run_id')} = {_RUN}", f"{quoted('loaded_at')} = current_timestamp()"]
    updates = [f"{quoted(name)} = s.{quoted(name)}" for name in own] + [f"{row_hash} = s.{row_hash}", *stamp]
    names = [table.column("entity_key").name, *own, table.column("row_hash").name]
    inserted = ", ".join(map(quoted, [*names, "load_run_id", "loaded_at"]))
    values = ", ".join([*(f"s.{quoted(name)}" for name in names), _RUN, "current_timestamp()"])
    return (
        f"MERGE INTO {_name(table)} AS r\nUSING (\n{_indented(hashed_stage_sql(dataset, by_key))}\n) AS s\n"
        f"ON r.{key} = s.{key}\n"
        f"WHEN MATCHED AND r.{row_hash} <> s.{row_hash} THEN UPDATE SET\n  {_lines(updates)}\n"
        f"WHEN NOT MATCHED THEN INSERT ({inserted})\n  VALUES ({values})\n"
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )


def history_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """How versions close and open: a run is one commit, here in two sentences."""
    table = history_table(dataset)
    name = {column.purpose: quoted(column.name) for column in table.columns}
    key, row_hash, ended, segment = (name[p] for p in ("entity_key", "row_hash", "ended_at", "segment"))
    ended_by_run = f"{ended} = {_AT}, {name['closed_by']} = {_RUN}"
    stage = _indented(hashed_stage_sql(dataset, by_key))
    return (
        "-- both sentences are one atomic commit, and of the history only open versions are read\n"
        f"MERGE INTO {_name(table)} AS h\nUSING (\n{stage}\n) AS s\n"
        f"ON h.{key} = s.{key} AND h.{segment} = 'open'\n"
        f"WHEN MATCHED AND h.{row_hash} <> s.{row_hash} THEN UPDATE SET\n"
        f"  {ended_by_run}, {name['state']} = 'changed', {segment} = 'closed'\n"
        f"WHEN NOT MATCHED BY SOURCE AND h.{segment} = 'open' THEN UPDATE SET\n"
        f"  {ended_by_run}, {name['state']} = 'deleted', {segment} = 'deleted';\n\n"
        f"INSERT INTO {_name(table)}\nSELECT\n  {_lines(_opening(table, name))}\n"
        f"FROM (\n{stage}\n) AS s\n"
        f"LEFT JOIN {_name(table)} AS h ON h.{key} = s.{key} AND h.{segment} = 'open'\n"
        f"WHERE h.{key} IS NULL OR h.{row_hash} <> s.{row_hash}"
    )


def _opening(table: TableSpec, name: Mapping[str, str]) -> list[str]:
    described = [quoted(column.name) for column in table.of_purpose("business_key", "attribute", "foreign_key")]
    return [
        f"sha256({name['entity_key']}, {_AT}) AS {name['history_key']}",
        f"s.{name['entity_key']}",
        *(f"s.{column}" for column in described),
        f"s.{name['row_hash']}",
        f"{_AT} AS {name['started_at']}",
        f"NULL AS {name['ended_at']}",
        f"CASE WHEN h.{name['entity_key']} IS NULL THEN 'new' ELSE 'changed' END AS {name['state']}",
        f"{_RUN} AS {name['run_id']}",
        f"current_timestamp() AS {name['loaded_at']}",
        f"'open' AS {name['segment']}",
    ]


def hashed_stage_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """Stage as a rawcore dataset takes it: typed columns, keys and row hash over the tables' rows."""
    table = rawcore_table(dataset)
    hashes = [(entity_key_components(dataset), table.column("entity_key").name)]
    names = {column.key: column.name for column in dataset.active_columns}
    for reference in dataset.references:
        components = tuple(HashComponent(parent, names[child]) for child, parent in reference.pairs if child in names)
        hashes.append((components, reference.column_name))
    hashes.append((row_hash_components(dataset), table.column("row_hash").name))
    selects = []
    for one in stage_inputs(dataset, by_key):
        columns = [_typed(column) for column in one.columns]
        keys = [f"{_hash(parts, one.columns)} AS {quoted(name)}" for parts, name in hashes]
        selects.append(_select([*columns, *keys], one.table.qualified_name, one.filter or ""))
    return "\nUNION ALL\n".join(selects)


def _hash(parts: tuple[HashComponent, ...], columns: tuple[StageColumn, ...]) -> str:
    known = {column.name for column in columns}
    return f"sha256({', '.join(quoted(part.column) for part in parts if part.column in known)})"


def _typed(column: StageColumn) -> str:
    return f"CAST({column.expression} AS {spark_type(parse(column.type))}) AS {quoted(column.name)}"


def _select(columns: list[str], table: str, condition: str) -> str:
    return f"SELECT\n  {_lines(columns)}\nFROM {_qualified(table)}" + (f"\nWHERE {condition}" if condition else "")


def _alias(sql: str, name: str) -> str:
    return sql if sql == quoted(name) else f"{sql} AS {quoted(name)}"


def _lines(parts: list[str]) -> str:
    return ",\n  ".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _name(table: TableSpec) -> str:
    return _qualified(table.qualified_name)


def _qualified(name: str) -> str:
    return ".".join(quoted(part) for part in name.split(".", 1))
