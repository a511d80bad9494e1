"""Shared steps of every service: one transaction, an optimistic lock, the change log, readable errors.

Metadata is written by ``store``, ``store_all``, ``put_aside`` and ``remove`` and by nothing else: they
ask whether who acts may change the rows, and bring what they write into the change log.
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
    """One transaction, and at the end of the outermost one the change log's entries, with the reason.

    What the database itself refuses comes out as a MetadataError, too.
    """
    try:
        with transaction.atomic(), unit_of_work(reason):
            yield
    except IntegrityError as error:
        said = str(error).strip().splitlines()[0]
        raise MetadataError("constraint", f"the database refused it: {said}") from error


@contextmanager
def snapshot() -> Iterator[None]:
    """Read from one state of the database without keeping writers waiting.

    On SQLite every other transaction takes the write lock when it begins; this one never does. Inside of a
    transaction its state is the one that is read.
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
    """The row as it is now, locked; StaleVersion if it is not the version that was seen."""
    try:
        found = type(row).objects.select_for_update().get(pk=row.pk)
    except type(row).DoesNotExist:
        raise MetadataError("gone", "does not exist any more", where=str(row)) from None
    if found.version != expected_version:
        raise StaleVersion(str(found), expected_version, found.version)
    return found


def assign(row: models.Model, changes: dict[str, Any], allowed: tuple[str, ...]) -> bool:
    """Set fields; True if any value differs from before. An unknown field is an error."""
    differs = False
    for name, value in changes.items():
        if name not in allowed:
            raise MetadataError("unknown_field", f"cannot be set; known are {', '.join(allowed)}", name, str(row))
        if row.pk is None or getattr(row, name) != value:
            setattr(row, name, value)
            differs = True
    return differs


def store(row: Row) -> Row:
    """Write a row that was checked. A row that exists already moves to its next version."""
    must_be_changeable([row])
    with unit_of_work() as unit:
        if row.pk is not None:
            unit.about_to_change(type(row), [row.pk])
            row.version += 1
        row.save()
        unit.written([row])
    return row


def store_all(rows: Iterable[Row]) -> list[Row]:
    """Write new rows of one model that were checked, in one go."""
    made = list(rows)
    must_be_changeable(made)
    if made:
        with unit_of_work() as unit:
            type(made[0]).objects.bulk_create(made)
            unit.written(made)
    return made


def put_aside(row: Row, **between: Any) -> None:
    """Give a stored row other values for the moment, so that others can take its; ``row`` keeps its own."""
    must_be_changeable([row])
    with unit_of_work() as unit:
        unit.about_to_change(type(row), [row.pk])
        type(row).objects.filter(pk=row.pk).update(**between)


def remove(rows: Iterable[Row]) -> None:
    """Delete rows of one model, and what belongs to them."""
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
    """Field types, choices, uniqueness and constraints as the models have them, as a MetadataError.

    Foreign keys are left to the database: services are given rows, not ids.
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
    """Tags and former names: a list of texts, none twice."""
    fits = isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)
    if not fits or len(set(value)) != len(value):
        raise MetadataError("invalid", f"must be a list of words, none twice, not {value!r}", field, where)


def free_key(model: type[models.Model], derive: Callable[[int], UUID]) -> UUID:
    """The first derived stable key that nobody has: a name may be used again by another thing."""
    attempt = 0
    while model.objects.filter(key=derive(attempt)).exists():
        attempt += 1
    return derive(attempt)


def former_names(current: list[str], old: str, new: str) -> list[str]:
    """Former names after a rename, newest last. A name in use again is not a former one."""
    return [name for name in current if name not in (old, new)] + ([old] if old != new else [])
