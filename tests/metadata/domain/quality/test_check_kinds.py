"""Tests of the rules of quality checks: kinds, arguments, severities, renames."""

import pytest

from metadata.domain.quality.check_kinds import (
    KINDS,
    QualityProblem,
    QualityRule,
    check_severity,
    literal,
    summary,
)
from metadata.domain.types import parse

VALID = {
    "not_null": {"columns": ["name"]},
    "unique": {"columns": ["id", "name"], "where": "id > 5"},
    "accepted_values": {"columns": ["name"], "values": ["a", "b"]},
    "range": {"columns": ["price"], "minimum": "0"},
    "pattern": {"columns": ["name"], "pattern": "[A-Z]{4}"},
    "length": {"columns": ["name"], "maximum": "10"},
    "condition": {"condition": "price > 0"},
    "relationship": {"columns": ["name"], "dataset": "rawcore.rc_other", "other_columns": ["code"]},
    "freshness": {"columns": ["at"], "hours": 24},
    "row_count": {"minimum": "1"},
    "row_count_change": {"runs": 10, "deviations": "3"},
    "total": {"aggregate": "sum", "columns": ["price"], "dataset": "raw.x", "other_columns": ["price"]},
    "query": {"sql": "SELECT * FROM raw.x WHERE price < 0"},
}
_TYPES = {"id": "integer", "name": "string", "price": "decimal(10,2)", "at": "timestamp", "ok": "boolean"}
TYPES = {name: parse(text) for name, text in _TYPES.items()}


def rule(kind: str, **changes) -> QualityRule:
    return QualityRule.from_dict(kind, VALID[kind] | changes)


@pytest.mark.parametrize("kind", KINDS)
def test_rule_of_every_kind_round_trips_through_its_arguments(kind):
    made = rule(kind)
    made.check_types(TYPES)
    assert QualityRule.from_dict(kind, made.arguments) == made
    assert summary(made)


@pytest.mark.parametrize(
    ("kind", "changes", "field", "message"),
    [
        ("not_null", {"columns": []}, "columns", "is missing"),
        ("not_null", {"columns": ["a", "A"]}, "columns", "names a column twice"),
        ("not_null", {"minimum": "1"}, "minimum", "is no argument of a check of kind not_null"),
        ("range", {"minimum": ""}, "minimum", "needs a minimum, a maximum or both"),
        ("range", {"columns": ["price", "id"]}, "columns", "must be one column, not 2"),
        ("length", {"maximum": "x"}, "maximum", "must be a whole number"),
        ("row_count", {"minimum": "5", "maximum": "2"}, "minimum", "is above the maximum 2"),
        ("condition", {"condition": "price >"}, "condition", "something is missing"),
        ("condition", {"condition": "rand() > 0"}, "condition", "function rand is not allowed"),
        ("unique", {"where": "1; 2"}, "where", "holds a semicolon"),
        ("relationship", {"other_columns": ["a", "b"]}, "other_columns", "must be as many as the columns"),
        ("relationship", {"dataset": "other"}, "dataset", "must be schema.name"),
        ("freshness", {"hours": "soon"}, "hours", "must be a whole number"),
        ("row_count_change", {"runs": 2}, "runs", "must be 5 to 500"),
        ("row_count_change", {"deviations": "0.1"}, "deviations", "must be a number from 1 to 1000"),
        ("total", {"aggregate": "avg"}, "aggregate", "must be one of sum, min, max, count"),
        ("query", {"sql": "DELETE FROM raw.x"}, "sql", "must be one SELECT"),
        ("query", {"sql": "SELECT 1; SELECT 2"}, "sql", "must be one SELECT"),
        ("accepted_values", {"values": "x" * 2000}, "values", "must be a list of at most"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(kind, changes, field, message):
    with pytest.raises(Exception, match=".") as refused:
        rule(kind, **changes)
    assert refused.value.field == field
    assert message in refused.value.message


def test_an_unknown_kind_is_refused():
    with pytest.raises(QualityProblem, match="must be one of not_null"):
        QualityRule.from_dict("perfect", {})


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("not_null", {"columns": ["former"]}, "'former', which is no column of the dataset"),
        ("condition", {"condition": "former > 0"}, "'former', which is no column of the dataset"),
        ("pattern", {"columns": ["price"]}, "only text has a pattern"),
        ("freshness", {"columns": ["name"]}, "only dates and timestamps have an age"),
        ("total", {"columns": ["name"]}, "only numbers have a sum"),
        ("range", {"columns": ["price"], "minimum": "cheap"}, "'cheap' is no decimal(10,2)"),
        ("range", {"columns": ["at"], "minimum": "yesterday"}, "'yesterday' is no timestamp"),
        ("range", {"columns": ["ok"]}, "has no range"),
    ],
)
def test_check_that_does_not_fit_its_column_types_is_refused(kind, changes, message):
    with pytest.raises(QualityProblem) as refused:
        rule(kind, **changes).check_types(TYPES)
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("text", "type_", "sql"),
    [
        ("5", "integer", "5"),
        ("1e2", "decimal(10,2)", "100"),
        ("0.5", "float", "0.5D"),
        ("TRUE", "boolean", "TRUE"),
        ("2024-02-29", "date", "DATE '2024-02-29'"),
        ("2024-02-29T10:00:00+00:00", "timestamp", "TIMESTAMP '2024-02-29 10:00:00+00:00'"),
        ("o'b\\", "string", "'o\\'b\\\\'"),
    ],
)
def test_a_limit_is_a_literal_of_the_columns_type(text, type_, sql):
    assert literal(text, parse(type_), "minimum") == sql


def test_a_rename_is_followed_in_columns_and_conditions():
    renamed = rule("unique", where="name <> 'x'").renamed("name", "title")
    assert (renamed.columns, renamed.where) == (("id", "title"), "`title` <> 'x'")


def test_rename_of_a_column_used_in_a_query_check_is_refused():
    assert rule("query").names_column("PRICE")
    with pytest.raises(QualityProblem, match="change that first"):
        rule("query").renamed("price", "cost")
    assert rule("query").renamed("name", "title") == rule("query")


@pytest.mark.parametrize("kind", KINDS)
def test_quarantine_requires_a_check_that_finds_rows_and_another_layer_than_raw(kind):
    if KINDS[kind].finds_rows:
        check_severity(rule(kind), "quarantine", "rawcore")
    else:
        with pytest.raises(QualityProblem, match="finds no rows to quarantine"):
            check_severity(rule(kind), "quarantine", "rawcore")
    with pytest.raises(QualityProblem):
        check_severity(rule(kind), "quarantine", "raw")
    check_severity(rule(kind), "stop", "raw")
