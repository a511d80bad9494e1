"""Loads of models as values: the digest of a model's inputs, and the reasons to compute all rows."""

from dataclasses import replace

import pytest

from loader.domain.models import model_load, model_query, reason_for_all
from metadata.domain.state import ColumnState, DatasetState
from tests.loader.harness import stable


def dataset(schema: str, name: str, select: str | None = None, *reads: DatasetState, **more) -> DatasetState:
    column = ColumnState(stable(name, "a"), "a", "integer")
    inputs = tuple(read.key for read in reads)
    return DatasetState(stable(name), schema, "bizcore", name, (column,), select=select, inputs=inputs, **more)


ORDERS, RETURNS = dataset("rawcore", "orders"), dataset("rawcore", "returns")
VIEW = dataset("bizcore", "v", "SELECT a FROM rawcore.orders WHERE a > 1", ORDERS, materialization="view")
MODEL = dataset("mart", "m", "SELECT a FROM bizcore.v", VIEW)
STAMPED = dataset("mart", "m", "SELECT {{ load_run_id }} AS a FROM rawcore.orders", ORDERS)


def digest(*states: DatasetState, run_id: str = "r1") -> str:
    by_key = {state.key: state for state in states}
    return model_load(states[-1], by_key, run_id=run_id, load_timestamp="2024-01-01T00:00:00+00:00", sequence=1).digest


def test_the_digest_of_a_model_is_the_same_in_each_run():
    assert digest(ORDERS, STAMPED) == digest(ORDERS, STAMPED, run_id="r2")


@pytest.mark.parametrize(
    "view",
    [
        replace(VIEW, select="SELECT a FROM rawcore.orders WHERE a > 100"),
        replace(VIEW, select="SELECT a FROM rawcore.returns WHERE a > 1", inputs=(RETURNS.key,)),
    ],
    ids=["other condition", "other table"],
)
def test_model_digest_changes_with_a_view_among_its_inputs(view):
    assert digest(ORDERS, RETURNS, view, MODEL) != digest(ORDERS, RETURNS, VIEW, MODEL)


@pytest.mark.parametrize(("by", "needed"), [("changed_keys", True), ("key", False)])
def test_placeholder_in_a_select_does_not_prevent_the_use_of_changed_keys(by, needed):
    model = replace(STAMPED, increment={"by": by})
    run = {"run_id": "r1", "load_timestamp": "2024-01-01T00:00:00+00:00"}
    assert model_load(model, {ORDERS.key: ORDERS}, **run, sequence=1).needs_changes is needed


def query(*states: DatasetState):
    return model_query(states[-1], {state.key: state for state in states}, run_id="r1", load_timestamp="")


BOTH = dataset("mart", "m", "SELECT o.a FROM rawcore.orders o JOIN bizcore.v ON v.a = o.a", ORDERS, VIEW)


def test_changed_keys_suffice_if_only_one_input_changed():
    assert reason_for_all(query(ORDERS, VIEW, MODEL), "rawcore.orders", [("__input_0", "rawcore.orders")]) == ""


def test_model_computes_all_rows_if_an_input_view_reads_the_same_input():
    reason = reason_for_all(query(ORDERS, VIEW, BOTH), "rawcore.orders", [("__input_0", "rawcore.orders")])
    assert reason == "rawcore.orders is read by a view beneath the model, too"
