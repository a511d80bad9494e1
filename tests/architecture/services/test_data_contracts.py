"""Contracts in reports: accepted breaks, versions raised by executions, loads that wait, and undo."""

import pytest

from architecture.domain.refusals import Refused
from architecture.models import AppliedDataset, ChangeReport
from architecture.services.approvals import approve
from architecture.services.automatic_changes import pending_changes
from architecture.services.executions import request_execution
from architecture.services.observations import last_observations
from architecture.services.previews import make_preview
from architecture.services.reports import operations_of
from architecture.services.undo import undo_report
from architecture.services.undo_options import offered
from elevata.accounts.actors import acting_as
from elevata.audit.services.chain import sealed_through
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets.targets import create_target_column
from metadata.services.exposures import create_exposure
from metadata.services.lifecycle import retire_dataset
from metadata.services.quality import create_check, retire_check
from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, committed, make_contract_world
from tests.metadata.contracts import the_check, the_mart

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(db) -> World:
    return make_contract_world()


@pytest.fixture
def breaking(world: World) -> ChangeReport:
    rename(world, "amount", "revenue")
    return world.report()


def version() -> str:
    return AppliedDataset.objects.get(qualified_name="mart.sales").state["contract"]["version"]


def execute(world: World, report: ChangeReport) -> None:
    make_preview(report=report, user=world.operator)
    world.work(request_execution(report=report, user=world.operator).execution)


def test_the_first_execution_puts_the_contract_in_force(world: World):
    assert version() == "1.0"
    assert world.report().status == "no_changes"


def test_an_approval_that_does_not_accept_the_break_is_refused_with_the_consumers(world: World, breaking: ChangeReport):
    with pytest.raises(Refused) as refused:
        approve(report=breaking, user=world.approver)
    assert refused.value.code == "CONTRACT_BROKEN"
    assert refused.value.message == "the report breaks the contract of mart.sales, read by dashboard Board (Finance)"


def test_the_approval_names_the_broken_contract_and_its_consumers(world: World, breaking: ChangeReport):
    approval = approve(report=breaking, user=world.approver, contracts_broken=True)
    (broken,) = approval.content()["contracts_broken"]
    assert (broken["dataset"], broken["from"], broken["to"]) == ("mart.sales", "1.0", "2.0")
    assert [consumer["name"] for consumer in broken["consumers"]] == ["Board"]


def test_an_executed_break_raises_the_major_version(world: World, breaking: ChangeReport):
    approve(report=breaking, user=world.approver, contracts_broken=True)
    execute(world, breaking)
    assert version() == "2.0"
    assert world.report().status == "no_changes"


def test_growth_is_executed_without_approval_and_raises_the_minor_version(world: World):
    with acting_as(world.author):
        create_target_column(dataset=the_mart(), name="discount", type="decimal(10,2)", inputs=[])
    world.executed()
    assert version() == "1.1"


def test_approval_that_accepts_a_break_is_refused_if_no_contract_breaks(world: World):
    with acting_as(world.author):
        create_target_column(dataset=the_mart(), name="discount", type="decimal(10,2)", inputs=[])
    with pytest.raises(Refused) as refused:
        approve(report=world.report(), user=world.approver, contracts_broken=True)
    assert refused.value.code == "NO_CONTRACT_BROKEN"


def test_consumer_added_after_a_report_outdates_it(world: World, breaking: ChangeReport):
    with acting_as(world.author):
        create_exposure(dataset=the_mart(), name="Notebook", kind="notebook", owner="Ada", link="n.ipynb")
    with pytest.raises(Refused) as refused:
        approve(report=breaking, user=world.approver, contracts_broken=True)
    assert refused.value.code == "REPORT_STALE"


def test_a_removed_check_breaks_the_contract(world: World):
    check = the_check()
    with acting_as(world.author):
        retire_check(check=check, expected_version=check.version)
    operations = sorted(
        (operation.op, operation.message.partition(";")[0]) for operation in operations_of(world.report())
    )
    moved = ("change_logic", "the checks that hold rows back moved")  # a check with severity stop also decides rows
    assert operations == [("change_contract", "check amounts is removed"), moved]


def test_a_retired_dataset_withdraws_its_contract(world: World):
    with acting_as(world.author):
        retire_dataset(dataset=the_mart(), expected_version=the_mart().version)
    report = world.report()
    approve(report=report, user=world.approver, contracts_broken=True)
    execute(world, report)
    assert AppliedDataset.objects.get(qualified_name="mart.sales").state["contract"] is None


def test_load_requires_the_decision_on_a_broken_contract(world: World):
    rename(world, "amount", "revenue")
    committed()
    states, observations = dataset_states(), last_observations(environment=world.environment)
    keys = {state.key for state in states}
    pending = pending_changes(
        environment=world.environment, states=states, keys=keys, observations=observations, through=sealed_through()
    )
    assert [line.partition(" (")[0] for line in pending.needing] == ["change_contract mart.sales: 1.0 → 2.0"]


def test_undo_that_restores_a_broken_contract_raises_its_major_version(world: World, breaking: ChangeReport):
    approve(report=breaking, user=world.approver, contracts_broken=True)
    execute(world, breaking)
    record = breaking.executions.get().record
    assert ["rename_column" in group.group.describe() for group in offered(record)] == [True]
    world.warehouse.show()
    undo = undo_report(record=record, user=world.operator)
    approve(report=undo, user=world.approver, contracts_broken=True)
    execute(world, undo)
    assert version() == "3.0"


def test_contract_state_stores_check_arguments_as_lists(world: World):
    with acting_as(world.author):
        create_check(dataset=the_mart(), name="any", kind="not_null", arguments={"columns": "amount"})
    (state,) = (state for state in dataset_states() if state.name == "sales")
    assert [check.arguments for check in state.contract.checks if check.name == "any"] == [{"columns": ["amount"]}]
