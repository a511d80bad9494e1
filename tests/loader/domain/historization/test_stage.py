"""Views inlined into the runner's queries, and their SQL for users."""

from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

import pytest
import sqlglot

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.historization.displayed_statements import history_sql, layer_sql
from loader.domain.historization.stage import stage_inputs
from metadata.domain.state import ColumnState, DatasetState, ReferenceState


def key(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def col(dataset: str, name: str, type_: str = "string", reads: tuple[str, ...] = (), **more) -> ColumnState:
    return ColumnState(key(f"{dataset}.{name}"), name, type_, inputs=tuple(key(read) for read in reads), **more)


def dataset(layer: str, name: str, columns, inputs=(), **more) -> DatasetState:
    view = layer == "stage"
    return DatasetState(
        key(name),
        layer,
        layer,
        name,
        tuple(columns),
        materialization="view" if view else "table",
        inputs=tuple(key(input_name) for input_name in inputs),
        **more,
    )


def raw(name: str, *columns: str) -> DatasetState:
    return dataset("raw", name, [col(name, column) for column in columns], ["source"])


def states_by_key(*states: DatasetState) -> dict[str, DatasetState]:
    return {state.key: state for state in states}


def expressions(state: DatasetState, by_key) -> list[dict[str, str]]:
    return [{c.name: c.expression for c in stage_input.columns} for stage_input in stage_inputs(state, by_key)]


RAW = raw("raw_a", "id", "height", "odd `name`")
STAGE = dataset(
    "stage",
    "stg_a",
    [
        col("stg_a", "id", reads=("raw_a.id",)),
        col("stg_a", "metres", "float", reads=("raw_a.height",)),
        col("stg_a", "odd", reads=("raw_a.odd `name`",)),
    ],
    ["raw_a"],
)
CORE = dataset(
    "rawcore",
    "rc_a",
    [
        col("rc_a", "id", reads=("stg_a.id",), role="business_key"),
        col("rc_a", "metres", "float", reads=("stg_a.metres",)),
        col("rc_a", "odd", reads=("stg_a.odd",)),
    ],
    ["stg_a"],
    historize=True,
    history_key=key("rc_a_hist"),
)


def test_plain_column_is_passed_on_without_a_cast():
    """Check that no cast is added: the runner checks and types bare columns, and a cast would hide misfits."""
    (stage_input,) = stage_inputs(CORE, states_by_key(RAW, STAGE, CORE), {RAW.key: {"timezone": "UTC"}})
    assert stage_input.table.qualified_name == "raw.raw_a"
    assert {c.name: (c.type, c.expression) for c in stage_input.columns} == {
        "id": ("string", "`id`"),
        "metres": ("float", "`height`"),
        "odd": ("string", "`odd ``name```"),
    }
    assert (stage_input.filter, stage_input.options) == (None, {"timezone": "UTC"})


def test_type_that_only_the_view_declares_is_cast():
    core = dataset("rawcore", "rc_b", [col("rc_b", "metres", "string", reads=("stg_a.metres",))], ["stg_a"])
    assert expressions(core, states_by_key(RAW, STAGE, core)) == [{"metres": "CAST(`height` AS DOUBLE)"}]


def test_expression_over_a_view_inlines_the_columns_of_the_view():
    core = dataset(
        "rawcore",
        "rc_c",
        [col("rc_c", "feet", "float", reads=("stg_a.metres",), expression="round(metres * 3.28, 1)")],
        ["stg_a"],
    )
    (by_column,) = expressions(core, states_by_key(RAW, STAGE, core))
    assert by_column["feet"] == "round((CAST(`height` AS DOUBLE)) * 3.28, 1)"


def test_expression_over_a_table_is_unchanged():
    text = "nullif(trim(id), '') -- never\n"
    core = dataset("rawcore", "rc_d", [col("rc_d", "id", reads=("raw_a.id",), expression=text)], ["raw_a"])
    assert expressions(core, states_by_key(RAW, core)) == [{"id": text}]


def test_expression_over_a_view_cannot_use_a_column_of_its_input():
    narrow = dataset("stage", "stg_n", [col("stg_n", "id", reads=("raw_a.id",))], ["raw_a"])
    core = dataset("rawcore", "rc_n", [col("rc_n", "h", expression="upper(height)")], ["stg_n"])
    with pytest.raises(Refusal, match="names 'height', which is no column of stage.stg_n") as refused:
        stage_inputs(core, states_by_key(RAW, narrow, core))
    assert refused.value.code == "UNKNOWN_INPUT"


def test_filter_over_a_view_cannot_use_a_column_of_its_input():
    narrow = dataset("stage", "stg_n", [col("stg_n", "id", reads=("raw_a.id",))], ["raw_a"])
    core = dataset("rawcore", "rc_n", [col("rc_n", "id", reads=("stg_n.id",))], ["stg_n"], filter="height > 1")
    with pytest.raises(Refusal, match="names 'height'"):
        stage_inputs(core, states_by_key(RAW, narrow, core))


@pytest.mark.parametrize("technical", ["rc_a_key", "row_hash", "load_run_id"])
def test_expression_cannot_use_a_technical_column(technical):
    core = dataset("rawcore", "rc_t", [col("rc_t", "k", expression=f"lower({technical})")], ["rc_a"])
    with pytest.raises(Refusal, match=f"names '{technical}', which is no column of rawcore.rc_a"):
        stage_inputs(core, states_by_key(RAW, STAGE, CORE, core))


def test_filters_of_view_and_table_are_both_kept_with_placeholders():
    stage = dataset("stage", "stg_a", STAGE.columns, ["raw_a"], filter="id <> 'X' OR height IS NULL")
    core = dataset("rawcore", "rc_e", CORE.columns, ["stg_a"], filter="metres > 1 AND '2020' < {{ load_timestamp }}")
    (stage_input,) = stage_inputs(core, states_by_key(RAW, stage, core))
    assert stage_input.filter == (
        "(id <> 'X' OR height IS NULL) AND ((CAST(`height` AS DOUBLE)) > 1 AND '2020' < {{ load_timestamp }})"
    )


def test_each_of_several_inputs_reads_null_for_its_missing_columns():
    other = raw("raw_b", "code")
    stage = dataset(
        "stage",
        "stg_u",
        [
            col("stg_u", "id", reads=("raw_a.id", "raw_b.code")),
            col("stg_u", "metres", "float", reads=("raw_a.height",)),
            col("stg_u", "origin", reads=("raw_b.code",), expression="concat('b', code)"),
            col("stg_u", "loaded", "timestamp", expression="{{ load_timestamp }}"),
        ],
        ["raw_a", "raw_b"],
    )
    core = dataset(
        "rawcore",
        "rc_u",
        [col("rc_u", c.name, c.type, reads=(f"stg_u.{c.name}",)) for c in stage.columns],
        ["stg_u"],
    )
    first, second = expressions(core, states_by_key(RAW, other, stage, core))
    assert first == {
        "id": "`id`",
        "metres": "`height`",
        "origin": "NULL",
        "loaded": "{{ load_timestamp }}",
    }
    assert second["id"] == "`code`"
    assert second["metres"] == "NULL"
    assert second["origin"] == "concat('b', code)"


def test_retired_input_column_reads_as_null():
    below = dataset("raw", "raw_a", [col("raw_a", "id"), col("raw_a", "height", active=False)], ["source"])
    (by_column,) = expressions(CORE, states_by_key(below, STAGE, CORE))
    assert by_column["metres"] == "NULL"


def test_dataset_without_inputs_is_refused():
    core = dataset("rawcore", "rc_x", [col("rc_x", "id")])
    with pytest.raises(Refusal) as refused:
        stage_inputs(core, states_by_key(core))
    assert refused.value.code == "NO_INPUT"


SOURCE = SourceSpec("a.a", "/d/a.csv", "csv", (DeliveredColumn(key("s"), "ID", "string"),))
CHILD = dataset(
    "rawcore",
    "rc_child",
    [col("rc_child", "id", reads=("raw_a.id",), role="business_key"), col("rc_child", "height")],
    ["raw_a"],
    historize=True,
    history_key=key("rc_child_hist"),
    references=(ReferenceState(key("r"), "parent_key", CORE.key, ((key("rc_child.height"), key("rc_a.id")),)),),
)


@pytest.mark.parametrize("state", [RAW, STAGE, CORE, CHILD], ids=lambda state: state.name)
def test_layer_sql_parses_as_spark_sql(state):
    text = layer_sql(state, states_by_key(RAW, STAGE, CORE, CHILD), SOURCE)
    assert sqlglot.parse_one(text.replace("{{ load_run_id }}", "'r'"), read="spark")


def child_with(rule: str) -> DatasetState:
    (reference,) = CHILD.references
    return replace(CHILD, references=(replace(reference, unknown_parent=rule),))


def test_foreign_key_that_is_null_for_unknown_parents_reads_the_parent_table():
    text = layer_sql(child_with("null"), states_by_key(RAW, STAGE, CORE, child_with("null")))
    assert "IN (SELECT rc_a_key FROM rawcore.rc_a) THEN" in text.replace("`", "")
    assert sqlglot.parse_one(text.replace("{{ load_run_id }}", "'r'"), read="spark")


@pytest.mark.parametrize(
    ("rule", "name", "comment"),
    [
        ("refuse", "rc_child", "-- refused if rawcore.rc_a does not have a parent_key"),
        ("ghost", "rc_a", "-- with a ghost row for each parent_key of rawcore.rc_child that has no row"),
    ],
)
def test_other_rules_for_unknown_parents_are_comments(rule: str, name: str, comment: str):
    by_key = states_by_key(RAW, STAGE, CORE, child_with(rule))
    (state,) = (candidate for candidate in by_key.values() if candidate.name == name)
    assert comment in layer_sql(state, by_key)
    assert "-- " not in layer_sql(CHILD, states_by_key(RAW, STAGE, CORE, CHILD))


def history_of(policy: dict) -> str:
    columns = (*CHILD.columns, col("rc_child", "odd", reads=("raw_a.odd `name`",)))
    return history_sql(replace(CHILD, columns=columns, history_policy=policy), states_by_key(RAW, STAGE, CORE, CHILD))


def rawcore_of(policy: dict, historize: bool = True) -> str:
    state = replace(CHILD, history_policy=policy, historize=historize)
    return layer_sql(state, states_by_key(RAW, STAGE, CORE, CHILD))


def parsed(text: str) -> list:
    bound = text.replace("{{ load_run_id }}", "'r'").replace("{{ load_timestamp }}", "current_timestamp()")
    return [statement for statement in sqlglot.parse(bound, read="spark") if statement is not None]


CDC = {"input": "cdc", "time": "height", "op": "op"}
POLICIES = {
    "snapshot": {},
    "delta": {"input": "delta"},
    "deletes ignored": {"deletes": "ignore"},
    "tombstones": {"deletes": "tombstone"},
    "tracked": {"track": ["odd"]},
    "other columns": {"profile": "dbt"},
    "with a flag": {"profile": "scd2", "open_end": "9999-12-31"},
    "effective": {"input": "effective", "time": "height"},
    "effective, absent deleted": {"input": "effective", "time": "height", "absent_keys": "deleted"},
    "cdc": CDC,
    "batch files": {"input": "batch_files", "time": "_fivetran_start"},
    "detected by key list": {"input": "delta", "delete_detection": "key_list", "deletes": "tombstone"},
    "detected in the window": {"input": "delta", "delete_detection": "window"},
    "flagged deletes": {"input": "delta", "delete_flag": "odd"},
    "flagged tombstones": {"input": "delta", "delete_flag": "odd", "deletes": "tombstone"},
    "flagged deletes ignored": {"input": "delta", "delete_flag": "odd", "deletes": "ignore"},
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_policy_is_shown_as_sql(policy):
    assert parsed(history_of(policy))
    assert parsed(rawcore_of({} if "track" in policy else policy))


@pytest.mark.parametrize("name", ["delta", "deletes ignored", "effective", "cdc", "batch files"])
def test_no_statement_removes_absent_keys_where_the_load_leaves_them(name):
    assert "NOT MATCHED BY SOURCE" not in history_of(POLICIES[name]) + rawcore_of(POLICIES[name])


@pytest.mark.parametrize(
    ("name", "evidence"), [("detected by key list", "key list"), ("detected in the window", "read window")]
)
def test_sql_names_the_key_list_or_read_window_as_evidence_of_deletes(name, evidence):
    for text in (history_of(POLICIES[name]), rawcore_of(POLICIES[name])):
        assert evidence in text.partition("MERGE")[0]


@pytest.mark.parametrize("name", ["snapshot", "tombstones", "effective, absent deleted"])
def test_rawcore_sql_deletes_absent_keys_that_are_treated_as_deleted(name):
    assert "WHEN NOT MATCHED BY SOURCE THEN DELETE" in rawcore_of(POLICIES[name])


def test_history_sql_adds_tombstones_if_the_policy_requires_them():
    text = history_of({"deletes": "tombstone"})
    assert len(parsed(text)) == 3
    assert "'deleted' AS `version_state`" in text


def test_history_sql_explains_the_time_and_operation_columns_of_a_feed():
    text = history_of(CDC)
    assert "-- each row holds from its 'height'" in text
    assert "-- 'op' = 'D' ends a key's version" in text


def test_rawcore_follows_the_open_versions_of_dated_rows():
    text = rawcore_of(CDC)
    assert "WHEN MATCHED AND s.`rc_child_key` IS NULL THEN DELETE" in text
    assert "h.`version_segment` = 'open'" in text


def test_a_flagged_row_deletes_its_key_from_rawcore():
    text = rawcore_of(POLICIES["flagged deletes"])
    assert "WHEN MATCHED AND s.`odd` THEN DELETE" in text
    assert "WHEN NOT MATCHED AND NOT coalesce(s.`odd`, false) THEN INSERT" in text


def test_flagged_rows_are_left_out_where_deletes_are_ignored():
    rawcore, history = (text_of(POLICIES["flagged deletes ignored"]) for text_of in (rawcore_of, history_of))
    assert "THEN DELETE" not in rawcore
    assert "s.`odd` AND" not in history
    assert [text.count("WHERE NOT coalesce(`odd`, false)") for text in (rawcore, history)] == [1, 2]


def test_appended_rows_are_inserted():
    text = rawcore_of({"input": "append"}, historize=False)
    assert parsed(text)
    assert "INSERT INTO `rawcore`.`rc_child` BY NAME" in text


def test_upsert_sql_of_dated_rows_explains_older_rows():
    text = rawcore_of(CDC, historize=False)
    assert "-- a row older than the newest of its key counts at its own time" in text
    assert parsed(text)


def test_untracked_columns_are_updated_in_place():
    text = history_of({"track": ["odd"]})
    assert "WHEN MATCHED AND (NOT h.`height` <=> s.`height`) THEN UPDATE SET\n  `height` = s.`height`" in text


def test_history_sql_has_two_statements():
    text = history_of({})
    assert len(parsed(text)) == 2
    assert "`version_segment` = 'deleted'" in text
    assert "sha256(`height`) AS `parent_key`" in text


def test_stage_view_casts_and_renames_columns():
    assert layer_sql(STAGE, states_by_key(RAW, STAGE)) == (
        "CREATE VIEW `stage`.`stg_a` AS\n"
        "SELECT\n"
        "  CAST(`id` AS STRING) AS `id`,\n"
        "  CAST(`height` AS DOUBLE) AS `metres`,\n"
        "  CAST(`odd ``name``` AS STRING) AS `odd`\n"
        "FROM `raw`.`raw_a`"
    )


def test_raw_sql_reads_the_source_file_and_overwrites_the_table():
    text = layer_sql(RAW, states_by_key(RAW), SOURCE)
    assert "FROM csv.`/d/a.csv`" in text
    assert "INSERT OVERWRITE `raw`.`raw_a`" in text
