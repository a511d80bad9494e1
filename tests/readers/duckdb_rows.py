"""Run the statements of a file in DuckDB, then print the rows of each further argument, a query, as JSON."""

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_delta

(extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension")
connection = duckdb.connect()
connection.execute(f"LOAD '{extension}'")
connection.execute("SET TimeZone = 'UTC'")
connection.execute(Path(sys.argv[1]).read_text())
print(json.dumps([connection.execute(query).fetchall() for query in sys.argv[2:]], default=str))
