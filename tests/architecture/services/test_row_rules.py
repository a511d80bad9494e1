"""Row rules edited by services: reports list them, and users other than their authors approve them."""

from collections.abc import Callable

import pytest
from django.db import transaction

from architecture.domain.refusals import Refused
from architecture.services.approvals import approve
from architecture.services.reports import operations_of
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.services.row_seals import forget
from metadata.domain.scope import DATASET, Scope
from metadata.models import QualityCheck, Reference, SourceDataset, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import create_target_column, create_target_dataset, update_target_dataset
from metadata.services.quality import create_check, delete_check, retire_check, update_check
from metadata.services.references import create_reference, retire_reference, update_reference
from metadata.services.sources import (
    create_source_column,
    create_source_dataset,
    create_system,
    update_source_column,
    update_source_dataset,
    update_system,
)
from tests.architecture.older_states import store_as_older_release
from tests.architecture.world import World, committed, make_world, person
from tests.database.row_cache import remembered
from tests.database.seals import seal_as_written

pytestmark = pytest.mark.django_db

ORDER, LINE = "rawcore.rc_shop_order", "rawcore.rc_shop_line"


@pytest.fixture
def world(db) -> World:
    """Return a world with built orders and order lines, both historized, with a check and a reference."""
    return remembered("orders and lines with rules", orders_and_lines)


def orders_and_lines() -> World:
    world = make_world()
    with acting_as(world.author):
        system = create_system(name="Shop", short_name="shop", kind="jdbc", location="postgresql://reader@db:5432/shop")
        source = create_source_dataset(
            system=system,
            name="order",
            location="public.order",
            format="table",
            historize=True,
            history_policy={"input": "delta"},
            options={"deduplicate": "latest", "order_by": "changed_at"},
        )
        create_source_column(source_dataset=source, name="id", type="integer", key_ordinal=1)
        create_source_column(source_dataset=source, name="amount", type="integer")
        create_source_column(source_dataset=source, name="changed_at", type="timestamp")
        generate_targets(source_dataset=source)
        orders = order()
        create_check(dataset=orders, name="known", kind="not_null", arguments={"columns": ["amount"]}, severity="stop")
        lines = create_target_dataset(schema=orders.schema, name="rc_shop_line", historize=True)
        line_id = {"type": "integer", "role": "business_key", "key_ordinal": 1, "inputs": []}
        create_target_column(dataset=lines, name="id", **line_id)
        order_id = create_target_column(dataset=lines, name="order_id", type="integer", inputs=[])
        create_reference(child=lines, parent=orders, pairs=[(order_id, orders.columns.get(name="id"))])
    world.executed()
    assert world.report().status == "no_changes"
    return world


def order() -> TargetDataset:
    return TargetDataset.objects.select_related("schema").get(name="rc_shop_order")


def of_source(**changes: object) -> Callable[[], object]:
    def change() -> None:
        row = SourceDataset.objects.get()
        options = changes.get("options")
        fields = changes | ({"options": row.options | options} if isinstance(options, dict) else {})
        update_source_dataset(source_dataset=row, expected_version=row.version, **fields)

    return change


def of_source_column(name: str, **changes: object) -> Callable[[], object]:
    def change() -> None:
        row = SourceDataset.objects.get().columns.get(name=name)
        update_source_column(source_column=row, expected_version=row.version, **changes)

    return change


def of_history(**policy: object) -> Callable[[], object]:
    def change() -> None:
        row = order()
        update_target_dataset(
            dataset=row, expected_version=row.version, history_policy={**row.history_policy, **policy}
        )

    return change


def of_check(**changes: object) -> Callable[[], object]:
    return lambda: update_check(check=check(), expected_version=check().version, **changes)


def check() -> QualityCheck:
    return QualityCheck.objects.get()


def new_check(severity: str) -> Callable[[], object]:
    arguments = {"condition": "amount > 0"}
    return lambda: create_check(
        dataset=order(), name="positive", kind="condition", arguments=arguments, severity=severity
    )


def of_reference(rule: str) -> Callable[[], object]:
    def change() -> None:
        row = Reference.objects.get()
        update_reference(reference=row, expected_version=row.version, unknown_parent=rule)

    return change


