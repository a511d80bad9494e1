"""Commands of the workflow: exit codes, one JSON document, the user of a personal token."""

import json
import re
from io import StringIO
from uuid import UUID

import pytest
from django.core.management import call_command

from architecture.models import ChangeReport
from architecture.services import refreshes
from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit
from elevata.accounts.services.tokens import create_token
from metadata.models import TargetColumn
from metadata.services.datasets.targets import update_target_column
from tests.architecture.executions import needing_approval
from tests.architecture.services.test_drift import change_by_hand
from tests.architecture.services.test_previews import describe_view
from tests.architecture.services.test_reports import rename
from tests.architecture.world import make_contract_world, put_policy_in_force

pytestmark = pytest.mark.django_db


def run(*argv: str) -> tuple[int, dict]:
    """Return the exit code and the JSON document, with code and message of a refusal."""
    out = StringIO()
    try:
        call_command(*argv, "--json", stdout=out, stderr=StringIO())
    except CommandExit as end:
        printed = json.loads(out.getvalue()) if out.getvalue() else {}
        return end.returncode, {"code": end.code, "message": str(end), **printed}
    return 0, json.loads(out.getvalue())


@pytest.fixture
def acting(monkeypatch):
    """Return a function that puts a token of a user into the environment."""

    def act(person) -> None:
        monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=person)[1])

    return act


@pytest.fixture
def observable(built, monkeypatch):
    """Return a world whose refreshes observe its warehouse."""
    monkeypatch.setattr(refreshes, "observe", lambda **_: built.warehouse.show())
    return built


def test_commands_lead_from_plan_over_approval_to_preview(observable, acting):
    needing_approval(observable)
    code, report = run("plan")
    assert (code, report["status"]) == (0, "open")
    acting(observable.approver)
    code, answer = run("approve", report["report"], "--note", "fine")
    assert (code, answer["status"], answer["person"], answer["approvals_missing"]) == (0, "approved", "bob", 0)
    acting(observable.operator)
    code, answer = run("preview", answer["report"])
    assert code == 0
    assert answer["steps"][0]["statement"]
    assert answer["report_fingerprint"] == report["fingerprint"]


def test_commands_leave_out_what_is_blocked_and_withdraw_its_report(observable, acting):
    column = TargetColumn.objects.get(name="balance")
    with acting_as(observable.author):
        update_target_column(column=column, expected_version=column.version, type="integer")
    blocked = run("plan")[1]
    partial = run("plan", "--without-blocked")[1]
    assert (blocked["status"], partial["status"]) == ("blocked", "no_changes")
    assert [warning["code"] for warning in partial["warnings"]] == ["LEFT_OUT"]
    acting(observable.operator)
    assert run("withdraw", blocked["report"], "--note", "not needed")[0] == 2
    acting(observable.approver)
    assert run("withdraw", blocked["report"], "--note", "not needed")[1]["status"] == "withdrawn"


@pytest.mark.parametrize("name", ["report", "fingerprint"])
def test_approve_accepts_the_first_digits_of_a_report_or_fingerprint(observable, acting, name):
    needing_approval(observable)
    report = run("plan")[1]
    acting(observable.approver)
    assert run("approve", report[name][:8])[1]["report"] == report["report"]
    assert run("approve", report[name][:20])[1]["code"] == "ALREADY_DECIDED"


def test_approve_refuses_digits_that_begin_several_reports(observable, acting):
    first = needing_approval(observable)
    other = ChangeReport.objects.get(pk=first.pk)
    other.pk, other.report_id = None, UUID(int=first.report_id.int ^ 1)
    other.save(force_insert=True)
    acting(observable.approver)
    code, answer = run("approve", str(first.report_id)[:8])
    assert (code, answer["code"]) == (2, "AMBIGUOUS_REPORT")


def test_the_preview_prints_the_select_of_a_view(observable, acting):
    describe_view(observable)
    report = str(observable.approved().report_id)
    acting(observable.operator)
    assert [view["name"] for view in run("preview", report)[1]["views"]] == ["serving.customers"]
    out = StringIO()
    call_command("preview", report, stdout=out)
    assert "-- create the view serving.customers\nCREATE VIEW `serving`.`customers` AS\nSELECT" in out.getvalue()


