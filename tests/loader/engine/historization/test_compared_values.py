"""Values of uuid, time and json that mean the same open no version and close no key."""

import json
from unittest import mock

import pytest
from pyspark.sql import functions as F

from loader.contract.manifest.reads import CheckManifest
from loader.domain.historization import compared_texts as pure
from loader.domain.historization.stage import entity_key_components, row_hash_components
from loader.engine import compared_texts
from loader.engine.historization import invariants
from tests.fixtures.spark import by_night
from tests.loader.domain.historization.test_compared_texts import DIFFERENT, SAME
from tests.loader.families import Family
from tests.loader.harness import Dataset

pytestmark = pytest.mark.spark

DAY = [f"2024-01-0{day}T00:00:00Z" for day in range(1, 8)]
UPPER, LOWER = "0F8FAD5B-D9CB-469F-A165-70867728950E", "0f8fad5b-d9cb-469f-a165-70867728950e"
OTHER = "1f8fad5b-d9cb-469f-a165-70867728950e"
TYPES = {"id": "uuid", "at": "time", "doc": "json", "ref": "uuid"}
FIRST = {"id": UPPER, "at": "08:30", "doc": '{"b":1.0,"a":[1,2]}', "ref": UPPER}
AGAIN = {"id": LOWER, "at": "08:30:00.000", "doc": '{ "a" : [1, 2], "b" : 1 }', "ref": LOWER}
DATED = {"input": "effective", "time": "t"}


def dataset(spark, folder, policy=None, **columns: str) -> Dataset:
    return Dataset(
        spark, folder, columns=columns or TYPES, policy=policy or {}, format="csv", delivery_checked=policy is None
    )


def findings(item: Dataset) -> dict[str, int]:
    state = item.state
    manifest = CheckManifest(
        state.qualified_name,
        item.history_spec,
        item.rawcore_spec,
        entity_key_components(state),
        row_hash_components(state),
        item.policy,
    )
    finding_rows = invariants.check(item.spark, item.warehouse, manifest, "check")["findings"]
    return {row["code"]: row["count"] for row in finding_rows}


def literals(rows: list[dict]) -> list[tuple]:
    return [(row["id"], row["at"], row["doc"], row["ref"]) for row in rows]


def test_compared_texts_of_spark_equal_those_of_python(spark):
    texts = [(kind, text) for kind, groups in SAME.items() for group in groups for text in group]
    texts += [(kind, text) for kind, pairs in DIFFERENT.items() for pair in pairs for text in pair]
    for kind in SAME:
        own = [(text,) for name, text in texts if name == kind] + [(None,), ("",)]
        frame = spark.createDataFrame(own, "text STRING")
        rows = frame.select("text", compared_texts.compared(F.col("text"), kind).alias("compared")).collect()
        assert [row.compared for row in rows] == [
            None if row.text is None else pure.compared_text(row.text, kind) for row in rows
        ]


@pytest.mark.parametrize("small_rows", [0, 50_000], ids=["general load", "small load"])
@pytest.mark.parametrize("historize", [pytest.param(True, id="history"), by_night(False, id="current rows")])
def test_the_same_values_written_differently_are_unchanged(spark, tmp_path, small_rows, historize):
    item = dataset(spark, tmp_path)
    item.historize = historize
    assert item.load([FIRST], at=DAY[0], small_rows=small_rows)[0] == "succeeded"
    status, event = item.load([AGAIN], at=DAY[1], small_rows=small_rows)
    assert (status, event["counts"]["unchanged"], event["counts"]["new"], event["counts"]["deleted"]) == (
        "succeeded",
        1,
        0,
        0,
    )
    assert literals(item.current()) == literals([FIRST])
    if historize:
        assert literals(item.history()) == literals([FIRST])
        assert findings(item) == {}
    changed = AGAIN | {"doc": '{"a":[2,1],"b":1}'}
    _, event = item.load([changed], at=DAY[2], small_rows=small_rows)
    assert event["counts"]["changed"] == 1
    assert literals(item.current()) == literals([changed | {"id": UPPER}])


