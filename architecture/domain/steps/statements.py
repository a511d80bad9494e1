"""SQL statements of steps, and casts between types.

A table is addressed by its location, ``delta.`<warehouse>/<key>```, so that the catalog cannot point a statement to
another table. A physical column name is shown as ``<physical name of `x`>``, because Delta chooses it on creation.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from architecture.domain.steps.features import COLUMN_MAPPING, switches
from architecture.domain.steps.step import (
    ADD_COLUMN,
    CHECK_NOT_NULL,
    CREATE_TABLE,
    DROP_COLUMN,
    DROP_FEATURES,
    DROP_TABLE,
    DROP_VIEWS,
    PUBLISH_TABLE,
    PUBLISH_VIEW,
    RENAME_COLUMN,
    RENAME_TABLE,
    STAMP_KEYS,
    Rehashed,
    Step,
    StepProblem,
    becomes,
)
from architecture.domain.tables import ColumnSpec
from metadata.domain import naming
from metadata.domain.history.history_policy import AS_OF
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.text_formats import JSON_ARRAY, JSON_OBJECT, PATTERNS, STRICT_JSON
from metadata.domain.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    FLOAT,
    INTEGER,
    JSON,
    STRING,
    TIMESTAMP,
    DataType,
    parse,
    spark_type,
    stored_type,
)

# SQL that casts a column to another type, and that finds values which the cast would change. A value survives the cast
# if it keeps all digits of a number, all characters of a text, and the time of day of a timestamp. For a type stored
# as text, the value must have the form that loads require, without the blanks that they trim. NULL always survives.


_EXACT = (INTEGER, BIGINT, DECIMAL)
_NUMBERS = (*_EXACT, FLOAT)
# Spark casts directly between these types. Other casts go through text, which is rarely valid in the other type.
_DIRECT = {
    *((a, b) for a in _NUMBERS for b in _NUMBERS),
    *((a, STRING) for a in (*_NUMBERS, BOOLEAN, DATE, TIMESTAMP, BINARY, STRING)),
    *((STRING, b) for b in (*_NUMBERS, BOOLEAN, DATE, TIMESTAMP, BINARY)),
    (DATE, TIMESTAMP),
    (TIMESTAMP, DATE),
    (BOOLEAN, BOOLEAN),
    (DATE, DATE),
    (TIMESTAMP, TIMESTAMP),
    (BINARY, BINARY),
}
_MAX_DIGITS = 38


def cast_to(value: str, from_type: str, to_type: str) -> str:
    """Return SQL for ``value`` as the other type; NULL if the cast fails. A text is not cut to the type's length."""
    before, after = stored_type(parse(from_type)), stored_type(parse(to_type))
    target = "STRING" if after.name == STRING else spark_type(after)
    if (before.name, after.name) not in _DIRECT:
        value = f"CAST({equal_as_text(value, before)} AS STRING)"
    elif after.name == STRING:
        value = equal_as_text(value, before)
    return f"try_cast({value} AS {target})"


def equal_as_text(value: str, before: DataType) -> str:
    """Return SQL for ``value`` such that equal values have the same text: -0.0 becomes 0.0."""
    return f"IF({value} = 0, 0.0D, {value})" if before.name == FLOAT else value


def does_not_survive(value: str, from_type: str, to_type: str) -> str:
    """Return SQL that is true for a value that the cast would change, and false otherwise."""
    before, after = stored_type(parse(from_type)), stored_type(parse(to_type))
    cast = cast_to(value, from_type, to_type)
    conditions = [f"{cast} IS NULL", *_lost(value, cast, before, after), *_wrong_form(cast, parse(to_type).name)]
    return f"({value} IS NOT NULL AND coalesce({' OR '.join(conditions)}, true))"


def _wrong_form(text: str, type_name: str) -> list[str]:
    """Return the conditions for a text that does not have the form of a type stored as text."""
    if type_name in PATTERNS:
        return [f"NOT {text} RLIKE {quote_text(PATTERNS[type_name])}"]
    if type_name != JSON:
        return []
    array, object_ = (f"concat({quote_text(a)}, {text}, {quote_text(b)})" for a, b in (JSON_ARRAY, JSON_OBJECT))
    options = ", ".join(quote_text(part) for option in STRICT_JSON.items() for part in option)
    in_array = f"size(from_json({array}, 'array<string>', map({options})))"
    return [f"NOT ({in_array} = 1 AND size(json_object_keys({object_})) = 1)"]


def _lost(value: str, cast: str, before: DataType, after: DataType) -> list[str]:
    """Return the conditions for a value that the cast changes without failing."""
    if after.name == STRING:
        too_long = [f"char_length({cast}) > {after.length}"] if after.length is not None else []
        return [*too_long, f"NOT is_valid_utf8({cast})"] if before.name == BINARY else too_long
    if before.name == STRING:
        return _cast_differently(value, cast, after)
    if (before.name, after.name) in _DIRECT and before.name != after.name or before.name == DECIMAL:
        back = spark_type(before)
        return [f"try_cast({cast} AS {back}) IS NULL", f"try_cast({cast} AS {back}) <> {value}"]
    return []


