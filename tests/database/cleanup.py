"""Emptying of the test database after a test that commits.

Django truncates every table and creates permissions, roles and triggers again, which takes longer than most of these
tests. So Django's flush runs once and the resulting state is recorded; later only the rows that a test wrote are
deleted. Django's flush runs again after a test that changed the schema or rows of the recorded state.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from elevata.audit.append_only import guarded_models
from elevata.audit.services import recorded_heads
from tests.elevata.audit.append_only import triggers_lifted

_SHAPE = {
    "sqlite": "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name",
    "postgresql": (
        "SELECT c.relname, t.tgname, t.tgenabled::text, p.prosrc FROM pg_class c"
        " LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal LEFT JOIN pg_proc p ON p.oid = t.tgfoid"
        " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'i') ORDER BY 1, 2"
    ),
}


@dataclass(frozen=True)
class Empty:
    """State of an empty database: its tables, indexes and triggers, and the rows that migrations create."""

    shape: list[tuple]
    tables: tuple[str, ...]
    rows: dict[str, list[tuple]]


class Emptier:
    """Deletion of a test's rows from the database of this process, by its recorded empty state."""

    def __init__(self) -> None:
        self._empty: Empty | None = None

    def __call__(self, flush: Callable[[], None]) -> None:
        """Empty the database; ``flush`` is Django's own way."""
        filled = self._filled()
        if filled is None:
            with triggers_lifted():
                flush()
            self._empty = _current_state()
        elif filled:
            _delete(filled)

    def _filled(self) -> list[str] | None:
        """Return the tables whose rows must be deleted; None if deleting rows is not enough."""
        if self._empty is None or _shape() != self._empty.shape:
            return None
        filled = tables_with_rows(self._empty.tables)
        initial_rows = self._empty.rows
        if any(table not in filled or rows_of(table) != rows for table, rows in initial_rows.items()):
            return None
        return [table for table in filled if table not in initial_rows]


def replace_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Django's flush after committing tests by an ``Emptier``, and remove recorded heads after every test."""
    django, emptier = TransactionTestCase._fixture_teardown, Emptier()
    rolled_back = TestCase._fixture_teardown

    def after_commit(case: TransactionTestCase) -> None:
        emptier(lambda: django(case))
        recorded_heads.path().unlink(missing_ok=True)

    def after_rollback(case: TestCase) -> None:
        rolled_back(case)
        recorded_heads.path().unlink(missing_ok=True)

    monkeypatch.setattr(TransactionTestCase, "_fixture_teardown", after_commit)
    monkeypatch.setattr(TestCase, "_fixture_teardown", after_rollback)


def all_tables() -> tuple[str, ...]:
    """Return the existing tables of the project's models."""
    return tuple(connection.introspection.django_table_names(only_existing=True, include_views=False))


def rows_of(table: str) -> list[tuple]:
    """Return all rows of a table, in the order of its first column."""
    return _fetch(f'SELECT * FROM "{table}" ORDER BY 1')


def columns_of(table: str) -> list[str]:
    """Return a table's columns, in the order of the values of ``rows_of``."""
    with connection.cursor() as cursor:
        return [column.name for column in connection.introspection.get_table_description(cursor, table)]


def tables_with_rows(tables: tuple[str, ...]) -> list[str]:
    """Return those of the tables that have rows."""
    queries = (f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM \"{table}\")" for table in tables)
    return [table for (table,) in _fetch(" UNION ALL ".join(queries))]


def _current_state() -> Empty:
    tables = all_tables()
    return Empty(_shape(), tables, {table: rows_of(table) for table in tables_with_rows(tables)})


def _fetch(query: str) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def _shape() -> list[tuple]:
    return _fetch(_SHAPE[connection.vendor])


def _delete(tables: list[str]) -> None:
    guarded = [model for model in guarded_models() if model._meta.db_table in tables]
    # Foreign keys are checked at the end of the transaction, so the order does not matter.
    with triggers_lifted(guarded), transaction.atomic(), connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f'DELETE FROM "{table}"')


def end_other_sessions() -> None:
    """End the sessions of other threads and processes, which would keep the test database from being dropped."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()"
            )
