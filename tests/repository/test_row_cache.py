"""Tests that restoring cached rows leaves the database as writing them does."""

import pytest
from django.core.management.color import no_style
from django.db import connection

from metadata.models import System
from tests.database import row_cache
from tests.database.row_cache import remembered
from tests.factories import SystemFactory


@pytest.mark.django_db(transaction=True)
def test_new_rows_get_unused_ids_after_cached_rows_are_restored():
    made = remembered("a system of this test", SystemFactory)
    System.objects.all().delete()
    for statement in connection.ops.sql_flush(
        no_style(), [System._meta.db_table], reset_sequences=True, allow_cascade=True
    ):
        connection.cursor().execute(statement)
    assert remembered("a system of this test", SystemFactory).pk == made.pk
    assert SystemFactory().pk != made.pk


@pytest.mark.django_db
def test_cached_rows_are_restored_into_a_table_with_another_column_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(row_cache, "all_tables", lambda: ("letters",))
    for columns in ("a text, b text", "b text, a text"):
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS letters")
            cursor.execute(f"CREATE TABLE letters ({columns})")
        remembered("letters of this test", _letters)
    with connection.cursor() as cursor:
        cursor.execute("SELECT a, b FROM letters")
        assert cursor.fetchall() == [("first", "second")]


def _letters():
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO letters (a, b) VALUES ('first', 'second')")
