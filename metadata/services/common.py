"""Shared steps of all services: one transaction, an optimistic lock, the change log, readable errors.

``store``, ``store_all``, ``put_aside`` and ``remove`` are the only functions that write metadata. They check
that the current actor may change the rows, and add the changes to the change log.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, IntegrityError, models, transaction
from django.db.models.deletion import Collector

from elevata.core.errors import MetadataError, StaleVersion
from metadata.models import Versioned
from metadata.row_places import must_be_changeable
from metadata.services.changelog import unit_of_work

Row = TypeVar("Row", bound=Versioned)


@contextmanager
def writing(reason: str = "") -> Iterator[None]:
    """Open a transaction; the outermost one writes the change-log entries, with the reason, at its end.

    An IntegrityError of the database becomes a MetadataError.
    """
    try:
        with transaction.atomic(), unit_of_work(reason):
            yield
    except IntegrityError as error:
        said = str(error).strip().splitlines()[0]
        raise MetadataError("constraint", f"the database refused it: {said}") from error


@contextmanager
def snapshot() -> Iterator[None]:
    """Read from one state of the database without blocking writers.

    On SQLite, other transactions take the write lock when they begin; this one does not. Inside of a
    transaction, that transaction's state is read.
    """
    connection = transaction.get_connection()
    if connection.in_atomic_block:
        yield
        return
    if connection.vendor == "sqlite":
        connection.ensure_connection()  # which sets the mode
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
    """Return the row as stored now, locked; StaleVersion if it is not the expected version."""
    try:
        found = type(row).objects.select_for_update().get(pk=row.pk)
    except type(row).DoesNotExist:
        raise MetadataError("gone", "does not exist any more", where=str(row)) from None
    if found.version != expected_version:
        raise StaleVersion(str(found), expected_version, found.version)
    return found


def assign(row: models.Model, changes: dict[str, Any], allowed: tuple[str, ...]) -> bool:
    """Set fields and return True if any value changed; MetadataError for an unknown field."""
    differs = False
    for name, value in changes.items():
        if name not in allowed:
            raise MetadataError("unknown_field", f"cannot be set; known are {', '.join(allowed)}", name, str(row))
        if row.pk is None or getattr(row, name) != value:
            setattr(row, name, value)
            differs = True
    return differs


def store(row: Row) -> Row:
    """Write a checked row; the version of an existing row is incremented."""
    must_be_changeable([row])
    with unit_of_work() as unit:
        if row.pk is not None:
            unit.about_to_change(type(row), [row.pk])
            row.version += 1
        row.save()
        unit.written([row])
    return row


def store_all(rows: Iterable[Row]) -> list[Row]:
    """Insert new, checked rows of one model in one statement."""
    made = list(rows)
    must_be_changeable(made)
    if made:
        with unit_of_work() as unit:
            type(made[0]).objects.bulk_create(made)
            unit.written(made)
    return made


def put_aside(row: Row, **between: Any) -> None:
    """Write temporary values to a stored row, to free its own for other rows; ``row`` is unchanged."""
    must_be_changeable([row])
    with unit_of_work() as unit:
        unit.about_to_change(type(row), [row.pk])
        type(row).objects.filter(pk=row.pk).update(**between)


def remove(rows: Iterable[Row]) -> None:
    """Delete rows of one model and the rows that cascade from them."""
    gone = list(rows)
    if not gone:
        return
    must_be_changeable(gone)
    collector = Collector(using=DEFAULT_DB_ALIAS)
    collector.can_fast_delete = lambda *_, **__: False  # every row is loaded, and so can be logged
    with unit_of_work() as unit:
        collector.collect(gone)
        for model, found in collector.data.items():
            unit.about_to_change(model, [row.pk for row in found])
        for (changed, _), groups in collector.field_updates.items():
            for found in groups:
                unit.about_to_change(changed.model, [row.pk for row in found])
        collector.delete()


def check_fields(row: models.Model, where: str) -> None:
    """Check types, choices, uniqueness and constraints of a model's fields; raise MetadataError.

    Foreign keys are left to the database, because services get rows and not ids.
    """
    related = [f.name for f in row._meta.fields if f.is_relation]
    try:
        row.clean_fields(exclude=related)
        row.validate_unique()
        row.validate_constraints()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise MetadataError("invalid", messages[0], "" if field == "__all__" else field, where) from None


def check_word_list(value: Any, field: str, where: str) -> None:
    """Check that tags or former names are a list of texts without duplicates."""
    fits = isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)
    if not fits or len(set(value)) != len(value):
        raise MetadataError("invalid", f"must be a list of words, none twice, not {value!r}", field, where)


def free_key(model: type[models.Model], derive: Callable[[int], UUID]) -> UUID:
    """Return the first derived stable key that is not taken, because a later object may reuse a name."""
    attempt = 0
    while model.objects.filter(key=derive(attempt)).exists():
        attempt += 1
    return derive(attempt)


def former_names(current: list[str], old: str, new: str) -> list[str]:
    """Return the former names after a rename, newest last, without the new name."""
    return [name for name in current if name not in (old, new)] + ([old] if old != new else [])