def _cast_differently(value: str, cast: str, after: DataType) -> list[str]:
    """Return the conditions for texts that Spark casts to another value.

    These are numbers with more digits than the type has, dates with a time of day, and times without a date, which
    would become timestamps of the current day.
    """
    if after.name == DECIMAL:
        whole = f"DECIMAL({_MAX_DIGITS},{_MAX_DIGITS - after.whole_digits})"
        return [f"try_cast({value} AS {whole}) IS NULL", f"try_cast({value} AS {whole}) <> {cast}"]
    if after.name == DATE:
        return [f"coalesce(try_cast({value} AS TIMESTAMP) <> {cast}, false)"]
    if after.name == TIMESTAMP:
        return [f"NOT {value} RLIKE '^ *[+-]?[0-9]{{4}}'"]
    return []


KEY = "elevata.key"
NAME = "elevata.name"
COLUMN = "elevata.column."
DROPPED = "elevata.dropped"
# Folder in the warehouse with dropped tables that were replaced by new ones.
DROPPED_FOLDER = ".dropped"

# Parts of a step: a table feature that the change needs, the change itself, setting of stable keys (one commit each),
# names in the catalog.
FEATURES, CHANGE, KEYS, CATALOG, CHECK = "features", "change", "keys", "catalog", "check"


@dataclass(frozen=True)
class Statement:
    """Statement of a step; ``part`` is its purpose."""

    part: str
    sql: str


def statements(step: Step, warehouse: str, schema_prefix: str = "") -> tuple[Statement, ...]:
    """Return a step's statements, in order. ``schema_prefix`` prefixes the catalog's schemas in a dry run."""
    sql_name = place_of(step.table.key, warehouse)
    catalog = _catalog(step, warehouse, schema_prefix)
    if step.op in (PUBLISH_VIEW, DROP_VIEWS):
        return catalog
    if step.op == CHECK_NOT_NULL and step.column is not None:
        name = quote_identifier(step.column.name)
        return (Statement(CHECK, f"SELECT count(*) FROM {sql_name} WHERE {name} IS NULL"),)
    if step.only_checks:
        return tuple(Statement(CHECK, f"SELECT count(*) FROM {sql_name} WHERE {test}") for test in lost_values(step))
    if step.op == STAMP_KEYS:
        return tuple(Statement(KEYS, text) for text in _identity(step, sql_name))
    ties = _ties(step)
    keys = (Statement(KEYS, tie_statement(sql_name, ties)),) if ties else ()
    missing = switches(step.missing_features) if step.op != CREATE_TABLE else {}
    if step.op == DROP_FEATURES:
        return (*(Statement(CHANGE, text) for text in drop_features(step.features, sql_name)), *keys, *catalog)
    features = (Statement(FEATURES, set_properties(sql_name, missing)),) if missing else ()
    return (*features, Statement(CHANGE, _change(step, sql_name)), *keys, *catalog)


def statement_text(step: Step, warehouse: str, schema_prefix: str = "") -> str:
    """Return all statements of a step as one text, for previews."""
    return ";\n".join(statement.sql for statement in statements(step, warehouse, schema_prefix))


def place_of(key: str, warehouse: str) -> str:
    """Return the SQL name of a table by its location."""
    return f"delta.{quote_identifier(location_of(key, warehouse))}"


def location_of(key: str, warehouse: str) -> str:
    return f"{warehouse.rstrip('/')}/{key}"


def catalog_name(qualified_name: str, schema_prefix: str = "") -> str:
    """Return ``schema.name`` as the catalog has it, quoted."""
    schema, _, name = qualified_name.partition(".")
    return f"{quote_identifier(schema_prefix + schema)}.{quote_identifier(name)}"


def column_definition(column: ColumnSpec) -> str:
    return f"{quote_identifier(column.name)} {spark_type(parse(column.type))}"


def create_statement(step: Step, sql_name: str) -> str:
    table = step.table
    properties = switches(step.needed_features) | {KEY: table.key, NAME: table.qualified_name}
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


def unset_properties(sql_name: str, names: Iterable[str]) -> str:
    return f"ALTER TABLE {sql_name} UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(quote_text, names))})"


def tie_statement(sql_name: str, ties: tuple[tuple[str, str], ...], physical: dict[str, str] | None = None) -> str:
    """Return the statement that stores the physical names of columns under their stable keys.

    ``ties`` are (stable key, column name); without ``physical``, texts stand for the physical names.
    """
    pairs = ", ".join(
        f"{quote_text(COLUMN + key)} = "
        + (quote_text(physical[name]) if physical else f"<physical name of {quote_identifier(name)}>")
        for key, name in ties
    )
    return f"ALTER TABLE {sql_name} SET TBLPROPERTIES ({pairs})"


