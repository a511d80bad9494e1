"""Operations views: the datasets that have one, and its inputs."""

from dataclasses import replace

import pytest

from architecture.domain.history_operations import operations_view
from metadata.domain.history.history_policy import HistoryPolicy, PolicyContradiction
from metadata.domain.state import ColumnState, DatasetState
from tests.architecture.domain.test_history_layout import dataset, stable

COLUMNS = (ColumnState(stable("raw id"), "id", "integer"), ColumnState(stable("raw v"), "v", "string"))
RAW = DatasetState(stable("raw"), "raw", "raw", "raw_a", COLUMNS)


def fed(*views: str, **policy) -> DatasetState:
    return replace(dataset(views=list(views), **policy), inputs=(RAW.key,))


def view(state: DatasetState, upstream: DatasetState = RAW):
    return operations_view(state, {RAW.key: upstream, state.key: state})


def test_view_reads_the_history_and_the_raw_table():
    name, query = view(fed("operations"))
    assert name == "rawcore.rc_a_hist_ops"
    assert [table.qualified_name for table in query.tables] == ["rawcore.rc_a_hist", "raw.raw_a"]


def test_dataset_whose_policy_does_not_list_the_view_has_none():
    assert view(fed("current")) is None


@pytest.mark.parametrize("change", [{"active": False}, {"historize": False}, {"select": "SELECT 1 AS id"}])
def test_dataset_without_a_history_of_deliveries_has_no_view(change):
    assert view(replace(fed("operations"), **change)) is None


def test_dataset_that_reads_another_table_than_raw_has_no_view():
    assert view(fed("operations"), replace(RAW, layer="rawcore", schema="rawcore")) is None


@pytest.mark.parametrize(
    "policy", [{"input": "effective", "time": "t"}, {"time": "t"}, {"input": "cdc", "time": "t", "op": "op"}]
)
def test_policy_refuses_the_view_for_rows_with_times_of_their_own(policy):
    with pytest.raises(PolicyContradiction, match="operations goes with"):
        HistoryPolicy.from_dict(policy | {"views": ["operations"]})
