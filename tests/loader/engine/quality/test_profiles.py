"""Profiles of tables, and checks of stored tables, on real tables."""

import pytest

from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.codec import to_json
from loader.contract.manifest.reads import Masking, ReadManifest
from loader.contract.refusals import Refusal
from loader.engine.queries import reads
from tests.loader.harness import Dataset
from tests.loader.quality import COLUMNS, check, load, row

pytestmark = [pytest.mark.spark, pytest.mark.takes(seconds=8)]


@pytest.fixture
def item(spark, tmp_path) -> Dataset:
    return Dataset(spark, tmp_path, columns=COLUMNS)


def read(item: Dataset, kind: str, masking: Masking | None = None, **arguments) -> dict:
    manifest = ReadManifest(kind, table=item.rawcore_spec, arguments=arguments, masking=masking)
    return reads.read(item.spark, item.warehouse, manifest, "job")


def profile_of(item: Dataset, **options) -> dict[str, dict]:
    return {column["name"]: column for column in read(item, "profile", **options)["profile"]}


@pytest.mark.core
def test_a_profile_has_counts_limits_and_frequent_values_of_each_column(item):
    rows = [row(n, name="ab" if n % 2 else "c", price=f"{n}.50") for n in range(1, 10)]
    load(item, [*rows, row(10, name=None, price=None)])
    columns = profile_of(item)
    assert (columns["id"]["rows"], columns["id"]["distinct"], columns["id"]["minimum"], columns["id"]["maximum"]) == (
        10,
        10,
        "1",
        "10",
    )
    assert (columns["name"]["nulls"], columns["name"]["min_length"], columns["name"]["max_length"]) == (1, 1, 2)
    assert columns["name"]["top"] == [("ab", 5), ("c", 4)]
    assert columns["name"]["values_complete"]
    assert columns["price"]["quantiles"][2] == 5.5
    assert sum(columns["price"]["histogram"]) == 9


def test_masked_columns_have_counts_and_no_values(item):
    load(item, [row(1, name="secret"), row(2, name=None)])
    spec = item.rawcore_spec
    visible_columns = [column for column in spec.columns if column.name != "name"]
    masking = Masking(tuple(column.key for column in visible_columns), tuple(column.name for column in visible_columns))
    answer = read(item, "profile", masking=masking)
    (name,) = [column for column in answer["profile"] if column["name"] == "name"]
    counts = {"rows": 2, "nulls": 1, "distinct": 1}
    assert name == counts | {"name": "name", "type": "string", "hidden": True, "values_complete": False}
    assert "secret" not in str(answer)
    assert answer["masked"] == ["name"]


def test_an_empty_table_has_an_empty_profile(item):
    item.prepare()
    answer = read(item, "profile")
    assert answer["rows"] == 0
    assert {column["nulls"] for column in answer["profile"]} == {0}


def test_the_profile_of_a_known_version_is_not_computed_again(item):
    load(item, [row(1)])
    version = read(item, "profile")["table_version"]
    assert read(item, "profile", known_version=version) == {"table_version": version, "unchanged": True}


def test_quality_read_checks_the_stored_table(item):
    load(item, [row(1), row(2, name=None)])
    checks = [check("not_null", columns=["name"]), check("freshness", columns=["at"], hours=24)]
    answer = read(
        item,
        "quality",
        checks=[to_json(spec) for spec in checks],
        checked_at="2024-01-01T12:00:00+00:00",
        sensitive=[],
    )
    assert [(result["outcome"], result.get("samples", [])) for result in answer["results"]] == [
        ("warned", ["id=2, name=NULL"]),
        ("passed", []),
    ]


def failing_ids(item: Dataset, spec: CheckSpec, **arguments) -> list[str]:
    """Return the ids of the rows that fail a check of the stored table."""
    answer = read(item, "sample", check=to_json(spec), checked_at="2024-01-01T12:00:00+00:00", limit=10, **arguments)
    return [row[answer["columns"].index("id")] for row in answer["rows"]]


def test_sample_of_a_check_has_its_failing_rows_by_kind(spark, item):
    load(item, [row(1), row(2, name=None), row(3, name="a", price="-1.00"), row(4, name="4", price=None)])
    assert failing_ids(item, check("not_null", columns=["name"])) == ["2"]
    assert failing_ids(item, check("range", columns=["price"], minimum="0")) == ["3"]
    assert failing_ids(item, check("unique", columns=["name"]), sort="id", descending=True) == ["3", "1"]
    partner = {"columns": ["name"], "dataset": "rawcore.x", "other_columns": ["name"], "other": item.rawcore_spec}
    assert failing_ids(item, check("relationship", **partner)) == []
    # The price of row 3 makes the cast of its name fail.
    cast = check("condition", condition="price > 0 OR CAST(name AS integer) > 4")
    assert failing_ids(item, cast) == ["3"]


def test_sample_of_a_check_that_cannot_run_is_refused(item):
    load(item, [row(1)])
    with pytest.raises(Refusal, match="'former', which is no column of the dataset") as refused:
        failing_ids(item, check("not_null", columns=["former"]))
    assert refused.value.code == "CHECK_BROKEN"
