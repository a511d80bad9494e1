"""Steps as statements: pure text, the same on every machine.

A table is addressed by its place, ``delta.`<warehouse>/<key>```, so no catalog decides what is
changed. What only the table knows stands as ``<physical name of `x`>``: Delta chooses a column's
physical name when it makes it.
"""

from dataclasses import dataclass

from architecture.domain.states.tables import ColumnSpec, TableSpec
from architecture.domain.steps.casts import cast_to, does_not_survive
from architecture.domain.steps.step import (
    ADD_COLUMN,
    CHECK_NOT_NULL,
    CREATE_TABLE,
    DROP_TABLE,
    DROP_VIEWS,
    PUBLISH_TABLE,
    PUBLISH_VIEW,
    REBUILD_TABLE,
    RENAME_TABLE,
    RETYPE_COLUMN,
    STAMP_KEYS,
    Rehashed,
    Step,
    StepProblem,
    becomes,
)
from metadata.domain import naming
from metadata.domain.history_policy import AS_OF
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import parse, spark_type

KEY = "elevata.key"
NAME = "elevata.name"
COLUMN = "elevata.column."
DROPPED = "elevata.dropped"
# Below the warehouse: dropped tables in whose place there is a new one.
DROPPED_FOLDER = ".dropped"

# Rename, drop and widening become metadata-only with these (docs/understand/design.md, Warehouse layout).
TABLE_PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
    "delta.enableDeletionVectors": "true",
}

# What a statement is for: the change itself (one commit), tying keys (one commit), or names in the catalog.
CHANGE, KEYS, CATALOG, CHECK = "change", "keys", "catalog", "check"


@dataclass(frozen=True)
class Statement:
    """One statement of a step; ``part`` says what it is for."""

    part: str
    sql: str


def statements(step: Step, warehouse: str, schema_prefix: str = "") -> tuple[Statement, ...]:
    """A step's statements, in order. ``schema_prefix`` stands before the catalog's schemas in a rehearsal."""
    sql_name = place_of(step.table.key, warehouse)
    catalog = _catalog(step, warehouse, schema_prefix)
    if step.op in (PUBLISH_VIEW, DROP_VIEWS):
        return catalog
    if step.op == CHECK_NOT_NULL and step.column is not None:
        name = quote_identifier(step.column.name)
        return (Statement(CHECK, f"SELECT count(*) FROM {sql_name} WHERE {name} IS NULL"),)
    if step.only_looks:
        return tuple(Statement(CHECK, f"SELECT count(*) FROM {sql_name} WHERE {test}") for test in lost_values(step))
    if step.op == STAMP_KEYS:
        return tuple(Statement(KEYS, text) for text in _identity(step, sql_name))
    ties = _ties(step)
    keys = (Statement(KEYS, tie_statement(sql_name, ties)),) if ties else ()
    return (Statement(CHANGE, _change(step, sql_name)), *keys, *catalog)


def statement_text(step: Step, warehouse: str, schema_prefix: str = "") -> str:
    """All of a step's statements as one text, as a preview shows it."""
    return ";\n".join(statement.sql for statement in statements(step, warehouse, schema_prefix))


def place_of(key: str, warehouse: str) -> str:
    """A table by its place, as SQL names it."""
    return f"delta.{quote_identifier(location_of(key, warehouse))}"


def location_of(key: str, warehouse: str) -> str:
    return f"{warehouse.rstrip('/')}/{key}"


def catalog_name(qualified_name: str, schema_prefix: str = "") -> str:
    """``schema.name`` as the catalog has it, quoted."""
    schema, _, name = qualified_name.partition(".")
    return f"{quote_identifier(schema_prefix + schema)}.{quote_identifier(name)}"


def column_definition(column: ColumnSpec) -> str:
    return f"{quote_identifier(column.name)} {spark_type(parse(column.type))}"


def create_statement(table: TableSpec, sql_name: str) -> str:
    properties = TABLE_PROPERTIES | {KEY: table.key, NAME: table.qualified_name}
    columns = ",\n  ".join(column_definition(column) for column in table.columns)
    partitions = ", ".join(quote_identifier(name) for name in table.partition_by)
    options = ", ".join(f"{quote_text(name)} = {quote_text(value)}" for name, value in properties.items())
    return (
        f"CREATE TABLE IF NOT EXISTS {sql_name} (\n  {columns}\n) USING delta"
        + (f"\nPARTITIONED BY ({partitions})" if partitions else "")
        + f"\nTBLPROPERTIES ({options})"
    )


def set_properties(sql_name: str, properties: dict[str, str]) -> str:
    pairs = ", ".join(f"{quote_text(name)} = {quote_text(value)}" for name, value in properties.items())
    return f"ALTER TABLE {sql_name} SET TBLPROPERTIES ({pairs})"


def tie_statement(sql_name: str, ties: tuple[tuple[str, str], ...], physical: dict[str, str] | None = None) -> str:
    """Tie (stable key, column name) to physical names; where those are not known, text in their place."""
    pairs = ", ".join(
        f"{quote_text(COLUMN + key)} = "
        + (quote_text(physical[name]) if physical else f"<physical name of {quote_identifier(name)}>")
        for key, name in ties
    )
    return f"ALTER TABLE {sql_name} SET TBLPROPERTIES ({pairs})"


def lost_values(step: Step) -> list[str]:
    """For each column that gets another type, SQL that is true of a value which does not survive it."""
    return [does_not_survive(quote_identifier(one.name), one.from_type, one.to_type) for one in step.retyped]


