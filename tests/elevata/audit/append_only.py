"""Helpers for tests of append-only tables, which are not part of the product."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from django.db import connection

from elevata.audit.append_only import guard, guarded_models, trigger_names
from elevata.audit.models import AppendOnly


@contextmanager
def triggers_lifted(models: Iterable[type[AppendOnly]] | None = None) -> Iterator[None]:
    """Drop the triggers of ``models`` (default: all) inside the context.

    For tampering that a test detects, and for emptying a test database.
    """
    lifted = guarded_models() if models is None else list(models)
    _settle_constraints()
    with connection.cursor() as cursor:
        for model in lifted:
            table = model._meta.db_table
            for name in trigger_names(connection.vendor):
                if connection.vendor == "postgresql":
                    cursor.execute(f'DROP TRIGGER IF EXISTS {name} ON "{table}"')
                else:
                    cursor.execute(f'DROP TRIGGER IF EXISTS "{name}_{table}"')
    try:
        yield
    finally:
        _settle_constraints()
        guard(connection, lifted)


def _settle_constraints() -> None:
    """Check deferred constraints now, because PostgreSQL alters no table with pending checks."""
    if connection.vendor == "postgresql" and connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
