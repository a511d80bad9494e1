"""Checks whether reports are up to date: cost, cache for all users, and stored findings."""

import json
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client

from architecture.models import ChangeReport
from architecture.selectors import outdated_reports
from architecture.services.approvals import approve
from architecture.services.change_policy import update_policies
from architecture.services.drift import adopt_as_baseline
from architecture.services.outdated import check_reports
from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit
from elevata.accounts.roles import Role
from metadata.models import TargetColumn
from metadata.services.lifecycle import rename_column
from tests.architecture.world import World, make_built_world, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return make_built_world()


@pytest.fixture
def report(world: World) -> ChangeReport:
    """Return an open report of a rename that needs an approval."""
    _policy(world)
    _rename(world, "full_name", "display_name")
    return world.report()


def _rename(world: World, name: str, to: str) -> None:
    column = TargetColumn.objects.get(name=name)
    with acting_as(world.author):
        rename_column(column=column, name=to, expected_version=column.version)


def _policy(world: World) -> None:
    environment = world.environment
    update_policies(
        environment=environment,
        policies={"approvals": {"safe": {"count": environment.policies_version}}},
        expected_version=environment.policies_version,
        user=person("root", Role.ADMIN),
    )


def _observe(world: World) -> None:
    world.warehouse.show()


def _adopt(world: World) -> None:
    key = str(TargetColumn.objects.get(name="balance").dataset.key)
    adopt_as_baseline(environment=world.environment, dataset_keys=[key], user=world.operator, reason="as it is")


MOVES = {
    "an edit of what is described": lambda world: _rename(world, "balance", "amount"),
    "a look at the warehouse": _observe,
    "another policy": _policy,
    "a new baseline": _adopt,
}


@pytest.mark.full
@pytest.mark.parametrize("what", MOVES)
def test_signal_changes_with_edits_observations_policies_and_baselines(world: World, report: ChangeReport, what: str):
    before = outdated_reports.signal(report.environment_id)
    MOVES[what](world)
    assert outdated_reports.signal(report.environment_id) != before


def test_signal_is_unchanged_by_approvals_and_new_users(world: World, report: ChangeReport):
    before = outdated_reports.signal(report.environment_id)
    person("carla", Role.APPROVER)
    approve(report=report, user=world.approver)
    assert outdated_reports.signal(report.environment_id) == before


def test_report_is_checked_once_per_signal(world: World, report: ChangeReport, monkeypatch: pytest.MonkeyPatch):
    checks, is_stale = [], outdated_reports.is_stale

    def count(*arguments: Any) -> str:
        checks.append(arguments)
        return is_stale(*arguments)

    monkeypatch.setattr(outdated_reports, "is_stale", count)
    signal = outdated_reports.signal(report.environment_id)
    assert outdated_reports.known_refusal(report.report_id, signal) is None
    assert outdated_reports.refusal_of(report, signal) == {}
    assert outdated_reports.refusal_of(report, signal) == outdated_reports.known_refusal(report.report_id, signal) == {}
    assert len(checks) == 1
    _rename(world, "balance", "amount")
    assert outdated_reports.refusal_of(report, outdated_reports.signal(report.environment_id))["code"] == "REPORT_STALE"
    assert len(checks) == 2


def test_report_with_a_missing_scope_is_refused_as_unknown_scope(world: World, report: ChangeReport):
    ChangeReport.objects.filter(pk=report.pk).update(scope={"kind": "schema", "name": "nowhere", "target_only": False})
    report.refresh_from_db()
    refusal = outdated_reports.refusal_of(report, outdated_reports.signal(report.environment_id))
    assert refusal["code"] == "unknown_scope"
    assert "there is no schema nowhere" in refusal["message"]


@pytest.fixture
def outdated_approval(world: World, report: ChangeReport) -> ChangeReport:
    """Return an approved report that a later edit made outdated and that no process has checked."""
    approve(report=report, user=world.approver)
    _rename(world, "balance", "amount")
    cache.clear()
    return report


def test_check_metadata_finds_an_outdated_approval_in_a_new_process(outdated_approval: ChangeReport):
    out = StringIO()
    with suppress(CommandExit):  # about other findings
        call_command("check_metadata", "--json", stdout=out)
    findings = json.loads(out.getvalue())["findings"]
    assert [row["code"] for row in findings if row["subject"].startswith("Report")] == ["outdated_approval"]


@pytest.mark.full
def test_health_page_shows_outdated_reports_stored_by_another_process(reader: Client, outdated_approval: ChangeReport):
    check_reports()
    cache.clear()
    assert f"/reports/{outdated_approval.report_id}/" in reader.get("/health/").content.decode()


@pytest.mark.full
def test_report_that_is_up_to_date_again_loses_its_finding(world: World, outdated_approval: ChangeReport):
    assert check_reports() == 1
    _rename(world, "amount", "balance")
    TargetColumn.objects.filter(name="balance").update(former_names=[])
    assert check_reports() == 0
    outdated_approval.refresh_from_db()
    assert outdated_approval.outdated == {}
