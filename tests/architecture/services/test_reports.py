"""Change reports from metadata and warehouse: stored once, superseded, outdated."""

from datetime import timedelta
from secrets import token_hex

import pytest
from django.utils import timezone

from architecture.domain.refusals import Refused
from architecture.models import ChangeReport, Observation
from architecture.services.approvals import reject
from architecture.services.change_policy import update_policies
from architecture.services.reports import build_report, is_stale, operations_of, report_document
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.domain.scope import DATASET, SELECTION, Scope, ScopeProblem
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.targets import create_target_column, update_target_column
from metadata.services.lifecycle import rename_column, rename_dataset, retire_column
from tests.architecture.world import agree_on_policy, committed, customers, person

pytestmark = pytest.mark.django_db
DESTRUCTIVE = {"severities": {"DROP_COLUMN": "needs_approval"}}
STRICT = {"severities": {"ADD_COLUMN": "block"}}


def column(name: str) -> TargetColumn:
    return TargetColumn.objects.get(name=name)


def rename(world, old: str, new: str, by=None) -> None:
    with acting_as(by or world.author):
        rename_column(column=column(old), name=new, expected_version=column(old).version)


def ops(report: ChangeReport) -> list[tuple[str, str]]:
    return [(operation.op, operation.side) for operation in operations_of(report)]


def test_report_creates_a_new_dataset_with_its_history(world):
    customers(world.author)
    report = world.report()
    assert (report.status, report.risk, report.destructive) == ("open", "safe", False)
    assert ops(report) == [("create_table", "base"), ("create_table", "history")]
    assert (report.created_by, report.authors) == (world.author, ["ada"])


def test_report_requires_an_observation_of_the_warehouse(world):
    customers(world.author)
    with pytest.raises(Refused) as refused:
        build_report(environment=world.environment)
    assert refused.value.code == "NOT_OBSERVED"


def test_report_observation_time_is_that_of_its_oldest_table(built):
    customers(built.author, "rc_crm_order")
    built.warehouse.show()
    long_ago = timezone.now() - timedelta(days=9)
    Observation.objects.exclude(document__isnull=True).update(observed_at=long_ago)
    committed()
    order = build_report(environment=built.environment, scope=Scope(DATASET, "rawcore.rc_crm_order"))
    everything = build_report(environment=built.environment)
    assert order.observed_at > long_ago
    assert everything.observed_at == long_ago


def test_report_document_has_the_fields_of_the_contract(built):
    rename(built, "full_name", "display_name")
    document = report_document(built.report())
    names = ["format", "fingerprint", "scope", "status", "destructive", "operations", "warnings"]
    assert list(document) == names
    assert document["operations"][0] == {
        "op": "rename_column",
        "dataset": "rawcore.rc_crm_customer",
        "from": "full_name",
        "to": "display_name",
        "decision": "allowed",
        "code": "RENAME_COLUMN",
        "message": document["operations"][0]["message"],
        "destructive": False,
    }


def test_report_after_an_execution_has_no_changes(built):
    rename(built, "full_name", "display_name")
    built.executed()
    report = built.report()
    assert (report.status, operations_of(report)) == ("no_changes", ())


def test_unchanged_report_is_stored_once(built):
    rename(built, "full_name", "display_name")
    assert built.report() == built.report()


def test_a_newer_report_supersedes_the_open_one_of_its_scope(built):
    rename(built, "full_name", "display_name")
    older = built.report()
    rename(built, "balance", "saldo")
    newer = built.report()
    older.refresh_from_db()
    assert (older.status, older.superseded_by) == ("superseded", newer)


@pytest.mark.full
def test_report_of_a_selection_longer_than_a_postgresql_index_entry_is_stored_once(built):
    names = [f"rc_{token_hex(44)}" for _ in range(40)]
    for name in names:
        customers(built.author, name, historize=False)
    selection = Scope(SELECTION, " ".join(f"rawcore.{name}" for name in names))
    older = built.report(selection)
    assert len(operations_of(older)) == 40
    assert built.report(selection) == older


def test_reports_of_other_scopes_stay_open(built):
    rename(built, "full_name", "display_name")
    report = built.report(Scope(DATASET, "rawcore.rc_crm_customer"))
    built.report()
    report.refresh_from_db()
    assert report.status == "open"


def test_rejected_report_is_not_reused(built):
    rename(built, "full_name", "display_name")
    report = built.report()
    reject(report=report, user=built.approver, note="not now")
    assert built.report() != report


def test_report_with_an_unknown_scope_is_refused(built):
    with pytest.raises(ScopeProblem):
        built.report(Scope(DATASET, "rawcore.nothing"))


# --- authors ---------------------------------------------------------------------------------


def test_authors_are_users_who_changed_a_dataset_since_it_was_applied(built):
    eve = person("eve", Role.EDITOR)
    rename(built, "full_name", "display_name", by=eve)
    assert built.report().authors == ["eve"]


def test_every_user_who_changed_a_dataset_is_an_author(built):
    eve = person("eve", Role.EDITOR)
    rename(built, "full_name", "display_name", by=eve)
    rename(built, "balance", "saldo")
    assert built.report().authors == ["ada", "eve"]


def test_user_who_changed_another_dataset_is_no_author(built):
    eve = person("eve", Role.EDITOR)
    with acting_as(eve):
        other = orders()
    rename(built, "full_name", "display_name")
    assert built.report(Scope(DATASET, "rawcore.rc_crm_customer")).authors == ["ada"]
    assert "eve" in built.report(Scope(DATASET, str(other))).authors


