"""What tests need around append-only tables. Nothing like it is in the product."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection
from django.test import TransactionTestCase

from metadata.append_only import guard, guarded_models, trigger_names


@contextmanager
def triggers_lifted() -> Iterator[None]:
    """Do what the triggers refuse: tampering that a test wants found, or emptying a test database."""
    with connection.cursor() as cursor:
        for model in guarded_models():
            table = model._meta.db_table
            for name in trigger_names(connection.vendor):
                if connection.vendor == "postgresql":
                    cursor.execute(f'DROP TRIGGER IF EXISTS {name} ON "{table}"')
                else:
                    cursor.execute(f'DROP TRIGGER IF EXISTS "{name}_{table}"')
    try:
        yield
    finally:
        guard(connection, guarded_models())


def let_flush_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that commit are followed by a flush, which truncates every table."""
    tear_down = TransactionTestCase._fixture_teardown

    def lifted(case: TransactionTestCase) -> None:
        with triggers_lifted():
            tear_down(case)

    monkeypatch.setattr(TransactionTestCase, "_fixture_teardown", lifted)
