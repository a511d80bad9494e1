"""Triggers that refuse changes of append-only tables in SQL.

The table of every model derived from ``AppendOnly`` has them. They are created after every migration, because Django
alters a SQLite table by creating a new table, which has no triggers.
"""

from collections.abc import Iterable, Iterator

from django.apps import apps
from django.db import models, transaction

from elevata.audit.hash_chain import Problem
from elevata.audit.models import AppendOnly, ChainLink

PREFIX = "append_only"
_FUNCTION = "elevata_append_only"
_PERMITTING_FUNCTION = "elevata_append_only_but"
_MESSAGE = "is append-only: rows are never changed or removed"
_BODY = f" BEGIN RAISE EXCEPTION '% {_MESSAGE}', TG_TABLE_NAME USING ERRCODE = 'restrict_violation'; END "


def guarded_models() -> list[type[AppendOnly]]:
    """Return the append-only models."""
    return [model for model in apps.get_models() if issubclass(model, AppendOnly)]


def trigger_names(vendor: str) -> tuple[str, ...]:
    """Return the names of a table's triggers: ``append_only_<event>``, on SQLite followed by the table's name."""
    events = ("update", "delete", "truncate") if vendor == "postgresql" else ("update", "delete", "replace")
    return tuple(f"{PREFIX}_{event}" for event in events)


def guard(connection, guarded: Iterable[type[models.Model]]) -> None:
    """Recreate the triggers of these models' tables; missing tables are skipped."""
    with connection.cursor() as cursor:
        present = set(connection.introspection.table_names(cursor))
        function_exists = False
        for model in guarded:
            if model._meta.db_table not in present:
                continue
            if connection.vendor == "postgresql":
                statements = _postgresql(model, with_function=not function_exists)
            else:
                statements = _sqlite(model)
            function_exists = True
            for statement in statements:
                cursor.execute(statement)


def wrong_triggers(connection) -> Problem | None:
    """Return the problem of the first trigger that is missing, or differs from the one that ``guard`` creates.

    So are a further trigger, a rule, row security and a child table, which can change, hide or add rows.
    """
    read = _postgresql_definitions if connection.vendor == "postgresql" else _sqlite_definitions
    existing = read(connection)
    tables = [model._meta.db_table for model in guarded_models()]
    for model, table in zip(guarded_models(), tables, strict=True):
        expected = _expected(connection.vendor, model)
        for name, definition in expected.items():
            stored = existing.pop((table, name), None)
            if stored != definition:
                state = "missing" if stored is None else "not as it was made"
                message = f"the trigger {name} of {table} is {state}: manage.py migrate makes it anew"
                return Problem("trigger_missing" if state == "missing" else "trigger_changed", message)
    further = [(table, f"trigger {name}") for table, name in existing]
    further += _postgresql_additions(connection) if connection.vendor == "postgresql" else []
    for table, addition in sorted(further):
        if table in tables:
            message = f"{table} has {addition}, which elevata did not create: find its author and drop it"
            return Problem("table_altered", message)
    return None


def _expected(vendor: str, model: type[models.Model]) -> dict[str, object]:
    """Return the definitions of a model's triggers by name, as the database reports them."""
    if vendor == "postgresql":
        return {
            f"{PREFIX}_{event}": (_TYPES[event], "A", False, "", _FUNCTION, _BODY)
            for event in ("update", "delete", "truncate")
        }
    statements = [statement for statement in _sqlite(model) if statement.startswith("CREATE")]
    return {statement.split('"')[1]: statement for statement in statements}


# pg_trigger.tgtype: BEFORE (2), DELETE (8), UPDATE (16), TRUNCATE (32), for each row (1).
_TYPES = {"update": 19, "delete": 11, "truncate": 34}


def _postgresql_definitions(connection) -> dict[tuple[str, str], object]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, t.tgname, t.tgtype, t.tgenabled::text, t.tgqual IS NOT NULL, t.tgattr::text, "
            "p.proname, p.prosrc "
            "FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid "
            "WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace"
        )
        return {(table, name): tuple(rest) for table, name, *rest in cursor.fetchall()}


