"""Properties of plans: order of operations, names in use, scopes, and invariants of all pairs of states."""

import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from architecture.domain import operations as ops
from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import BASE, HISTORY
from architecture.domain.planning.plan import Planned, plan
from architecture.domain.policy_rules import BLOCK, VIEW_COLUMN
from architecture.domain.report import ChangeReport
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.state_files import ArchitectureState
from metadata.domain.naming import history_name
from metadata.domain.state import DatasetState
from tests.architecture.states import (
    EVERYTHING_ALLOWED,
    carried_out,
    codes,
    column,
    dataset,
    descriptions,
    report,
    state,
)

TYPES = ("string", "string(20)", "string(50)", "integer", "bigint", "decimal(10,2)", "decimal(12,4)", "float", "date")
TYPES += ("timestamp", "boolean", "uuid")
NAMES = ("a", "b", "c", "d", "e")

# Editable fields of a column. Names are drawn freely, so that swaps, chains and reused names occur.
described = st.builds(
    dict,
    type_=st.sampled_from(TYPES),
    nullable=st.booleans(),
    active=st.booleans(),
    expression=st.sampled_from((None, "upper(x)", "x || y")),
    inputs=st.sampled_from(((), ("s1",), ("s1", "s2"))),
    former_names=st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple),
)


@st.composite
def datasets(draw: st.DrawFn, key: str, name: str) -> DatasetState:
    keys = draw(st.lists(st.sampled_from(("c1", "c2", "c3", "c4")), max_size=4, unique=True))
    names = draw(st.permutations(NAMES))
    columns = [column("id", "id", "integer", role="business_key")]
    columns += [column(column_key, called, **draw(described)) for column_key, called in zip(keys, names, strict=False)]
    return dataset(
        key,
        name,
        *columns,
        historize=draw(st.booleans()),
        active=draw(st.integers(0, 4)) > 0,
        materialization="table" if draw(st.integers(0, 5)) else "view",
        filter=draw(st.sampled_from((None, "a > 1"))),
        former_names=draw(st.lists(st.sampled_from(("rc_a", "rc_b")), max_size=1).map(tuple)),
    )


@st.composite
def states(draw: st.DrawFn):
    keys = draw(st.lists(st.sampled_from(("d1", "d2", "d3")), max_size=3, unique=True))
    names = draw(st.permutations(("rc_a", "rc_b", "rc_c")))
    return state(*(draw(datasets(key, name)) for key, name in zip(keys, names, strict=False)))


@pytest.mark.parametrize(("nullable", "warnings"), [(True, []), (False, [("rawcore.rc_a", "z")])])
def test_a_new_column_that_forbids_null_is_added_with_a_warning(nullable: bool, warnings: list) -> None:
    key = column("id", "id", "integer", role="business_key")
    added = column("c1", "z", "integer", nullable=nullable)
    before, after = (dataset("d1", "rc_a", *columns, historize=True) for columns in ((key,), (key, added)))
    change_report = report(state(before), state(after))
    assert [(operation.op, operation.decision) for operation in change_report.operations] == [
        (ops.ADD_COLUMN, "allowed")
    ] * 2
    null_warnings = [
        (warning.dataset, warning.column) for warning in change_report.warnings if warning.code == "NOT_NULL_ADDED"
    ]
    assert null_warnings == warnings


EVERY_PAIR = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@EVERY_PAIR
@given(states(), states())
def test_executed_report_leaves_only_operations_on_tables_set_aside(before, after) -> None:
    first = report(before, after, EVERYTHING_ALLOWED)
    applied = carried_out(before, after, first)
    second = report(applied, after, EVERYTHING_ALLOWED)
    assert {operation.dataset for operation in second.operations} <= skipped_tables(first, after)
    assert descriptions(report(carried_out(applied, after, second), after, EVERYTHING_ALLOWED)) == []


def skipped_tables(first: ChangeReport, after: ArchitectureState) -> set[str]:
    """Return the tables that the first report skipped because of a conflicting former name, with their histories.

    The report warns of them. Once the logic of the dataset is applied, the second report plans them.
    """
    warned = {warning.dataset for warning in first.warnings if warning.code == "DUPLICATE_TABLE"}
    datasets = [dataset for dataset in after.datasets if dataset.qualified_name in warned]
    names = {(dataset.schema, dataset.name) for dataset in datasets}
    names |= {(dataset.schema, name.rpartition(".")[2]) for dataset in datasets for name in dataset.former_names}
    return {f"{schema}.{table}" for schema, name in names for table in (name, history_name(name))}


