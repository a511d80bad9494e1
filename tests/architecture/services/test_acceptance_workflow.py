"""Workflow: resumed scopes, refusals of commands, and protected rows."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from architecture.models import Execution
from architecture.services.executions import resume_execution
from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit
from elevata.accounts.services.tokens import create_token
from elevata.core.errors import MetadataError
from elevata.jobs.services import mark_lost
from metadata.domain.scope import DATASET, SCHEMA, Scope
from metadata.models import TargetDataset
from metadata.services.datasets.targets import create_schema
from metadata.services.lifecycle import rename_dataset
from tests.architecture.executions import needing_approval
from tests.architecture.services.test_reports import rename
from tests.architecture.world import Killed, World
from tests.database.seals import seal_as_written

pytestmark = pytest.mark.django_db


def customer() -> TargetDataset:
    return TargetDataset.objects.get(name="rc_crm_customer")


def rename_customers(world: World) -> Scope:
    with acting_as(world.author):
        rename_dataset(dataset=customer(), name="rc_crm_client", expected_version=customer().version)
    return Scope(DATASET, "rawcore.rc_crm_customer")


def move_to_another_schema(world: World) -> Scope:
    with acting_as(world.author):
        other = create_schema(name="core", layer="rawcore")
    # An import of metadata moves datasets in the same way.
    TargetDataset.objects.filter(name__startswith="rc_crm_customer").update(schema=other)
    seal_as_written()
    return Scope(SCHEMA, "rawcore")


@pytest.mark.parametrize("edit", [rename_customers, move_to_another_schema])
def test_execution_whose_scope_is_renamed_by_its_own_steps_is_resumed(built: World, edit) -> None:
    """Check the resumption, because after the first rename the scope has only its new name."""
    execution = built.queued(edit(built))
    with pytest.raises(Killed):
        built.work(execution, dies_at=1)
    Execution.objects.filter(pk=execution.pk).update(heartbeat_at="2020-01-01T00:00:00Z")
    assert [job.pk for job in mark_lost()] == [execution.pk]
    ended = built.work(resume_execution(execution=execution, user=built.operator))
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    assert built.report().status == "no_changes"


@pytest.mark.parametrize(("command", "code"), [("approve", "OWN_CHANGE"), ("execute", "NOT_PERMITTED")])
def test_refused_command_prints_the_code_of_the_reason(built: World, monkeypatch, command: str, code: str) -> None:
    """Check exit code 2 and the code of the reason, with and without ``--json``."""
    report = needing_approval(built)
    author = report.created_by
    author.groups.add(*built.approver.groups.all())
    monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=author)[1])
    with pytest.raises(CommandExit) as refused:
        call_command(command, str(report.report_id), stdout=StringIO(), stderr=StringIO())
    assert refused.value.returncode == 2
    assert code in str(refused.value)


@pytest.fixture
def sealed(built: World) -> list:
    """Return a record and the approval that it needed."""
    needing_approval(built)
    record = built.executed().record
    return [record, record.execution.report.approvals.get()]


@pytest.mark.parametrize("which", [0, 1], ids=["record", "approval"])
def test_database_refuses_sql_that_changes_a_record_or_an_approval(sealed: list, which: int) -> None:
    row = sealed[which]
    table = row._meta.db_table
    column = ("outcome", "note")[which]
    statements = [f"UPDATE {table} SET {column} = 'x'", f"DELETE FROM {table}"]
    if connection.vendor == "postgresql":
        statements.append(f"TRUNCATE {table} CASCADE")
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    for statement in statements:
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)


@pytest.mark.parametrize("which", [0, 1], ids=["record", "approval"])
def test_no_query_of_the_orm_changes_a_record_or_an_approval(sealed: list, which: int) -> None:
    row = sealed[which]
    field = ("outcome", "note")[which]
    rows = type(row).objects
    for change in (lambda: rows.update(**{field: "x"}), lambda: rows.bulk_update([row], [field])):
        with pytest.raises((MetadataError, IntegrityError)), transaction.atomic():
            change()


@pytest.mark.embedded
def test_report_fingerprint_is_the_same_on_both_databases(built: World) -> None:
    """Check a fixed fingerprint of a stored report; the test runs on SQLite and on PostgreSQL."""
    rename(built, "full_name", "display_name")
    assert built.report().fingerprint == "1aba775c1b3d4ddf94af1ff763ad2bee503497023f9aefd042aa830064797f1d"
