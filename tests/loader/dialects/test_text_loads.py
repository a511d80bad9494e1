"""Loads of raw texts: typed rows, the check of values before anything is written, and texts without a rule."""

from dataclasses import replace

import pytest
import sqlglot

from loader.contract.manifest.loads import RawcoreLoad
from loader.dialects.case_tables import CaseTables
from loader.dialects.catalog import DIALECTS
from loader.dialects.loads import render_load
from loader.dialects.refusals import NotRendered
from loader.dialects.stage import Stage
from loader.domain.reference.table import Header
from tests.loader.dialects.engines import ENGINES, connection_to

COLUMNS = {"id": "string", "n": "integer", "m": "decimal(10,2)", "d": "date", "o": "boolean"}
ROWS = [
    ["a", " 364", "1.50", "2024-02-29", "no"],
    ["b", "450.0", ".5", "1999-12-31", "Y"],
    ["c", None, None, None, None],
]


def load_of(columns: dict[str, str], options: dict | None = None, **expressions: str) -> RawcoreLoad:
    """Return the load of a snapshot whose raw columns are texts."""
    header = Header.from_dict({"keys": ["id"], "columns": columns, "policy": {"input": "snapshot"}})
    load = CaseTables(header, "11111111-1111-1111-1111-111111111111", "rc_texts").evolved({}).load
    (stage_input,) = load.inputs
    raw = tuple(
        replace(column, type="string") if column.purpose == "attribute" else column
        for column in stage_input.table.columns
    )
    selected = tuple(
        replace(column, expression=expressions.get(column.name, column.expression)) for column in stage_input.columns
    )
    table = replace(stage_input.table, columns=raw)
    return replace(load, inputs=(replace(stage_input, table=table, columns=selected, options=options or {}),))


def deliver(engine: str, load: RawcoreLoad, rows: list[list]) -> Stage:
    """Fill the raw table of a load in an engine with the rows of the run ``r1``."""
    connection, dialect, raw = connection_to(engine), DIALECTS[engine], load.inputs[0].table
    connection.run(dialect.create_schema(raw.schema))
    connection.run(f"DROP TABLE IF EXISTS {dialect.table(raw.qualified_name)}")
    connection.run(dialect.create_table(raw.qualified_name, [(column.name, column.type) for column in raw.columns]))
    names = [column.name for column in raw.columns]
    at = "2026-11-28 00:00:00+00:00"
    connection.insert(dialect.table(raw.qualified_name), names, [[*row, "r1", at] for row in rows])
    return Stage(dialect, load)


def rows_of(engine: str, query: str) -> list[tuple]:
    return connection_to(engine).rows(query.replace("{{ load_run_id }}", "r1"))


@pytest.mark.parametrize("engine", ENGINES)
def test_typed_rows_have_the_values_of_the_texts(engine):
    stage = deliver(engine, load_of(COLUMNS), ROWS)
    selected = f"SELECT id, n, m * 100, d - DATE '1999-12-31', o FROM (\n{stage.typed()}\n) AS t ORDER BY id"
    assert rows_of(engine, selected) == [("a", 364, 150, 8826, False), ("b", 450, 50, 0, True), ("c", *[None] * 4)]
    columns, misfits = stage.misfits
    assert columns == ["n", "m", "d", "o"]
    assert rows_of(engine, misfits) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("place", "text"), [(1, "2147483648"), (2, "1.005"), (3, "2023-02-29"), (4, "maybe"), (1, "")])