@EVERY_PAIR
@given(states(), states())
def test_default_policy_blocks_or_asks_approval_for_every_destructive_operation(before, after) -> None:
    for operation in report(before, after).operations:
        assert not operation.destructive or operation.decision in (ops.BLOCKED, ops.NEEDS_APPROVAL)
        # The columns of a view store no data.
        lost = operation.op in (ops.DROP_COLUMN, ops.RETYPE_COLUMN) and operation.code != VIEW_COLUMN
        assert not lost or operation.decision == ops.BLOCKED


@EVERY_PAIR
@given(states(), states())
def test_a_history_never_loses_a_column_by_default(before, after) -> None:
    lost = (ops.DROP_COLUMN, ops.RETYPE_COLUMN, ops.DROP_TABLE)
    assert not [
        operation
        for operation in report(before, after).operations
        if operation.side == HISTORY and operation.op in lost
    ]


@EVERY_PAIR
@given(states(), states())
def test_a_renamed_column_is_neither_dropped_nor_added(before, after) -> None:
    operations = report(before, after, EVERYTHING_ALLOWED).operations
    for operation in operations:
        if operation.op == ops.RENAME_COLUMN:
            others = [
                o.op for o in operations if (o.dataset, o.column_key) == (operation.dataset, operation.column_key)
            ]
            assert ops.DROP_COLUMN not in others
            assert ops.ADD_COLUMN not in others or operation.side == HISTORY


@EVERY_PAIR
@given(states(), states())
def test_renames_of_different_columns_end_at_different_names(before, after) -> None:
    ends = [
        (operation.dataset, operation.to.lower())
        for operation in report(before, after).operations
        if operation.op == ops.RENAME_COLUMN
    ]
    assert len(set(ends)) == len(ends)


@EVERY_PAIR
@given(states(), states(), st.randoms())
def test_report_is_independent_of_the_order_of_datasets(before, after, chance) -> None:
    shuffled = [list(after.datasets), list(before.datasets)]
    for sides in shuffled:
        chance.shuffle(sides)
    assert report(state(*shuffled[1]), state(*shuffled[0])) == report(before, after)


@EVERY_PAIR
@given(states(), states(), st.lists(st.frozensets(st.sampled_from(("d1", "d2", "d3"))) | st.none(), max_size=4))
def test_plan_limited_to_a_scope_equals_the_plan_of_that_scope(before, after, scopes) -> None:
    current = CurrentState.of_state(before)
    planned = Planned.of(current, after.datasets, EVERYTHING_ALLOWED)
    for only in scopes:
        assert planned.within(only) == plan(current, after.datasets, EVERYTHING_ALLOWED, only)


@EVERY_PAIR
@given(states())
def test_report_of_a_state_against_itself_has_no_changes(unchanged) -> None:
    assert report(unchanged, unchanged).status == "no_changes"


# --- order -----------------------------------------------------------------------------------


def test_a_rename_waits_for_the_one_that_frees_its_name() -> None:
    before = dataset("d1", "", column("k1", "a"), column("k2", "b"), column("k3", "c"))
    after = dataset("d1", "", column("k1", "b"), column("k2", "c"), column("k3", "d"))
    assert descriptions(report(state(before), state(after))) == [
        "rename_column rawcore.rc_d1: c → d",
        "rename_column rawcore.rc_d1: b → c",
        "rename_column rawcore.rc_d1: a → b",
    ]


def test_a_column_in_the_way_is_dropped_first_and_any_other_last() -> None:
    before = dataset("d1", "", column("k1", "a"), column("k2", "b"), column("k3", "c"))
    after = dataset("d1", "", column("k1", "b"), column("k4", "new", "date"))
    assert descriptions(report(state(before), state(after), EVERYTHING_ALLOWED)) == [
        "drop_column rawcore.rc_d1: b",
        "rename_column rawcore.rc_d1: a → b",
        "add_column rawcore.rc_d1: new",
        "drop_column rawcore.rc_d1: c",
    ]


def test_base_and_history_change_together() -> None:
    before = dataset("d1", "", column("k1", "a"), historize=True)
    after = dataset("d1", "", column("k1", "b"), column("k2", "n"), historize=True)
    assert [(operation.op, operation.side) for operation in report(state(before), state(after)).operations] == [
        (ops.RENAME_COLUMN, BASE),
        (ops.RENAME_COLUMN, HISTORY),
        (ops.ADD_COLUMN, BASE),
        (ops.ADD_COLUMN, HISTORY),
    ]