def test_reject_ends_the_report(observable, acting):
    report = needing_approval(observable)
    acting(observable.approver)
    assert run("reject", str(report.report_id))[1]["status"] == "rejected"


@pytest.mark.parametrize("command", ["approve", "reject", "preview", "execute"])
def test_workflow_commands_require_a_user(observable, command):
    report = needing_approval(observable)
    code, answer = run(command, str(report.report_id))
    assert (code, answer["code"]) == (2, "NO_PERSON")


@pytest.mark.parametrize("command", ["preview", "execute"])
def test_preview_and_execute_require_the_execute_permission(observable, acting, command):
    report = needing_approval(observable)
    acting(observable.author)
    code, answer = run(command, str(report.report_id))
    assert (code, answer["code"]) == (2, "NOT_PERMITTED")


def test_approve_refuses_an_unknown_report(observable, acting):
    acting(observable.approver)
    code, answer = run("approve", "12345678")
    assert (code, answer["code"]) == (2, "UNKNOWN_REPORT")


def test_approval_artifact_verifies_only_if_unchanged(observable, acting, tmp_path):
    report, file = needing_approval(observable), tmp_path / "approval.json"
    acting(observable.approver)
    assert run("approve", str(report.report_id), "--artifact", str(file))[0] == 0
    assert run("verify_artifact", str(file))[1]["verified"] is True
    file.write_text(file.read_text().replace('"bob"', '"eve"'))
    code, answer = run("verify_artifact", str(file))
    assert (code, answer["code"]) == (1, "DIGEST")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "other"}'])
def test_verify_artifact_of_another_file_ends_with_4(db, tmp_path, text):
    file = tmp_path / "x.json"
    file.write_text(text)
    assert run("verify_artifact", str(file))[0] == 4


def test_verify_artifact_with_a_repeated_field_ends_with_4(observable, acting, tmp_path):
    """Check that repeated fields are refused, because parsers differ in which of the values they use."""
    report, file = needing_approval(observable), tmp_path / "approval.json"
    acting(observable.approver)
    run("approve", str(report.report_id), "--artifact", str(file))
    file.write_text(file.read_text().replace("{", '{"format": "other",', 1))
    code, answer = run("verify_artifact", str(file))
    assert (code, "format" in answer["message"]) == (4, True)


def test_verify_artifact_of_a_missing_file_ends_with_4(db, tmp_path):
    assert run("verify_artifact", str(tmp_path / "none.json"))[0] == 4


def test_records_lists_records_and_writes_an_artifact_file(observable, tmp_path):
    code, answer = run("records")
    assert (code, len(answer["records"]), answer["records"][0]["findings"]) == (0, 1, [])
    file = tmp_path / "record.json"
    code, record = run("records", answer["records"][0]["record"], "--artifact", str(file))
    assert (code, json.loads(file.read_text())) == (0, record)
    assert run("verify_artifact", str(file))[0] == 0


def test_records_of_an_unknown_record_ends_with_4(observable):
    assert run("records", "nothing")[0] == 4


def test_drift_ends_with_0_in_sync_and_1_drifted(observable, acting):
    assert run("drift")[0] == 0
    change_by_hand(observable)
    code, answer = run("drift")
    assert (code, answer["drifted"]) == (1, 1)
    acting(observable.operator)
    assert run("drift", "--adopt", "rawcore.rc_crm_customer", "--reason", "by hand")[0] == 0


def test_drift_prints_each_dataset_and_ends_with_the_number_of_drifted_ones(observable):
    change_by_hand(observable)
    out = StringIO()
    with pytest.raises(CommandExit, match="1 of 1 dataset drifted"):
        call_command("drift", stdout=out, stderr=StringIO())
    assert "rawcore.rc_crm_customer: drifted" in out.getvalue()
    assert re.search(r"1 dataset, last checked [-0-9]+ [:0-9]+ UTC", out.getvalue())


