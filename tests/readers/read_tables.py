"""Read every table of a JSON file in DuckDB, delta-rs and Polars; print the rows, or the error, as JSON.

The file maps a name to the table's location. The output maps each reader and name to the rows, as lists in the order
of the columns' names, or to the first line of the error.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import duckdb_extension_delta
import polars
from deltalake import DeltaTable, QueryBuilder
from rows_as_text import rows_as_text

(extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension")
connection = duckdb.connect()
connection.execute(f"LOAD '{extension}'")
connection.execute("SET TimeZone = 'UTC'")


def by_duckdb(location: str) -> list[dict]:
    result = connection.execute(f"SELECT * FROM delta_scan('{location}')")
    names = [column[0] for column in result.description]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def by_delta_rs(location: str) -> list[dict]:
    table = QueryBuilder().register("t", DeltaTable(location)).execute("SELECT * FROM t").read_all()
    return polars.DataFrame(table).to_dicts()


def by_polars(location: str) -> list[dict]:
    return polars.read_delta(location).to_dicts()


def read(reader: Callable[[str], list[dict]], location: str) -> list[list[str]] | str:
    try:
        rows = reader(location)
    except Exception as error:  # the reader's error is the result
        return str(error).splitlines()[0]
    return rows_as_text(rows)


READERS = {"DuckDB": by_duckdb, "delta-rs": by_delta_rs, "Polars": by_polars}
tables = json.loads(Path(sys.argv[1]).read_text())
print(
    json.dumps(
        {name: {table: read(reader, place) for table, place in tables.items()} for name, reader in READERS.items()}
    )
)
