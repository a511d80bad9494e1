"""Current state of a warehouse for planning, and its drift from the applied state."""

from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

import pytest

from architecture.domain import operations as ops
from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import BASE, HISTORY
from architecture.domain.report import ChangeReport, build_report
from architecture.domain.states.applied_state import advance
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.dataset_drift import drift
from architecture.domain.states.flat_states import flat
from architecture.domain.tables import ObservedColumn, ObservedTable, tables_of
from metadata.domain.state import ColumnState, DatasetState, ReferenceState
from metadata.domain.types import parse, stored_type
from tests.architecture.states import EVERYTHING_ALLOWED


def key(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def described(name: str, type_: str = "string", **fields) -> ColumnState:
    return ColumnState(key(fields.pop("of", name)), name, type_, **fields)


def customer(*columns: ColumnState, **fields) -> DatasetState:
    fields = {"historize": True, "history_key": key("hist")} | fields
    base = (described("id", "integer", role="business_key"), described("name"))
    schema = fields.pop("schema", "rawcore")
    return DatasetState(key("customer"), schema, schema, fields.pop("name", "rc_customer"), columns or base, **fields)


def as_observed(dataset: DatasetState) -> dict[str, ObservedTable]:
    """Return the observed tables right after they were created."""
    return {
        table.key: ObservedTable(
            table.key,
            table.qualified_name,
            tuple(
                ObservedColumn(column.name, str(stored_type(parse(column.type))), True, column.key)
                for column in table.columns
            ),
            version=3,
        )
        for table in tables_of(dataset)
    }


def with_columns(observed: dict, table: str, change) -> dict:
    current = observed[table]
    return observed | {table: replace(current, columns=tuple(change(list(current.columns))))}


def planned(applied, observed, desired, policy: PolicySet | None = None) -> ChangeReport:
    current = CurrentState.of_warehouse(applied, observed, desired)
    return build_report(current, desired, policy or PolicySet(), environment="dev")


def operations(report: ChangeReport) -> list[tuple[str, str, str]]:
    return [(operation.op, operation.side, operation.column) for operation in report.operations]


CUSTOMER = customer()


def test_warehouse_that_matches_the_applied_state_has_no_changes() -> None:
    assert planned([CUSTOMER], as_observed(CUSTOMER), [CUSTOMER]).status == "no_changes"


def test_types_stored_as_text_have_no_changes() -> None:
    odd = customer(described("id", "uuid", role="business_key"), described("doc", "json"), described("at", "time"))
    assert planned([odd], as_observed(odd), [odd]).status == "no_changes"
    assert planned([], as_observed(odd), [odd]).status == "no_changes"


def test_dataset_without_applied_state_and_tables_is_created() -> None:
    report = planned([], {}, [CUSTOMER])
    assert operations(report) == [(ops.CREATE_TABLE, BASE, ""), (ops.CREATE_TABLE, HISTORY, "")]
    assert report.warnings == ()


def test_table_without_applied_state_is_matched_by_its_properties() -> None:
    wanted = customer(*CUSTOMER.columns, described("email"), filter="id > 1")
    rows = operations(planned([], as_observed(CUSTOMER), [wanted]))
    assert rows == [(ops.ADD_COLUMN, BASE, "email"), (ops.ADD_COLUMN, HISTORY, "email")]


def test_missing_table_is_created_with_a_warning() -> None:
    observed = as_observed(CUSTOMER)
    del observed[CUSTOMER.key]
    report = planned([CUSTOMER], observed, [CUSTOMER])
    assert operations(report) == [(ops.CREATE_TABLE, BASE, "")]
    assert [(warning.code, warning.dataset) for warning in report.warnings] == [
        ("MISSING_TABLE", "rawcore.rc_customer")
    ]


def test_a_dropped_table_counts_as_absent() -> None:
    observed = {name: replace(table, dropped=True) for name, table in as_observed(CUSTOMER).items()}
    report = planned([CUSTOMER], observed, [CUSTOMER])
    assert {op for op, _, _ in operations(report)} == {ops.CREATE_TABLE}


def test_technical_columns_are_renamed_with_base_and_history_table() -> None:
    report = planned([CUSTOMER], as_observed(CUSTOMER), [customer(name="rc_client")])
    renamed = [
        (operation.side, operation.from_, operation.to, operation.code)
        for operation in report.operations
        if operation.op == ops.RENAME_COLUMN
    ]
    assert sorted(renamed) == [
        (BASE, "rc_customer_key", "rc_client_key", "FOLLOWS_TABLE"),
        (HISTORY, "rc_customer_hist_key", "rc_client_hist_key", "FOLLOWS_TABLE"),
        (HISTORY, "rc_customer_key", "rc_client_key", "FOLLOWS_TABLE"),
    ]
    assert report.status == "open"


def test_a_half_finished_rename_is_finished_by_the_next_report() -> None:
    wanted = customer(name="rc_client")
    observed = as_observed(CUSTOMER) | {CUSTOMER.key: as_observed(wanted)[CUSTOMER.key]}
    (rename, *_) = planned([CUSTOMER], as_observed(CUSTOMER), [wanted]).operations
    left = planned([advance(CUSTOMER, rename, wanted)], observed, [wanted])
    assert {operation.side for operation in left.operations} == {HISTORY}


def test_a_history_may_hold_retired_columns_and_wider_types() -> None:
    observed = as_observed(customer(described("id", "integer", role="business_key"), described("name", "string(10)")))
    wanted = customer(described("id", "integer", role="business_key"), described("name", "string(10)"))

    def grown(columns: list) -> list:
        wider = [replace(column, type="string(90)") if column.name == "name" else column for column in columns]
        return [*wider, ObservedColumn("old", "date", True, key("old")), ObservedColumn("older", "date")]

    observed = with_columns(observed, key("hist"), grown)
    assert planned([wanted], observed, [wanted], EVERYTHING_ALLOWED).status == "no_changes"
    assert [entry.status for entry in drift([wanted], observed)] == ["in_sync"]


def test_unknown_column_of_a_base_table_is_a_blocked_drop() -> None:
    observed = with_columns(as_observed(CUSTOMER), CUSTOMER.key, lambda c: [*c, ObservedColumn("extra", "date")])
    report = planned([CUSTOMER], observed, [CUSTOMER])
    assert operations(report) == [(ops.DROP_COLUMN, BASE, "extra")]
    assert report.status == "blocked"


def test_a_column_dropped_by_hand_is_added_again() -> None:
    observed = with_columns(
        as_observed(CUSTOMER), CUSTOMER.key, lambda c: [column for column in c if column.name != "name"]
    )
    assert operations(planned([CUSTOMER], observed, [CUSTOMER])) == [(ops.ADD_COLUMN, BASE, "name")]


def test_column_renamed_by_hand_gets_its_described_name_again() -> None:
    def renamed(columns: list) -> list:
        return [replace(column, name="by_hand") if column.name == "name" else column for column in columns]

    observed = with_columns(as_observed(CUSTOMER), CUSTOMER.key, renamed)
    assert [operation.describe() for operation in planned([CUSTOMER], observed, [CUSTOMER]).operations] == [
        "rename_column rawcore.rc_customer: by_hand → name"
    ]


def test_kept_history_is_resumed() -> None:
    applied, wanted = customer(historize=False), customer(*CUSTOMER.columns, described("email"))
    report = planned([applied], as_observed(CUSTOMER), [wanted])
    assert operations(report) == [
        (ops.UNRETIRE_TABLE, HISTORY, ""),
        (ops.ADD_COLUMN, BASE, "email"),
        (ops.ADD_COLUMN, HISTORY, "email"),
    ]


def test_logic_is_compared_with_what_was_applied() -> None:
    report = planned([CUSTOMER], as_observed(CUSTOMER), [replace(CUSTOMER, filter="id > 1")])
    assert [(operation.op, operation.code) for operation in report.operations] == [
        (ops.CHANGE_LOGIC, "HISTORY_DIFFERS")
    ]


def test_view_is_created_and_compared_by_its_logic_only() -> None:
    view = replace(customer(historize=False, history_key=None), materialization="view")
    assert operations(planned([], {}, [view])) == [(ops.CREATE_TABLE, BASE, "")]
    assert planned([view], {}, [view]).status == "no_changes"
    assert operations(planned([view], {}, [replace(view, filter="id > 1")])) == [(ops.CHANGE_LOGIC, BASE, "")]


REFERENCE = ReferenceState(key("ref"), "rc_country_key", key("country"), ((key("name"), key("code")),))


def test_column_of_a_removed_reference_is_retired_until_the_reference_returns() -> None:
    applied = customer(references=(REFERENCE,))
    observed = as_observed(applied)
    report = planned([applied], observed, [CUSTOMER], EVERYTHING_ALLOWED)
    assert operations(report) == [
        (ops.RETIRE_COLUMN, BASE, "rc_country_key"),
        (ops.RETIRE_COLUMN, HISTORY, "rc_country_key"),
    ]
    reached = applied
    for operation in report.operations:
        reached = advance(reached, operation, CUSTOMER)
    assert planned([reached], observed, [CUSTOMER], EVERYTHING_ALLOWED).status == "no_changes"
    back = planned([reached], observed, [applied], EVERYTHING_ALLOWED)
    assert {op for op, _, _ in operations(back)} == {ops.UNRETIRE_COLUMN}


def test_report_ignores_delta_versions() -> None:
    observed = as_observed(CUSTOMER)
    loaded = {name: replace(table, version=99) for name, table in observed.items()}
    wanted = [replace(CUSTOMER, filter="id > 1")]
    assert planned([CUSTOMER], observed, wanted) == planned([CUSTOMER], loaded, wanted)


def test_a_raw_table_is_planned_like_any_other() -> None:
    raw = customer(
        described("id"), described("name"), schema="raw", historize=False, history_key=None, name="raw_customer"
    )
    wanted = replace(raw, columns=(*raw.columns, described("lid")))
    assert planned([raw], as_observed(raw), [raw]).status == "no_changes"
    assert operations(planned([raw], as_observed(raw), [wanted])) == [(ops.ADD_COLUMN, BASE, "lid")]


# --- drift -----------------------------------------------------------------------------------


def test_drift_of_a_warehouse_never_observed_is_unknown() -> None:
    assert [entry.status for entry in drift([CUSTOMER], None)] == ["unknown"]


def test_drift_of_tables_without_applied_state_is_unknown() -> None:
    entries = drift([], as_observed(CUSTOMER))
    assert [(entry.dataset, entry.status) for entry in entries] == [
        ("rawcore.rc_customer", "unknown"),
        ("rawcore.rc_customer_hist", "unknown"),
    ]


def change_name(columns: list) -> list:
    return [replace(column, name="by_hand") if column.name == "name" else column for column in columns]


def change_type(columns: list) -> list:
    return [replace(column, type="date") if column.name == "name" else column for column in columns]


@pytest.mark.parametrize(
    ("change", "description"),
    [
        (change_name, "rawcore.rc_customer.name: column name, name → by_hand"),
        (change_type, "rawcore.rc_customer.name: column type, string → date"),
        (lambda c: c[:-1], "rawcore.rc_customer.loaded_at: column missing, timestamp → nothing"),
        (lambda c: [*c, ObservedColumn("x", "date")], "rawcore.rc_customer.x: column unexpected, nothing → date"),
    ],
)
def test_drift_describes_the_difference_of_a_column(change, description: str) -> None:
    (entry,) = drift([CUSTOMER], with_columns(as_observed(CUSTOMER), CUSTOMER.key, change))
    assert (entry.status, [difference.describe() for difference in entry.differences]) == ("drifted", [description])


def test_a_lost_table_is_drift() -> None:
    (entry,) = drift([CUSTOMER], {key("hist"): as_observed(CUSTOMER)[key("hist")]})
    assert [difference.what for difference in entry.differences] == ["table_missing"]


def test_missing_retired_column_is_no_drift() -> None:
    retired = customer(*CUSTOMER.columns, described("old", active=False))
    assert [entry.status for entry in drift([flat(retired)], as_observed(CUSTOMER))] == ["in_sync"]


def test_column_replaced_in_a_retired_dataset_keeps_its_applied_key() -> None:
    """Check that the key is kept, because no operation announces the column that took the name."""
    other = described("name", "integer", of="another name")
    retired = customer(described("id", "integer", role="business_key"), other, active=False)
    report = planned([CUSTOMER], as_observed(CUSTOMER), [retired])
    reached = CUSTOMER
    for operation in report.operations:
        reached = advance(reached, operation, retired)
    assert {operation.op for operation in report.operations} == {ops.RETIRE_TABLE}
    assert {column.key for column in reached.columns} == {column.key for column in CUSTOMER.columns}


def test_history_kept_without_its_base_table_is_in_sync() -> None:
    tables = as_observed(CUSTOMER)
    alone = {CUSTOMER.history_key: tables[CUSTOMER.history_key]}
    assert [entry.status for entry in drift([], alone)] == ["in_sync"]
    assert [entry.status for entry in drift([], tables)] == ["unknown", "unknown"]


def test_history_column_shorter_than_its_base_column_is_drift() -> None:
    now = customer(described("id", "integer", role="business_key"), described("name", "uuid"))

    def short(columns: list) -> list:
        return [replace(column, type="string(20)") if column.name == "name" else column for column in columns]

    (entry,) = drift([now], with_columns(as_observed(now), now.history_key, short))
    assert [(difference.what, difference.observed) for difference in entry.differences] == [
        ("column_type", "string(20)")
    ]
