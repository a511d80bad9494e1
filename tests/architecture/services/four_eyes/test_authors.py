"""Authors of changes, who cannot approve them, wherever the edit was made."""

import pytest
from django.contrib.auth.models import User

from architecture.domain.operations import operation_of
from architecture.domain.refusals import Refused
from architecture.models import ChangeReport, Execution, Lease
from architecture.services.approvals import approve
from architecture.services.drift import adopt_as_baseline
from architecture.services.executions import abandon_execution
from architecture.services.leases import Holder, break_lease, take_leases
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.jobs.services import mark_lost
from metadata.domain.scope import DATASET, Scope
from metadata.models import SourceColumn, SourceDataset, TargetDataset, TargetSchema
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import create_schema, create_target_column, create_target_dataset, update_schema
from metadata.services.deletion import delete_column
from metadata.services.exchange.metadata_files import export_metadata, import_metadata
from metadata.services.lifecycle import rename_dataset, retire_column
from metadata.services.references import create_reference
from metadata.services.sources import (
    create_source_column,
    create_source_dataset,
    create_system,
    update_source_column,
    update_system,
)
from tests.architecture.services.test_reports import column, rename
from tests.architecture.world import Killed, World, agree_on_policy, customers, person, remembered_in

pytestmark = pytest.mark.django_db

CUSTOMER = "rawcore.rc_crm_customer"


@pytest.fixture
def eve(built):
    """Return an editor and approver, in an environment that requires an approval of everything."""
    return remembered_in(built, "eve of an environment with four eyes", lambda: eve_with_four_eyes(built))


def eve_with_four_eyes(built: World) -> User:
    need = {"count": 1, "role": "approver"}
    policies = {
        "approvals": {"safe": need, "review": need, "destructive": need},
        "severities": {"DROP_COLUMN": "needs_approval"},
    }
    agree_on_policy(built.environment, policies)
    return person("eve", Role.EDITOR, Role.APPROVER)


def dataset(name: str = "rc_crm_customer") -> TargetDataset:
    return TargetDataset.objects.get(name=name)


def rename_schema(by, new: str, old: str = "rawcore") -> None:
    schema = TargetSchema.objects.get(name=old)
    with acting_as(by):
        update_schema(schema=schema, expected_version=schema.version, name=new)


def assert_refused(report: ChangeReport, user) -> None:
    with pytest.raises(Refused) as refused:
        approve(report=report, user=user)
    assert refused.value.code == "OWN_CHANGE"


# --- schemas -----------------------------------------------------------------------------------


def test_user_who_renamed_a_schema_is_an_author_of_every_dataset_in_it(built, eve):
    customers(built.author, name="rc_crm_order")
    built.executed()
    rename_schema(eve, "core")
    report = built.report()
    assert {operation_of(row).dataset for row in report.document["rows"]} >= {CUSTOMER, "rawcore.rc_crm_order"}
    assert report.authors == ["eve"]
    assert_refused(report, eve)


def test_every_user_who_renamed_a_schema_is_an_author(built, eve):
    rename_schema(eve, "core")
    rename_schema(built.author, "kernel", old="core")
    assert built.report().authors == ["ada", "eve"]


def test_user_whose_schema_rename_was_executed_is_no_longer_an_author(built, eve):
    rename_schema(eve, "core")
    built.executed()
    rename(built, "full_name", "display_name")
    assert built.report().authors == ["ada"]


def test_user_who_renamed_a_schema_before_a_dataset_existed_is_no_author_of_it(built, eve):
    rename_schema(eve, "core")
    with acting_as(built.author):
        order = create_target_dataset(schema=TargetSchema.objects.get(), name="rc_crm_order")
        create_target_column(dataset=order, name="id", type="integer", role="business_key", key_ordinal=1, inputs=[])
    assert built.report(Scope(DATASET, "core.rc_crm_order")).authors == ["ada"]


def test_user_who_renamed_another_schema_is_no_author(built, eve):
    with acting_as(built.author):
        create_schema(name="bizcore", layer="bizcore")
    rename_schema(eve, "marts", old="bizcore")
    rename(built, "full_name", "display_name")
    assert built.report().authors == ["ada"]


def test_authors_of_schemas_that_swap_names_are_kept_apart(built, eve):
    with acting_as(built.author):
        create_schema(name="spare", layer="rawcore")
    rename_schema(built.author, "between")
    rename_schema(eve, "rawcore", old="spare")
    rename_schema(built.author, "spare", old="between")
    assert built.report().authors == ["ada"]


# --- references --------------------------------------------------------------------------------


def create_orders(world: World) -> TargetDataset:
    """Create orders that refer to customers."""
    with acting_as(world.author):
        order = create_target_dataset(schema=dataset().schema, name="rc_crm_order")
        create_target_column(dataset=order, name="id", type="integer", role="business_key", key_ordinal=1, inputs=[])
        buyer = create_target_column(dataset=order, name="buyer", type="integer", inputs=[])
        create_reference(child=order, parent=dataset(), pairs=[(buyer, column("customer_id"))])
    return order


def rename_to(name: str, by, old: str = "rc_crm_customer") -> None:
    with acting_as(by):
        rename_dataset(dataset=dataset(old), name=name, expected_version=dataset(old).version)