def test_input_is_created_before_its_reader() -> None:
    upstream = dataset("d9", "z_first", schema="serving")
    reader = dataset("d1", "a_second", schema="serving", inputs=("d9",))
    change_report = report(state(), state(reader, upstream))
    assert descriptions(change_report) == ["create_table serving.z_first", "create_table serving.a_second"]


def test_reader_is_dropped_before_its_input() -> None:
    upstream = dataset("d9", "z_read", schema="serving")
    reader = dataset("d1", "a_reader", schema="serving", inputs=("d9",))
    change_report = report(state(reader, upstream), state())
    assert descriptions(change_report) == ["drop_table serving.a_reader", "drop_table serving.z_read"]


def test_datasets_that_read_each_other_are_planned() -> None:
    ring = state(dataset("d1", inputs=("d2",)), dataset("d2", inputs=("d1",)))
    assert len(report(state(), ring).operations) == 2


# --- names in use --------------------------------------------------------------------------


def test_operation_that_needs_the_name_of_a_blocked_rename_is_blocked() -> None:
    before = dataset("d1", "", column("k1", "a"), column("k2", "b"), column("k3", "c"))
    after = dataset("d1", "", column("k1", "b"), column("k2", "c"), column("k4", "a", "date"))
    decisions = {
        operation.describe().partition(": ")[2]: operation.code
        for operation in report(state(before), state(after)).operations
    }
    assert decisions == {"c": "DROP_COLUMN", "b → c": "NAME_TAKEN", "a → b": "NAME_TAKEN", "a": "NAME_TAKEN"}


def test_rename_to_a_name_with_an_ambiguous_owner_is_blocked() -> None:
    before = dataset("d1", "", column("k1", "x"), column("k2", "y"), column("k3", "z"))
    after = dataset("d1", "", column("k3", "x"), column("k9", "n", former_names=("x", "y")))
    change_report = report(state(before), state(after))
    assert [(operation.op, operation.code) for operation in change_report.operations] == [
        (ops.RENAME_COLUMN, "NAME_TAKEN")
    ]
    assert list(codes(change_report)) == ["AMBIGUOUS_RENAME"]


def test_a_swap_with_a_dataset_beyond_the_scope_is_blocked() -> None:
    before = CurrentState.of_state(state(dataset("d1", "rc_a"), dataset("d2", "rc_b")))
    after = [dataset("d1", "rc_b"), dataset("d2", "rc_a")]
    (only,) = plan(before, after, PolicySet(), {"d1"}).operations
    assert (only.dataset, only.code) == ("rawcore.rc_a", "NAME_TAKEN")


def test_narrower_scope_omits_blocked_operations_of_other_datasets() -> None:
    before = CurrentState.of_state(state(dataset("d1"), dataset("d2")))
    after = [dataset("d1", "", column("id", "id", "integer", role="business_key"), column("v"), column("n"))]
    assert [operation.op for operation in plan(before, after, PolicySet(), {"d1"}).operations] == [ops.ADD_COLUMN]


# --- identity --------------------------------------------------------------------------------


def test_moved_column_key_is_matched_by_name_until_the_report_is_executed() -> None:
    before, after = (
        state(dataset("d1", "", column("k1", "a"))),
        state(dataset("d1", "", column("n1", "a", "string(60)"))),
    )
    change_report = report(before, after)
    assert [operation.column_key for operation in change_report.operations] == ["n1"]
    assert list(codes(report(carried_out(before, after, change_report), after))) == []


def test_a_blocked_history_policy_keeps_history_columns_retired() -> None:
    before = state(dataset("d1", "", column("k1", "a"), column("k2", "b"), historize=True))
    after = state(dataset("d1", "", column("k1", "a"), historize=True))
    policy = PolicySet.from_json({"severities": {"DROP_HISTORY_COLUMN": BLOCK}}, EVERYTHING_ALLOWED)
    assert [(operation.op, operation.side) for operation in report(before, after, policy).operations] == [
        (ops.RETIRE_COLUMN, HISTORY),
        (ops.DROP_COLUMN, BASE),
    ]


@pytest.mark.parametrize("name", ["select", "n" * 200, "Größe", "a`b", "with space", string.punctuation])
def test_any_column_name_is_planned(name: str) -> None:
    before, after = dataset("d1", "", column("k1", "a")), dataset("d1", "", column("k1", name))
    assert descriptions(report(state(before), state(after))) == [f"rename_column rawcore.rc_d1: a → {name}"]


# --- each operation is possible in order ------------------------------------------------------


