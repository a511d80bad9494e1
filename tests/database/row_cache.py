"""Rows that a fixture writes: made by the services once a session, restored as rows afterwards.

Describing a small warehouse and carrying a report through takes the services longer than most tests take that
start from it. The first test has the services do it, and the difference between the rows before and after is
stored. It is restored only where the database holds exactly the rows of before; anywhere else the services do it
again, and the new difference replaces the stored one.
"""

from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.cache import cache
from django.core.management.color import no_style
from django.db import connection, transaction

from elevata.audit.append_only import guarded_models
from elevata.audit.services import chain, recorded_heads
from tests.database.cleanup import all_tables, columns_of, rows_of, tables_with_rows


@dataclass(frozen=True)
class Remembered:
    """Rows before, rows added and removed (a changed row is both), and the fixture's return value."""

    before: dict[str, list[tuple]]
    added: dict[str, list[tuple]]
    removed: dict[str, list[tuple]]
    columns: dict[str, list[str]]
    made: Any


_REMEMBERED: dict[str, Remembered] = {}


def remembered(name: str, make: Callable[[], Any], *, whatever: Collection[str] = ()) -> Any:
    """Return what ``make`` returns, with its rows written; ``name`` identifies it.

    ``whatever`` begins the names of tables that make no difference to it, and that it does not change. The return
    value must be copyable. Removed rows of append-only tables, and of tables without a primary key, are
    not restored as such: there ``make`` runs each time.
    """
    before = _all_rows(whatever)
    known = _REMEMBERED.get(name)
    if known is not None and known.before == before:
        # Foreign keys are checked when the transaction ends, so the order of the tables does not matter.
        with transaction.atomic():
            for table, rows in known.removed.items():
                _delete(table, known.columns[table], rows)
            for table, rows in known.added.items():
                _insert(table, known.columns[table], rows)
            _go_on_after(known.added)
        if chain.head().sequence:
            recorded_heads.create()
            recorded_heads.record(chain.head())  # as sealing these rows did
        cache.clear()  # values that another test derived from rows of the same times
        return deepcopy(known.made)
    made = make()
    after = _all_rows(whatever)
    added, removed = _without(after, before), _without(before, after)
    if _can_delete(removed):
        columns = {table: columns_of(table) for table in added.keys() | removed.keys()}
        _REMEMBERED[name] = Remembered(before, added, removed, columns, deepcopy(made))
    return made


def _all_rows(whatever: Collection[str]) -> dict[str, list[tuple]]:
    """Return the rows by table, of all tables but those whose names begin so."""
    asked = tuple(table for table in all_tables() if not table.startswith(tuple(whatever)))
    return {table: rows_of(table) for table in tables_with_rows(asked)}


def _without(rows: dict[str, list[tuple]], others: dict[str, list[tuple]]) -> dict[str, list[tuple]]:
    """Return the rows that ``others`` lacks, by table."""
    lacking = {table: [row for row in rows[table] if row not in others.get(table, [])] for table in rows}
    return {table: rows for table, rows in lacking.items() if rows}


def _can_delete(removed: dict[str, list[tuple]]) -> bool:
    guarded = {model._meta.db_table for model in guarded_models()}
    return all(table not in guarded and _primary_key(table) is not None for table in removed)


def _primary_key(table: str) -> str | None:
    with connection.cursor() as cursor:
        return connection.introspection.get_primary_key_column(cursor, table)


def _delete(table: str, columns: list[str], rows: list[tuple]) -> None:
    key = _primary_key(table)
    place = columns.index(key)
    with connection.cursor() as cursor:
        cursor.executemany(f'DELETE FROM "{table}" WHERE "{key}" = %s', [(row[place],) for row in rows])


def _insert(table: str, columns: list[str], rows: list[tuple]) -> None:
    # By name: a table that was made anew since, as SQLite does to alter one, may have its columns in another order.
    names, places = ", ".join(f'"{column}"' for column in columns), ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        cursor.executemany(f'INSERT INTO "{table}" ({names}) VALUES ({places})', rows)


def _go_on_after(tables: Collection[str]) -> None:
    """New rows get numbers of their own: a sequence may have begun anew since the rows were made."""
    models = [model for model in apps.get_models(include_auto_created=True) if model._meta.db_table in tables]
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)
