"""Proposals to change a source's contract: created, superseded, accepted, dismissed, and accepted by a rule."""

from pathlib import Path

import pytest
from django.utils import timezone

from architecture.models import ChangeReport
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from elevata.jobs.registry import handler_of
from elevata.notifications.models import Notice
from loader.contract.refusals import Refusal
from loader.domain.sources.schema_changes import ObservedColumn
from loader.models import ReadRequest, Schedule, SourceProposal
from loader.schedules.runs import run_now, start_due
from loader.schedules.services import create_schedule
from loader.services.sources.check_requests import request_checks
from loader.services.sources.checks import check_source
from loader.services.sources.observations import observe_schema, settle_proposals
from loader.services.sources.previews import preview_proposal
from loader.services.sources.proposals import accept_proposal, dismiss_proposal, open_changes
from metadata.domain.scope import Scope
from metadata.domain.types import parse
from metadata.models import SourceColumn, SourceDataset, System, TargetColumn
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import (
    create_schema,
    create_target_column,
    create_target_dataset,
    update_target_column,
)
from metadata.services.sources import update_source_column
from tests.architecture.world import World, make_world
from tests.architecture.world import person as someone
from tests.factories import SourceColumnFactory, SourceDatasetFactory

pytestmark = pytest.mark.django_db

HEAD = ("order_no", "customer", "amount")


@pytest.fixture
def orders(shop: System) -> SourceDataset:
    """Return orders with a key, an integer and a decimal, and their targets."""
    source = SourceDatasetFactory(system=shop, name="orders", short_name="orders", location="orders.csv")
    SourceColumnFactory(dataset=source, name="order_no", key_ordinal=1)
    SourceColumnFactory(dataset=source, name="customer", type=parse("integer"))
    SourceColumnFactory(dataset=source, name="amount", type=parse("decimal(18,2)"))
    generate_targets(source_dataset=source)
    return source


@pytest.fixture
def ada() -> object:
    return someone("ada", Role.EDITOR)


def deliver(landing: Path, *rows: str) -> None:
    (landing / "orders.csv").write_text("\n".join(rows) + "\n")


def observed_columns(*columns: str | tuple[str, str]) -> list[ObservedColumn]:
    """Return observed columns: names, or names with declared types."""
    return [
        ObservedColumn(item) if isinstance(item, str) else ObservedColumn(item[0], parse(item[1]), declared=True)
        for item in columns
    ]


def observe(source: SourceDataset, *columns: str | tuple[str, str], **how: object) -> SourceProposal | None:
    return observe_schema(source=source, columns=observed_columns(*columns), **how)


def ids(proposal: SourceProposal) -> list[str]:
    return [change.id for change in proposal.schema_changes]


def contract(source: SourceDataset) -> dict[str, str]:
    return {row.name: str(row.type) for row in SourceColumn.objects.filter(dataset=source, active=True)}


# --- creation ----------------------------------------------------------------------------------


def test_schema_equal_to_the_contract_creates_no_proposal(orders: SourceDataset):
    assert observe(orders, *HEAD) is None


def test_repeated_difference_updates_the_open_proposal(orders: SourceDataset):
    first = observe(orders, *HEAD, ("vip", "boolean"))
    again = observe(orders, *HEAD, ("vip", "boolean"))
    assert (ids(first), first.status, again.pk) == (["new:vip"], "open", first.pk)
    assert again.last_seen_at > first.last_seen_at


def test_another_difference_supersedes_the_open_proposal(orders: SourceDataset):
    first = observe(orders, *HEAD, ("vip", "boolean"))
    second = observe(orders, "order_no", "customer", ("vip", "boolean"))
    first.refresh_from_db()
    assert (first.status, ids(second)) == ("superseded", ["gone:amount", "new:vip"])


def test_source_that_matches_again_supersedes_its_proposal_and_settles_its_notices(orders: SourceDataset, ada: object):
    first = observe(orders, *HEAD, ("vip", "boolean"))
    notice = Notice.objects.get(user=ada)
    assert (notice.event.kind, notice.read_at) == ("source.changed", None)
    assert "vip is new (boolean)" in notice.event.title
    assert observe(orders, *HEAD) is None
    first.refresh_from_db()
    notice.refresh_from_db()
    assert first.status == "superseded"
    assert notice.read_at is not None


