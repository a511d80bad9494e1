"""Transactions of services that write metadata: with a change log, an optimistic lock and checks of fields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction

from elevata.audit.services.change_log import Row, Unit, unit_of_work
from elevata.core.errors import MetadataError, StaleVersion


@contextmanager
def writing(reason: str = "") -> Iterator[Unit]:
    """Open a transaction whose changes are logged with the reason; the outermost one writes the entries at its end.

    Raises MetadataError ``constraint`` for an IntegrityError of the database.
    """
    try:
        with transaction.atomic(), unit_of_work(reason) as unit:
            yield unit
    except IntegrityError as error:
        first_line = str(error).strip().splitlines()[0]
        raise MetadataError("constraint", f"the database refused it: {first_line}") from error


@contextmanager
def snapshot() -> Iterator[None]:
    """Open a read transaction with one state of the database, which does not block writers.

    On SQLite, it does not take the write lock, unlike other transactions. Inside a transaction it does nothing.
    """
    connection = transaction.get_connection()
    if connection.in_atomic_block:
        yield
        return
    if connection.vendor == "sqlite":
        connection.ensure_connection()  # sets the mode
        mode, connection.transaction_mode = connection.transaction_mode, "DEFERRED"
    try:
        with transaction.atomic():
            if connection.vendor == "sqlite":
                connection.transaction_mode = mode
            else:
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
    finally:
        if connection.vendor == "sqlite":
            connection.transaction_mode = mode


def claim(row: Row, expected_version: int) -> Row:
    """Return the stored row, locked. Raise StaleVersion if it has another version than expected."""
    try:
        stored: Row = type(row)._default_manager.select_for_update().get(pk=row.pk)
    except type(row).DoesNotExist:
        raise MetadataError("gone", "does not exist any more", where=str(row)) from None
    if stored.version != expected_version:
        raise StaleVersion(str(stored), expected_version, stored.version)
    return stored


def assign(row: models.Model, changes: dict[str, Any], allowed: tuple[str, ...]) -> bool:
    """Set fields and return True if a value changed. Raise MetadataError for an unknown field."""
    differs = False
    for name, value in changes.items():
        if name not in allowed:
            raise MetadataError("unknown_field", f"cannot be set; known are {', '.join(allowed)}", name, str(row))
        if row.pk is None or getattr(row, name) != value:
            setattr(row, name, value)
            differs = True
    return differs


_left_to_database: ContextVar[bool] = ContextVar("left_to_database", default=False)


@contextmanager
def constraints_left_to_database() -> Iterator[None]:
    """Skip the queries that check constraints before a write; a violation raises MetadataError ``constraint``.

    They are several queries for each row, which take far longer than its write.
    """
    before = _left_to_database.set(True)
    try:
        yield
    finally:
        _left_to_database.reset(before)


def are_constraints_left_to_database() -> bool:
    """Return True inside ``constraints_left_to_database``."""
    return _left_to_database.get()


def check_fields(row: models.Model, where: str) -> None:
    """Check types, choices, uniqueness and constraints of a model's fields; raise MetadataError.

    Foreign keys are not checked, because services get rows and not ids.
    """
    related = [f.name for f in row._meta.fields if f.is_relation]
    try:
        row.clean_fields(exclude=related)
        if not are_constraints_left_to_database():
            row.validate_unique()
            row.validate_constraints()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise MetadataError("invalid", messages[0], "" if field == "__all__" else field, where) from None
