"""Rules for foreign keys whose parent is unknown: orders refer to plants before or after their delivery."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.spark import by_night
from tests.loader.families import Family
from tests.loader.harness import Dataset

pytestmark = pytest.mark.spark

MONDAY, TUESDAY, WEDNESDAY = (f"2024-05-0{day}T00:00:00+00:00" for day in (6, 7, 8))
P1, P2, P3 = ({"id": n, "v": f"plant {n}"} for n in (1, 2, 3))
ORDERS = [{"id": 10, "plant": 1}, {"id": 20, "plant": 2}, {"id": 30, "plant": None}]
SMALL = {"small_rows": 50_000}


FLAGGED = {
    "columns": {"id": "integer", "plant": "bigint", "gone": "boolean"},
    "policy": {"input": "delta", "delete_flag": "gone"},
}


@pytest.fixture
def family(spark: SparkSession, tmp_path: Path):
    """Make orders and plants in a warehouse of their own."""
    return lambda rule, **options: Family(spark, tmp_path, rule, **options)


def versions(dataset, key: int) -> list[tuple]:
    return [
        (row.get("v", row.get("plant")), row["started"][:10], row["state"])
        for row in dataset.history()
        if row["id"] == key
    ]


# --- null ---------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_an_early_childs_key_is_null_and_filled_in_place_when_the_parent_arrives(family):
    shop = family("null")
    _, orders = shop.load([P1], ORDERS, at=MONDAY, **SMALL)
    assert orders["counts"]["unknown_parents"] == 1
    assert orders["warnings"] == [
        "rawcore.rc_t_order: 1 row with a plant_key that rawcore.rc_t_plant does not have: stored as NULL."
    ]
    assert shop.keys() == {10: True, 20: False, 30: False}
    _, orders = shop.load([P1, P2], ORDERS, at=TUESDAY, **SMALL)
    assert (orders["counts"]["changed"], orders["warnings"]) == (1, [])
    assert shop.keys() == {10: True, 20: True, 30: False}
    assert versions(shop.orders, 20) == [(2, "2024-05-06", "new")]


@pytest.mark.nightly
def test_a_delta_fills_the_keys_of_rows_that_are_not_delivered_again(family):
    shop = family("null", children={"policy": {"input": "delta"}})
    shop.load([P1], ORDERS, at=MONDAY)
    _, orders = shop.load([P1, P2], [{"id": 40, "plant": 1}], at=TUESDAY)
    assert shop.keys() == {10: True, 20: True, 30: False, 40: True}
    counts = orders["counts"]
    assert (counts["rows"], counts["new"], counts["changed"], counts["missing"]) == (1, 1, 1, 3)
    assert len(versions(shop.orders, 20)) == 1


@pytest.mark.nightly
def test_delta_with_a_delete_flag_fills_keys_of_stored_rows(family):
    shop = family("null", children=FLAGGED)
    shop.load([P1], ORDERS, at=MONDAY)
    _, orders = shop.load([P1, P2], [{"id": 10, "plant": 9, "gone": True}], at=TUESDAY)
    assert (orders["status"], orders["warnings"]) == ("succeeded", [])
    assert shop.keys() == {20: True, 30: False}


@pytest.mark.nightly
def test_null_foreign_keys_are_restored_if_the_rule_changes_to_keep(family):
    shop = family("null", children={"historize": False})
    shop.load([P1], ORDERS, at=MONDAY)
    shop.orders.rule = "keep"
    shop.load([P1], ORDERS, at=TUESDAY, **SMALL)
    assert shop.keys() == {10: True, 20: True, 30: False}


# --- refuse -------------------------------------------------------------------------------------


def test_a_child_with_unknown_parents_is_refused_and_nothing_is_written(family):
    shop = family("refuse")
    plants, orders = shop.load([P1], ORDERS, at=MONDAY, **SMALL)
    assert (plants["status"], orders["status"]) == ("succeeded", "failed")
    error = orders["error"]
    assert (error["code"], error["column"], error["count"]) == ("UNKNOWN_PARENT", "plant_key", 1)
    assert error["samples"] == ["plant=2"]
    assert shop.orders.history() == shop.orders.current() == []
    _, orders = shop.load([P1, P2], ORDERS, at=TUESDAY, **SMALL)
    assert orders["status"] == "succeeded"


# --- quarantine ---------------------------------------------------------------------------------


def test_rows_with_unknown_parents_are_quarantined_until_the_parent_arrives(family):
    shop = family("quarantine")
    _, orders = shop.load([P1], ORDERS, at=MONDAY, **SMALL)
    assert (orders["status"], orders["counts"]["quarantined"], orders["counts"]["new"]) == ("succeeded", 1, 2)
    assert shop.keys() == {10: True, 30: False}
    _, orders = shop.load([P1, P2], ORDERS, at=TUESDAY, **SMALL)
    assert "quarantined" not in orders["counts"]
    assert shop.keys() == {10: True, 20: True, 30: False}


@pytest.mark.nightly
def test_stored_row_is_kept_while_its_new_version_is_quarantined(family):
    shop = family("quarantine")
    shop.load([P1], [{"id": 10, "plant": 1}], at=MONDAY)
    _, orders = shop.load([P1], [{"id": 10, "plant": 9}], at=TUESDAY)
    assert orders["counts"]["quarantined"] == 1
    assert versions(shop.orders, 10) == [(1, "2024-05-06", "new")]


# --- ghost --------------------------------------------------------------------------------------


def test_ghost_row_represents_an_early_parent_until_the_parent_is_delivered(family):
    shop = family("ghost")
    plants, orders = shop.load([P1], ORDERS, at=MONDAY, **SMALL)
    assert (plants["counts"]["ghosts"], plants["counts"]["rows"], plants["counts"]["new"]) == (1, 1, 2)
    assert plants["warnings"] == [
        "rawcore.rc_t_plant: 1 ghost row for keys of rawcore.rc_t_order that were not delivered."
    ]
    assert "unknown_parents" not in orders["counts"]
    assert shop.joined() == {10: "plant 1", 20: None}
    plants, _ = shop.load([P1, P2], ORDERS, at=TUESDAY, **SMALL)
    assert "ghosts" not in plants["counts"]
    assert versions(shop.plants, 2) == [(None, "2024-05-06", "changed"), ("plant 2", "2024-05-07", "changed")]
    assert shop.joined() == {10: "plant 1", 20: "plant 2"}


@pytest.mark.nightly
def test_a_deleted_parent_becomes_a_ghost_row_until_nothing_refers_to_it(family):
    shop = family("ghost")
    shop.load([P1, P2], ORDERS, at=MONDAY)
    plants, _ = shop.load([P1], ORDERS, at=TUESDAY)
    assert (plants["counts"]["changed"], plants["counts"]["deleted"]) == (1, 0)
    assert shop.joined() == {10: "plant 1", 20: None}
    plants, _ = shop.load([P1], ORDERS[:1], at=WEDNESDAY)
    assert plants["counts"]["deleted"] == 1
    assert shop.plants.current() == [P1]


@pytest.mark.nightly
def test_parents_that_would_become_ghost_rows_count_as_deletes(family):
    shop = family("ghost")
    shop.load([P1, P2], ORDERS, at=MONDAY)
    plants, _ = shop.load([], ORDERS, at=TUESDAY)
    assert (plants["error"]["code"], plants["error"]["count"]) == ("EMPTY_SNAPSHOT", 2)
    plants, _ = shop.load([P3], ORDERS, at=WEDNESDAY, deletes_keys=1)
    assert (plants["error"]["code"], plants["error"]["count"]) == ("TOO_MANY_DELETES", 2)


@pytest.mark.nightly
def test_a_delta_keeps_its_rows_and_its_ghost_rows(family):
    delta = {"policy": {"input": "delta"}}
    shop = family("ghost", parents=delta, children=delta)
    shop.load([P1], ORDERS, at=MONDAY)
    plants, _ = shop.load([P3], [{"id": 40, "plant": 4}], at=TUESDAY)
    assert plants["counts"]["ghosts"] == 1
    assert shop.plants.current() == [P1, {"id": 2, "v": None}, P3, {"id": 4, "v": None}]


@pytest.mark.nightly
@pytest.mark.parametrize(("deletes", "ghosts"), [("close", None), by_night("ignore", 1)])
def test_flagged_delete_of_a_child_creates_no_ghost_row(family, deletes: str, ghosts: int | None):
    children = FLAGGED | {"policy": FLAGGED["policy"] | {"deletes": deletes}}
    shop = family("ghost", children=children)
    shop.load([P1], [{"id": 10, "plant": 2}], at=MONDAY)
    plants, _ = shop.load([P1], [{"id": 10, "plant": 3, "gone": True}], at=TUESDAY)
    assert plants["counts"].get("ghosts") == ghosts
    assert [row["id"] for row in shop.plants.current()] == [1, 2][: 1 + (ghosts or 0)]


@pytest.mark.nightly
def test_outranked_child_row_creates_no_ghost_row(family, spark: SparkSession, tmp_path: Path):
    shop = family("ghost")
    old = Dataset(spark, tmp_path, "old", {"id": "integer", "plant": "bigint"}, format="parquet")
    old.load([{"id": 10, "plant": 2}, {"id": 20, "plant": 3}], at=MONDAY)
    manifest = shop.manifest([P1], [{"id": 10, "plant": 1}], at=MONDAY)
    plants, orders = manifest.rawcore
    (rows,) = plants.children
    (best,) = rows.inputs
    worse = replace(old.manifest(tmp_path, at=MONDAY, run_id="").rawcore[0].inputs[0], rank=1)
    rows = replace(rows, inputs=(best, worse), policy={"rank": ["t.order", "t.old"]})
    shop.run(replace(manifest, rawcore=(replace(plants, children=(rows,)), orders)))
    assert [row["id"] for row in shop.plants.current()] == [1, 3]


def test_a_key_that_does_not_fit_the_parents_type_gets_no_ghost_row(family):
    shop = family("ghost")
    plants, orders = shop.load([P1], [{"id": 10, "plant": 2**40}], at=MONDAY)
    assert plants["counts"].get("ghosts") is None
    assert orders["counts"]["unknown_parents"] == 1


@pytest.mark.nightly
def test_run_killed_between_parent_and_child_completes_if_repeated(family):
    shop = family("ghost")
    whole = shop.manifest([P1], ORDERS, at=MONDAY)
    plants, orders = whole.rawcore
    shop.run(replace(whole, rawcore=(plants,)))
    ended, _ = shop.run(replace(whole, attempt=2))
    assert ended["warnings"] == ["The table already held this run: nothing was added."]
    assert shop.joined() == {10: "plant 1", 20: None}
    assert versions(shop.plants, 2) == [(None, "2024-05-06", "new")]


@pytest.mark.nightly
@pytest.mark.parametrize("rule", [by_night("null"), "ghost"])
def test_repeated_run_changes_neither_parents_nor_children(family, rule: str):
    shop = family(rule)
    manifest = shop.manifest([P1], ORDERS, at=MONDAY)
    shop.run(manifest)
    before = shop.plants.history(), shop.orders.history(), shop.keys()
    shop.run(replace(manifest, attempt=2))
    assert (shop.plants.history(), shop.orders.history(), shop.keys()) == before