@pytest.mark.parametrize("late", ["split", by_night("ignore")])
def test_dated_rows_with_the_same_values_open_no_version(spark, tmp_path, late):
    item = dataset(spark, tmp_path, DATED | {"late": late}, **TYPES, t="timestamp")
    rows = [FIRST | {"t": DAY[0]}, AGAIN | {"t": DAY[1]}]
    assert item.load(rows, at=DAY[1])[0] == "succeeded"
    assert literals(item.history()) == literals([FIRST])
    status, event = item.load([AGAIN | {"t": DAY[3]}, FIRST | {"t": DAY[2]}], at=DAY[3])
    assert (status, event["counts"]["opened"]) == ("succeeded", 0)
    status, event = item.load([AGAIN | {"t": DAY[4], "doc": "[]"}], at=DAY[4])
    assert (status, event["counts"]["opened"], event["counts"]["changed"]) == ("succeeded", 1, 1)
    assert [row["id"] for row in item.history()] == [UPPER, UPPER]
    assert findings(item) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("small_rows", [0, 50_000], ids=["general load", "small load"])
@pytest.mark.parametrize(("policy", "expected"), [({}, LOWER), ({"deletes": "tombstone"}, UPPER)])
def test_returned_key_keeps_its_first_spelling_only_with_tombstones(spark, tmp_path, policy, expected, small_rows):
    item, other = dataset(spark, tmp_path, policy), FIRST | {"id": OTHER}
    for rows, day in (([FIRST, other], 0), ([other], 1), ([AGAIN, other], 2)):
        status, event = item.load(rows, at=DAY[day], small_rows=small_rows)
        assert status == "succeeded"
    assert event["counts"]["unchanged"] == 1
    versions = [row for row in item.history() if row["id"].lower() == LOWER]
    assert [row["id"] for row in versions] == [UPPER] * (len(versions) - 1) + [expected]
    assert [row["id"] for row in item.current() if row["id"].lower() == LOWER] == [expected]
    assert findings(item) == {}


def test_repeated_rows_of_a_key_written_differently_count_once(spark, tmp_path):
    item = dataset(spark, tmp_path)
    status, event = item.load([FIRST, AGAIN], at=DAY[0])
    assert status == "succeeded"
    assert event["counts"]["new"] == 1
    status, event = item.load([FIRST, AGAIN | {"doc": "1"}], at=DAY[1])
    assert status == "failed"


V1_FAMILIES = {
    "integer": "number", "bigint": "number", "decimal": "number", "float": "number", "date": "instant",
    "timestamp": "instant", "uuid": "string", "json": "string", "time": "string",
}  # fmt: skip


class Version1:
    """Loads that hash and compare as version 1 did."""

    def __enter__(self):
        self.patches = [
            mock.patch.object(compared_texts, "BY_VALUE", frozenset()),
            mock.patch("loader.engine.arrow.versions.BY_VALUE", frozenset()),
            mock.patch("loader.domain.historization.hash_coverage._FAMILY", V1_FAMILIES),
        ]
        for patch in self.patches:
            patch.start()

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()


@pytest.mark.parametrize("historize", [pytest.param(True, id="history"), by_night(False, id="current rows")])
def test_table_with_version_1_hashes_keeps_its_keys_and_opens_no_version(spark, tmp_path, historize):
    item = dataset(spark, tmp_path)
    item.historize = historize
    with Version1():
        item.load([FIRST, FIRST | {"id": OTHER}], at=DAY[0])
    keys = stored_keys(item)
    for day, row in ((1, FIRST), (2, AGAIN), (3, FIRST)):
        status, event = item.load([row, row | {"id": OTHER.upper()}], at=DAY[day], small_rows=50_000)
        assert (status, event["counts"]["unchanged"], event["counts"]["changed"]) == ("succeeded", 2, 0), row
        assert stored_keys(item) == keys
    assert sorted(literals(item.current())) == sorted(literals([FIRST, FIRST | {"id": OTHER}]))
    if historize:
        assert len(item.history()) == 2
        assert findings(item) == {}
    status, event = item.load([AGAIN | {"doc": "[]"}], at=DAY[4])
    assert (event["counts"]["changed"], event["counts"]["deleted"], event["counts"]["new"]) == (1, 1, 0)
    status, event = item.load([AGAIN | {"doc": "[]"}, FIRST | {"id": OTHER}], at=DAY[5])
    assert (status, event["counts"]["unchanged"]) == ("succeeded", 1)
    assert stored_keys(item) == keys


@pytest.mark.nightly
def test_dated_rows_with_version_1_hashes_keep_their_versions(spark, tmp_path):
    item = dataset(spark, tmp_path, DATED, **TYPES, t="timestamp")
    with Version1():
        item.load([FIRST | {"t": DAY[0]}], at=DAY[0])
        item.load([AGAIN | {"id": UPPER, "t": DAY[1]}], at=DAY[1])
    keys, versions = stored_keys(item), item.history()
    assert len(versions) == 2
    status, event = item.load([FIRST | {"id": LOWER, "t": DAY[2]}], at=DAY[2])
    assert (status, event["counts"]["opened"]) == ("succeeded", 0)
    assert (item.history(), stored_keys(item)) == (versions, keys)
    status, event = item.load([FIRST | {"id": LOWER, "t": DAY[3], "doc": "[]"}], at=DAY[3])
    assert (status, event["counts"]["opened"], event["counts"]["closed"]) == ("succeeded", 1, 1)
    assert (len(item.history()), stored_keys(item)) == (3, keys)
    assert findings(item) == {}