def test_dismissed_change_is_proposed_again_only_on_request_or_with_another_change(orders: SourceDataset, ada: object):
    first = observe(orders, *HEAD, ("vip", "boolean"))
    with acting_as(ada):
        dismiss_proposal(proposal=first, reason="not needed")
    first.refresh_from_db()
    assert (first.status, first.decided_by, first.reason) == ("dismissed", ada, "not needed")
    assert observe(orders, *HEAD, ("vip", "boolean")) is None
    assert ids(observe(orders, *HEAD, ("vip", "boolean"), ("age", "integer"))) == ["new:age", "new:vip"]
    assert observe(orders, *HEAD, ("vip", "boolean"), renew=True).status == "open"


def test_observation_without_types_keeps_a_proposed_type_change(orders: SourceDataset):
    wider = observe(orders, "order_no", ("customer", "bigint"), "amount")
    assert observe(orders, *HEAD).pk == wider.pk
    assert observe(orders, "order_no", ("customer", "integer"), "amount") is None


def test_column_missing_from_an_incomplete_observation_is_not_gone(orders: SourceDataset):
    assert observe(orders, "order_no", complete=False) is None


def test_contract_edited_by_a_user_supersedes_the_proposal(orders: SourceDataset, ada: object):
    first = observe(orders, "order_no", ("customer", "bigint"), "amount")
    column = orders.columns.get(name="customer")
    with acting_as(ada):
        update_source_column(source_column=column, expected_version=column.version, type="bigint")
    assert open_changes(first) == ()
    settle_proposals()
    first.refresh_from_db()
    assert first.status == "superseded"


# --- checks ------------------------------------------------------------------------------------


def test_check_compares_the_current_source_with_the_contract(orders: SourceDataset, landing: Path):
    deliver(landing, "order_no,customer,amount", "A1,7,12.50")
    assert check_source(source=orders).as_json()["status"] == "same"
    deliver(landing, "order_no,customer_id,amount,vip", "A1,7,12.50,true")
    result = check_source(source=orders).as_json()
    assert (result["status"], [change["kind"] for change in result["changes"]]) == ("differs", ["renamed", "new"])
    assert result["changes"][0]["former"] == "customer"


def test_a_check_compares_types_by_the_values_of_text(orders: SourceDataset, landing: Path):
    deliver(landing, "order_no,customer,amount", "A1,C7,12.50")
    (change,) = check_source(source=orders).proposal.schema_changes
    assert change.describe() == "customer: integer → string (wider)"


def test_check_of_an_unreadable_source_returns_its_error(orders: SourceDataset, landing: Path):
    (landing / "orders.csv").unlink()
    result = check_source(source=orders).as_json()
    assert (result["status"], result["error"]["code"]) == ("refused", "MISSING_FILE")


# --- acceptance --------------------------------------------------------------------------------


def test_accepting_adds_a_column_to_contract_and_targets(orders: SourceDataset, ada: object):
    proposal = observe(orders, *HEAD, ("vip", "boolean"))
    with acting_as(ada):
        applied = accept_proposal(proposal=proposal, take=["new:vip"])
    proposal.refresh_from_db()
    assert (proposal.status, proposal.accepted, proposal.decided_by) == ("accepted", ["new:vip"], ada)
    assert contract(orders)["vip"] == "boolean"
    assert TargetColumn.objects.filter(name="vip", active=True).count() == 3
    assert [dataset.added for dataset in applied.generation.datasets[:3]] == [
        ["vip string"],
        ["vip boolean"],
        ["vip boolean"],
    ]
    assert ChangeLogEntry.objects.filter(subject_kind="source proposal", action="accepted", actor="ada").exists()


def test_a_rename_keeps_the_columns_of_the_targets(orders: SourceDataset, ada: object):
    proposal = observe(orders, "order_no", "customer_id", "amount")
    before = set(TargetColumn.objects.filter(active=True).values_list("pk", "name"))
    with acting_as(ada):
        accept_proposal(proposal=proposal, take=["renamed:customer>customer_id"])
    assert list(contract(orders)) == ["order_no", "customer_id", "amount"]
    assert set(TargetColumn.objects.filter(active=True).values_list("pk", "name")) == before


