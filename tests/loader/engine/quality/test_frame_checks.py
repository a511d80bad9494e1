"""Quality checks of loads on real tables."""

from dataclasses import replace

import pytest

from loader.contract.manifest.codec import to_json
from loader.contract.manifest.reads import ReadManifest
from loader.engine.queries import reads
from tests.loader.harness import Dataset, finished
from tests.loader.quality import COLUMNS, DAY, check, checked_manifest, load, row

pytestmark = [pytest.mark.spark, pytest.mark.takes(seconds=8)]


@pytest.fixture
def item(spark, tmp_path) -> Dataset:
    return Dataset(spark, tmp_path, columns=COLUMNS)


@pytest.mark.core
def test_row_checks_count_failed_rows_and_warn(item):
    rows = [row(1), row(2, name=None), row(3, name="bb", price="-1.00"), row(4, name="zz9", price=None)]
    event, results = load(
        item,
        rows,
        check("not_null", columns=["name"]),
        check("range", columns=["price"], minimum="0", maximum="10"),
        check("accepted_values", columns=["name"], values=["a", "bb"]),
        check("pattern", columns=["name"], pattern="[a-z]+"),
        check("length", columns=["name"], maximum="2"),
        check("condition", condition="price > 0 OR name = 'bb'"),
    )
    assert event["status"] == "succeeded"
    assert {name: (result["outcome"], result["failed"], result["total"]) for name, result in results.items()} == {
        "not_null": ("warned", 1, 4),
        "range": ("warned", 1, 4),
        "accepted_values": ("warned", 1, 4),
        "pattern": ("warned", 1, 4),
        "length": ("warned", 1, 4),
        "condition": ("passed", 0, 4),
    }
    assert results["range"]["samples"] == ["id=3, price=-1.00"]
    assert "Check not_null: 1 row of 4 failed." in event["warnings"]
    assert len(item.current()) == 4


@pytest.mark.core
def test_stop_check_refuses_the_dataset_and_writes_nothing(item):
    load(item, [row(1)])
    event, results = load(item, [row(1), row(2, name=None)], check("not_null", "stop", columns=["name"]), at=DAY[1])
    assert (event["status"], event["error"]["code"]) == ("failed", "QUALITY_STOPPED")
    assert event["error"]["samples"] == ["id=2, name=NULL"]
    assert results["not_null"]["outcome"] == "stopped"
    assert [current["id"] for current in item.current()] == [1]


def test_results_and_refusals_of_sensitive_datasets_have_no_values(item):
    stops = check("not_null", "stop", columns=["name"])
    event, results = load(item, [row(1, name=None)], stops, sensitive=("id",))
    assert "samples" not in results["not_null"]
    assert "samples" not in event["error"]


def test_check_of_a_missing_column_is_broken_and_other_checks_run(item):
    event, results = load(item, [row(1)], check("not_null", columns=["former"]), check("row_count", minimum="1"))
    assert event["status"] == "succeeded"
    assert results["not_null"]["outcome"] == "broken"
    assert "'former', which is no column of the dataset" in results["not_null"]["message"]
    assert results["row_count"]["outcome"] == "passed"


def test_check_with_an_invalid_pattern_states_the_pattern_error(item):
    _, results = load(item, [row(1)], check("pattern", columns=["name"], pattern="[a"))
    assert "the pattern is invalid" in results["pattern"]["message"]
    assert "Unclosed character class" in results["pattern"]["message"]


def test_a_condition_that_fails_to_run_does_not_hide_the_other_checks(item):
    fails = check("condition", condition="CAST(name AS integer) > 0")
    event, results = load(item, [row(1)], fails, check("not_null", columns=["name"]))
    assert results["not_null"]["outcome"] == "passed"
    assert (results["condition"]["outcome"], event["status"]) == ("warned", "succeeded")


def test_message_of_a_check_that_fails_to_run_names_the_expression_without_the_value(item):
    fails = check("condition", condition="CAST(name AS integer) > 0")
    _, results = load(item, [row(1, name="ada@x")], fails)
    message = "1 row of 1 failed, 1 of them could not be computed: CAST_INVALID_INPUT, at CAST(name AS integer)"
    assert results["condition"]["message"] == message


def test_row_whose_check_cannot_be_computed_is_counted_as_failed(item):
    rows = [row(1), row(2, price="0"), row(3, price="20.00"), row(4, price=None)]
    ratio = check("condition", "stop", condition="10 / price > 1")
    event, results = load(item, rows, ratio, check("condition", name="again", condition="10 / price > 1"))
    assert (event["status"], event["error"]["code"]) == ("failed", "QUALITY_STOPPED")
    for name in ("condition", "again"):
        assert (results[name]["failed"], results[name]["total"]) == (2, 4)
        assert "2 rows of 4 failed, 1 of them could not be computed: DIVIDE_BY_ZERO" in results[name]["message"]
    assert results["condition"]["samples"] == ["id=2", "id=3"]