def stored_keys(item: Dataset) -> set[str]:
    name = item.rawcore_spec.column("entity_key").name
    spec = item.history_spec if item.historize else item.rawcore_spec
    return {row[0] for row in item.table(spec).frame().select(name).collect()}


def test_json_documents_of_a_file_are_compared_by_value(spark, tmp_path):
    item = dataset(spark, tmp_path, id="integer", doc="json")
    documents = [json.dumps({"b": n, "a": [n, None]}) for n in range(5)]
    item.load([{"id": n, "doc": text} for n, text in enumerate(documents)], at=DAY[0])
    spaced = [json.dumps({"a": [n, None], "b": float(n)}, indent=1) for n in range(5)]
    status, event = item.load([{"id": n, "doc": text} for n, text in enumerate(spaced)], at=DAY[1])
    assert (status, event["counts"]["unchanged"]) == ("succeeded", 5)


@pytest.mark.parametrize("policy", [pytest.param({}, id="dated by the load"), by_night(DATED, id="dated by a column")])
def test_a_uuid_key_that_becomes_text_is_still_the_same_key(spark, tmp_path, policy):
    item = Dataset(spark, tmp_path, columns={"id": "uuid", "v": "string", "t": "timestamp"}, policy=policy)
    rows = [{"id": UPPER, "v": "a", "t": DAY[0]}, {"id": OTHER, "v": "a", "t": DAY[0]}]
    item.load(rows, at=DAY[0])
    item.columns["id"] = "string"
    for day in (1, 2):
        again = [row | {"t": DAY[day]} for row in rows] if policy else rows
        status, event = item.load(again, at=DAY[day])
        assert (status, event["counts"]["unchanged"], event["counts"]["new"]) == ("succeeded", 2, 0)
    assert [row["id"] for row in item.history()] == [UPPER, OTHER]


SMALL = {"small_rows": 50_000}


BY_DAY = [("keep", "uuid"), ("ghost", "string"), ("quarantine", "uuid")]
PAIRS = [(rule, plant) for rule in ("keep", "null", "refuse", "ghost", "quarantine") for plant in ("uuid", "string")]


@pytest.mark.parametrize(("rule", "plant"), [*BY_DAY, *(by_night(*pair) for pair in PAIRS if pair not in BY_DAY)])
def test_child_finds_its_parent_regardless_of_the_spelling_of_a_uuid_key(spark, tmp_path, rule, plant):
    shop = Family(
        spark,
        tmp_path,
        rule,
        parents={"columns": {"id": "uuid", "v": "string"}},
        children={"columns": {"id": "integer", "plant": plant}},
    )
    parents, children = shop.load([{"id": UPPER, "v": "a"}], [{"id": 1, "plant": LOWER}], at=DAY[0], **SMALL)
    assert (parents["status"], children["status"]) == ("succeeded", "succeeded")
    assert parents["counts"].get("ghosts", 0) == children["counts"].get("unknown_parents", 0) == 0
    assert shop.joined() == {1: "a"}


@pytest.mark.parametrize("rule", ["keep", by_night("null"), by_night("ghost")])
def test_child_finds_a_parent_with_version_1_hashes(spark, tmp_path, rule):
    shop = Family(
        spark,
        tmp_path,
        rule,
        parents={"columns": {"id": "uuid", "v": "string"}},
        children={"columns": {"id": "integer", "plant": "uuid"}},
    )
    with Version1():
        shop.load([{"id": UPPER, "v": "a"}, {"id": OTHER, "v": "b"}], [{"id": 1, "plant": UPPER}], at=DAY[0])
    rows = [{"id": 1, "plant": LOWER}, {"id": 2, "plant": LOWER}, {"id": 3, "plant": OTHER.upper()}]
    parents, children = shop.load([{"id": LOWER, "v": "a"}, {"id": OTHER, "v": "b"}], rows, at=DAY[1], **SMALL)
    assert (parents["counts"]["unchanged"], parents["counts"].get("ghosts", 0)) == (2, 0)
    assert children["counts"].get("unknown_parents", 0) == 0
    assert shop.joined() == {1: "a", 2: "a", 3: "b"}
