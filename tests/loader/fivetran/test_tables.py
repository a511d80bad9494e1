"""Tables of Fivetran in metadata: created, altered, renamed, dropped, and described as sent."""

import threading
from dataclasses import replace

import pytest

from architecture.models import ChangeReport
from elevata.accounts.actors import acting_as
from elevata.accounts.services.users import create_user
from elevata.audit.models import ChangeLogEntry
from loader.contract.refusals import Refusal
from loader.domain.fivetran import Column, Table
from loader.fivetran import metadata_rows, pending_changes, tables
from metadata.domain import stable_keys
from metadata.models import SourceDataset, System, TargetColumn, TargetDataset
from metadata.services.datasets.targets import update_target_column
from metadata.services.lifecycle import rename_column

pytestmark = pytest.mark.django_db

ID, NAME, SYNCED = (
    Column("id", "LONG", primary_key=True),
    Column("name", "STRING"),
    Column("_fivetran_synced", "UTC_DATETIME"),
)
HISTORY = (
    Column("_fivetran_start", "UTC_DATETIME", primary_key=True),
    Column("_fivetran_end", "UTC_DATETIME"),
    Column("_fivetran_active", "BOOLEAN"),
)


@pytest.fixture(autouse=True)
def fay(db):
    user = create_user(name="fay", roles=["operator", "editor"])
    with acting_as(user, by_token=True):
        yield user


def sent_table(*columns: Column, name: str = "item", schema: str = "shop") -> Table:
    return Table(schema, name, columns)


def refused(function, *arguments, **options) -> str:
    with pytest.raises(Refusal) as caught:
        function(*arguments, **options)
    return caught.value.code


def columns(name: str) -> dict[str, tuple[str, bool]]:
    schema, _, dataset = name.partition(".")
    rows = TargetDataset.objects.get(schema__name=schema, name=dataset).columns.all()
    return {row.name: (str(row.type), row.active) for row in rows}


def test_create_table_creates_a_source_and_its_target_datasets():
    tables.create_table(sent_table(ID, NAME, SYNCED))
    source = SourceDataset.objects.get()
    assert (source.system.short_name, source.name, source.historize) == ("shop", "item", True)
    assert source.history_policy == {"input": "batch_files", "time": "_fivetran_start"}
    assert {str(row) for row in TargetDataset.objects.all()} == {
        "raw.raw_shop_item",
        "stage.stg_shop_item",
        "rawcore.rc_shop_item",
        "rawcore.rc_shop_item_hist",
    }
    assert columns("rawcore.rc_shop_item") == {
        "id": ("bigint", True),
        "name": ("string", True),
        "fivetran_synced": ("timestamp", True),
    }


def test_change_log_records_the_sender_as_actor_of_table_changes():
    tables.create_table(sent_table(ID, NAME))
    entries = ChangeLogEntry.objects.filter(actor="fay")
    assert set(entries.values_list("actor_kind", "reason")) == {("token", "created by Fivetran as shop.item")}


@pytest.mark.services
@pytest.mark.django_db(transaction=True)
def test_the_first_tables_of_a_schema_may_be_created_in_parallel(fay, in_threads, monkeypatch):
    create_system, both_miss_it = metadata_rows.create_system, threading.Barrier(2)

    def create(**fields):
        both_miss_it.wait(10)
        return create_system(**fields)

    monkeypatch.setattr(metadata_rows, "create_system", create)

    def creation_of(name: str):
        def create_table():
            with acting_as(fay, by_token=True):
                return tables.create_table(sent_table(ID, name=name)).name

        return create_table

    assert in_threads(creation_of("item"), creation_of("member")) == ["item", "member"]
    assert System.objects.count() == 1


def test_tables_of_a_schema_share_a_system():
    tables.create_table(sent_table(ID))
    tables.create_table(sent_table(ID, name="member"))
    tables.create_table(sent_table(ID, schema="shop_of_another_and_longer_name"))
    assert [system.short_name for system in System.objects.all()] == ["shop", "shop_of_another_a"]


@pytest.mark.parametrize("columns", [(ID, NAME, SYNCED), (ID, NAME, SYNCED, *HISTORY)])
def test_described_table_equals_the_sent_table(columns):
    others = (Column("d", "DECIMAL", precision=9, scale=2), Column("t", "NAIVE_DATETIME"), Column("s", "SHORT"))
    table = Table("shop", "item", (*columns[:3], *others, *columns[3:]))
    tables.create_table(table)
    assert tables.described_table(tables.wanted_table("shop", "item")) == table


def test_create_refuses_an_existing_table_and_alter_an_unknown_table():
    tables.create_table(sent_table(ID))
    assert refused(tables.create_table, sent_table(ID, NAME)) == "TABLE_EXISTS"
    assert tables.known_table("shop", "other") is None
    assert refused(tables.alter_table, sent_table(ID, name="other"), drops=False) == "UNKNOWN_TABLE"


def test_columns_are_added_retyped_and_retired():
    tables.create_table(sent_table(ID, NAME, Column("n", "INT")))
    tables.alter_table(sent_table(ID, Column("n", "LONG"), Column("price", "DOUBLE")), drops=True)
    assert columns("rawcore.rc_shop_item") == {
        "id": ("bigint", True),
        "name": ("string", False),
        "n": ("bigint", True),
        "price": ("float", True),
    }
    reported = tables.described_table(tables.wanted_table("shop", "item"))
    assert reported.columns == (ID, Column("n", "LONG"), Column("price", "DOUBLE"))


