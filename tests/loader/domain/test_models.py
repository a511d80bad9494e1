"""Loads of models as values: the digest by which a load knows that a model has not changed."""

from dataclasses import replace

import pytest

from loader.domain.models import model_load
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
def test_the_digest_of_a_model_changes_with_a_view_beneath_it(view):
    assert digest(ORDERS, RETURNS, view, MODEL) != digest(ORDERS, RETURNS, VIEW, MODEL)
