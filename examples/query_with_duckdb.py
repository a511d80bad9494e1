"""Query the warehouse with DuckDB: python examples/query_with_duckdb.py "SELECT …".

``manage.py catalog`` prints the statements that define every published table and view in DuckDB. The query then
reads the Delta tables themselves: no Spark and no server takes part.
"""

import subprocess
import sys
from pathlib import Path

import duckdb
import duckdb_extension_delta

MANAGE = Path(__file__).resolve().parents[1] / "manage.py"


def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection in which every published table and view has its name."""
    catalog = [sys.executable, str(MANAGE), "catalog", "--format", "duckdb"]
    statements = subprocess.run(catalog, stdout=subprocess.PIPE, text=True, check=True).stdout
    (extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(statements)
    return connection


def main(query: str) -> None:
    """Print the result of a query."""
    try:
        connect().sql(query).show()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    except duckdb.Error as error:
        sys.exit(str(error))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