def test_user_who_renamed_a_parent_is_an_author_of_the_referring_dataset(built, eve):
    create_orders(built)
    built.executed()
    rename_to("rc_crm_client", eve)
    report = built.report(Scope(DATASET, "rawcore.rc_crm_order", target_only=True))
    assert [row["op"] for row in report.document["rows"]] == ["rename_column"]
    assert report.authors == ["eve"]
    assert_refused(report, eve)


def test_user_who_renamed_a_parent_before_the_reference_is_no_author(built, eve):
    rename_to("rc_crm_client", eve)
    rename_to("rc_crm_customer", eve, old="rc_crm_client")
    create_orders(built)
    assert built.report(Scope(DATASET, "rawcore.rc_crm_order", target_only=True)).authors == ["ada"]


# --- sources -----------------------------------------------------------------------------------


@pytest.fixture
def source(built, eve) -> SourceDataset:
    """Return a source dataset of Ada with built targets."""
    return remembered_in(built, "source of Ada", lambda: build_source(built))


def build_source(built: World) -> SourceDataset:
    with acting_as(built.author):
        system = create_system(name="Airports", short_name="air")
        source = create_source_dataset(system=system, name="airport", location="a.csv")
        create_source_column(source_dataset=source, name="icao", type="string(4)", key_ordinal=1)
        create_source_column(source_dataset=source, name="lid", type="string(3)")
        generate_targets(source_dataset=source)
    built.executed()
    return source


def generate(source: SourceDataset, by) -> None:
    with acting_as(by):
        generate_targets(source_dataset=SourceDataset.objects.get(pk=source.pk))


def test_user_who_changed_a_source_is_an_author_of_targets_generated_by_another_user(built, eve, source):
    lid = SourceColumn.objects.get(name="lid")
    with acting_as(eve):
        update_source_column(source_column=lid, expected_version=lid.version, integrate=False)
    generate(source, built.author)
    report = built.report()
    assert report.authors == ["ada", "eve"]
    assert_refused(report, eve)


def test_user_who_deactivated_a_system_is_an_author_of_the_retired_targets(built, eve, source):
    system = source.system
    with acting_as(eve):
        update_system(system=system, expected_version=system.version, active=False)
    generate(source, built.author)
    assert_refused(built.report(), eve)


@pytest.mark.full
def test_user_who_generates_targets_is_an_author_of_their_changes(built, eve, source):
    with acting_as(built.author):
        create_source_column(source_dataset=source, name="iata", type="string(3)")
    generate(source, eve)
    report = built.report()
    assert {row["column"] for row in report.document["rows"]} == {"iata"}
    assert_refused(report, eve)


def test_user_who_added_another_source_is_no_author(built, eve, source):
    with acting_as(eve):
        create_source_dataset(system=source.system, name="route", location="r.csv")
    rename(built, "full_name", "display_name")
    assert built.report().authors == ["ada"]


# --- other ways to edit ------------------------------------------------------------------------


def test_user_who_imports_metadata_is_the_author_of_all_changes_in_the_files(built, eve, tmp_path):
    export_metadata(tmp_path)
    for file in tmp_path.rglob("*.yaml"):
        file.write_text(file.read_text().replace("string(50)", "string(80)").replace("10,2", "12,2"))
    with acting_as(eve):
        import_metadata(tmp_path)
    report = built.report()
    assert {row["column"] for row in report.document["rows"]} == {"full_name", "balance"}
    assert report.authors == ["eve"]
    assert_refused(report, eve)


def test_user_who_deleted_a_column_is_the_author_of_its_drop(built, eve):
    with acting_as(built.author):
        retire_column(column=column("balance"), expected_version=column("balance").version)
    built.executed()
    with acting_as(eve):
        delete_column(column=column("balance"), expected_version=column("balance").version)
    report = built.report()
    assert ("drop_column", "base") in {(row["op"], row["side"]) for row in report.document["rows"]}
    assert report.authors == ["eve"]
    assert_refused(report, eve)


# --- unexecuted changes ----------------------------------------------------------------------


def test_remaining_changes_of_an_abandoned_execution_keep_their_authors(built, eve):
    rename(built, "balance", "amount")
    rename(built, "full_name", "display_name", by=eve)
    execution = built.queued()
    with pytest.raises(Killed):
        built.work(execution, dies_at=execution.operations.count() / 2)
    Execution.objects.update(heartbeat_at="2020-01-01T00:00:00Z")
    mark_lost()
    abandon_execution(execution=execution, user=built.operator, reason="another way was found")
    left = built.report()
    assert left.document["rows"]
    assert left.authors == ["ada", "eve"]


def test_adopted_baseline_keeps_the_authors_of_earlier_edits(built, eve):
    key = str(dataset().key)
    built.environment.applied_datasets.all().delete()
    rename(built, "full_name", "display_name", by=eve)
    built.warehouse.show()
    arguments = {"user": built.operator, "reason": "it was there before us"}
    adopt_as_baseline(environment=built.environment, dataset_keys=[key], **arguments)
    assert "eve" in built.report().authors


def test_user_who_broke_a_lease_is_no_author(built, eve):
    boss = person("boss", Role.ADMIN)
    rename(built, "full_name", "display_name")
    take_leases(environment=built.environment, dataset_keys=[str(dataset().key)], holder=Holder("load run", "run-1", 1))
    break_lease(lease=Lease.objects.get(dataset_key=dataset().key), user=boss, reason="it hangs")
    assert built.report().authors == ["ada"]
