"""Tests of edits of many rows: preview, one transaction, conflicts, permissions, undo."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user, grant_role
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from metadata.domain.bulk_edits import ADD_TAGS, OWNER, RETIRE, SENSITIVITY
from metadata.models import TargetColumn, TargetDataset
from metadata.services.bulk_edits import EditsRefused, apply_edits, edits_of, preview_edits
from metadata.services.bulk_undo import undo_edits
from metadata.services.datasets.targets import create_target_dataset, update_target_column, update_target_dataset
from metadata.services.lifecycle import rename_column, rename_dataset
from tests.factories import TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory
from tests.metadata.applied import apply_state

pytestmark = pytest.mark.django_db


@pytest.fixture
def datasets() -> list[TargetDataset]:
    return [TargetDatasetFactory(name=name) for name in ("rc_one", "rc_two", "rc_three")]


def owners() -> list[str]:
    return list(TargetDataset.objects.order_by("pk").values_list("owner", flat=True))


def last_entry() -> ChangeLogEntry:
    return ChangeLogEntry.objects.latest("pk")


def test_a_preview_writes_nothing(datasets: list[TargetDataset]):
    preview_edits(edits_of(datasets, OWNER, "ops"))
    assert owners() == ["", "", ""]
    assert not ChangeLogEntry.objects.exists()


def test_a_preview_shows_before_and_after(datasets: list[TargetDataset]):
    (edit, *_) = preview_edits(edits_of(datasets, ADD_TAGS, ["finance"]))
    assert [(field.name, field.before, field.after) for field in edit.fields] == [("tags", None, "finance")]


@pytest.mark.parametrize("run", [preview_edits, apply_edits])
def test_bulk_preview_and_edit_lock_datasets_in_primary_key_order(run: Callable, datasets: list[TargetDataset]):
    with CaptureQueriesContext(connection) as queries:
        run(edits_of(reversed(datasets), OWNER, "ops"))
    read = next(query["sql"] for query in queries if query["sql"].startswith("SELECT"))
    assert "ORDER BY 1 ASC" in read


def test_rows_without_a_change_have_a_reason(datasets: list[TargetDataset]):
    assert [edit.reason for edit in preview_edits(edits_of(datasets[:1], OWNER, ""))] == ["Nothing changes."]


def test_bulk_edit_changes_all_rows_with_log_entries_of_one_time(datasets: list[TargetDataset]):
    apply_edits(edits_of(datasets, OWNER, "ops"), "reorganised")
    entries = ChangeLogEntry.objects.all()
    assert owners() == ["ops"] * 3
    assert {(entry.reason, entry.at) for entry in entries} == {("reorganised", entries[0].at)}


def test_bulk_edit_is_refused_if_a_row_changed_since_its_preview(datasets: list[TargetDataset]):
    """Check two edits with a common dataset, both previewed before the first was applied."""
    first, second = edits_of(datasets[:2], OWNER, "first"), edits_of(datasets[1:], OWNER, "second")
    apply_edits(first)
    with pytest.raises(EditsRefused) as refused:
        apply_edits(second)
    assert owners() == ["first", "first", ""]
    assert [edit.reason for edit in refused.value.edits] == ["Was changed by another user since the preview.", ""]


def test_bulk_preview_gives_a_reason_for_rows_the_user_may_not_change(datasets: list[TargetDataset]):
    serving = TargetDatasetFactory(name="sales", schema__name="serving")
    person = ensure_user(name="eve", roles=[])
    grant_role(user=person, role=Role.EDITOR, layer="serving")
    with acting_as(person):
        edits = preview_edits(edits_of([datasets[0], serving], OWNER, "eve"))
    assert [bool(edit.reason) for edit in edits] == [True, False]


def test_a_classification_is_not_lowered_without_permission(datasets: list[TargetDataset]):
    TargetDataset.objects.filter(pk=datasets[0].pk).update(sensitivity="restricted")
    TargetColumnFactory(dataset=datasets[0])
    rows = TargetDataset.objects.order_by("pk").select_related("schema")[:2]
    with acting_as(ensure_user(name="mia", roles=[Role.EDITOR])):
        edits = preview_edits(edits_of(rows, SENSITIVITY, "public"))
    assert [edit.problem.code if edit.problem else "" for edit in edits] == ["not_permitted", ""]


def test_bulk_preview_refuses_to_retire_a_history_without_its_base(rawcore: TargetDataset):
    edits = preview_edits(edits_of([rawcore, rawcore.history], RETIRE, None))
    assert [edit.reason for edit in edits] == ["", "A history is retired with its base dataset."]


# --- undo ------------------------------------------------------------------------------------


def test_undo_restores_all_previous_values(datasets: list[TargetDataset]):
    TargetDataset.objects.filter(pk=datasets[0].pk).update(owner="ann")
    apply_edits(edits_of(TargetDataset.objects.order_by("pk").select_related("schema"), OWNER, "ops"))
    apply_edits(undo_edits(last_entry()))
    assert owners() == ["ann", "", ""]


def test_undo_restores_a_retired_dataset_and_its_history(rawcore: TargetDataset):
    apply_edits(edits_of([rawcore], RETIRE, None))
    apply_edits(undo_edits(last_entry()))
    assert TargetDataset.objects.get(pk=rawcore.pk).active
    assert TargetDataset.objects.get(pk=rawcore.history.pk).active


def test_undo_restores_a_history_with_its_base(rawcore: TargetDataset):
    apply_edits(edits_of([rawcore, rawcore.history], OWNER, "ops"))
    apply_edits(undo_edits(last_entry()))
    assert not TargetDataset.objects.exclude(owner="").exists()


def test_an_undo_can_be_undone(datasets: list[TargetDataset]):
    apply_edits(edits_of(datasets, OWNER, "ops"))
    apply_edits(undo_edits(last_entry()))
    apply_edits(undo_edits(last_entry()))
    assert owners() == ["ops"] * 3


def test_a_value_that_was_changed_since_is_not_undone(datasets: list[TargetDataset]):
    apply_edits(edits_of(datasets, OWNER, "ops"))
    entry, row = last_entry(), TargetDataset.objects.get(pk=datasets[0].pk)
    update_target_dataset(dataset=row, expected_version=row.version, owner="ann")
    with pytest.raises(EditsRefused):
        apply_edits(undo_edits(entry))
    assert owners() == ["ann", "ops", "ops"]


def test_undo_keeps_later_edits_of_other_fields(datasets: list[TargetDataset]):
    apply_edits(edits_of(datasets[:1], OWNER, "ops"))
    entry, row = last_entry(), TargetDataset.objects.get(pk=datasets[0].pk)
    update_target_dataset(dataset=row, expected_version=row.version, description="Kept.")
    apply_edits(undo_edits(entry))
    row.refresh_from_db()
    assert (row.owner, row.description) == ("", "Kept.")


def test_bulk_edit_returns_its_own_log_entry(datasets: list[TargetDataset]):
    """Check the entry of an edit after a newer entry of the same dataset."""
    entry = apply_edits(edits_of(datasets[:1], OWNER, "ops"))
    row = TargetDataset.objects.get(pk=datasets[0].pk)
    update_target_dataset(dataset=row, expected_version=row.version, description="Later.")
    assert entry is not None
    assert "owner" in ChangeLogEntry.objects.get(pk=entry.pk).changes


@pytest.mark.parametrize("run", [preview_edits, apply_edits])
def test_more_rows_than_a_bulk_edit_takes_are_refused(run: Callable, datasets: list[TargetDataset]):
    with pytest.raises(MetadataError, match="at most 500"):
        run(edits_of(datasets[:1] * 501, OWNER, "ops"))


# --- undo of renames, types and expressions --------------------------------------------------


def column(dataset: str, name: str) -> TargetColumn:
    return TargetColumn.objects.get(dataset__name=dataset, name=name)


def change(row: TargetColumn, **changes: object) -> ChangeLogEntry:
    update_target_column(column=row, expected_version=row.version, **changes)
    return last_entry()


def rename(row: TargetColumn, name: str) -> ChangeLogEntry:
    """Rename a column; return the entry of the rename, not of its consequences."""
    rename_column(column=row, name=name, expected_version=row.version)
    return ChangeLogEntry.objects.filter(action="renamed").latest("pk")


def test_the_undo_of_a_rename_removes_the_former_name(rawcore: TargetDataset):
    apply_edits(undo_edits(rename(column("rc_air_airport", "elevation"), "height")))
    assert column("rc_air_airport", "elevation").former_names == []


def test_undo_of_an_executed_rename_keeps_the_new_name_as_a_former_name(rawcore: TargetDataset):
    entry = rename(column("rc_air_airport", "elevation"), "height")
    apply_state(rawcore)
    apply_edits(undo_edits(entry))
    assert column("rc_air_airport", "elevation").former_names == ["height"]
    assert last_entry().action == "renamed"


def test_undo_of_a_rename_is_followed_by_dependent_expressions(stage: TargetDataset):
    change(column("rc_air_airport", "elevation"), expression="elevation * 2")
    entry = rename(column("stg_air_airport", "elevation"), "height")
    assert column("rc_air_airport", "elevation").expression == "`height` * 2"
    apply_edits(undo_edits(entry))
    row = column("rc_air_airport", "elevation")
    assert (row.expression, row.inputs.get().upstream_column.name) == ("elevation * 2", "elevation")


def test_undo_of_a_rename_keeps_a_later_edit_of_an_expression(stage: TargetDataset):
    change(column("rc_air_airport", "elevation"), expression="elevation * 2")
    entry = rename(column("stg_air_airport", "elevation"), "height")
    change(column("rc_air_airport", "elevation"), expression="height * 3")
    apply_edits(undo_edits(entry))
    assert column("rc_air_airport", "elevation").expression == "`elevation` * 3"


def test_the_undo_of_a_dataset_rename_renames_its_history(rawcore: TargetDataset):
    rename_dataset(dataset=rawcore, name="airport", expected_version=rawcore.version)
    apply_edits(undo_edits(last_entry()))
    row = TargetDataset.objects.get(pk=rawcore.pk)
    assert (row.name, row.former_names, row.history.name) == ("rc_air_airport", [], "rc_air_airport_hist")


def test_a_former_name_that_is_taken_refuses_the_undo(rawcore: TargetDataset):
    entry = rename(column("rc_air_airport", "elevation"), "height")
    TargetColumnFactory(dataset=rawcore, name="elevation")
    assert [edit.problem.code for edit in preview_edits(undo_edits(entry)) if edit.problem] == ["name_taken"]


def test_the_undo_of_a_type_change_restores_the_type(rawcore: TargetDataset):
    before = column("rc_air_airport", "elevation").type
    apply_edits(undo_edits(change(column("rc_air_airport", "elevation"), type="decimal(12,4)")))
    assert column("rc_air_airport", "elevation").type == before


def test_the_undo_of_an_expression_restores_what_the_column_reads(rawcore: TargetDataset):
    entry = change(column("rc_air_airport", "elevation"), expression="length(name)")
    assert column("rc_air_airport", "elevation").inputs.get().upstream_column.name == "name"
    apply_edits(undo_edits(entry))
    row = column("rc_air_airport", "elevation")
    assert (row.expression, row.inputs.get().upstream_column.name) == ("", "elevation")


@pytest.fixture
def sums() -> TargetDataset:
    """Return a model that reads one column of a dataset."""
    orders = TargetDatasetFactory(name="orders")
    TargetColumnFactory(dataset=orders, name="amount", data_type="decimal", precision=10, scale=2)
    select = "SELECT amount * 2 AS twice FROM rawcore.orders"
    return create_target_dataset(schema=TargetSchemaFactory(name="bizcore"), name="sums", select=select)


def test_models_follow_the_undo_of_a_type(sums: TargetDataset):
    before = sums.columns.get().type
    apply_edits(undo_edits(change(column("orders", "amount"), type="decimal(30,4)")))
    assert sums.columns.get().type == before


def test_the_undo_of_a_rename_restores_the_text_of_a_select(sums: TargetDataset):
    apply_edits(undo_edits(rename(column("orders", "amount"), "net amount")))
    assert TargetDataset.objects.get(pk=sums.pk).select == sums.select


def test_the_undo_of_a_rename_follows_into_a_select_that_was_edited_since(sums: TargetDataset):
    entry = rename(column("orders", "amount"), "net")
    row = TargetDataset.objects.get(pk=sums.pk)
    select = "SELECT net + 1 AS twice FROM rawcore.orders"
    update_target_dataset(dataset=row, expected_version=row.version, select=select)
    apply_edits(undo_edits(entry))
    assert "amount` + 1" in TargetDataset.objects.get(pk=sums.pk).select


def edit_select(model: TargetDataset, select: str, **changes: object) -> ChangeLogEntry:
    row, last = TargetDataset.objects.get(pk=model.pk), ChangeLogEntry.objects.latest("pk").pk
    update_target_dataset(dataset=row, expected_version=row.version, select=select, **changes)
    return ChangeLogEntry.objects.filter(pk__gt=last).earliest("pk")


def described(model: TargetDataset) -> list[tuple]:
    rows = model.columns.filter(active=True).order_by("ordinal")
    return [(row.name, str(row.type), row.expression, row.key_ordinal) for row in rows]


def test_the_undo_of_a_select_restores_its_columns_inputs_and_key(sums: TargetDataset):
    row = TargetDataset.objects.get(pk=sums.pk)
    update_target_dataset(dataset=row, expected_version=row.version, business_key=["twice"])
    other = TargetDatasetFactory(name="customer")
    TargetColumnFactory(dataset=other, name="number", data_type="bigint", nullable=False)
    before = described(sums)
    select = "SELECT c.number, o.amount FROM rawcore.orders o CROSS JOIN rawcore.customer c"
    entry = edit_select(sums, select, business_key=["number"])
    assert described(sums) != before
    (edit,) = undo_edits(entry)
    assert (edit.name, dict(edit.changes)) == ("bizcore.sums", {"select": sums.select, "business_key": ["twice"]})
    apply_edits([edit])
    row = TargetDataset.objects.get(pk=sums.pk)
    assert (row.select, described(row)) == (sums.select, before)
    assert [str(item.upstream) for item in row.inputs.all()] == ["rawcore.orders"]


def test_the_undo_of_a_select_can_be_undone(sums: TargetDataset):
    entry = edit_select(sums, "SELECT amount * 3 AS twice, amount FROM rawcore.orders")
    changed = described(sums)
    last = ChangeLogEntry.objects.latest("pk").pk
    apply_edits(undo_edits(entry))
    apply_edits(undo_edits(ChangeLogEntry.objects.filter(pk__gt=last).earliest("pk")))
    assert described(sums) == changed


def test_undo_of_a_select_is_followed_by_models_that_read_it(sums: TargetDataset):
    reader = create_target_dataset(
        schema=TargetSchemaFactory(name="serving"), name="reader", select="SELECT twice FROM bizcore.sums"
    )
    before = described(reader)
    entry = edit_select(sums, "SELECT CAST(amount AS string) AS twice FROM rawcore.orders")
    assert described(reader) != before
    (edit,) = undo_edits(entry)
    apply_edits([edit])
    assert described(reader) == before


def test_a_select_that_was_edited_again_is_not_undone(sums: TargetDataset):
    entry = edit_select(sums, "SELECT amount * 3 AS twice FROM rawcore.orders")
    edit_select(sums, "SELECT amount * 4 AS twice FROM rawcore.orders")
    (edit,) = undo_edits(entry)
    assert edit.problem.code == "changed_since"
