"""Tests that a committing test leaves no rows, and that cached fixture rows equal newly written ones."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import DatabaseError, connection

from elevata.audit.append_only import trigger_names
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from metadata.models import System
from metadata.services.sources import create_system
from tests.database import row_cache
from tests.database.cleanup import Emptier, all_tables, rows_of, tables_with_rows
from tests.database.row_cache import remembered
from tests.elevata.audit.append_only import triggers_lifted

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded, pytest.mark.full]

LOG = ChangeLogEntry._meta.db_table


def flush() -> None:
    call_command("flush", verbosity=0, interactive=False)


def fail_on_flush() -> None:
    pytest.fail("emptied Django's way, although deleting rows is enough")


def execute(statement: str) -> None:
    """Run an SQL statement, because the models refuse some writes themselves."""
    with connection.cursor() as cursor:
        cursor.execute(statement)


def all_rows() -> dict[str, list[tuple]]:
    return {table: rows_of(table) for table in tables_with_rows(all_tables())}


@pytest.fixture
def emptier() -> Emptier:
    """Return an Emptier that has recorded the state of the empty database."""
    emptier = Emptier()
    emptier(flush)
    return emptier


def air() -> System:
    return create_system(name="Air", short_name="air")


def test_cleanup_deletes_written_rows(emptier: Emptier) -> None:
    empty = all_rows()
    air()
    emptier(fail_on_flush)
    assert all_rows() == empty


def test_append_only_rows_are_guarded_again_afterwards(emptier: Emptier) -> None:
    air()
    emptier(fail_on_flush)
    air()
    with pytest.raises(DatabaseError, match="append-only"):
        execute(f'DELETE FROM "{LOG}"')


def test_cleanup_restores_permanent_rows_deleted_by_a_test(emptier: Emptier) -> None:
    names = set(Group.objects.values_list("name", flat=True))
    Group.objects.all().delete()
    emptier(flush)
    assert set(Group.objects.values_list("name", flat=True)) == names


def test_cleanup_restores_a_trigger_dropped_by_a_test(emptier: Emptier) -> None:
    name = trigger_names(connection.vendor)[0]
    execute(f'DROP TRIGGER {name} ON "{LOG}"' if connection.vendor == "postgresql" else f'DROP TRIGGER "{name}_{LOG}"')
    emptier(flush)
    air()
    with pytest.raises(DatabaseError, match="append-only"):
        execute(f"UPDATE \"{LOG}\" SET actor = 'x'")


# --- row_cache ---------------------------------------------------------------------------------


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_cache, "_CACHE", {})


@pytest.fixture
def cached_system(empty_cache: None, emptier: Emptier) -> Callable[[], System]:
    """Return a function that returns a cached system, and fails if it has to be created twice."""
    before: list[System] = []

    def make() -> System:
        if before:
            raise MetadataError("MADE_AGAIN", "It was made before.")
        before.append(air())
        return before[0]

    return lambda: remembered("air", make)


def test_cached_rows_are_restored_exactly(cached_system: Callable[[], System], emptier: Emptier) -> None:
    cached_system()
    first = all_rows()
    emptier(fail_on_flush)
    cached_system()
    assert all_rows() == first


def test_restored_object_can_be_changed_and_saved(cached_system: Callable[[], System], emptier: Emptier) -> None:
    cached_system()
    emptier(fail_on_flush)
    again = cached_system()
    again.name = "Airports"
    again.save()
    assert System.objects.get(short_name="air").name == "Airports"


def test_changes_of_a_test_to_a_cached_object_are_not_cached(
    cached_system: Callable[[], System], emptier: Emptier
) -> None:
    cached_system().name = "Mine"
    emptier(fail_on_flush)
    assert cached_system().name == "Air"


def test_cached_rows_are_created_again_over_other_rows(cached_system: Callable[[], System], emptier: Emptier) -> None:
    cached_system()
    emptier(fail_on_flush)
    create_system(name="Sea", short_name="sea")
    with pytest.raises(MetadataError, match="It was made before"):
        cached_system()


def test_cached_changes_of_rows_are_repeated(empty_cache: None) -> None:
    system = air()

    def rename() -> None:
        assert System.objects.get(pk=system.pk).name == "Air"
        System.objects.filter(pk=system.pk).update(name=next(names))

    names = iter(["Sea"])  # a second run of the services would fail the test
    remembered("renamed", rename)
    System.objects.filter(pk=system.pk).update(name="Air")
    remembered("renamed", rename)
    assert System.objects.get().name == "Sea"


def test_removed_rows_of_append_only_tables_are_not_remembered(empty_cache: None) -> None:
    air()
    with triggers_lifted():
        remembered("emptied", lambda: execute(f'DELETE FROM "{LOG}"'))
    assert row_cache._CACHE == {}
