"""Published names of a warehouse, and the statements that define them in other engines."""

from dataclasses import replace

import pytest

from architecture.domain.tables import history_table
from loader.domain.catalogs.catalog import Entry, catalog_of, names_of_dataset
from loader.domain.catalogs.statements import duckdb_query, render
from tests.architecture.domain.test_history_layout import dataset as historized
from tests.loader.domain.historization.test_stage import RAW, STAGE, col, dataset


def names(*states, **options) -> list[str]:
    return [entry.name for entry in catalog_of(states, warehouse="/w", **options)]


def entry(name: str, *states) -> Entry:
    return next(table for table in catalog_of(states, warehouse="/w/") if table.name == name)


def test_a_table_has_the_address_of_its_delta_table():
    assert entry("raw.raw_a", RAW).as_json() == {
        "name": "raw.raw_a",
        "kind": "table",
        "location": f"/w/{RAW.key}",
        "query": None,
    }


def test_history_is_listed_as_a_separate_table():
    state = historized()
    assert names(state) == ["rawcore.rc_a", "rawcore.rc_a_hist"]
    assert entry("rawcore.rc_a_hist", state).location == f"/w/{state.history_key}"


def test_a_view_has_its_query_over_tables():
    view = entry("stage.stg_a", RAW, STAGE)
    assert (view.kind, view.location, view.reads) == ("view", None, ("raw.raw_a",))
    assert view.query.startswith("SELECT\n  CAST(")
    assert view.query.endswith("FROM `raw`.`raw_a`")


def test_catalog_lists_the_views_over_a_history_but_not_its_function():
    state = historized(views=["current", "as_of", "changes"])
    assert names(state)[2:] == ["rawcore.rc_a_hist_changes", "rawcore.rc_a_hist_current", "rawcore.rc_a_hist_periods"]
    current = entry("rawcore.rc_a_hist_current", state)
    assert (current.kind, current.reads) == ("view", (history_table(state).qualified_name,))
    assert current.query.startswith("SELECT `rc_a_key`")


def test_the_names_of_a_dataset_are_those_of_its_entries():
    state = historized(views=["current", "as_of", "changes", "high_end_date"])
    assert sorted(names_of_dataset(state)) == sorted(names(state))


def test_catalog_of_named_datasets_includes_the_tables_that_their_views_read():
    assert names(RAW, STAGE, historized(), names={"stage.stg_a"}) == ["raw.raw_a", "stage.stg_a"]
    assert names(RAW, STAGE, names={"stage.stg_a"}, missing={RAW.key}) == []


def test_a_missing_table_is_left_out_with_the_views_that_read_it():
    assert names(RAW, STAGE, missing={RAW.key}) == []


def test_inactive_view_or_view_without_input_is_left_out():
    assert names(STAGE) == []
    assert names(RAW, replace(STAGE, active=False)) == ["raw.raw_a"]


def test_view_with_an_unknown_column_is_left_out():
    broken = dataset("stage", "stg_b", [col("stg_b", "x", expression="nothing + 1")], ["raw_a"])
    assert names(RAW, broken) == ["raw.raw_a"]


def test_duckdb_reads_each_table_by_delta_scan():
    text = render(catalog_of([RAW, STAGE], warehouse="s3a://bucket/it's"), "duckdb")
    lines = text.splitlines()
    assert lines[:2] == ['CREATE SCHEMA IF NOT EXISTS "raw";', 'CREATE SCHEMA IF NOT EXISTS "stage";']
    location = f"s3://bucket/it''s/{RAW.key}"
    assert lines[2] == f"""CREATE OR REPLACE VIEW "raw"."raw_a" AS SELECT * FROM delta_scan('{location}');"""
    assert lines[3].startswith('CREATE OR REPLACE VIEW "stage"."stg_a" AS SELECT CAST(')
    assert len(lines) == 4


def test_spark_gets_a_table_for_each_location_and_a_view_for_each_query():
    text = render(catalog_of([RAW, STAGE], warehouse="/w"), "spark")
    assert f"CREATE TABLE IF NOT EXISTS `raw`.`raw_a` USING delta LOCATION '/w/{RAW.key}';" in text
    assert "CREATE OR REPLACE VIEW `stage`.`stg_a` AS\nSELECT" in text
    assert text.index("`raw`.`raw_a` USING") < text.index("`stage`.`stg_a` AS")


@pytest.mark.parametrize(
    ("spark", "duckdb"),
    [
        ("SELECT CAST(a AS INT) FROM s.t", "SELECT CAST(a AS INT) FROM s.t"),
        ("SELECT TRY_CAST(a AS INT) FROM s.t", "SELECT TRY_CAST(a AS INT) FROM s.t"),
        ("SELECT `a``b` FROM s.t", 'SELECT "a`b" FROM s.t'),
    ],
)
def test_a_cast_fails_in_duckdb_where_it_fails_in_spark(spark: str, duckdb: str):
    assert duckdb_query(spark) == duckdb


def test_former_history_of_an_unhistorized_dataset_is_not_listed():
    state = replace(historized(), historize=False)
    assert names(state) == ["rawcore.rc_a"]


def test_duckdb_reads_no_partition_column():
    text = render(catalog_of([historized(views=["current", "high_end_date"])], warehouse="/w"), "duckdb")
    assert 'SELECT * EXCLUDE ("version_segment") FROM delta_scan(' in text
    assert text.count("version_segment") == 1
    assert '("version_ended_at") IS NULL' in text


def test_current_view_of_a_history_excludes_tombstones():
    state = historized(views=["current"], deletes="tombstone")
    portable = entry("rawcore.rc_a_hist_current", state).portable
    assert portable.endswith(" AND (`version_ended_at`) IS NULL")
    assert "<> 'deleted'" in portable
