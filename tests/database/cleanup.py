"""Emptying the test database after a test that commits.

Django's way is to truncate every table and to make permissions, roles and triggers anew, which takes longer than
most of these tests. So it is done that way once, what it leaves is kept in mind, and later only what a test wrote
is deleted. Where a test changed more than rows, or one of the rows that stay, Django's way is gone again.
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
    """A database as Django empties it: its tables, indexes and triggers, and the rows that migrating makes."""

    shape: list[tuple]
    tables: tuple[str, ...]
    rows: dict[str, list[tuple]]


class Emptier:
    """Empties the database of this process; remembers what it looks like then."""

    def __init__(self) -> None:
        self._empty: Empty | None = None

    def __call__(self, thoroughly: Callable[[], None]) -> None:
        """Empty it; ``thoroughly`` is Django's way."""
        filled = self._filled()
        if filled is None:
            with triggers_lifted():
                thoroughly()
            self._empty = _look()
        elif filled:
            _delete(filled)

    def _filled(self) -> list[str] | None:
        """Tables whose rows are all to go; None where deleting rows is not enough."""
        if self._empty is None or _shape() != self._empty.shape:
            return None
        filled = tables_with_rows(self._empty.tables)
        kept = self._empty.rows
        if any(table not in filled or rows_of(table) != rows for table, rows in kept.items()):
            return None
        return [table for table in filled if table not in kept]


def let_tests_empty_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that commit are followed by an emptying: let it be this one. Recorded heads go with the chain."""
    django, emptier = TransactionTestCase._fixture_teardown, Emptier()
    rolled_back = TestCase._fixture_teardown

    def committed(case: TransactionTestCase) -> None:
        emptier(lambda: django(case))
        recorded_heads.path().unlink(missing_ok=True)

    def taken_back(case: TestCase) -> None:
        rolled_back(case)
        recorded_heads.path().unlink(missing_ok=True)

    monkeypatch.setattr(TransactionTestCase, "_fixture_teardown", committed)
    monkeypatch.setattr(TestCase, "_fixture_teardown", taken_back)


def all_tables() -> tuple[str, ...]:
    """Tables of the project's models that are there."""
    return tuple(connection.introspection.django_table_names(only_existing=True, include_views=False))


def rows_of(table: str) -> list[tuple]:
    """All rows of a table, by its first column."""
    return _asked(f'SELECT * FROM "{table}" ORDER BY 1')


def columns_of(table: str) -> list[str]:
    """A table's columns, in the order in which ``rows_of`` has them."""
    with connection.cursor() as cursor:
        return [column.name for column in connection.introspection.get_table_description(cursor, table)]


def tables_with_rows(tables: tuple[str, ...]) -> list[str]:
    """Those of the tables that have rows."""
    asked = (f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM \"{table}\")" for table in tables)
    return [table for (table,) in _asked(" UNION ALL ".join(asked))]


def _look() -> Empty:
    tables = all_tables()
    return Empty(_shape(), tables, {table: rows_of(table) for table in tables_with_rows(tables)})


def _asked(query: str) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def _shape() -> list[tuple]:
    return _asked(_SHAPE[connection.vendor])


def _delete(tables: list[str]) -> None:
    guarded = [model for model in guarded_models() if model._meta.db_table in tables]
    # Foreign keys are checked at the end of the transaction, so the order does not matter.
    with triggers_lifted(guarded), transaction.atomic(), connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f'DELETE FROM "{table}"')
