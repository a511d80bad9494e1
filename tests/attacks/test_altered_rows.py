"""Attacks on logged rows by SQL: each altered row is found and named, and no report or load uses it."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection

from architecture.domain.refusals import Refused
from architecture.models import ExecutionEvent
from architecture.services.automatic_changes import pending_changes
from architecture.services.observations import last_observations
from architecture.services.row_signatures import refuse_altered_metadata
from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit
from elevata.accounts.roles import Role
from elevata.accounts.services.users import create_service_account
from elevata.audit.models import RowSeal
from elevata.audit.services.altered_rows import altered_rows, outdated_rows
from elevata.audit.services.row_seals import seal
from elevata.audit.services.verification import verify_chain
from elevata.core.errors import MetadataError
from elevata.notifications.services import create_webhook
from loader.schedules.services import create_schedule
from metadata.models import QualityCheck, TargetColumn
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets.targets import create_schema, create_target_dataset, update_target_column
from metadata.services.rows.adoption import adopt_rows
from metadata.services.sources import create_system
from tests.architecture.conftest import built, world
from tests.architecture.executions import code_of
from tests.architecture.world import World, committed, person
from tests.elevata.audit.append_only import triggers_lifted
from tests.metadata.contracts import sales_mart

__all__ = ["built", "world"]

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]

FORGED = {
    "UPDATE metadata_targetcolumn SET expression = '2' WHERE name = 'balance'": (
        "metadata_targetcolumn rawcore.rc_crm_customer.balance changed"
    ),
    "UPDATE metadata_targetcolumn SET sensitivity = 'public' WHERE name = 'full_name'": (
        "metadata_targetcolumn rawcore.rc_crm_customer.full_name changed"
    ),
    "UPDATE metadata_targetdataset SET \"select\" = 'SELECT 1 AS day' WHERE name = 'days'": (
        "metadata_targetdataset biz.days changed"
    ),
    "UPDATE metadata_targetdataset SET contract = false WHERE name = 'sales'": (
        "metadata_targetdataset mart.sales changed"
    ),
    "UPDATE metadata_exposure SET link = 'https://example.net/'": "metadata_exposure mart.sales.Board changed",
    "UPDATE metadata_qualitycheck SET severity = 'warn'": "metadata_qualitycheck mart.sales.amounts changed",
    "UPDATE loader_schedule SET cron = '* * * * *'": "loader_schedule nightly changed",
    "UPDATE notifications_webhook SET url = 'https://example.net/'": "notifications_webhook chat changed",
    "UPDATE accounts_serviceaccount SET owner_id = user_id": "accounts_serviceaccount robot of robot changed",
    "UPDATE metadata_targetschema SET name = 'core' WHERE name = 'rawcore'": "metadata_targetschema core changed",
    "DELETE FROM metadata_qualitycheck": "metadata_targetdataset mart.sales parts",
    "INSERT INTO metadata_datasetinput (dataset_id, upstream_id, ordinal, version, created_at, updated_at) SELECT "
    "d.id, u.id, 1, 1, d.created_at, d.updated_at FROM metadata_targetdataset d, metadata_targetdataset u "
    "WHERE d.name = 'sales' AND u.name = 'rc_crm_customer'": "metadata_targetdataset mart.sales parts",
}


def sql(statement: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def altered() -> list[str]:
    return [f"{row.model._meta.db_table} {row.row or ''} {row.problem}" for row in altered_rows()]


@pytest.fixture
def installation(built: World) -> World:
    """Return the built world with a model, a contract, a schedule, a service account and a webhook."""
    with acting_as(built.author):
        sales_mart()
        schema = create_schema(name="biz", layer="bizcore")
        create_target_dataset(schema=schema, name="days", select="SELECT day FROM mart.sales")
    create_schedule(name="nightly", cron="0 3 * * *")
    create_service_account(name="robot", owner=built.operator)
    webhook = {"name": "chat", "url": "https://hooks.example.org/T0", "events": ["load.failed"]}
    create_webhook(**webhook, secret="ELEVATA_WEBHOOK_SECRET_TEAM")
    return built


def test_rows_changed_by_sql_are_found_and_named(installation: World) -> None:
    assert altered() == []
    for statement, expected in FORGED.items():
        sql("SAVEPOINT before_it")
        sql(statement)
        findings = altered()
        sql("ROLLBACK TO SAVEPOINT before_it")
        assert expected in findings, statement
        assert len(findings) <= 2, findings
    assert altered() == []


def test_a_row_inserted_or_removed_with_its_seal_is_found(installation: World) -> None:
    column = TargetColumn.objects.get(name="balance")
    TargetColumn.objects.filter(pk=column.pk).delete()
    RowSeal.objects.filter(table="metadata_targetcolumn", row_id=column.pk).delete()
    assert altered() == ["metadata_targetdataset rawcore.rc_crm_customer parts"]
    column.save(force_insert=True)
    assert altered() == ["metadata_targetcolumn rawcore.rc_crm_customer.balance unsealed"]


def test_report_and_load_refuse_an_altered_row(built: World) -> None:
    sql("UPDATE metadata_targetcolumn SET expression = '2' WHERE name = 'balance'")
    assert code_of(built.report) == "CHANGED_OUTSIDE"
    states = dataset_states()
    load = {"environment": built.environment, "states": states, "keys": {state.key for state in states}}
    observations = last_observations(environment=built.environment)
    assert code_of(pending_changes, **load, observations=observations, through=0) == "CHANGED_OUTSIDE"


def test_edit_of_an_altered_row_leaves_it_detected(built: World) -> None:
    sql("UPDATE metadata_targetcolumn SET expression = '2' WHERE name = 'balance'")
    column = TargetColumn.objects.get(name="balance")
    with acting_as(built.author):
        update_target_column(column=column, expected_version=column.version, description="in euros")
    assert altered() == ["metadata_targetcolumn rawcore.rc_crm_customer.balance changed"]
    assert code_of(built.report) == "CHANGED_OUTSIDE"


def test_an_administrator_who_adopts_altered_rows_is_their_author(built: World) -> None:
    sql("UPDATE metadata_targetcolumn SET expression = '2' WHERE name = 'balance'")
    sql("DELETE FROM metadata_targetcolumn WHERE name = 'full_name'")
    admin = person("mina", Role.ADMIN, Role.APPROVER)
    with acting_as(built.approver), pytest.raises(MetadataError, match="administrator"):
        adopt_rows(reason="repaired at night")
    with acting_as(admin):
        assert len(adopt_rows(reason="repaired at night")) == 4
    assert (altered(), list(outdated_rows())) == ([], [])
    assert "mina" in built.report().authors


def verified() -> str:
    """Return the code with which verify_audit ends; empty if everything is intact."""
    try:
        call_command("verify_audit")
    except CommandExit as end:
        return end.code
    return ""


def test_verify_audit_lists_altered_rows(built: World, capsys: Any) -> None:
    committed()
    assert verified() == ""
    sql("UPDATE metadata_targetcolumn SET expression = '2' WHERE name = 'balance'")
    assert verified() == "rows_altered"
    assert "rawcore.rc_crm_customer.balance): its values were changed outside" in capsys.readouterr().out


def test_row_restored_with_its_former_seal_is_found_only_by_verification(built: World) -> None:
    column = TargetColumn.objects.get(name="balance")
    seals = RowSeal.objects.filter(table="metadata_targetcolumn", row_id=column.pk)
    former = seals.values("digest", "parts", "entry_id", "signature").get()
    with acting_as(built.author):
        update_target_column(column=column, expected_version=column.version, expression="2")
    assert list(outdated_rows()) == []
    sql("UPDATE metadata_targetcolumn SET expression = '' WHERE name = 'balance'")
    seals.update(**former)
    assert altered() == []
    assert [(row.row, row.problem) for row in outdated_rows()] == [(column, "older")]


def test_a_check_removed_with_all_seals_is_found_by_its_entry(installation: World) -> None:
    check = QualityCheck.objects.get()
    QualityCheck.objects.all().delete()
    RowSeal.objects.filter(table="metadata_qualitycheck").delete()
    assert [(row.key, row.problem) for row in outdated_rows()] == [(str(check.key), "removed")]


def test_source_changed_by_sql_is_found_but_not_refused(built: World) -> None:
    with acting_as(built.author):
        system = create_system(name="Air", short_name="air", location="{{ data_dir }}/landing")
    sql("UPDATE metadata_system SET owner = 'nobody'")
    assert [row.row for row in altered_rows()] == [system]
    assert built.report().status == "no_changes"


def test_row_sealed_with_the_audit_key_is_not_detected(built: World) -> None:
    column = TargetColumn.objects.get(name="balance")
    sql("UPDATE metadata_targetcolumn SET expression = '2' WHERE name = 'balance'")
    entry = RowSeal.objects.get(table="metadata_targetcolumn", row_id=column.pk).entry_id
    seal({TargetColumn: {column.pk: None}}, entry)
    assert (altered(), list(outdated_rows())) == ([], [])


def test_rows_of_an_existing_installation_are_sealed_by_its_migration(installation: World) -> None:
    RowSeal.objects.all().delete()
    assert altered()
    import_module("loader.migrations.0004_seal_rows").seal_rows(apps, None)
    assert (altered(), list(outdated_rows())) == ([], [])


def test_rows_sealed_with_an_unlisted_key_are_reported_as_key_unknown(built: World, settings: Any) -> None:
    former, settings.AUDIT_KEY = settings.AUDIT_KEY, "5" * 64
    assert {row.problem for row in altered_rows()} == {"key_unknown"}
    with pytest.raises(Refused, match="a key that is not listed") as caught:
        refuse_altered_metadata()
    assert caught.value.code == "CHANGED_OUTSIDE"
    assert "ELEVATA_AUDIT_KEYS_FORMER" in caught.value.hint
    sql("UPDATE metadata_targetcolumn SET expression = '2' WHERE name = 'balance'")
    assert {row.problem for row in altered_rows()} == {"key_unknown", "changed"}
    settings.AUDIT_KEYS_FORMER = (former,)
    assert altered() == ["metadata_targetcolumn rawcore.rc_crm_customer.balance changed"]


@pytest.mark.parametrize(
    "statement", ["DELETE FROM architecture_executionevent", "UPDATE architecture_executionevent SET message = ''"]
)
def test_changed_or_deleted_execution_log_line_is_found(built: World, statement: str) -> None:
    committed()
    assert ExecutionEvent.objects.exists()
    assert verify_chain(recorded=False).problem is None
    with triggers_lifted([ExecutionEvent]):
        sql(statement)
    problem = verify_chain(recorded=False).problem
    assert problem.code in ("row_missing", "row_changed")
    assert problem.kind == "execution_event"


def test_execution_log_lines_of_an_existing_installation_are_chained_by_its_migration(built: World) -> None:
    committed()
    event = ExecutionEvent.objects.create(execution=ExecutionEvent.objects.first().execution, attempt=1, message="x")
    assert verify_chain(recorded=False).problem.subject == event.pk
    migration = import_module("architecture.migrations.0002_chain_execution_events")
    assert migration.content_of(event) == event.content()
