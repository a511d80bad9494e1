"""Cache of the rows that a fixture writes: services write them once a session, later tests restore the rows.

The services take longer to describe a small warehouse and to execute a report than most tests that start from it.
The first test calls the services, and the difference between the rows before and after is cached. It is restored only
if the database has exactly the rows of before; otherwise the services run again, and the new difference replaces the
cached one.
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
class CachedRows:
    """Cached difference: rows before, rows added and removed (a changed row is both), and the fixture's result."""

    before: dict[str, list[tuple]]
    added: dict[str, list[tuple]]
    removed: dict[str, list[tuple]]
    columns: dict[str, list[str]]
    result: Any


_CACHE: dict[str, CachedRows] = {}


def remembered(name: str, make: Callable[[], Any], *, ignored_prefixes: Collection[str] = ()) -> Any:
    """Return the result of ``make`` with its rows written, from the cache if possible; ``name`` identifies it.

    ``ignored_prefixes`` begin the names of tables that ``make`` neither reads nor changes. The return value must be
    copyable. If ``make`` removes rows of append-only tables or of tables without a primary key, it runs each time.
    """
    before = _all_rows(ignored_prefixes)
    cached = _CACHE.get(name)
    if cached is not None and cached.before == before:
        # Foreign keys are checked when the transaction ends, so the order of the tables does not matter.
        with transaction.atomic():
            for table, rows in cached.removed.items():
                _delete(table, cached.columns[table], rows)
            for table, rows in cached.added.items():
                _insert(table, cached.columns[table], rows)
            _reset_sequences(cached.added)
        if chain.head().sequence:
            recorded_heads.create()
            recorded_heads.record(chain.head())  # as sealing these rows does
        cache.clear()  # values that another test derived from rows of the same times
        return deepcopy(cached.result)
    result = make()
    after = _all_rows(ignored_prefixes)
    added, removed = _without(after, before), _without(before, after)
    if _can_delete(removed):
        columns = {table: columns_of(table) for table in added.keys() | removed.keys()}
        _CACHE[name] = CachedRows(before, added, removed, columns, deepcopy(result))
    return result


def _all_rows(ignored_prefixes: Collection[str]) -> dict[str, list[tuple]]:
    """Return the rows by table, except of tables with these prefixes."""
    tables = tuple(table for table in all_tables() if not table.startswith(tuple(ignored_prefixes)))
    return {table: rows_of(table) for table in tables_with_rows(tables)}


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
    # By name: SQLite recreates a table to alter it, so its columns may have another order now.
    names, places = ", ".join(f'"{column}"' for column in columns), ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        cursor.executemany(f'INSERT INTO "{table}" ({names}) VALUES ({places})', rows)


def _reset_sequences(tables: Collection[str]) -> None:
    """Set sequences beyond the restored rows: a sequence may have been reset since the rows were written."""
    models = [model for model in apps.get_models(include_auto_created=True) if model._meta.db_table in tables]
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)