def rebuilt_columns(step: Step) -> list[str]:
    """The select list of a rebuild: every column, those that get another type cast to it."""
    assert step.assumes is not None
    wanted = {change.name: change for change in step.retyped}
    selected = []
    for column in step.assumes.columns:
        name, change = quote_identifier(column.name), wanted.get(column.name)
        selected.append(f"{cast_to(name, change.from_type, change.to_type)} AS {name}" if change else name)
    return selected


def _change(step: Step, sql_name: str) -> str:
    column = quote_identifier(step.column.name) if step.column else ""
    match step.op:
        case "create_table":
            text = create_statement(step.table, sql_name)
            return f"-- the dropped table's files are kept in {DROPPED_FOLDER}\n{text}" if step.replaces else text
        case "rename_table":
            return set_properties(sql_name, {NAME: step.to_name})
        case "drop_table" | "publish_table":
            return set_properties(sql_name, {DROPPED: "true" if step.op == DROP_TABLE else "false"})
        case "rename_column":
            old, new = quote_identifier(step.from_name), quote_identifier(step.to_name)
            return f"ALTER TABLE {sql_name} RENAME COLUMN {old} TO {new}"
        case "add_column" if step.column is not None:
            return f"ALTER TABLE {sql_name} ADD COLUMNS ({column_definition(step.column)})"
        case "drop_column":
            return f"ALTER TABLE {sql_name} DROP COLUMN {column}"
        case "widen_column":
            (change,) = step.retyped
            wanted = spark_type(parse(change.to_type))
            return f"ALTER TABLE {sql_name} ALTER COLUMN {quote_identifier(change.name)} TYPE {wanted}"
        case "rebuild_table" | "retype_column":
            return _rebuild(step, sql_name)
        case "restore_table":
            return f"RESTORE TABLE {sql_name} TO VERSION AS OF {step.version}"
    raise StepProblem("UNKNOWN_STEP", f"{step.describe()} has no statement", where=step.dataset)


def _rebuild(step: Step, sql_name: str) -> str:
    shape = becomes(step)
    assert shape is not None
    schema = ", ".join(f"{quote_identifier(c.name)} {spark_type(parse(c.type))}" for c in shape.columns)
    parts = ", ".join(quote_identifier(name) for name in shape.partition_by)
    return (
        f"-- one atomic overwrite with the columns {schema}"
        + (f", partitioned by {parts}" if parts else "")
        + "".join(f"\n-- {line}" for line in map(_said_of_hash, step.rehashed))
        + f"\nINSERT OVERWRITE TABLE {sql_name}\nSELECT {', '.join(rebuilt_columns(step))}\nFROM {sql_name}"
    )


def _said_of_hash(rehashed: Rehashed) -> str:
    names = ", ".join(quote_identifier(name) for _, name in rehashed.parts)
    return f"{quote_identifier(rehashed.name)} is hashed anew: sha256({names})"


def ties_of(step: Step) -> tuple[tuple[str, str], ...]:
    """(stable key, column name) of the columns that a step makes and that are tied to their keys after it."""
    return step.stamps if step.op == STAMP_KEYS else _ties(step)


def _ties(step: Step) -> tuple[tuple[str, str], ...]:
    if step.op == CREATE_TABLE:
        return tuple((column.key, column.name) for column in step.table.columns)
    if step.op == ADD_COLUMN and step.column is not None:
        return ((step.column.key, step.column.name),)
    if step.op in (REBUILD_TABLE, RETYPE_COLUMN):
        shape = becomes(step)
        assert shape is not None
        made = {change.name for change in step.retyped}
        return tuple((c.key, c.name) for c in shape.columns if c.key and c.name in made)
    return ()


def _identity(step: Step, sql_name: str) -> list[str]:
    """Keys are let go before they are tied to another column."""
    texts = []
    if step.untied:
        keys = ", ".join(quote_text(COLUMN + key) for key in step.untied)
        texts.append(f"ALTER TABLE {sql_name} UNSET TBLPROPERTIES IF EXISTS ({keys})")
    if step.stamps:
        texts.append(tie_statement(sql_name, step.stamps))
    return texts


def _catalog(step: Step, warehouse: str, prefix: str) -> tuple[Statement, ...]:
    if step.op == PUBLISH_VIEW:
        return (Statement(CATALOG, step.view),)
    if step.op == DROP_VIEWS:
        return tuple(Statement(CATALOG, text) for text in _dropped_views(step.from_name, prefix))
    texts = []
    if step.op in (RENAME_TABLE, DROP_TABLE):
        old = step.from_name or step.table.qualified_name
        texts.append(f"DROP TABLE IF EXISTS {catalog_name(old, prefix)}")
    if step.op in (CREATE_TABLE, RENAME_TABLE, PUBLISH_TABLE):
        shape = becomes(step)
        assert shape is not None
        schema = shape.qualified_name.partition(".")[0]
        location = quote_text(location_of(step.table.key, warehouse))
        name = catalog_name(shape.qualified_name, prefix)
        texts.append(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(prefix + schema)}")
        texts.append(f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION {location}")
    return tuple(Statement(CATALOG, text) for text in texts)


def _dropped_views(history: str, prefix: str) -> list[str]:
    """Everything that may be published over a history, under the name it had."""
    base = history.removesuffix(naming.HISTORY_SUFFIX)
    return [
        f"DROP {'FUNCTION' if view == AS_OF else 'VIEW'} IF EXISTS {catalog_name(naming.view_name(base, view), prefix)}"
        for view in naming.VIEW_SUFFIXES
    ]
