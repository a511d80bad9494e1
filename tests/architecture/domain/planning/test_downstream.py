"""Changes of logic upstream of a history, which need an approval if the history then compares differently."""

from dataclasses import replace

import pytest

from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import ALLOWED, NEEDS_APPROVAL
from metadata.domain.state import DatasetState
from tests.architecture.states import column, dataset, report, state

KEY = {"role": "business_key", "nullable": False}


def stage(**fields) -> DatasetState:
    columns = (
        column("s-id", "id", "integer", **KEY),
        column("s-v", "v", expression="upper(v)"),
        column("s-w", "w", "decimal(10,2)"),
    )
    return dataset("stg", "stg_a", *columns, schema="stage", materialization="view", **fields)


def intermediate(**fields) -> DatasetState:
    """Return a table without a history that reads only ``v``."""
    columns = (
        column("b-id", "id", "integer", inputs=("s-id",), **KEY),
        column("b-v", "v", inputs=("s-v",)),
    )
    return dataset("mid", "rc_mid", *columns, inputs=("stg",), **fields)


def historized(read: str = "mid", of: str = "b", **fields) -> DatasetState:
    columns = (column("h-id", "id", "integer", inputs=(f"{of}-id",), **KEY), column("h-v", "v", inputs=(f"{of}-v",)))
    return dataset("end", "rc_end", *columns, **({"inputs": (read,), "historize": True} | fields))


def with_column(reader: DatasetState, key: str, **changes) -> DatasetState:
    return replace(reader, columns=tuple(replace(c, **changes) if c.key == key else c for c in reader.columns))


def decisions(before: tuple[DatasetState, ...], *changed: DatasetState) -> list[tuple[str, str]]:
    """Return decision and code of each operation of the report that changes these datasets."""
    new = {dataset.key: dataset for dataset in changed}
    after = [new.get(dataset.key, dataset) for dataset in before]
    return [(operation.decision, operation.code) for operation in report(state(*before), state(*after)).operations]