def _postgresql_additions(connection) -> list[tuple[str, str]]:
    """Return rules, row security and child tables in the schema: the table and the addition in words."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, 'rule ' || r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class "
            "WHERE r.rulename <> '_RETURN' AND c.relnamespace = current_schema()::regnamespace "
            "UNION SELECT c.relname, 'row security' FROM pg_class c "
            "WHERE c.relrowsecurity AND c.relnamespace = current_schema()::regnamespace "
            "UNION SELECT c.relname, 'child table ' || i.inhrelid::regclass FROM pg_inherits i "
            "JOIN pg_class c ON c.oid = i.inhparent WHERE c.relnamespace = current_schema()::regnamespace"
        )
        return list(cursor.fetchall())


def _sqlite_definitions(connection) -> dict[tuple[str, str], object]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'trigger'")
        return {(table, name): sql for table, name, sql in cursor.fetchall()}


def remove_linked(connection, model: type[AppendOnly], *, kind: str, first: int, last: int) -> int:
    """Remove the rows of the links ``first`` to ``last``, and return their number.

    Must run in a transaction, which locks the table for other writers. Meanwhile the trigger permits the deletion of
    these rows only. It is restored before the return, or by the rollback after an error.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("rows are removed in a transaction, or not at all")
    table, links = model._meta.db_table, ChainLink._meta.db_table
    linked = f"SELECT subject_id FROM {links} WHERE kind = %s AND sequence BETWEEN %s AND %s"
    with connection.cursor() as cursor:
        for statement in _permitting_trigger(connection.vendor, table, links, kind, int(first), int(last)):
            cursor.execute(statement)
        cursor.execute(f'DELETE FROM "{table}" WHERE id IN ({linked})', [kind, first, last])
        removed = cursor.rowcount
    guard(connection, [model])
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"DROP FUNCTION {_PERMITTING_FUNCTION}()")
    return removed


def _permitting_trigger(vendor: str, table: str, links: str, kind: str, first: int, last: int) -> Iterator[str]:
    """Yield the statements that make the trigger on DELETE permit the rows of these links."""
    if not kind.isidentifier():
        raise ValueError(f"{kind!r} is no kind of row")
    row = f"SELECT 1 FROM {links} WHERE kind = '{kind}' AND subject_id = OLD.id AND sequence BETWEEN {first} AND {last}"
    if vendor == "postgresql":
        yield (
            f"CREATE OR REPLACE FUNCTION {_PERMITTING_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF EXISTS ({row}) THEN RETURN OLD; END IF; "
            f"RAISE EXCEPTION '% {_MESSAGE}', TG_TABLE_NAME USING ERRCODE = 'restrict_violation'; END $$"
        )
        name = f"{PREFIX}_delete"
        yield (
            f'CREATE OR REPLACE TRIGGER {name} BEFORE DELETE ON "{table}" '
            f"FOR EACH ROW EXECUTE FUNCTION {_PERMITTING_FUNCTION}()"
        )
        yield f'ALTER TABLE "{table}" ENABLE ALWAYS TRIGGER {name}'
        return
    name = f'"{PREFIX}_delete_{table}"'
    yield f"DROP TRIGGER IF EXISTS {name}"
    yield (
        f'CREATE TRIGGER {name} BEFORE DELETE ON "{table}" WHEN NOT EXISTS ({row}) '
        f"BEGIN SELECT RAISE(ABORT, '{table} {_MESSAGE}'); END"
    )


def _postgresql(model: type[models.Model], *, with_function: bool) -> Iterator[str]:
    table = f'"{model._meta.db_table}"'
    if with_function:
        yield (f"CREATE OR REPLACE FUNCTION {_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $${_BODY}$$")
    for event in ("update", "delete", "truncate"):
        name = f"{PREFIX}_{event}"
        each = "STATEMENT" if event == "truncate" else "ROW"
        yield (
            f"CREATE OR REPLACE TRIGGER {name} BEFORE {event.upper()} ON {table} "
            f"FOR EACH {each} EXECUTE FUNCTION {_FUNCTION}()"
        )
        # ALWAYS: also in sessions with the replication role.
        yield f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"


def _sqlite(model: type[models.Model]) -> Iterator[str]:
    table = model._meta.db_table
    refuse = f"BEGIN SELECT RAISE(ABORT, '{table} {_MESSAGE}'); END"
    for event in ("update", "delete"):
        name = f'"{PREFIX}_{event}_{table}"'
        yield f"DROP TRIGGER IF EXISTS {name}"
        yield f'CREATE TRIGGER {name} BEFORE {event.upper()} ON "{table}" {refuse}'
    # INSERT OR REPLACE removes the existing row without firing the trigger on DELETE.
    name = f'"{PREFIX}_replace_{table}"'
    same = " OR ".join(
        "(" + " AND ".join(f'"{column}" = NEW."{column}"' for column in columns) + ")"
        for columns in _unique_columns(model)
    )
    yield f"DROP TRIGGER IF EXISTS {name}"
    yield (
        f'CREATE TRIGGER {name} BEFORE INSERT ON "{table}" WHEN EXISTS (SELECT 1 FROM "{table}" WHERE {same}) {refuse}'
    )


def _unique_columns(model: type[models.Model]) -> Iterator[list[str]]:
    """Yield the sets of columns with a unique constraint."""
    columns = {field.name: str(field.column) for field in model._meta.concrete_fields}
    for field in model._meta.concrete_fields:
        if field.unique:
            yield [columns[field.name]]
    for constraint in model._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint) and constraint.fields:
            yield [columns[name] for name in constraint.fields]