def test_split_rename_retires_a_column_and_adds_one(orders: SourceDataset, ada: object):
    proposal = observe(orders, "order_no", ("customer_id", "integer"), "amount")
    rename = "renamed:customer>customer_id"
    with acting_as(ada):
        accept_proposal(proposal=proposal, take=["gone:customer", "new:customer_id"], split=[rename])
    assert list(contract(orders)) == ["order_no", "amount", "customer_id"]
    rawcore = TargetColumn.objects.filter(dataset__name="rc_shop_orders")
    assert set(rawcore.filter(active=True).values_list("name", flat=True)) == {"order_no", "amount", "customer_id"}


def test_gone_and_new_column_are_accepted_as_a_rename(orders: SourceDataset, ada: object):
    proposal = observe(orders, "order_no", ("buyer", "bigint"), "amount", ("vip", "boolean"))
    assert ids(proposal) == ["gone:customer", "new:buyer", "new:vip"]
    before = set(TargetColumn.objects.filter(active=True).values_list("pk", "name"))
    with acting_as(ada):
        applied = accept_proposal(proposal=proposal, take=["renamed:customer>buyer"])
    assert [change.id for change in applied.left] == ["new:vip"]
    assert contract(orders) == {"order_no": "string", "buyer": "bigint", "amount": "decimal(18,2)"}
    assert set(TargetColumn.objects.filter(active=True).values_list("pk", "name")) == before


def test_rename_found_by_values_is_kept_by_a_check_without_values(orders: SourceDataset):
    columns = [*observed_columns("order_no", "amount"), ObservedColumn("buyer", same_as=(("customer", 1841, 1949),))]
    first = observe_schema(source=orders, columns=columns)
    (change,) = first.schema_changes
    assert (change.id, change.score) == ("renamed:customer>buyer", 0.94)
    assert change.describe() == "customer is probably buyer now (1,841 of 1,949 keys have the same value)"
    again = observe(orders, "order_no", "amount", "buyer")
    assert (again.pk, again.schema_changes) == (first.pk, first.schema_changes)


def test_column_cannot_be_renamed_to_two_columns(orders: SourceDataset, ada: object):
    proposal = observe(orders, "order_no", ("buyer", "integer"), "amount", ("vip", "boolean"))
    take = ["renamed:customer>buyer", "renamed:customer>vip"]
    with acting_as(ada), pytest.raises(MetadataError, match="renamed:customer>vip is no open change"):
        accept_proposal(proposal=proposal, take=take)
    assert "customer" in contract(orders)


def test_wider_type_is_applied_to_targets_with_the_former_type(orders: SourceDataset, ada: object):
    own = TargetColumn.objects.get(dataset__name="rc_shop_orders", name="customer")
    assert str(own.type) == "integer"
    proposal = observe(orders, "order_no", ("customer", "bigint"), "amount")
    with acting_as(ada):
        accept_proposal(proposal=proposal, take=["retyped:customer"])
    types = TargetColumn.objects.filter(name="customer").values_list("dataset__schema__layer", "data_type")
    assert dict(types) == {"raw": "string", "stage": "bigint", "rawcore": "bigint"}


def test_target_type_set_by_a_user_is_kept(orders: SourceDataset, ada: object):
    own = TargetColumn.objects.get(dataset__name="rc_shop_orders", name="customer")
    with acting_as(ada):
        update_target_column(column=own, expected_version=own.version, type="decimal(30,0)")
    proposal = observe(orders, "order_no", ("customer", "bigint"), "amount")
    with acting_as(ada):
        applied = accept_proposal(proposal=proposal, take=["retyped:customer"])
    own.refresh_from_db()
    assert str(own.type) == "decimal(30,0)"
    differences = {dataset.name: dataset.differences for dataset in applied.generation.datasets}
    assert differences["rawcore.rc_shop_orders"] == []
    (difference,) = differences["stage.stg_shop_orders"]
    assert (difference.column, difference.stands, difference.proposed) == ("customer", "integer", "bigint")


def test_accepted_proposal_generates_no_targets_for_a_source_without_any(
    orders: SourceDataset, shop: System, ada: object
):
    alone = SourceDatasetFactory(system=shop, name="alone", short_name="alone", location="alone.csv")
    SourceColumnFactory(dataset=alone, name="id", key_ordinal=1)
    proposal = observe(alone, "id", ("vip", "boolean"))
    with acting_as(ada):
        assert accept_proposal(proposal=proposal, take=["new:vip"]).generation is None
    observe(declare(alone, "take"), "id", "vip", ("age", "integer"))
    assert list(contract(alone)) == ["id", "vip", "age"]
    assert not alone.generated.exists()