def ring(renames: dict[str, str], start: str) -> bool:
    """Return True if a rename is part of a cycle, which needs a temporary name."""
    name = renames[start]
    while name in renames and name != start:
        name = renames[name]
    return name == start


def check_turns(operations, in_use: dict[str, set[str]], rename: str, add: str, drop: str, space) -> None:
    """Check that each operation takes a name that is free by then.

    ``in_use`` are the names by namespace; ``space`` returns the namespace of an operation.
    """
    renames: dict[str, dict[str, str]] = {}
    for operation in operations:
        if operation.op == rename:
            renames.setdefault(space(operation), {})[operation.from_.lower()] = operation.to.lower()
    for operation in operations:
        names = in_use.setdefault(space(operation), set())
        if operation.op == rename:
            start, end = operation.from_.lower(), operation.to.lower()
            names.discard(start)
            assert end not in names or ring(renames[space(operation)], start), operation
            names.add(end)
        elif operation.op == add:
            name = (operation.dataset if add == ops.CREATE_TABLE else operation.column).lower()
            assert name not in names, operation
            names.add(name)
        elif operation.op == drop:
            names.discard((operation.dataset if drop == ops.DROP_TABLE else operation.column).lower())


@EVERY_PAIR
@given(states(), states())
def test_a_column_takes_a_name_only_once_it_is_free(before, after) -> None:
    base = [
        operation
        for operation in report(before, after, EVERYTHING_ALLOWED).operations
        if operation.side == BASE and operation.column_key
    ]
    open_ = [operation for operation in base if operation.decision != ops.BLOCKED]
    retired = {
        (operation.dataset, operation.column.lower()) for operation in open_ if operation.op == ops.RETIRE_COLUMN
    }
    in_use = {
        dataset.qualified_name: {
            column.name.lower()
            for column in dataset.columns
            if column.active and (dataset.qualified_name, column.name.lower()) not in retired
        }
        for dataset in before.datasets
    }
    check_turns(open_, in_use, ops.RENAME_COLUMN, ops.ADD_COLUMN, ops.DROP_COLUMN, lambda operation: operation.dataset)


@EVERY_PAIR
@given(states(), states())
def test_a_table_takes_a_name_only_once_it_is_free(before, after) -> None:
    operations = report(before, after, EVERYTHING_ALLOWED).operations
    base = [operation for operation in operations if operation.side == BASE and operation.code != "MATERIALIZATION"]
    open_ = [operation for operation in base if operation.decision != ops.BLOCKED]
    staying = {dataset.key for dataset in after.datasets if not dataset.active}
    in_use = {
        "": {
            dataset.qualified_name.lower()
            for dataset in before.datasets
            if dataset.active and dataset.key not in staying
        }
    }
    check_turns(open_, in_use, ops.RENAME_TABLE, ops.CREATE_TABLE, ops.DROP_TABLE, lambda operation: "")


# --- views -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("date", "timestamp", "rebuild_table"),
        ("bigint", "integer", "retype_column"),
        ("integer", "bigint", "widen_column"),
    ],
)
def test_any_type_change_of_a_view_column_is_allowed(before, after, expected):
    key = column("id", "id", "integer", role="business_key")
    views = [
        state(dataset("d1", "stg_x", key, column("v", "v", type_), materialization="view")) for type_ in (before, after)
    ]
    done = report(*views)
    (operation,) = done.operations
    assert (operation.op, operation.decision, operation.code) == (expected, ops.ALLOWED, "VIEW_COLUMN")
    assert not done.destructive
    assert report(carried_out(views[0], views[1], done), views[1]).status == "no_changes"


def test_dropped_column_of_a_view_is_allowed():
    key = column("id", "id", "integer", role="business_key")
    before = state(dataset("d1", "stg_x", key, column("v"), materialization="view"))
    done = report(before, state(dataset("d1", "stg_x", key, materialization="view")))
    assert [(operation.op, operation.decision, operation.destructive) for operation in done.operations] == [
        ("drop_column", ops.ALLOWED, False)
    ]


def test_an_executed_change_of_a_select_is_not_planned_again():
    before = state(dataset("d1", "totals", schema="serving", select="SELECT id, v FROM rawcore.a"))
    after = state(
        dataset("d1", "totals", schema="serving", select="SELECT id, v FROM rawcore.b", increment={"by": "v"})
    )
    done = report(before, after)
    assert [operation.code for operation in done.operations] == ["CHANGE_LOGIC"]
    assert report(carried_out(before, after, done), after).status == "no_changes"
