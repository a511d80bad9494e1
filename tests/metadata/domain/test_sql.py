"""Tests of SQL quoting, and of the expressions and filters that are allowed."""

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from metadata.domain.sql import (
    VARIABLE,
    ExpressionProblem,
    bind_placeholders,
    check_expression,
    is_same_sql,
    quote_identifier,
    rename_in_expression,
)

SEEN = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=30)
SEEN = SEEN.filter(lambda name: bool(name.strip()) and VARIABLE not in name)


@given(SEEN)
def test_a_quoted_name_is_read_back_as_that_name(name: str) -> None:
    read = sqlglot.parse_one(f"SELECT {quote_identifier(name)}", read="spark")
    assert read.expressions[0].this.this == name


@given(SEEN)
def test_expression_of_a_quoted_column_names_that_column(name: str) -> None:
    assert check_expression(quote_identifier(name)) == (name,)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a", ("a",)),
        ("upper(trim(`First Name`)) || b", ("First Name", "b")),
        ("case when a > 1 then 'x' else b end", ("a", "b")),
        ("cast(a as decimal(10,2))", ("a",)),
        ("a::int", ("a",)),
        ("a in (1, 2) and b is not null and c like 'x%'", ("a", "b", "c")),
        ("a between date '2020-01-01' and {{ load_timestamp }}", ("a",)),
        ("coalesce(a, {{load_run_id}})", ("a",)),
        ("regexp_replace(a, '\\\\s+', ' ')", ("a",)),
        ("'it\\'s; -- no comment'", ()),
        ("`current_date`", ("current_date",)),
        ("left(`left`, 3)", ("left",)),
        ("current_balance + current_role", ("current_balance", "current_role")),
        ("coalesce(current_datetime, current_schema)", ("current_datetime", "current_schema")),
        ("a in ('nowhere', 'today is fine', 'epoch') or `today` = date 'epoch'", ("a", "today")),
        ("unix_timestamp(a, 'HH:mm') = cast('12:30' || b as int)", ("a", "b")),
    ],
)
def test_the_columns_of_an_expression_are_found(text: str, columns: tuple[str, ...]) -> None:
    assert check_expression(text) == columns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "select 1",
        "(select max(a) from t)",
        "a in (select 1)",
        "exists(select 1)",
        "a; drop table x",
        "drop table x",
        "a -- rest",
        "/* x */ a",
        "count(*)",
        "sum(a) over ()",
        "*",
        "t.a",
        "a.*",
        "a as b",
        "a b",
        "reflect('java.lang.Runtime', 'x')",
        "`reflect`('x')",
        "java_method('x', 'y')",
        "rand()",
        "uuid()",
        "current_timestamp()",
        "current_timestamp",
        "CURRENT_DATE",
        "current_time",
        "current_user",
        "Current_Path",
        "unix_timestamp()",
        "UNIX_TIMESTAMP ( )",
        "date 'now'",
        'DATE"today"',
        "timestamp ' Tomorrow '",
        "timestamp_ntz 'yesterday Europe/Berlin'",
        "timestamp_ltz r'today UTC'",
        "cast('today+01:00' as timestamp)",
        "try_cast('NOW' as date)",
        "'now'::date",
        "to_date('now')",
        "a < 'today'",
        "case when a then 'now' end",
        "timestamp '12:30'",
        "cast('T12:30:00' as timestamp)",
        "input_file_name()",
        "explode(a)",
        "transform(a, x -> x)",
        "x -> x",
        "${env}",
        "@v",
        ":p",
        "?",
        "a and",
        "((a)",
        "'{{ load_run_id }}'",
        "{{ other }}",
        "secret('x', 'y')",
        "(" * 5000 + "a" + ")" * 5000,
        "a" * 10_001,
    ],
)
def test_expression_with_elements_that_are_not_allowed_is_refused(text: str) -> None:
    with pytest.raises(ExpressionProblem):
        check_expression(text)


