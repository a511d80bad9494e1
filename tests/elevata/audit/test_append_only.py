"""Tests of append-only tables: the ORM and SQL cannot change rows, and migrations preserve the triggers."""

from collections.abc import Callable

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from elevata.audit.append_only import PREFIX, guard, guarded_models, trigger_names
from elevata.audit.models import AppendOnly, ChainLink, ChangeLogEntry
from elevata.core.errors import MetadataError

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]


def entry(**values: object) -> ChangeLogEntry:
    fields = {"at": timezone.now(), "actor": "ada", "actor_kind": "person", "action": "changed", "changes": "{}"}
    return ChangeLogEntry.objects.create(**fields | values)


def link() -> ChainLink:
    fields = {"sequence": 1, "kind": "x", "subject_id": 1, "digest": "", "previous": "", "hash": ""}
    return ChainLink.objects.create(**fields, sealed_at=timezone.now())


def triggers() -> dict[str, set[str]]:
    """Return the triggers of each table."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT c.relname, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
                "WHERE NOT t.tgisinternal AND t.tgenabled = 'A'"
            )
            rows = cursor.fetchall()
        else:
            cursor.execute("SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'")
            rows = [(table, name.removesuffix(f"_{table}")) for table, name in cursor.fetchall()]
    by_table: dict[str, set[str]] = {}
    for table, name in rows:
        if name.startswith(PREFIX):
            by_table.setdefault(table, set()).add(name)
    return by_table


def test_every_append_only_table_has_every_trigger() -> None:
    names = set(trigger_names(connection.vendor))
    assert triggers() == {model._meta.db_table: names for model in guarded_models()}


def test_guarded_models_include_change_log_and_chain() -> None:
    assert {ChangeLogEntry, ChainLink} <= set(guarded_models())


def test_every_append_only_model_is_guarded() -> None:
    assert set(guarded_models()) == {model for model in apps.get_models() if AppendOnly in model.__mro__}


# --- in SQL --------------------------------------------------------------------------------------


def refused_sql(statement: str) -> bool:
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    return True


@pytest.mark.parametrize("create", [entry, link])
def test_append_only_table_refuses_an_update(create: Callable[[], models.Model]) -> None:
    row = create()
    column = "actor" if isinstance(row, ChangeLogEntry) else "digest"
    assert refused_sql(f"UPDATE {row._meta.db_table} SET {column} = 'x'")


@pytest.mark.parametrize("create", [entry, link])
def test_append_only_table_refuses_a_delete(create: Callable[[], models.Model]) -> None:
    assert refused_sql(f"DELETE FROM {create()._meta.db_table}")


@pytest.mark.parametrize("create", [entry, link])
def test_append_only_table_refuses_to_be_emptied(create: Callable[[], models.Model]) -> None:
    table = create()._meta.db_table
    if connection.vendor == "sqlite":
        assert refused_sql(f"DELETE FROM {table} WHERE true")
        return
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    assert refused_sql(f"TRUNCATE {table}")


def test_change_log_refuses_an_insert_that_replaces_a_row() -> None:
    row = entry()
    columns = [field.column for field in ChangeLogEntry._meta.concrete_fields]
    chosen = ", ".join("'mallory'" if name == "actor" else name for name in columns)
    if connection.vendor == "postgresql":
        tail = "ON CONFLICT (id) DO UPDATE SET actor = 'mallory'"
        words = f"INSERT INTO audit_changelogentry SELECT * FROM audit_changelogentry {tail}"
    else:
        words = f"INSERT OR REPLACE INTO audit_changelogentry SELECT {chosen} FROM audit_changelogentry"
    assert refused_sql(words)
    assert ChangeLogEntry.objects.get(pk=row.pk).actor == "ada"


def test_chain_refuses_a_second_link_of_the_same_subject() -> None:
    link()
    insert = "INSERT" if connection.vendor == "postgresql" else "INSERT OR REPLACE"
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"{insert} INTO audit_chainlink (sequence, kind, subject_id, digest, previous, hash, sealed_at) "
            "SELECT 2, kind, subject_id, digest, previous, hash, sealed_at FROM audit_chainlink"
        )
    assert list(ChainLink.objects.values_list("sequence", flat=True)) == [1]


# --- in the ORM ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.save(),
        lambda row: row.save(update_fields=["actor"]),
        lambda row: row.delete(),
        lambda row: type(row).objects.update(actor="mallory"),
        lambda row: type(row).objects.filter(pk=row.pk).delete(),
        lambda row: type(row).objects.all()._raw_delete("default"),
        lambda row: type(row).objects.bulk_update([row], ["actor"]),
        lambda row: type(row).objects.update_or_create(pk=row.pk, defaults={"actor": "mallory"}),
        lambda row: type(row)._base_manager.all().update(actor="mallory"),
        lambda row: type(row)._base_manager.all().delete(),
    ],
)
def test_orm_changes_of_append_only_rows_raise_append_only(change: Callable[[ChangeLogEntry], object]) -> None:
    row = ChangeLogEntry.objects.get(pk=entry().pk)
    with pytest.raises(MetadataError, match="append-only") as refused:
        change(row)
    assert refused.value.code == "append_only"


def test_change_log_refuses_a_new_row_with_an_existing_key() -> None:
    first = entry()
    with pytest.raises(IntegrityError), transaction.atomic():
        entry(pk=first.pk, actor="mallory")
    assert ChangeLogEntry.objects.get().actor == "ada"


# --- after a migration ---------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_migrate_restores_the_triggers_of_a_recreated_table() -> None:
    """Check that a migration restores lost triggers.

    On SQLite, altering a column creates a new table; on PostgreSQL, the triggers stay.
    """
    field = models.CharField(max_length=200)
    field.set_attributes_from_name("actor")
    field.model = ChangeLogEntry
    before = ChangeLogEntry._meta.get_field("actor")
    with connection.schema_editor() as editor:
        editor.alter_field(ChangeLogEntry, before, field, strict=False)
    lost = "audit_changelogentry" not in triggers()
    call_command("migrate", verbosity=0, interactive=False)
    assert lost == (connection.vendor == "sqlite")
    assert triggers()["audit_changelogentry"] == set(trigger_names(connection.vendor))
    with connection.schema_editor() as editor:
        editor.alter_field(ChangeLogEntry, field, before, strict=False)
    guard(connection, guarded_models())


@pytest.mark.django_db(transaction=True)
def test_flushing_the_database_is_refused() -> None:
    entry()
    with pytest.raises(Exception, match="flush"):
        call_command("flush", verbosity=0, interactive=False)
    assert ChangeLogEntry.objects.count() == 1


def test_guarding_a_second_time_keeps_the_triggers() -> None:
    before = triggers()
    guard(connection, guarded_models())
    assert triggers() == before


def test_guarding_ignores_a_missing_table() -> None:
    before = triggers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChainLink._meta, "db_table", "metadata_not_there_yet")
        guard(connection, [ChainLink])
    assert triggers() == before
