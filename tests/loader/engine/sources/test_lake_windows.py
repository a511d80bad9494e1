"""Loads of a Delta table and of Parquet files from a watermark on.

The read rows and the movement of marks are tested without Spark (tests/loader/domain/sources/test_marks.py);
tests/loader/engine/sources/test_marks.py has deaths, reverts and full runs, which do not depend on the format.
"""

from typing import Any

import pytest

from loader.engine.loads import load
from tests.loader.harness import finished
from tests.loader.lakes import COLUMNS, Lake

pytestmark = pytest.mark.spark


@pytest.fixture(params=["delta", pytest.param("parquet", marks=pytest.mark.nightly)])
def lake(request, spark, tmp_path):
    """Return a function that makes the dataset."""

    def make(**intake: Any) -> Lake:
        given = {"policy": {"input": "delta"}, "format": request.param, "intake": {"watermark": ["n"]} | intake}
        return Lake(spark, tmp_path, columns=COLUMNS, **given)

    return make


def test_load_reads_rows_from_the_watermark_on(lake):
    item = lake(look_back=1)
    first = item.run(1, (1, "a", 1), (2, "b", 2), (3, "c", 5))
    assert (first["counts"]["rows"], first["window"]) == (3, {"from": None, "to": {"n": "5"}})
    second = item.run(2, (1, "A", 6), (4, "d", 4))
    assert (second["counts"]["rows"], second["window"]) == (3, {"from": {"n": "4"}, "to": {"n": "6"}})
    assert (item.current_values(), item.mark()) == ([(1, "A"), (2, "b"), (3, "c"), (4, "d")], "6")


@pytest.mark.nightly
def test_a_run_that_dies_between_raw_and_history_loses_no_rows(lake, monkeypatch):
    item = lake()
    item.run(1, (1, "a", 1))
    with monkeypatch.context() as broken:
        broken.setattr(load, "load_rawcore", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        item.run(2, (2, "b", 2))
    assert (item.status, item.mark()) == ("failed", "1")
    assert item.run(3, (3, "c", 3))["counts"]["rows"] == 3
    assert (item.current_values(), item.mark()) == ([(1, "a"), (2, "b"), (3, "c")], "3")


@pytest.mark.nightly
def test_watermark_that_goes_backwards_or_is_null_is_refused(lake):
    item = lake()
    item.run(1, (1, "a", 7))
    refusal = item.run(2, (1, "a", 5))["error"]
    assert (refusal["code"], refusal["samples"]) == ("WATERMARK_BACKWARDS", ["highest: 5", "mark: 7"])
    item.run(2, (1, "a", 8), (2, "b", "NULL"))
    refusal = finished(item.events, item.raw_state.key)["error"]
    assert (refusal["code"], refusal["column"], item.mark()) == ("NULL_WATERMARK", "n", "7")


def test_a_value_far_ahead_is_loaded_and_does_not_move_the_mark(lake):
    item = lake()
    first = item.run(1, (1, "a", 1), (2, "b", 2), (9, "far", 900_000_000))
    assert (first["counts"]["rows"], first["window"]["to"], first["window"]["ahead"]) == (3, {"n": "2"}, {"n": 1})
    assert "1 row with n far beyond all others" in first["warnings"][0]
    item.run(2, (1, "A", 3), (4, "d", 4))
    assert (item.current_values(), item.mark()) == ([(1, "A"), (2, "b"), (4, "d"), (9, "far")], "4")