CHANGES = {
    "a filter of intake": of_source(options={"filter": "amount > 5"}),
    "a query": of_source(options={"query": "SELECT * FROM public.order LIMIT 5"}),
    "deduplication": of_source(options={"deduplicate": "first"}),
    "the order of repeated keys": of_source(options={"order_by": "amount"}),
    "faulty rows": of_source(options={"faulty_rows": "quarantine"}),
    "folded keys": of_source(options={"fold_keys": "upper"}),
    "new columns": of_source(new_columns="ignore"),
    "a watermark": of_source(intake={"watermark": ["changed_at"]}),
    "a window": of_source(intake={"watermark": ["changed_at"], "look_back": "2 days"}),
    "a type of the contract": of_source_column("amount", type="bigint"),
    "a value of the contract that must be there": of_source_column("amount", nullable=False),
    "delete detection": of_history(delete_detection="key_list"),
    "the input of the history": of_history(input="snapshot"),
    "a new check that quarantines": new_check("quarantine"),
    "a new check that stops": new_check("stop"),
    "another severity": of_check(severity="quarantine"),
    "a check that only warns now": of_check(severity="warn"),
    "other arguments of a check": of_check(arguments={"columns": ["id"]}),
    "a retired check": lambda: retire_check(check=check(), expected_version=check().version),
    "a deleted check": lambda: delete_check(check=check(), expected_version=check().version),
    "rows held back for unknown parents": of_reference("quarantine"),
    "ghost rows": of_reference("ghost"),
}


@pytest.mark.takes(seconds=15)
def test_change_of_each_row_rule_of_a_history_needs_approval_by_another_user(world: World) -> None:
    editor = person("eddy", Role.EDITOR, Role.APPROVER)
    faults = {}
    for name, change in CHANGES.items():
        point = transaction.savepoint()
        with acting_as(editor):
            change()
        report = world.report()
        codes = {(operation.decision, operation.code) for operation in operations_of(report)}
        if ("needs_approval", "HISTORY_DIFFERS") not in codes:
            faults[name] = codes
        else:
            with pytest.raises(Refused, match="eddy is an author"):
                approve(report=report, user=editor)
        transaction.savepoint_rollback(point)
    assert faults == {}


def test_rules_not_recorded_by_an_older_release_are_recorded_by_the_next_execution(world: World) -> None:
    of_reference("ghost")()
    world.executed()
    store_as_older_release()
    assert world.report().status == "no_changes"
    with acting_as(world.author):
        dataset = order()
        update_target_dataset(dataset=dataset, expected_version=dataset.version, filter="id > 0")
    assert {operation.message.partition(";")[0] for operation in operations_of(world.report())} == {"the filter moved"}
    world.executed()
    assert world.report().status == "no_changes"
    of_check(severity="warn")()
    messages = [operation.message.partition(";")[0] for operation in operations_of(world.report())]
    assert messages == ["the checks that hold rows back moved"]


def test_a_fractional_limit_of_a_check_is_reported_and_executed(world: World) -> None:
    limits = {"columns": "amount", "minimum": 0.5}
    create_check(dataset=order(), name="limited", kind="range", arguments=limits, severity="stop")
    assert QualityCheck.objects.get(name="limited").arguments == limits
    assert [operation.code for operation in operations_of(world.report())] == ["HISTORY_DIFFERS"]
    world.executed()
    assert world.report().status == "no_changes"


def test_a_check_that_warns_is_no_change(world: World) -> None:
    with acting_as(world.author):
        new_check("warn")()
    assert world.report().status == "no_changes"


@pytest.mark.parametrize("rules", [("ghost",), ("ghost", "null")])
def test_ghost_row_rule_of_a_child_is_in_the_report_of_the_parent(world: World, rules: tuple[str, ...]) -> None:
    editor = person("eddy", Role.EDITOR, Role.APPROVER)
    for rule in rules[:-1]:
        of_reference(rule)()
        world.executed()
    with acting_as(editor):
        of_reference(rules[-1])()
    report = world.report(Scope(DATASET, ORDER, target_only=True))
    (operation,) = operations_of(report)
    assert (operation.dataset, operation.decision, operation.code) == (ORDER, "needs_approval", "HISTORY_DIFFERS")
    assert "add ghost rows" in operation.message
    with pytest.raises(Refused, match="eddy is an author"):
        approve(report=report, user=editor)
    everything = operations_of(world.report())
    assert {operation.dataset for operation in everything} == {ORDER, LINE}


def test_editors_of_a_retired_reference_are_authors_of_the_report_of_the_parent(world: World) -> None:
    editor = person("eddy", Role.EDITOR, Role.APPROVER)
    of_reference("ghost")()
    world.executed()
    row = Reference.objects.get()
    with acting_as(editor):
        retire_reference(reference=row, expected_version=row.version)
    Reference.objects.all().delete()
    forget(Reference, row.pk)
    seal_as_written()
    committed()
    report = world.report(Scope(DATASET, ORDER, target_only=True))
    assert [operation.code for operation in operations_of(report)] == ["HISTORY_DIFFERS"]
    with pytest.raises(Refused, match="eddy is an author"):
        approve(report=report, user=editor)


def test_places_that_sources_are_read_from_are_no_part_of_reports(world: World):
    with acting_as(world.author):
        source = SourceDataset.objects.select_related("system").get()
        update_source_dataset(source_dataset=source, expected_version=source.version, location="public.other")
        update_system(system=source.system, expected_version=source.system.version, location="postgresql://x@db/crm")
    assert world.report().status == "no_changes"