def lost_values(step: Step) -> list[str]:
    """Return for each retyped column the SQL that is true for a value that the cast would change."""
    return [does_not_survive(quote_identifier(item.name), item.from_type, item.to_type) for item in step.retyped]


def rebuilt_columns(step: Step) -> list[str]:
    """Return the select list of a rebuild: the remaining columns, cast or renamed as the step requires."""
    assert step.assumes is not None
    changes = {change.name: change for change in step.retyped}
    dropped = step.column.name if step.op == DROP_COLUMN and step.column is not None else None
    selected = []
    for column in step.assumes.columns:
        name, change = quote_identifier(column.name), changes.get(column.name)
        if column.name == dropped:
            continue
        if step.op == RENAME_COLUMN and column.name == step.from_name:
            selected.append(f"{name} AS {quote_identifier(step.to_name)}")
        else:
            selected.append(f"{cast_to(name, change.from_type, change.to_type)} AS {name}" if change else name)
    return selected


def drop_features(features: Iterable[str], sql_name: str) -> list[str]:
    """Return the statements that rewrite a table without these features.

    Without column mapping, the physical name of a column is its name; all columns are written with it.
    """
    texts = []
    for feature in features:
        if feature == COLUMN_MAPPING:
            texts.append(set_properties(sql_name, {"delta.columnMapping.mode": "none"}))
        texts.append(f"ALTER TABLE {sql_name} DROP FEATURE {feature}")
    return texts


def _change(step: Step, sql_name: str) -> str:
    column = quote_identifier(step.column.name) if step.column else ""
    if step.overwrites:
        return _rebuild(step, sql_name)
    match step.op:
        case "create_table":
            text = create_statement(step, sql_name)
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
            new_type = spark_type(parse(change.to_type))
            return f"ALTER TABLE {sql_name} ALTER COLUMN {quote_identifier(change.name)} TYPE {new_type}"
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
        + "".join(f"\n-- {line}" for line in map(_hash_comment, step.rehashed))
        + f"\nINSERT OVERWRITE TABLE {sql_name}\nSELECT {', '.join(rebuilt_columns(step))}\nFROM {sql_name}"
    )


def _hash_comment(rehashed: Rehashed) -> str:
    names = ", ".join(quote_identifier(name) for _, name in rehashed.parts)
    return f"{quote_identifier(rehashed.name)} is hashed anew: sha256({names})"


def ties_of(step: Step) -> tuple[tuple[str, str], ...]:
    """Return (stable key, column name) of the columns whose keys a step sets."""
    return step.stamps if step.op == STAMP_KEYS else _ties(step)


def _ties(step: Step) -> tuple[tuple[str, str], ...]:
    if step.op == CREATE_TABLE:
        return tuple((column.key, column.name) for column in step.table.columns)
    if step.op == ADD_COLUMN and step.column is not None:
        return ((step.column.key, step.column.name),)
    if step.op == RENAME_COLUMN and step.rewrites and step.column is not None:
        return ((step.column.key, step.to_name),) if step.column.key else ()
    if step.op == DROP_FEATURES and COLUMN_MAPPING in step.features and step.assumes is not None:
        return tuple((column.key, column.name) for column in step.assumes.columns if column.key)
    if step.retyped and step.overwrites:
        shape = becomes(step)
        assert shape is not None
        retyped = {change.name for change in step.retyped}
        return tuple((c.key, c.name) for c in shape.columns if c.key and c.name in retyped)
    return ()


def _identity(step: Step, sql_name: str) -> list[str]:
    """Return the statements that set stable keys. A key is removed before another column gets it."""
    texts = []
    if step.untied:
        texts.append(unset_properties(sql_name, [COLUMN + key for key in step.untied]))
    if step.stamps:
        texts.append(tie_statement(sql_name, step.stamps))
    return texts


def _catalog(step: Step, warehouse: str, prefix: str) -> tuple[Statement, ...]:
    if step.op == PUBLISH_VIEW:
        return (Statement(CATALOG, step.view),)
    if step.op == DROP_VIEWS:
        return tuple(Statement(CATALOG, text) for text in _drop_views(step.from_name, prefix))
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


def _drop_views(history: str, prefix: str) -> list[str]:
    """Return the statements that drop all objects that may be published over a history."""
    base = history.removesuffix(naming.HISTORY_SUFFIX)
    return [
        f"DROP {'FUNCTION' if view == AS_OF else 'VIEW'} IF EXISTS {catalog_name(naming.view_name(base, view), prefix)}"
        for view in naming.VIEW_SUFFIXES
    ]