def test_changes_not_accepted_remain_in_an_open_proposal(orders: SourceDataset, ada: object):
    proposal = observe(orders, "order_no", "customer", ("vip", "boolean"))
    with acting_as(ada):
        accept_proposal(proposal=proposal, take=["new:vip"])
    rest = SourceProposal.objects.get(status="open")
    assert ids(rest) == ["gone:amount"]


def test_dismissed_proposal_cannot_be_accepted(orders: SourceDataset, ada: object):
    proposal = observe(orders, *HEAD, ("vip", "boolean"))
    with acting_as(ada):
        dismiss_proposal(proposal=proposal)
        with pytest.raises(MetadataError) as refused:
            accept_proposal(proposal=proposal, take=["new:vip"])
    assert (refused.value.code, refused.value.status) == ("proposal_closed", 409)
    assert "vip" not in contract(orders)


@pytest.mark.parametrize(("take", "code"), [([], "nothing_chosen"), (["new:vip", "new:x"], "proposal_changed")])
def test_only_open_changes_are_accepted(orders: SourceDataset, ada: object, take: list[str], code: str):
    proposal = observe(orders, *HEAD, ("vip", "boolean"))
    with acting_as(ada), pytest.raises(MetadataError) as refused:
        accept_proposal(proposal=proposal, take=take)
    assert refused.value.code == code
    assert SourceProposal.objects.get().status == "open"


def test_viewer_can_neither_accept_nor_dismiss_a_proposal(orders: SourceDataset):
    proposal = observe(orders, *HEAD, ("vip", "boolean"))
    with acting_as(someone("vera", Role.VIEWER)):
        for decide in (
            lambda: accept_proposal(proposal=proposal, take=["new:vip"]),
            lambda: dismiss_proposal(proposal=proposal),
        ):
            with pytest.raises(MetadataError) as refused:
                decide()
            assert refused.value.code == "not_permitted"
    assert "vip" not in contract(orders)


# --- previews ----------------------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    return make_world()


def test_a_preview_names_targets_readers_and_operations_and_writes_nothing(orders: SourceDataset, world: World):
    rawcore = TargetColumn.objects.get(dataset__name="rc_shop_orders", name="amount")
    with acting_as(world.author):
        schema = create_schema(name="bizcore", layer="bizcore")
        model = create_target_dataset(schema=schema, name="revenue", materialization="view", inputs=[rawcore.dataset])
        create_target_column(
            dataset=model, name="doubled", type="decimal(18,2)", expression="amount * 2", inputs=[rawcore]
        )
    world.executed()
    proposal = observe(orders, "order_no", ("customer", "bigint"), ("vip", "boolean"))
    with acting_as(world.author):
        preview = preview_proposal(proposal=proposal, take=["gone:amount", "new:vip", "retyped:customer"])
    assert {dataset.name: dataset.retired for dataset in preview.datasets}["rawcore.rc_shop_orders"] == ["amount"]
    assert [(reader.dataset.name, reader.what) for reader in preview.dependents] == [("revenue", "column doubled")]
    described = {operation.describe(): operation.decision for operation in preview.operations}
    assert described["add_column rawcore.rc_shop_orders: vip"] == "allowed"
    assert described["widen_column rawcore.rc_shop_orders: customer integer → bigint"] == "allowed"
    assert any(text.startswith("retire_column") for text in described)
    assert contract(orders) == {"order_no": "string", "customer": "integer", "amount": "decimal(18,2)"}
    assert SourceProposal.objects.get().status == "open"


def test_a_warehouse_that_was_never_observed_plans_no_operations(orders: SourceDataset, ada: object):
    proposal = observe(orders, *HEAD, ("vip", "boolean"))
    with acting_as(ada):
        preview = preview_proposal(proposal=proposal, take=["new:vip"])
    assert preview.operations is None
    assert preview.not_planned