def test_text_that_does_not_fit_is_a_misfit_and_fails_no_query(engine, place, text):
    row = list(ROWS[0])
    row[place] = text
    stage = deliver(engine, load_of(COLUMNS), [row, *ROWS[1:]])
    assert len(rows_of(engine, stage.misfits[1])) == 1
    assert len(rows_of(engine, stage.hashed())) == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_of_expressions_and_declared_formats_are_read(engine):
    load = load_of(
        {"id": "string", "m": "decimal(10,2)", "d": "date"},
        {"decimal_separator": ",", "thousands_separator": ".", "date_format": "%d.%m.%Y"},
        m="coalesce(m, '0')",
    )
    stage = deliver(engine, load, [["a", "1.234,5", "29.02.2024"], ["b", None, None]])
    selected = f"SELECT id, m * 100, d - DATE '2024-01-01' FROM (\n{stage.typed()}\n) AS t ORDER BY id"
    assert rows_of(engine, selected) == [("a", 123450, 59), ("b", 0, None)]
    assert rows_of(engine, stage.misfits[1]) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_that_stand_for_null_are_null_in_columns_expressions_and_filters(engine):
    options = {"empty_is_null": True, "null_string": "N/A"}
    load = load_of({"id": "string", "s": "string", "n": "integer"}, options, s="coalesce(s, 'none')")
    (stage_input,) = load.inputs
    load = replace(load, inputs=(replace(stage_input, filter="n IS NOT NULL OR s IS NULL"),))
    rows = [["a", "", "N/A"], ["b", "N/A", ""], ["c", "x", "1"], ["d", "y", ""], ["e", " ", " 2"]]
    stage = deliver(engine, load, rows)
    assert rows_of(engine, f"SELECT id, s, n FROM (\n{stage.typed()}\n) AS t ORDER BY id") == [
        ("a", "none", None),
        ("b", "none", None),
        ("c", "x", 1),
        ("e", " ", 2),
    ]
    assert rows_of(engine, stage.misfits[1]) == []


@pytest.mark.parametrize("name", DIALECTS)
def test_queries_with_texts_that_stand_for_null_parse(name):
    dialect, load = DIALECTS[name], load_of(COLUMNS, {"empty_is_null": True, "null_string": "N/A"})
    query = Stage(dialect, load).typed()
    sqlglot.parse_one(query, read=dialect.parser)
    assert ("DATALENGTH" if name in ("mssql", "fabric") else "NULLIF") in query


@pytest.mark.parametrize("name", DIALECTS)
def test_values_are_checked_before_anything_is_written(name):
    dialect = DIALECTS[name]
    statements = render_load(dialect, load_of(COLUMNS)).statements
    for statement in statements:
        sqlglot.parse(statement, read=dialect.parser)
    codes = [code for code in ("NOT_LATER", "VALUE_DOES_NOT_FIT", "NULL_KEY") for text in statements if code in text]
    assert codes == ["NOT_LATER", "VALUE_DOES_NOT_FIT", "NULL_KEY"]
    first = next(place for place, text in enumerate(statements) if "VALUE_DOES_NOT_FIT" in text)
    assert not any(word in text for text in statements[:first] for word in ("INSERT", "UPDATE", "DELETE", "MERGE"))
    assert "values do not fit the types of n, m, d, o" in statements[first]


def test_load_without_texts_has_no_check_of_values():
    load = load_of(dict.fromkeys(COLUMNS, "string"))
    assert not any("VALUE_DOES_NOT_FIT" in text for text in render_load(DIALECTS["postgres"], load).statements)


@pytest.mark.parametrize("name", DIALECTS)
def test_local_times_of_a_zone_are_not_rendered(name):
    with pytest.raises(NotRendered, match="Europe/Berlin"):
        render_load(DIALECTS[name], load_of({"id": "string", "t": "timestamp"}, {"timezone": "Europe/Berlin"}))


def test_zone_of_a_source_without_times_changes_nothing():
    rendered = render_load(DIALECTS["duckdb"], load_of(COLUMNS, {"timezone": "Europe/Berlin"}))
    assert rendered == render_load(DIALECTS["duckdb"], load_of(COLUMNS))


@pytest.mark.parametrize("name", DIALECTS)
def test_column_without_a_rule_is_named(name):
    with pytest.raises(NotRendered) as refused:
        render_load(DIALECTS[name], load_of({"id": "string", "j": "json"}))
    assert refused.value.where.endswith(".j")