def test_after_a_failed_refresh_drift_uses_the_last_observations_and_adopts_nothing(observable, acting, monkeypatch):
    def fail(**_: object) -> None:
        raise refreshes.CannotRefresh("no worker is running")

    monkeypatch.setattr(refreshes, "observe", fail)
    acting(observable.operator)
    assert run("drift")[0] == 0
    code, answer = run("drift", "--adopt", "rawcore.rc_crm_customer", "--reason", "by hand")
    assert (code, answer["message"]) == (4, "cannot adopt: the refresh failed: no worker is running")


@pytest.mark.parametrize("option", ["--environment", "--adopt"])
def test_drift_of_an_unknown_environment_or_dataset_ends_with_4(observable, acting, option):
    acting(observable.operator)
    assert run("drift", option, "nothing")[0] == 4


def test_plan_uses_the_last_observation_if_the_refresh_fails(built, monkeypatch):
    def nobody(**_: object) -> None:
        raise refreshes.CannotRefresh("no worker is running")

    rename(built, "full_name", "display_name")
    monkeypatch.setattr(refreshes, "observe", nobody)
    code, report = run("plan")
    assert (code, report["status"]) == (0, "open")


# --- undo --------------------------------------------------------------------------------------


@pytest.fixture
def renamed(observable) -> str:
    """Return the id of the record of an executed rename."""
    rename(observable, "full_name", "display_name")
    return str(observable.executed().record.record_id)


def test_records_prints_the_undo_options_of_a_record(renamed, capsys):
    call_command("records", renamed)
    output = capsys.readouterr().out
    assert "  1  succeeded  rename_column rawcore.rc_crm_customer display_name" in output
    assert "  undo  1 2: rename_column rawcore.rc_crm_customer_hist: display_name → full_name" in output


@pytest.mark.parametrize("chosen", [(), ("--operation", "2"), ("--operation", "1", "--operation", "2")])
def test_undo_creates_a_report_that_can_be_previewed(observable, acting, renamed, chosen):
    acting(observable.operator)
    code, report = run("undo", renamed, *chosen)
    assert (code, report["status"], report["undo"]["operations"]) == (0, "open", [0, 1])
    assert run("preview", report["report"])[0] == 0


def test_undo_changes_the_metadata_back_by_option(observable, acting, renamed):
    acting(observable.author)
    code, report = run("undo", renamed, "--metadata")
    assert (code, report["warnings"]) == (0, [])
    assert TargetColumn.objects.filter(name="full_name").exists()


def test_undo_prints_its_operations_and_warns_of_unchanged_metadata(observable, acting, renamed, capsys):
    acting(observable.operator)
    call_command("undo", renamed)
    output = capsys.readouterr().out
    assert "allowed  rename_column rawcore.rc_crm_customer: display_name → full_name" in output
    assert "METADATA_UNCHANGED" in output


@pytest.mark.parametrize(
    ("arguments", "code"), [(("nothing",), "UNKNOWN_RECORD"), ((None, "--operation", "0"), "UNKNOWN_OPERATION")]
)
def test_undo_of_an_unknown_record_or_operation_ends_with_2(observable, acting, renamed, arguments, code):
    acting(observable.operator)
    ended, answer = run("undo", arguments[0] or renamed, *arguments[1:])
    assert (ended, answer["code"]) == (2, code)


def test_undo_requires_a_user(renamed):
    code, answer = run("undo", renamed)
    assert (code, answer["code"]) == (2, "NO_PERSON")


def test_approve_accepts_lost_readers_by_option(observable, acting):
    put_policy_in_force(observable.environment, {"readers": "open"})
    rename(observable, "full_name", "display_name")
    report = run("plan")[1]["report"]
    acting(observable.approver)
    assert run("approve", report, "--accept-lost-readers")[1]["status"] == "approved"
    acting(observable.operator)
    assert "columnMapping" in run("preview", report)[1]["steps"][0]["statement"]


def test_approve_accepts_a_broken_contract_by_option(db, acting, monkeypatch):
    world = make_contract_world()
    monkeypatch.setattr(refreshes, "observe", lambda **_: world.warehouse.show())
    rename(world, "amount", "revenue")
    report = run("plan")[1]["report"]
    acting(world.approver)
    code, answer = run("approve", report)
    assert (code, answer["code"]) == (2, "CONTRACT_BROKEN")
    assert run("approve", report, "--accept-broken-contracts")[1]["status"] == "approved"