THROUGH = (stage(), intermediate(), historized())
DIRECT = (stage(), historized("stg", of="s"))
DIFFERS = [(NEEDS_APPROVAL, "HISTORY_DIFFERS")]
CHANGES = {
    "an expression of a view": with_column(stage(), "s-v", expression="lower(v)"),
    "the expression of a key": with_column(stage(), "s-id", expression="id + 1"),
    "a filter of a view": replace(stage(), filter="id > 0"),
    "inputs of a view": replace(stage(), inputs=("elsewhere",)),
    "a column cut by a view": with_column(stage(), "s-v", type="string(2)"),
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("before", [THROUGH, DIRECT], ids=["through a table", "directly"])
def test_a_change_that_reaches_a_history_needs_approval(before, changed) -> None:
    assert decisions(before, changed) == DIFFERS


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_change_of_a_retired_view_that_reaches_a_history_needs_approval(changed) -> None:
    retired = (replace(stage(), active=False), *THROUGH[1:])
    assert decisions(retired, replace(changed, active=False)) == DIFFERS
    with_it = decisions(THROUGH, replace(changed, active=False))
    assert sorted(with_it) == [("metadata_only", "METADATA_ONLY"), *DIFFERS]


def test_change_upstream_of_a_history_names_the_history() -> None:
    (operation,) = report(state(*THROUGH), state(CHANGES["a filter of a view"], *THROUGH[1:])).operations
    assert "rawcore.rc_end" in operation.message


@pytest.mark.parametrize(
    "changed",
    [
        with_column(intermediate(), "b-v", expression="lower(v)"),
        replace(intermediate(), filter="id > 0"),
        replace(intermediate(), load_policy={"type": "append"}),
    ],
    ids=["expression", "filter", "load policy"],
)
def test_change_of_an_intermediate_table_that_reaches_a_history_needs_approval(changed) -> None:
    assert decisions(THROUGH, changed) == DIFFERS


def test_change_of_a_column_that_no_history_reads_is_allowed() -> None:
    changed = with_column(stage(), "s-w", expression="w * 2")
    assert decisions(THROUGH, changed) == [(ALLOWED, "CHANGE_LOGIC")]


def test_change_of_logic_without_a_downstream_history_is_allowed() -> None:
    before = (stage(), intermediate(), historized(historize=False))
    for changed in CHANGES.values():
        assert {decision for decision, _ in decisions(before, changed)} == {ALLOWED}


def test_changed_column_in_the_filter_of_an_intermediate_table_needs_approval() -> None:
    before = (stage(), replace(intermediate(), filter="w > 1"), historized())
    assert decisions(before, with_column(stage(), "s-w", expression="w * 2")) == DIFFERS


def test_changed_column_in_an_expression_without_declared_input_needs_approval() -> None:
    hidden = with_column(intermediate(), "b-v", expression="concat(v, w)")
    assert decisions((stage(), hidden, historized()), with_column(stage(), "s-w", expression="1")) == DIFFERS


def test_change_needs_approval_if_column_inputs_between_it_and_a_history_are_unknown() -> None:
    blind = tuple(replace(column, inputs=()) for column in intermediate().columns)
    before = (stage(), replace(intermediate(), columns=blind), historized())
    assert decisions(before, with_column(stage(), "s-w", expression="w * 2")) == DIFFERS


@pytest.mark.parametrize("retired", ["mid", "end"])
def test_change_reaches_a_history_through_a_retired_dataset(retired) -> None:
    before = tuple(replace(dataset, active=dataset.key != retired) for dataset in THROUGH)
    assert decisions(before, CHANGES["a filter of a view"]) == DIFFERS


def test_change_reaches_a_history_through_inputs_that_the_report_removes() -> None:
    away = replace(
        intermediate(), inputs=(), columns=tuple(replace(column, inputs=()) for column in intermediate().columns)
    )
    operations = report(state(*THROUGH), state(CHANGES["a filter of a view"], away, historized())).operations
    assert {(operation.decision, operation.code) for operation in operations} == set(DIFFERS)


def test_change_reaches_a_history_through_a_table_that_reads_another_history() -> None:
    base = dataset("one", "rc_one", historize=False, history_key="one-hist")
    reader = dataset("two", "rc_two", column("t", "id", "integer", **KEY), inputs=("one-hist",), historize=True)
    assert decisions((base, reader), replace(base, filter="id > 0")) == DIFFERS


@pytest.mark.parametrize("choice", [{"track": ["v"]}, {"open_end": "9999-12-31"}, {"views": ["current"]}])
def test_version_policy_of_a_table_without_history_needs_no_approval(choice: dict) -> None:
    assert decisions(THROUGH, replace(intermediate(), history_policy=choice)) == [(ALLOWED, "CHANGE_LOGIC")]


@pytest.mark.parametrize(
    "choice",
    [
        {"rank": ["shop.order", "web.order"]},
        {"input": "delta", "delete_detection": "key_list"},
        {"deletes": "ignore"},
        {"input": "effective", "time": "v", "late": "refuse"},
    ],
)
def test_history_policy_that_decides_table_rows_reaches_the_downstream_history(choice: dict) -> None:
    assert decisions(THROUGH, replace(intermediate(), history_policy=choice)) == DIFFERS


def test_downstream_search_ends_for_datasets_that_read_each_other() -> None:
    first = replace(intermediate(), key="x", name="rc_x", inputs=("y",))
    second = replace(intermediate(), key="y", name="rc_y", inputs=("x",))
    assert decisions((first, second), replace(first, filter="id > 0")) == [(ALLOWED, "CHANGE_LOGIC")]


def test_retired_view_column_needs_no_approval_and_warns_of_its_readers() -> None:
    changed = with_column(stage(), "s-v", active=False)
    assert decisions(THROUGH, changed) == [("metadata_only", "METADATA_ONLY")]
    warnings = report(state(*THROUGH), state(changed, *THROUGH[1:])).warnings
    assert [warning.code for warning in warnings] == ["COLUMN_STILL_READ"]


def test_change_reaches_a_history_through_a_column_matched_by_name() -> None:
    columns = (column("h-id", "id", "integer", inputs=("s-id",), **KEY), column("h-v", "v"))
    reader = dataset("end", "rc_end", *columns, inputs=("stg",), historize=True)
    assert decisions((stage(), reader), CHANGES["an expression of a view"]) == DIFFERS


def test_new_input_of_an_applied_historized_reader_needs_approval() -> None:
    """Check an input that was not part of the approved state of its reader."""
    operations = report(state(historized("stg", of="s")), state(stage(), historized("stg", of="s"))).operations
    assert [(operation.op, operation.decision, operation.code) for operation in operations] == [
        ("create_table", *DIFFERS[0])
    ]


def test_new_dataset_created_with_its_reader_is_allowed() -> None:
    operations = report(state(), state(stage(), historized("stg", of="s"))).operations
    assert {operation.decision for operation in operations} == {ALLOWED}


def test_policy_that_allows_another_materialization_allows_changed_logic_with_it() -> None:
    policy = PolicySet.from_json({"severities": {"MATERIALIZATION": "allow"}})
    changed = replace(CHANGES["a filter of a view"], materialization="table")
    operations = report(state(*DIRECT), state(changed, DIRECT[1]), policy).operations
    assert {(operation.decision, operation.code) for operation in operations} == {(ALLOWED, "MATERIALIZATION")}


# --- models: columns that decide which rows there are ----------------------------------------------


def model(select: str) -> DatasetState:
    """Return a historized model that reads only the key of the intermediate table."""
    columns = (column("m-id", "id", "integer", inputs=("b-id",), **KEY),)
    return dataset("model", "rc_model", *columns, inputs=("mid",), historize=True, select=select)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT id FROM rawcore.rc_mid WHERE v = 'y'",
        "SELECT m.id FROM rawcore.rc_mid m WHERE m.v = 'y'",
        "SELECT id FROM rawcore.rc_mid ORDER BY v LIMIT 5",
        "WITH c AS (SELECT id, v AS kind FROM rawcore.rc_mid) SELECT id FROM c WHERE kind = 'y'",
        "SELECT id FROM rawcore.rc_mid WHERE EXISTS (SELECT 1 FROM rawcore.rc_mid o WHERE o.v = 'y')",
    ],
)
def test_change_of_a_column_that_decides_the_rows_of_a_model_reaches_its_history(select: str) -> None:
    before = (stage(), intermediate(), model(select))
    assert decisions(before, with_column(intermediate(), "b-v", expression="lower(v)")) == DIFFERS
    assert decisions(before, CHANGES["an expression of a view"]) == DIFFERS


def test_change_of_a_column_that_a_model_does_not_name_is_allowed() -> None:
    before = (stage(), intermediate(), model("SELECT id FROM rawcore.rc_mid WHERE id > 3"))
    assert decisions(before, with_column(intermediate(), "b-v", expression="lower(v)")) == [(ALLOWED, "CHANGE_LOGIC")]