def orders() -> TargetDataset:
    from metadata.services.datasets.targets import create_target_dataset

    schema = TargetDataset.objects.get(name="rc_crm_customer").schema
    other = create_target_dataset(schema=schema, name="rc_crm_order")
    create_target_column(dataset=other, name="order_id", type="integer", role="business_key", key_ordinal=1, inputs=[])
    return other


# --- outdated reports -------------------------------------------------------------------------


def test_report_without_later_changes_is_up_to_date(built):
    rename(built, "full_name", "display_name")
    assert is_stale(built.report()) == ""


def test_report_is_outdated_after_a_metadata_edit(built):
    rename(built, "full_name", "display_name")
    report = built.report()
    rename(built, "balance", "saldo")
    assert is_stale(report) == "REPORT_STALE"


def test_report_is_outdated_after_a_table_change(built):
    rename(built, "full_name", "display_name")
    report = built.report()
    key = str(TargetDataset.objects.get(name="rc_crm_customer").key)
    built.warehouse.rename_behind_your_back(key, "balance", "other")
    built.warehouse.show()
    assert is_stale(report) == "TABLE_MOVED"


def test_report_is_outdated_after_a_policy_change(built):
    rename(built, "full_name", "display_name")
    report = built.report()
    agree_on_policy(built.environment, DESTRUCTIVE)
    report.refresh_from_db()
    assert is_stale(ChangeReport.objects.get(pk=report.pk)) == "POLICY_MOVED"


def test_report_is_up_to_date_after_a_load(built):
    rename(built, "full_name", "display_name")
    report = built.report()
    for key in built.warehouse.versions:
        built.warehouse.versions[key] += 7
    built.warehouse.show()
    assert is_stale(report) == ""


# --- policy ----------------------------------------------------------------------------------


def test_a_retired_column_touches_metadata_only(built):
    with acting_as(built.author):
        retire_column(column=column("balance"), expected_version=column("balance").version)
    report = built.report()
    assert {operation.decision for operation in operations_of(report)} == {"metadata_only"}


def test_renamed_dataset_renames_its_history(built):
    dataset = TargetDataset.objects.get(name="rc_crm_customer")
    with acting_as(built.author):
        rename_dataset(dataset=dataset, name="rc_crm_client", expected_version=dataset.version)
    built.executed()
    names = {shape.qualified_name for shape in built.warehouse.shapes.values()}
    assert names == {"rawcore.rc_crm_client", "rawcore.rc_crm_client_hist"}


def test_policy_change_requires_permission_and_is_logged(built):
    from elevata.audit.models import ChangeLogEntry

    root = person("root", Role.ADMIN)
    with pytest.raises(Refused) as refused:
        update_policies(environment=built.environment, policies={}, expected_version=1, user=built.operator)
    assert refused.value.code == "NOT_PERMITTED"
    update_policies(environment=built.environment, policies=STRICT, expected_version=1, user=root)
    entry = ChangeLogEntry.objects.get(subject_kind="policy")
    assert (entry.actor, "ADD_COLUMN" in entry.changes) == ("root", True)


def test_concurrent_policy_change_with_an_old_version_is_refused(built):
    root = person("root", Role.ADMIN)
    update_policies(environment=built.environment, policies=STRICT, expected_version=1, user=root)
    with pytest.raises(Refused) as refused:
        update_policies(environment=built.environment, policies={}, expected_version=1, user=root)
    assert refused.value.code == "POLICY_CHANGED"


# --- what is blocked ---------------------------------------------------------------------------


@pytest.fixture
def partly_blocked(built):
    """Return a world in which Bob retypes a column of the customers, which is blocked, and Ada describes orders."""
    bob = person("bob", Role.APPROVER, Role.EDITOR)
    with acting_as(bob):
        update_target_column(column=column("balance"), expected_version=column("balance").version, type="integer")
    customers(built.author, "rc_crm_order")
    return built


WITHOUT_BLOCKED = Scope(without_blocked=True)


def test_report_leaves_out_blocked_datasets_and_names_them_with_reason_and_author(partly_blocked):
    assert partly_blocked.report().status == "blocked"
    report = partly_blocked.report(WITHOUT_BLOCKED)
    changed = {operation.dataset for operation in operations_of(report)}
    assert (report.status, changed) == ("open", {"rawcore.rc_crm_order", "rawcore.rc_crm_order_hist"})
    (warning, *_) = report.document["warnings"]
    assert (warning["code"], warning["dataset"]) == ("LEFT_OUT", "rawcore.rc_crm_customer")
    assert "is blocked (RETYPE_COLUMN)" in warning["message"]
    assert warning["message"].endswith("Changed by bob")
    assert report.authors == ["ada"]


def test_report_without_blocked_datasets_is_executed_and_stays_up_to_date(partly_blocked):
    report = partly_blocked.report(WITHOUT_BLOCKED)
    assert is_stale(report) == ""
    assert partly_blocked.executed(WITHOUT_BLOCKED).report == report
    assert partly_blocked.report(WITHOUT_BLOCKED).status == "no_changes"


def test_report_without_blocked_datasets_supersedes_the_last_one_that_left_out_others(partly_blocked):
    first = partly_blocked.report(WITHOUT_BLOCKED)
    customers(partly_blocked.author, "rc_crm_item")
    second = partly_blocked.report(WITHOUT_BLOCKED)
    first.refresh_from_db()
    assert (first.status, first.superseded_by) == ("superseded", second)


def test_report_that_leaves_out_nothing_is_that_of_everything(built):
    rename(built, "full_name", "display_name")
    assert built.report(WITHOUT_BLOCKED) == built.report()