def test_acceptance_is_refused_after_a_change_since_the_preview(orders: SourceDataset, ada: object):
    proposal = observe(orders, *HEAD, ("vip", "boolean"))
    with acting_as(ada):
        preview = preview_proposal(proposal=proposal, take=["new:vip"])
        column = TargetColumn.objects.get(dataset__name="rc_shop_orders", name="customer")
        TargetColumn.objects.filter(pk=column.pk).update(data_type="bigint")
        with pytest.raises(MetadataError) as refused:
            accept_proposal(proposal=proposal, take=["new:vip"], previewed=preview.fingerprint)
    assert refused.value.code == "proposal_changed"
    assert "vip" not in contract(orders)


# --- acceptance by a rule ----------------------------------------------------------------------


def declare(source: SourceDataset, rule: str) -> SourceDataset:
    SourceDataset.objects.filter(pk=source.pk).update(new_columns=rule)
    source.refresh_from_db()
    return source


def test_take_rule_adds_new_columns_as_the_system_and_creates_a_report(orders: SourceDataset, world: World):
    world.executed()
    with acting_as(world.operator):
        rest = observe(declare(orders, "take"), "order_no", "customer", ("vip", "boolean"))
    assert ids(rest) == ["gone:amount"]
    accepted = SourceProposal.objects.get(status="accepted")
    assert (accepted.accepted, accepted.decided_by) == (["new:vip"], None)
    assert contract(orders)["vip"] == "boolean"
    entry = ChangeLogEntry.objects.get(subject_kind="source_column", subject_name="shop.orders.vip")
    assert entry.actor == "system"
    report = ChangeReport.objects.latest("pk")
    assert report.scope == {"kind": "dataset", "name": "rawcore.rc_shop_orders", "target_only": False}
    assert any(row["op"] == "add_column" for row in report.document["operations"])
    assert Notice.objects.filter(user=world.author, event__title__contains="were taken into its contract").exists()


def test_take_rule_never_takes_a_probable_rename_or_a_retired_column(orders: SourceDataset, ada: object):
    amount = orders.columns.get(name="amount")
    with acting_as(ada):
        update_source_column(source_column=amount, expected_version=amount.version, active=False)
    proposal = observe(declare(orders, "take"), "order_no", ("customer_id", "integer"), "amount")
    assert ids(proposal) == ["renamed:customer>customer_id", "returning:amount"]
    assert list(contract(orders)) == ["order_no", "customer"]


def test_ignored_new_columns_are_not_proposed_but_gone_ones_are(orders: SourceDataset):
    assert observe(declare(orders, "ignore"), *HEAD, ("vip", "boolean")) is None
    assert ids(observe(orders, "order_no", "customer", ("vip", "boolean"))) == ["gone:amount"]


# --- scheduled checks --------------------------------------------------------------------------


def test_a_schedule_checks_the_sources_of_its_scope(orders: SourceDataset, landing: Path):
    with acting_as(someone("olga", Role.OPERATOR)):
        create_schedule(name="hourly", cron="0 * * * *", kind="check")
    Schedule.objects.update(next_at=timezone.now())
    assert start_due() == []
    (request,) = ReadRequest.objects.filter(kind="source_check")
    assert (request.requester, Schedule.objects.get().outcome) == ("schedule hourly", "started")
    deliver(landing, "order_no,customer,amount,vip", "A1,7,12.50,true")
    done = handler_of("source_check").perform(request.pk, worker="w1", runner=None, stopping=None)
    assert (done.status, done.answer["status"]) == ("succeeded", "differs")
    assert ids(SourceProposal.objects.get()) == ["new:vip"]


def test_a_scheduled_check_of_a_source_that_cannot_be_read_fails_with_its_reason(orders: SourceDataset, landing: Path):
    (landing / "orders.csv").unlink()
    (request,) = request_checks(scope=Scope(), requester="schedule hourly")
    done = handler_of("source_check").perform(request.pk, worker="w1", runner=None, stopping=None)
    assert (done.status, done.error["code"]) == ("failed", "MISSING_FILE")


def test_a_schedule_of_checks_starts_no_load_run(orders: SourceDataset):
    with acting_as(someone("olga", Role.OPERATOR)):
        schedule = create_schedule(name="hourly", cron="0 * * * *", kind="check")
        with pytest.raises(Refusal) as refused:
            run_now(schedule=schedule, user=None)
    assert refused.value.code == "NO_LOAD_RUN"
