"""Rendered loads: statements that parse, quoted placeholders, and refusal of other policies."""

import re

import pytest
import sqlglot

from loader.dialects.case_tables import CaseTables
from loader.dialects.catalog import DIALECTS
from loader.dialects.loads import NOT_EXECUTED, render_load
from loader.dialects.refusals import NotRendered
from loader.domain.reference.table import Header

COLUMNS = {
    "id": "integer",
    "a": "string",
    "b": "decimal(10,2)",
    "d": "date",
    "t": "timestamp",
    "x": "binary",
    "o": "boolean",
    "u": "uuid",
    "c": "time",
}
POLICIES = {
    "snapshot": {"input": "snapshot"},
    "delta": {"input": "delta"},
    "tombstones": {"input": "snapshot", "deletes": "tombstone"},
    "deletes ignored": {"input": "snapshot", "deletes": "ignore"},
    "tracked": {"input": "snapshot", "track": ["a"]},
    "kept": {"input": "delta", "track": ["a"], "untracked": "keep"},
    "open end": {"input": "snapshot", "open_end": "9999-12-31"},
    "labels": {"input": "snapshot", "state_labels": {"new": "it's new"}},
    "dbt": {"input": "snapshot", "profile": "dbt"},
    "scd2": {"input": "snapshot", "profile": "scd2"},
    "fivetran": {"input": "snapshot", "profile": "fivetran"},
}


def load_of(policy: dict):
    header = Header.from_dict({"keys": ["id"], "columns": COLUMNS, "policy": policy})
    return CaseTables(header, "11111111-1111-1111-1111-111111111111", "rc_a").evolved({}).load


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_statements_of_every_policy_parse(name, policy):
    dialect = DIALECTS[name]
    rendered = render_load(dialect, load_of(policy))
    for statement in rendered.statements:
        sqlglot.parse(statement, read=dialect.parser)
        assert dialect.executed or statement.startswith(NOT_EXECUTED)
        assert not re.search(r";\n", statement)
    assert rendered.atomic == ("statement" if name == "databricks" else "transaction")
    assert rendered.reads == ("raw.rc_a",)
    assert rendered.writes == ("replay.rc_a_hist", "replay.rc_a", "elevata.loads")


@pytest.mark.parametrize("name", DIALECTS)
def test_placeholders_are_inside_of_quotes(name):
    for statement in render_load(DIALECTS[name], load_of({"input": "snapshot"})).statements:
        assert set(re.findall(r"(.)\{\{ load_", statement)) <= {"'"}
        assert set(re.findall(r"\}\}(.)", statement)) <= {"'", "+"}


@pytest.mark.parametrize("name", DIALECTS)
def test_same_load_renders_the_same_statements(name):
    policy = POLICIES["tracked"]
    assert render_load(DIALECTS[name], load_of(policy)) == render_load(DIALECTS[name], load_of(policy))


@pytest.mark.parametrize("name", DIALECTS)
def test_statement_without_from_has_no_condition(name):
    """BigQuery takes no WHERE without FROM."""
    for statement in render_load(DIALECTS[name], load_of({"input": "snapshot"})).statements:
        for tree in sqlglot.parse(statement, read=DIALECTS[name].parser):
            selects = tree.find_all(sqlglot.exp.Select) if tree else ()
            assert [select for select in selects if select.args.get("where") and not select.args.get("from_")] == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mssql", "BEGIN THROW 50000, N'CODE: 5%% of it''s', 1; END"),
        ("postgres", "RAISE EXCEPTION 'CODE: 5%% of it''s'; END IF; END $block1$"),
        ("duckdb", "error('CODE: 5% of it''s') END"),
    ],
)
def test_percent_sign_of_a_message_is_shown(name, message):
    assert DIALECTS[name].refuse_if("CODE", "5% of it's", "SELECT 1").endswith(message)


def test_block_ends_at_no_name():
    assert DIALECTS["postgres"].refuse_if("CODE", "x", 'SELECT "$block1$"').startswith("DO $block2$ BEGIN")
    with pytest.raises(NotRendered, match="two dollar signs"):
        DIALECTS["snowflake"].refuse_if("CODE", "x", 'SELECT "a$$b"')


def test_hashed_text_of_sql_server_is_not_cut():
    """CONCAT_WS cuts to 8,000 bytes unless a part is VARCHAR(MAX)."""
    assert DIALECTS["mssql"].joined(["a", "b", "c"]) == "CONCAT_WS('|', CAST(a AS VARCHAR(MAX)), b, c)"


def test_only_databricks_merges():
    merging = {
        name
        for name, dialect in DIALECTS.items()
        if any("MERGE" in statement for statement in render_load(dialect, load_of({"input": "snapshot"})).statements)
    }
    assert merging == {"databricks"}


@pytest.mark.parametrize(
    "policy",
    [
        {"input": "effective", "time": "t"},
        {"input": "snapshot", "time": "t"},
        {"input": "cdc", "time": "t", "op": "op"},
        {"input": "batch_files", "time": "_fivetran_start"},
        {"input": "delta", "delete_flag": "o"},
        {"input": "delta", "delete_detection": "key_list"},
    ],
    ids=lambda policy: "-".join(map(str, policy.values())),
)
def test_other_policies_are_not_rendered(policy):
    with pytest.raises(NotRendered):
        render_load(DIALECTS["postgres"], load_of(policy))
