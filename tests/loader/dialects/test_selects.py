"""SELECTs of models: rows of translated ones on executed engines, and the refusal of all else."""

import pytest
import sqlglot

from architecture.domain.tables import ColumnSpec, TableSpec
from loader.dialects.catalog import DIALECTS
from loader.dialects.refusals import NotRendered
from loader.dialects.selects import ModelView
from tests.loader.dialects.engines import ENGINES, connection_to


def table(name: str, **columns: str) -> TableSpec:
    specs = tuple(ColumnSpec(f"{name}.{column}", column, type_, "attribute") for column, type_ in columns.items())
    return TableSpec(name, "selects", name, "rawcore", specs)


AIRPORTS = table("airport", icao="string", Country="string(2)", feet="integer", opened="date", height="float")
ROUTES = table("route", origin="string", miles="bigint", fare="decimal(8,2)")
TABLES = {spec.qualified_name: spec for spec in (AIRPORTS, ROUTES)}
ROWS = {
    "airport": ["('EDDF', 'DE', 364, DATE '1936-07-08', 110.5)", "('EGLL', 'GB', NULL, NULL, NULL)"],
    "route": ["('EDDF', 353, 99.50)", "('XXXX', 1, NULL)"],
}
RESULTS = {
    "SELECT icao, country, feet FROM selects.airport WHERE feet IS NOT NULL AND country = 'DE'": (
        {"icao": "string", "feet": "bigint", "country": "string"},
        [("EDDF", 364, "DE")],
    ),
    "SELECT r.origin AS code, coalesce(a.country, '?') AS land, r.fare FROM selects.route AS r "
    "LEFT JOIN selects.airport a ON a.icao = r.origin": (
        {"code": "string", "land": "string(2)"},
        [("EDDF", "DE"), ("XXXX", "?")],
    ),
    "SELECT `airport`.`icao`, miles FROM selects.airport JOIN `selects`.`route` ON origin = icao": (
        {"icao": "string", "miles": "bigint"},
        [("EDDF", 353)],
    ),
    "SELECT icao, feet AS n FROM selects.airport UNION ALL SELECT origin, miles FROM selects.route WHERE miles > 1": (
        {"n": "bigint", "icao": "string"},
        [(353, "EDDF"), (364, "EDDF"), (None, "EGLL")],
    ),
    "SELECT CASE WHEN feet > 100 THEN 'high' ELSE 'low' END AS kind, feet AS shown FROM selects.airport": (
        {"kind": "string", "shown": "string"},
        [("high", "364"), ("low", None)],
    ),
}
REFUSED = {
    "SELECT * FROM selects.airport": "does not name icao",
    "SELECT DISTINCT icao FROM selects.airport": "only SELECT",
    "SELECT icao FROM selects.airport ORDER BY icao": "only SELECT",
    "SELECT icao FROM selects.airport LIMIT 1": "only SELECT",
    "SELECT icao FROM selects.airport GROUP BY icao": "only SELECT",
    "SELECT icao FROM selects.airport UNION SELECT origin FROM selects.route": "only SELECT",
    "WITH a AS (SELECT icao FROM selects.airport) SELECT icao FROM a": "it reads a",
    "SELECT icao FROM (SELECT icao FROM selects.airport)": "which is no table",
    "SELECT icao FROM selects.airport TABLESAMPLE (1 ROWS)": "which is no table",
    "SELECT icao FROM selects.other": "selects.other",
    "SELECT icao FROM selects.airport, selects.route": "only inner and left joins",
    "SELECT icao FROM selects.airport FULL JOIN selects.route ON origin = icao": "only inner and left joins",
    "SELECT icao FROM selects.airport JOIN selects.airport ON true": "two tables are called airport",
    "SELECT missing AS icao FROM selects.airport": "no column",
    "SELECT max(icao) AS icao FROM selects.airport": "not proven",
    "SELECT height AS icao FROM selects.airport": "can lose values",
    "SELECT icao FROM selects.airport WHERE icao": "no condition",
}


def model(select: str, columns: dict[str, str]) -> ModelView:
    return ModelView("selects.model", select, TABLES, tuple(columns.items()))


@pytest.mark.parametrize("engine", ENGINES)
def test_translated_selects_have_the_rows_of_spark(engine):
    connection, dialect = connection_to(engine), DIALECTS[engine]
    connection.run(dialect.create_schema("selects"))
    for spec in (AIRPORTS, ROUTES):
        name = dialect.table(spec.qualified_name)
        connection.run(f"DROP TABLE IF EXISTS {name}")
        connection.run(dialect.create_table(spec.qualified_name, [(c.name, c.type) for c in spec.columns]))
        connection.run(f"INSERT INTO {name} VALUES {', '.join(ROWS[spec.name])}")
    for select, (columns, expected) in RESULTS.items():
        query = model(select, columns).query(dialect)
        names = ", ".join(dialect.identifier(name) for name in columns)
        assert sorted(connection.rows(f"SELECT {names} FROM (\n{query}\n) AS q"), key=str) == expected, select


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("select", REFUSED)
def test_other_selects_are_not_rendered(name, select):
    view = model(select, {"icao": "string"})
    with pytest.raises(NotRendered, match=REFUSED[select]):
        _ = view.reads, view.query(DIALECTS[name])


@pytest.mark.parametrize("name", ["bigquery", "databricks", "snowflake"])
@pytest.mark.parametrize("select", RESULTS)
def test_translated_selects_parse_in_other_dialects(name, select):
    dialect, view = DIALECTS[name], model(select, RESULTS[select][0])
    for statement in dialect.create_view(view.name, view.query(dialect)):
        sqlglot.parse_one(statement, read=dialect.parser)
    assert set(view.reads) <= set(TABLES)
