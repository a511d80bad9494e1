"""Steps of a report as statements of a dialect.

Steps are those that the product executes (``architecture.domain.steps``): they have the order, the temporary names of
swaps, and the shape of the table before them. A change without a statement in the dialect rebuilds the table from its
old rows, with casts that fail for a value that does not fit. A table that is only published or tied to stable keys
needs no statement outside of Delta, and views are those of ``views.sql``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from architecture.domain.steps import step as ops
from architecture.domain.steps.step import Step, becomes
from architecture.domain.type_changes import classify_types
from loader.dialects.dialect import IN_PLACE, NO_CHANGE, Dialect, lines, temporary_name
from loader.dialects.hashing import digest
from loader.dialects.refusals import NotRendered
from metadata.domain import naming
from metadata.domain.history.history_policy import AS_OF
from metadata.domain.types import (
    BIGINT,
    DATE,
    DECIMAL,
    FLOAT,
    INTEGER,
    STRING,
    TIMESTAMP,
    DataType,
    parse,
)

_WITHOUT_STATEMENT = (ops.PUBLISH_TABLE, ops.PUBLISH_VIEW, ops.STAMP_KEYS, ops.DROP_FEATURES)
_RETYPING = (ops.WIDEN_COLUMN, ops.REBUILD_TABLE, ops.RETYPE_COLUMN)
# Narrower types whose lost digits show when a value is cast back.
_CAST_BACK = {
    (BIGINT, INTEGER),
    (DECIMAL, DECIMAL),
    (DECIMAL, INTEGER),
    (DECIMAL, BIGINT),
    (TIMESTAMP, DATE),
    (INTEGER, DECIMAL),
    (BIGINT, DECIMAL),
    (FLOAT, INTEGER),
    (FLOAT, BIGINT),
    (FLOAT, DECIMAL),
    (DECIMAL, FLOAT),
    (BIGINT, FLOAT),
}


def statements_of(step: Step, dialect: Dialect) -> list[str]:
    """Return the checks and statements of a step; none if the dialect needs none. Raise NotRendered."""
    return [*checks_of(step, dialect), *changes_of(step, dialect)]


def checks_of(step: Step, dialect: Dialect, table: str = "") -> list[str]:
    """Return the statements that fail if values keep a step from being carried out. Raise NotRendered.

    ``table`` is the table's name if it is not renamed yet.
    """
    if step.assumes is None:
        return []
    table = table or step.assumes.qualified_name
    if step.op in _RETYPING:
        pairs = _type_pairs(step)
        checks = (fit_check(dialect, table, name, before, after) for name, before, after in pairs)
        return [check for check in checks if check]
    if step.op == ops.CHECK_NOT_NULL and step.column is not None:
        column = dialect.identifier(step.column.name)
        query = f"SELECT 1 FROM {dialect.table(table)} AS v WHERE v.{column} IS NULL"
        return [dialect.refuse_if("NULL_VALUES", f"{table}: {step.column.name} has rows without a value", query)]
    return []


def changes_of(step: Step, dialect: Dialect) -> list[str]:
    """Return the statements of a step without its checks. Raise NotRendered."""
    if step.op in _WITHOUT_STATEMENT or step.op == ops.CHECK_NOT_NULL:
        return []
    table = step.assumes.qualified_name if step.assumes is not None else step.table.qualified_name
    match step.op:
        case ops.CREATE_TABLE:
            columns = [(column.name, column.type) for column in step.table.columns]
            return [dialect.create_schema(step.table.schema), dialect.create_table(step.table.qualified_name, columns)]
        case ops.RENAME_TABLE:
            schema = step.to_name.partition(".")[0]
            creation = [dialect.create_schema(schema)] if schema != step.from_name.partition(".")[0] else []
            return [*creation, *dialect.rename_table(step.from_name, step.to_name)]
        case ops.DROP_TABLE:
            return [dialect.drop_table(table)]
        case ops.ADD_COLUMN if step.column is not None:
            return dialect.add_column(table, step.column.name, step.column.type)
        case ops.RENAME_COLUMN | ops.DROP_COLUMN:
            return rebuild(step, dialect) if _needs_rebuild(step, dialect) else _renamed_or_dropped(step, dialect)
        case ops.WIDEN_COLUMN | ops.REBUILD_TABLE | ops.RETYPE_COLUMN:
            return _retyped(step, dialect)
        case ops.DROP_VIEWS:
            return _dropped_views(step.from_name, dialect)
    raise NotRendered(f"{step.describe()} has no statement in {dialect.title}", where=step.dataset)


def _needs_rebuild(step: Step, dialect: Dialect) -> bool:
    """Return True if the step writes the table anew, because the dialect has no statement of its own."""
    if step.op in (ops.RENAME_COLUMN, ops.DROP_COLUMN):
        try:
            _renamed_or_dropped(step, dialect)
        except NotRendered:
            return _names_are_fine(step, dialect)
        return False
    ways = (dialect.widening(before, after) for _, before, after in _type_pairs(step))
    return step.op in _RETYPING and any(way not in (IN_PLACE, NO_CHANGE) for way in ways)


def _renamed_or_dropped(step: Step, dialect: Dialect) -> list[str]:
    assert step.assumes is not None
    assert step.column is not None
    table = step.assumes.qualified_name
    if step.op == ops.RENAME_COLUMN:
        return dialect.rename_column(table, step.from_name, step.to_name)
    return dialect.drop_column(table, step.column.name)


def _type_pairs(step: Step) -> list[tuple[str, DataType, DataType]]:
    return [(item.name, parse(item.from_type), parse(item.to_type)) for item in step.retyped]


def _dropped_views(history: str, dialect: Dialect) -> list[str]:
    """Return the statements that drop the views over a history, which would keep it from being renamed."""
    base = history.removesuffix(naming.HISTORY_SUFFIX)
    views = [naming.view_name(base, view) for view in naming.VIEW_SUFFIXES if view != AS_OF]
    return [f"DROP VIEW IF EXISTS {dialect.table(view)}" for view in views]


def _names_are_fine(step: Step, dialect: Dialect) -> bool:
    try:
        for name in (step.from_name, step.to_name):
            if name:
                dialect.identifier(name)
    except NotRendered:
        return False
    return True


def _retyped(step: Step, dialect: Dialect) -> list[str]:
    """Return the type changes (ALTER or one rebuild), and the statements that compute keys anew."""
    assert step.assumes is not None
    if step.rehashed and not dialect.ddl_in_transaction:
        message = f"{step.describe()}: keys are computed anew, and {dialect.title} changes no type in a transaction"
        raise NotRendered(message, where=step.dataset)
    if _needs_rebuild(step, dialect):
        return [*rebuild(step, dialect), *_rehashed(step, dialect)]
    altered = [
        statement
        for name, before, after in _type_pairs(step)
        if dialect.widening(before, after) == IN_PLACE
        for statement in dialect.alter_type(step.assumes.qualified_name, name, before, after)
    ]
    return [*altered, *_rehashed(step, dialect)]


def fit_check(dialect: Dialect, table: str, name: str, before: DataType, after: DataType) -> str:
    """Return the check that every value survives a change of type; empty for a wider type.

    Raise NotRendered for a change whose loss is not found by casting back.
    """
    column = f"v.{dialect.identifier(name)}"
    if after.name == STRING and after.length is not None and before.name == STRING:
        if before.length is not None and before.length <= after.length:
            return ""
        lost = f"{column} IS NOT NULL AND {dialect.limited(column, after.length)} IS NULL"
    elif classify_types(before, after).widens or before == after:
        return ""
    elif (before.name, after.name) in _CAST_BACK:
        lost = f"{dialect.cast_back(column, before, after)} <> {column}"
    else:
        raise NotRendered(f"{table}.{name}: {before} → {after} can lose values", where=table)
    query = f"SELECT 1 FROM {dialect.table(table)} AS v WHERE {lost}"
    return dialect.refuse_if("VALUE_DOES_NOT_FIT", f"{table}: values of {name} do not fit {after}", query)


def _rehashed(step: Step, dialect: Dialect) -> list[str]:
    """Return the statements that compute keys anew from their parts, dependent ones last."""
    after = becomes(step)
    assert after is not None
    types = {column.name: parse(column.type) for column in after.columns}
    statements = []
    for item in step.rehashed:
        known = types | {name: parse(type_) for name, type_ in item.types}
        parts = [(part, dialect.identifier(name), known[name]) for part, name in item.parts]
        value = digest(dialect, parts)
        if item.absent:
            present = " AND ".join(f"{column} IS NOT NULL" for _, column, _ in parts)
            value = f"CASE WHEN {present} THEN {value} END"
        name = dialect.identifier(item.name)
        statements.append(dialect.update(dialect.table(after.qualified_name), {name: value}, [f"{name} IS NOT NULL"]))
    return statements


def rebuild(step: Step, dialect: Dialect) -> list[str]:
    """Return the statements that write a table anew: create, copy with checked casts, compare, swap."""
    before, after = step.assumes, becomes(step)
    assert before is not None
    assert after is not None
    table = before.qualified_name
    changes = {item.name: item for item in step.retyped}
    dropped = step.column.name if step.op == ops.DROP_COLUMN and step.column else None
    selected, columns = [], []
    for column in before.columns:
        if column.name == dropped:
            continue
        renamed = step.op == ops.RENAME_COLUMN and column.name == step.from_name
        name, change = (step.to_name if renamed else column.name), changes.get(column.name)
        value, type_ = f"v.{dialect.identifier(column.name)}", change.to_type if change else column.type
        if change:
            value = dialect.cast(value, parse(change.from_type), parse(change.to_type))
        selected.append(f"{value} AS {dialect.identifier(name)}")
        columns.append((name, type_))
    query = f"SELECT\n  {lines(selected)}\nFROM {dialect.table(table)} AS v"
    return dialect.replace_table(table, columns, query, temporary_name("new", table))


@dataclass(frozen=True)
class StepStatements:
    """Statements of one step, or the reason why it has none.

    ``checks`` are those that run before anything is changed. ``columns`` are the names, in lower case, of the columns
    that the statements mention; None if they mention all, or the table itself.
    """

    step: Step
    statements: tuple[str, ...]
    refusal: NotRendered | None = None
    checks: tuple[str, ...] = ()
    columns: frozenset[str] | None = None


def render_steps(steps: Iterable[Step], dialect: Dialect) -> list[StepStatements]:
    """Return the statements of each step, in order.

    Where changes of tables are not undone, the checks of all steps are apart, so that none fails after a change.
    """
    rendered = []
    names: dict[str, str] = {}
    for step in steps:
        if step.assumes is not None:
            names.setdefault(step.table.key, step.assumes.qualified_name)
        try:
            checks = checks_of(step, dialect, "" if dialect.ddl_in_transaction else names.get(step.table.key, ""))
            changes = changes_of(step, dialect)
        except NotRendered as problem:
            rendered.append(StepStatements(step, (), problem))
            continue
        columns = _mentioned(step, dialect)
        if dialect.ddl_in_transaction:
            rendered.append(StepStatements(step, (*checks, *changes), columns=columns))
        else:
            rendered.append(StepStatements(step, tuple(changes), checks=tuple(checks), columns=columns))
    return rendered


def _mentioned(step: Step, dialect: Dialect) -> frozenset[str] | None:
    if step.op not in (ops.ADD_COLUMN, ops.RENAME_COLUMN, ops.DROP_COLUMN, ops.CHECK_NOT_NULL, *_RETYPING):
        return None
    if _needs_rebuild(step, dialect):
        return None
    names = [step.from_name, step.to_name, *(item.name for item in step.retyped)]
    names += [step.column.name] if step.column is not None else []
    names += [name for item in step.rehashed for name in (item.name, *(part for _, part in item.parts))]
    return frozenset(name.lower() for name in names if name)