@given(st.text(max_size=60))
def test_check_expression_raises_only_expression_problem_for_any_text(text: str) -> None:
    try:
        check_expression(text)
    except ExpressionProblem:
        return


@pytest.mark.parametrize(
    "text",
    [
        "repeat(name, 400000000)",
        "repeat(repeat(name, 2000), 2000)",
        "concat('a', repeat(upper(repeat(name, 2000)), 2000))",
        "lpad(name, 1000001, ' ')",
        "repeat(rpad(name, 2000), 2000)",
        "repeat(name, 1000 * 1000 * 1000)",
        "rpad(name, cast('9' as int))",
        "format_number(n, 400000000)",
        "format_string('%400000000s', name)",
        "format_string(concat('%', '-2000000s'), name)",
    ],
)
def test_expression_that_would_produce_a_huge_text_is_refused(text: str) -> None:
    with pytest.raises(ExpressionProblem, match="more than 1000000 characters|must be a "):
        check_expression(text)


@pytest.mark.parametrize(
    "text", ["repeat(name, 3)", "lpad(name, 10, '0')", "repeat('x', length(name))", "format_string('%9s', name)"]
)
def test_expression_that_produces_a_text_of_usual_length_is_accepted(text: str) -> None:
    assert check_expression(text) == ("name",)


def test_refused_filter_names_its_field() -> None:
    with pytest.raises(ExpressionProblem) as refused:
        check_expression("count(a) > 1", field="filter")
    assert refused.value.one_line() == "filter: function count is not allowed"


def test_placeholders_become_sql() -> None:
    bound = bind_placeholders("a < {{ load_timestamp }}", {"load_timestamp": "TIMESTAMP '2026-01-01'"})
    assert bound == "a < TIMESTAMP '2026-01-01'"


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("upper(name)", "upper(`new name`)"),
        ("NAME || 'name' || other", "`new name` || 'name' || other"),
        ("`name` = {{ load_run_id }} and name > 1", "`new name` = {{ load_run_id }} and `new name` > 1"),
        ("other", "other"),
    ],
)
def test_rename_changes_only_the_column_names_of_an_expression(text: str, renamed: str) -> None:
    assert rename_in_expression(text, "name", "new name") == renamed


def test_a_function_of_the_same_name_is_not_renamed() -> None:
    assert rename_in_expression("left(`left`, 2)", "left", "l") == "left(`l`, 2)"


def test_a_rename_that_would_change_more_than_columns_is_refused() -> None:
    with pytest.raises(ExpressionProblem, match="cannot be renamed"):
        rename_in_expression("cast(`date` as date)", "date", "day")


@pytest.mark.parametrize(
    ("first", "other", "is_same"),
    [
        ("o.amount * 2", "o.`amount`  *2", True),
        ("'it''s'", "'it''s'", True),
        ("o.amount", "`o.amount`", False),
        ("amount", "'amount'", False),
        ("current_date", "`current_date`", False),
        ("amount", "pay", False),
        ("'open", "'open ", False),
    ],
)
def test_sql_is_compared_regardless_of_spaces_and_quotes_of_names(first: str, other: str, is_same: bool):
    assert is_same_sql(first, other) is is_same


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("uper(name", "there is no function uper; did you mean upper?"),
        ("uppr(name)", "there is no function uppr; did you mean upper?"),
        ("conct(a, b)", "there is no function conct; did you mean concat?"),
        ("upper(name", "cannot be read as SQL: a closing bracket is missing, Line 1, Col: 10"),
        ("btrim(name)", "function btrim is not allowed"),
        ("rand()", "function rand is not allowed"),
        ("log1p(x)", "function log1p is not allowed"),
    ],
)
def test_expression_with_a_typing_error_names_what_was_meant(text: str, message: str):
    with pytest.raises(ExpressionProblem) as refused:
        check_expression(text)
    assert refused.value.message == message
