"""Removed columns that others read: a warning names the readers, the policy decides."""

from dataclasses import replace

from architecture.domain import operations as ops
from architecture.domain.operations import ALLOWED, METADATA_ONLY
from architecture.domain.report import ChangeReport
from metadata.domain.state import DatasetState
from tests.architecture.states import codes, column, dataset, report, state

CUSTOMER = dataset("d1", "rc_customer", column("id", role="business_key"), column("c-city", "city"))


def reader(**fields) -> DatasetState:
    """Return a view over customers with one column."""
    own = column("r-city", "town", **fields.pop("column", {}))
    return dataset("r1", "customers", own, schema="serving", materialization="view", inputs=("d1",), **fields)


def without_city(source: DatasetState, *, retired: bool) -> DatasetState:
    id_column, city = source.columns
    return replace(source, columns=(id_column, replace(city, active=False)) if retired else (id_column,))


def report_without_city(*readers: DatasetState, retired: bool = True, source: DatasetState = CUSTOMER) -> ChangeReport:
    return report(state(source, *readers), state(without_city(source, retired=retired), *readers))


def test_retired_column_warns_with_the_name_of_its_reader() -> None:
    change_report = report_without_city(reader(column={"inputs": ("c-city",)}))
    (warning,) = change_report.warnings
    assert (warning.code, warning.dataset, warning.column) == ("COLUMN_STILL_READ", "rawcore.rc_customer", "city")
    assert "serving.customers.town" in warning.message
    assert "let these read something else" in warning.message


def test_warning_of_readers_leaves_the_decision_of_a_retired_column() -> None:
    (operation,) = report_without_city(reader(column={"inputs": ("c-city",)})).operations
    assert (operation.op, operation.decision) == (ops.RETIRE_COLUMN, METADATA_ONLY)


def test_retired_column_named_in_an_expression_without_inputs_raises_a_warning() -> None:
    (warning,) = report_without_city(reader(column={"expression": "upper(City)"})).warnings
    assert "serving.customers.town" in warning.message


def test_retired_column_named_in_a_filter_raises_a_warning() -> None:
    (warning,) = report_without_city(reader(filter="city <> 'x'")).warnings
    assert "the filter of serving.customers" in warning.message


def test_dropped_view_column_with_a_reader_raises_a_warning() -> None:
    view = replace(CUSTOMER, materialization="view")
    change_report = report_without_city(reader(column={"inputs": ("c-city",)}), retired=False, source=view)
    assert [(operation.op, operation.decision) for operation in change_report.operations] == [
        (ops.DROP_COLUMN, ALLOWED)
    ]
    assert list(codes(change_report)) == ["COLUMN_STILL_READ"]


def test_warning_names_ten_readers_and_counts_the_rest() -> None:
    columns = [column(f"r{n}", f"town{n:02}", inputs=("c-city",)) for n in range(12)]
    many = dataset("r1", "customers", *columns, schema="serving", materialization="view", inputs=("d1",))
    (warning,) = report_without_city(many).warnings
    assert "serving.customers.town09 and 2 more" in warning.message


def test_readers_of_other_columns_and_retired_readers_raise_no_warning() -> None:
    other = reader(column={"inputs": ("id",)}, filter="town > 1")
    retired = replace(reader(column={"inputs": ("c-city",)}), key="r2", name="old", active=False)
    idle = replace(reader(column={"inputs": ("c-city",), "active": False}), key="r3", name="idle")
    assert list(codes(report_without_city(other, retired, idle))) == []


def test_reader_changed_in_the_same_report_raises_no_warning() -> None:
    before, after = reader(column={"inputs": ("c-city",)}), reader(column={"inputs": ("id",)})
    change_report = report(state(CUSTOMER, before), state(without_city(CUSTOMER, retired=True), after))
    assert list(codes(change_report)) == []


def test_column_retired_by_an_earlier_report_raises_no_warning() -> None:
    after = state(without_city(CUSTOMER, retired=True), reader(column={"inputs": ("c-city",)}))
    assert report(after, after).warnings == ()


def test_retired_column_of_a_dataset_with_a_moved_key_raises_a_warning() -> None:
    rekeyed = replace(without_city(CUSTOMER, retired=True), key="n1")
    over = replace(reader(column={"inputs": ("c-city",)}), inputs=("n1",))
    change_report = report(state(CUSTOMER), state(rekeyed, over))
    assert "COLUMN_STILL_READ" in codes(change_report)