def test_unique_check_of_columns_named_like_its_internal_columns_runs(spark, tmp_path):
    columns = {"id": "integer", "N": "integer", "rows": "integer", "total": "integer"}
    item = Dataset(spark, tmp_path, columns=columns)
    rows = [{"id": number, "N": 1, "rows": 2, "total": 3} for number in (1, 2)]
    every = check("unique", name="all", columns=["N", "rows", "total"])
    each = [check("unique", name=name, columns=[name]) for name in ("N", "rows", "total")]
    _, results = load(item, rows, every, *each)
    assert {name: (result["outcome"], result["failed"]) for name, result in results.items()} == dict.fromkeys(
        ("all", "N", "rows", "total"), ("warned", 2)
    )


def test_query_check_over_its_own_table_runs_on_the_stored_table(item):
    load(item, [row(1), row(2, price="9.00")])
    query = check(
        "query",
        "stop",
        sql="SELECT",
        query="SELECT id FROM `__own` WHERE price > 5",
        views=(("__own", item.rawcore_spec),),
        own_view="__own",
    )
    arguments = {"checks": [to_json(query)], "checked_at": DAY[1], "sensitive": []}
    answer = reads.read(
        item.spark, item.warehouse, ReadManifest("quality", table=item.rawcore_spec, arguments=arguments), "job"
    )
    (result,) = answer["results"]
    assert (result["outcome"], result["failed"]) == ("stopped", 1)


def test_unique_check_counts_rows_that_repeat_values(item):
    rows = [row(1, name="a"), row(2, name="a"), row(3, name="b"), row(4, name=None), row(5, name=None)]
    _, results = load(item, rows, check("unique", columns=["name"]))
    assert (results["unique"]["failed"], results["unique"]["total"]) == (2, 3)
    assert results["unique"]["samples"] == ["name=a"]


def test_relationship_check_counts_rows_without_a_partner_in_the_other_table(spark, item, tmp_path):
    (tmp_path / "other").mkdir()
    other = Dataset(spark, tmp_path / "other", name="kind", columns={"code": "string"}, keys=("code",))
    load(other, [{"code": "a"}])
    (tmp_path / "warehouse").mkdir(exist_ok=True)
    item.prepare()
    (tmp_path / "warehouse" / other.rawcore_spec.key).symlink_to(f"{other.warehouse}/{other.rawcore_spec.key}")
    known = {"columns": ["name"], "dataset": "rawcore.rc_t_kind", "other_columns": ["code"]}
    relationship = check("relationship", **known, other=other.rawcore_spec)
    _, results = load(item, [row(1), row(2, name="b"), row(3, name=None)], relationship)
    assert (results["relationship"]["failed"], results["relationship"]["total"]) == (1, 2)
    assert results["relationship"]["samples"] == ["name=b"]


def test_relationship_check_reports_a_missing_other_table(item):
    known = {"columns": ["name"], "dataset": "rawcore.rc_x", "other_columns": ["code"]}
    other = replace(item.rawcore_spec, key="elsewhere")
    _, results = load(item, [row(1)], check("relationship", **known, other=other))
    assert "does not exist in the warehouse" in results["relationship"]["message"]


def test_table_checks_compare_numbers_with_limits_other_tables_and_former_runs(item):
    load(item, [row(1, price="5.00"), row(2, price="5.00")])
    _, results = load(
        item,
        [row(1, price="4.00"), row(2, price="5.00", at="2024-01-02T00:00:00Z")],
        check("row_count", minimum="3"),
        check("row_count_change", past=(100, 101, 99, 100, 100)),
        check("freshness", columns=["at"], hours=24),
        check(
            "total",
            aggregate="sum",
            columns=["price"],
            dataset="rc.x",
            other_columns=["price"],
            other=item.rawcore_spec,
        ),
        at="2024-01-03T12:00:00Z",
    )
    assert {name: (result["outcome"], result.get("value")) for name, result in results.items()} == {
        "row_count": ("warned", 2.0),
        "row_count_change": ("warned", 2.0),
        "freshness": ("warned", 36.0),
        "total": ("warned", 9.0),
    }
    assert results["total"]["message"] == "sum of price differs from that of rc.x.price: 9.00 and 10.00"


def test_query_check_over_batch_and_table_counts_the_returned_rows(item):
    load(item, [row(1), row(2)])
    query = check(
        "query",
        sql="SELECT",
        query="SELECT n.id FROM `__new` AS n JOIN `__old` AS o ON n.id = o.id WHERE n.price < o.price",
        views=(("__new", item.rawcore_spec), ("__old", item.rawcore_spec)),
        own_view="__new",
    )
    _, results = load(item, [row(1, price="0.50"), row(2)], query, at=DAY[1])
    assert (results["query"]["outcome"], results["query"]["failed"]) == ("warned", 1)


def test_delivered_rows_of_a_raw_dataset_are_checked_before_they_replace_the_last_ones(item):
    load(item, [row(1)])
    manifest = checked_manifest(item, [row(2, name=None)], at=DAY[1])
    stops = check("not_null", "stop", columns=["name"])
    manifest = replace(manifest, raw=(replace(manifest.raw[0], quality=(stops,)),))
    status, events = item.attempt(manifest)
    raw = finished(events, item.raw_state.key)
    assert (status, raw["status"], raw["error"]["code"]) == ("failed", "failed", "QUALITY_STOPPED")
    table = next(spec for spec in item.tables() if spec.key == item.raw_state.key)
    assert [record["id"] for record in item.table(table).frame().collect()] == ["1"]