def test_alter_with_history_columns_switches_a_table_to_history_mode():
    source = tables.create_table(sent_table(ID))
    assert not metadata_rows.in_history_mode(source)
    assert metadata_rows.in_history_mode(tables.alter_table(sent_table(ID, *HISTORY), drops=False))


def test_refused_alter_adds_no_columns():
    tables.create_table(sent_table(ID, NAME))
    keyed = Column("name", "STRING", primary_key=True)
    assert refused(tables.alter_table, sent_table(ID, keyed, Column("x", "INT")), drops=False) == "PRIMARY_KEY_CHANGED"
    assert set(columns("rawcore.rc_shop_item")) == {"id", "name"}


def test_create_restores_a_dropped_table_and_keeps_its_former_columns():
    tables.create_table(sent_table(ID, NAME))
    tables.drop_table("shop", "item")
    assert tables.known_table("shop", "item") is None
    assert not TargetDataset.objects.filter(active=True).exists()
    tables.create_table(sent_table(ID, Column("n", "INT")))
    assert columns("rawcore.rc_shop_item") == {
        "id": ("bigint", True),
        "name": ("string", False),
        "n": ("integer", True),
    }
    assert SourceDataset.objects.count() == 1


def test_a_renamed_table_keeps_its_former_name():
    tables.create_table(sent_table(ID))
    for _ in range(2):  # Fivetran may send it again
        tables.rename_table("shop", "item", "article")
    dataset = TargetDataset.objects.get(name="rc_shop_article")
    assert (dataset.former_names, dataset.history.name) == (["rc_shop_item"], "rc_shop_article_hist")
    assert (tables.known_table("shop", "item"), tables.wanted_table("shop", "article").name) == (None, "article")


def test_a_renamed_column_keeps_its_former_name():
    tables.create_table(sent_table(ID, NAME))
    for _ in range(2):
        source = tables.rename_table_column("shop", "item", "name", "title")
    column = tables.rawcore_of(source).columns.get(name="title")
    assert (column.former_names, tables.target_names(source)) == (["name"], {"id": "id", "title": "title"})


def test_column_renamed_by_a_user_keeps_that_name_if_fivetran_renames_the_source_column():
    source = tables.create_table(sent_table(ID, NAME))
    column = tables.rawcore_of(source).columns.get(name="name")
    rename_column(column=column, name="label", expected_version=column.version)
    assert tables.target_names(source)["name"] == "label"
    source = tables.rename_table_column("shop", "item", "name", "title")
    assert tables.target_names(source) == {"id": "id", "title": "label"}


def test_repeated_add_column_adds_the_column_once():
    tables.create_table(sent_table(ID))
    for _ in range(2):
        source = tables.add_column("shop", "item", NAME)
    assert tables.target_names(source) == {"id": "id", "name": "name"}


def test_copies_of_columns_and_tables_are_classified_as_the_original_is():
    source = tables.create_table(sent_table(ID, NAME))
    column = tables.rawcore_of(source).columns.get(name="name")
    update_target_column(column=column, expected_version=column.version, pii=True, sensitivity="restricted")
    tables.copy_column("shop", "item", "name", "label")
    original = tables.wanted_table("shop", "item")
    copy = tables.copy_table(original, replace(tables.described_table(original), name="other"))
    rows = tables.rawcore_of(copy).columns.filter(name__in=["id", "name", "label"])
    assert {row.name: (row.pii, row.sensitivity) for row in rows} == {
        "id": (False, ""),
        "name": (True, "restricted"),
        "label": (True, "restricted"),
    }


@pytest.mark.parametrize("layer", ["raw", "stage", "rawcore"])
def test_table_that_was_created_before_its_copy_is_classified_too(layer):
    """Check the order in which the creator of the table could otherwise read the copied values."""
    source = tables.create_table(sent_table(ID, NAME))
    key = stable_keys.generated_column_key(layer, source.columns.get(name="name").key)
    column = TargetColumn.objects.get(key=key)
    update_target_column(column=column, expected_version=column.version, pii=True, sensitivity="restricted")
    table = replace(tables.described_table(source), name="other")
    created = tables.create_table(table)
    copy = tables.copy_table(source, table)
    assert copy.pk == created.pk
    row = tables.rawcore_of(copy).columns.get(name="name")
    assert (row.pii, row.sensitivity) == (True, "restricted")


def test_copy_does_not_lower_the_classification_of_its_target():
    source = tables.create_table(sent_table(ID, NAME))
    table = replace(tables.described_table(source), name="other")
    column = tables.rawcore_of(tables.create_table(table)).columns.get(name="name")
    update_target_column(column=column, expected_version=column.version, pii=True)
    copy = tables.copy_table(source, table)
    assert tables.rawcore_of(copy).columns.get(name="name").pii


def test_safe_changes_need_no_report():
    pending_changes.refuse_waiting(tables.create_table(sent_table(ID, NAME)))
    assert not ChangeReport.objects.exists()
