"""Physical types, equivalences that are no drift, names and literals of every dialect."""

import pytest

from loader.dialects.catalog import DIALECTS
from loader.dialects.refusals import NotRendered
from metadata.domain.types import NAMES, TypeProblem, parse

MEASURED = {"decimal": "decimal(10,2)"}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("type_", [*NAMES, "string(40)", "decimal(38,0)", "decimal(38,20)"])
def test_column_of_the_rendered_type_is_no_drift(name, type_):
    dialect, data_type = DIALECTS[name], parse(MEASURED.get(type_, type_))
    assert dialect.holds(dialect.type_of(data_type), data_type)


@pytest.mark.parametrize(
    ("name", "physical", "type_"),
    [
        ("bigquery", "INT64", "integer"),
        ("bigquery", "NUMERIC(10,2)", "decimal(10,2)"),
        ("databricks", "int", "integer"),
        ("duckdb", "VARCHAR", "string(40)"),
        ("duckdb", "TIMESTAMP WITH TIME ZONE", "timestamp"),
        ("fabric", "varchar(max)", "string"),
        ("mssql", "datetime2(6)", "timestamp"),
        ("mssql", "bit", "boolean"),
        ("mssql", "varchar(160)", "string(40)"),
        ("postgres", "character varying(40)", "string(40)"),
        ("postgres", "character varying", "string"),
        ("postgres", "int8", "bigint"),
        ("postgres", "timestamp with time zone", "timestamp"),
        ("snowflake", "NUMBER(38,0)", "integer"),
        ("snowflake", "NUMBER(38,0)", "bigint"),
        ("snowflake", "VARCHAR(40)", "string(40)"),
    ],
)
def test_equivalent_physical_type_is_no_drift(name, physical, type_):
    assert DIALECTS[name].holds(physical, parse(type_))


@pytest.mark.parametrize(
    ("name", "physical", "type_"),
    [
        ("bigquery", "BYTES(16)", "binary"),
        ("bigquery", "BIGNUMERIC(38,10)", "decimal(38,10)"),
        ("bigquery", "BYTEINT", "bigint"),
        ("databricks", "VARIANT", "json"),
        ("databricks", "TIMESTAMP_LTZ", "timestamp"),
        ("duckdb", "INT8", "bigint"),
        ("duckdb", "UBIGINT", "decimal(38,0)"),
        ("fabric", "varbinary(max)", "binary"),
        ("mssql", "bit", "boolean"),
        ("mssql", "datetimeoffset(7)", "timestamp"),
        ("mssql", "money", "decimal(19,4)"),
        ("mssql", "timestamp", "binary"),
        ("postgres", "timestamp(6) without time zone", "timestamp"),
        ("postgres", "timestamptz(3)", "timestamp"),
        ("postgres", "time(6)", "time"),
        ("postgres", "smallserial", "integer"),
        ("snowflake", "NUMBER(38,0)", "bigint"),
        ("snowflake", "TIME(9)", "time"),
        ("snowflake", "VARIANT", "json"),
    ],
)
def test_physical_type_is_read_in_its_dialect(name, physical, type_):
    assert str(DIALECTS[name].canonical_type(physical)) == type_


@pytest.mark.parametrize(
    ("name", "physical", "type_"),
    [
        ("postgres", "integer", "bigint"),
        ("postgres", "numeric(10,2)", "decimal(12,2)"),
        ("postgres", "character varying(20)", "string(40)"),
        ("mssql", "int", "bigint"),
        ("snowflake", "NUMBER(10,2)", "decimal(12,2)"),
        ("duckdb", "INTEGER[]", "integer"),
    ],
)
def test_other_physical_type_is_drift(name, physical, type_):
    assert not DIALECTS[name].holds(physical, parse(type_))


@pytest.mark.parametrize("name", DIALECTS)
def test_unknown_physical_type_is_refused(name):
    with pytest.raises(TypeProblem):
        DIALECTS[name].canonical_type("geography")


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("bigquery", "`select`"),
        ("databricks", "`select`"),
        ("duckdb", '"select"'),
        ("fabric", "[select]"),
        ("mssql", "[select]"),
        ("postgres", '"select"'),
        ("snowflake", '"select"'),
    ],
)
def test_names_are_quoted(name, quoted):
    assert DIALECTS[name].identifier("select") == quoted


@pytest.mark.parametrize(
    ("name", "identifier", "quoted"),
    [
        ("databricks", "a`b", "`a``b`"),
        ("duckdb", 'a"b', '"a""b"'),
        ("mssql", "a]b", "[a]]b]"),
        ("postgres", 'a"b', '"a""b"'),
        ("snowflake", 'a"b', '"a""b"'),
    ],
)
def test_quotes_in_names_are_doubled(name, identifier, quoted):
    assert DIALECTS[name].identifier(identifier) == quoted


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("postgres", "n" * 64),
        ("postgres", "ü" * 32),
        ("mssql", "n" * 129),
        ("fabric", "n" * 129),
        ("snowflake", "n" * 256),
        ("bigquery", "a`b"),
        ("bigquery", "_PARTITIONTIME"),
        *((name, "a\nb") for name in DIALECTS),
        *((name, "of {{ load_timestamp }}") for name in DIALECTS),
        *((name, "") for name in DIALECTS),
    ],
)
def test_name_that_the_dialect_would_cut_or_refuse_is_not_rendered(name, identifier):
    with pytest.raises(NotRendered):
        DIALECTS[name].identifier(identifier)


@pytest.mark.parametrize(
    ("name", "literal"),
    [
        ("bigquery", "'it\\'s \\\\'"),
        ("databricks", "'it\\'s \\\\'"),
        ("duckdb", "'it''s \\'"),
        ("fabric", "'it''s \\'"),
        ("mssql", "'it''s \\'"),
        ("postgres", "'it''s \\'"),
        ("snowflake", "'it''s \\\\'"),
    ],
)
def test_quotes_and_backslashes_in_texts_are_escaped(name, literal):
    assert DIALECTS[name].text("it's \\") == literal


@pytest.mark.parametrize("name", ["fabric", "mssql"])
def test_literal_beyond_ascii_is_not_read_in_the_code_page_of_the_database(name):
    assert DIALECTS[name].text("ä") == "CAST(N'ä' COLLATE Latin1_General_100_BIN2_UTF8 AS VARCHAR(MAX))"


@pytest.mark.parametrize("name", DIALECTS)
def test_text_with_a_line_end_is_not_rendered(name):
    with pytest.raises(NotRendered, match="control character"):
        DIALECTS[name].text("a;\nDROP TABLE t")


@pytest.mark.parametrize("name", DIALECTS)
def test_text_that_a_caller_would_replace_is_not_rendered(name):
    with pytest.raises(NotRendered, match="placeholder"):
        DIALECTS[name].text("run {{ load_run_id }}")
