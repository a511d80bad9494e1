"""Triggers that keep append-only tables as they were written, whoever asks in SQL.

Every model derived from ``AppendOnly`` has them. They are made after every migration, because
Django's way of altering a SQLite table makes a new one, without the old one's triggers.
"""

from collections.abc import Iterable, Iterator

from django.apps import apps
from django.db import models

from metadata.models import AppendOnly

PREFIX = "append_only"
_FUNCTION = "elevata_append_only"
_SAID = "is append-only: rows are never changed or removed"


def guarded_models() -> list[type[AppendOnly]]:
    """Every model whose rows stay as they were written."""
    return [model for model in apps.get_models() if issubclass(model, AppendOnly)]


def trigger_names(vendor: str) -> tuple[str, ...]:
    """Which triggers a table has: ``append_only_<event>``, on SQLite with the table's name behind it."""
    events = ("update", "delete", "truncate") if vendor == "postgresql" else ("update", "delete", "replace")
    return tuple(f"{PREFIX}_{event}" for event in events)


def guard(connection, guarded: Iterable[type[models.Model]]) -> None:
    """Make the triggers of these models' tables anew; tables that are not there are passed over."""
    with connection.cursor() as cursor:
        present = set(connection.introspection.table_names(cursor))
        made = False
        for model in guarded:
            if model._meta.db_table not in present:
                continue
            if connection.vendor == "postgresql":
                statements = _postgresql(model, with_function=not made)
            else:
                statements = _sqlite(model)
            made = True
            for statement in statements:
                cursor.execute(statement)


def _postgresql(model: type[models.Model], *, with_function: bool) -> Iterator[str]:
    table = f'"{model._meta.db_table}"'
    if with_function:
        yield (
            f"CREATE OR REPLACE FUNCTION {_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"RAISE EXCEPTION '% {_SAID}', TG_TABLE_NAME USING ERRCODE = 'restrict_violation'; END $$"
        )
    for event in ("update", "delete", "truncate"):
        name = f"{PREFIX}_{event}"
        each = "STATEMENT" if event == "truncate" else "ROW"
        yield (
            f"CREATE OR REPLACE TRIGGER {name} BEFORE {event.upper()} ON {table} "
            f"FOR EACH {each} EXECUTE FUNCTION {_FUNCTION}()"
        )
        # ALWAYS: also where a session says that it only replicates.
        yield f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"


def _sqlite(model: type[models.Model]) -> Iterator[str]:
    table = model._meta.db_table
    refuse = f"BEGIN SELECT RAISE(ABORT, '{table} {_SAID}'); END"
    for event in ("update", "delete"):
        name = f'"{PREFIX}_{event}_{table}"'
        yield f"DROP TRIGGER IF EXISTS {name}"
        yield f'CREATE TRIGGER {name} BEFORE {event.upper()} ON "{table}" {refuse}'
    # INSERT OR REPLACE removes the row in its way without asking the trigger on DELETE.
    name = f'"{PREFIX}_replace_{table}"'
    same = " OR ".join(
        "(" + " AND ".join(f'"{column}" = NEW."{column}"' for column in columns) + ")" for columns in _unique(model)
    )
    yield f"DROP TRIGGER IF EXISTS {name}"
    yield (
        f'CREATE TRIGGER {name} BEFORE INSERT ON "{table}" WHEN EXISTS (SELECT 1 FROM "{table}" WHERE {same}) {refuse}'
    )


def _unique(model: type[models.Model]) -> Iterator[list[str]]:
    """The sets of columns by which a row can stand in another one's way."""
    for field in model._meta.concrete_fields:
        if field.unique:
            yield [field.column]
    for constraint in model._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint) and constraint.fields:
            yield [model._meta.get_field(name).column for name in constraint.fields]
