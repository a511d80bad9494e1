"""Load deliveries into a DuckDB file by rendered SQL. Needs the package duckdb only, nothing of this product.

``manage.py render_sql --dialect duckdb --out sql`` writes the statements of the warehouse. Each delivery, a CSV file
with a header and the time of its load, is then one load run of a dataset with a history::

    python examples/load_with_duckdb.py sql/duckdb airports.duckdb rawcore.rc_air_airport \
        2020-12-05=20201205.csv 2021-09-26=20210926.csv
"""

import csv
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb


def main(folder: Path, database: Path, dataset: str, deliveries: list[str]) -> None:
    """Load the deliveries, in order, and print the rows and versions after each."""
    manifest = json.loads((folder / "manifest.json").read_text())
    loads = {entry["dataset"]: entry for entry in manifest["loads"]}
    if dataset not in loads:
        sys.exit(f"{folder} has no load of {dataset}; it has {', '.join(loads)}")
    load = loads[dataset]
    raw = next(name for name in load["reads"] if name.startswith("raw."))
    is_new = not database.exists()
    connection = duckdb.connect(str(database))
    connection.execute("SET TimeZone = 'UTC'")
    if is_new:
        for file in ("tables.sql", "views.sql"):
            for statement in statements((folder / file).read_text()):
                connection.execute(statement)
    print(f"{'run':>12}{'rows':>10}{'versions':>10}{'open':>10}")
    for delivery in deliveries:
        time, _, file = delivery.partition("=")
        at, run = datetime.fromisoformat(time), Path(file).stem
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        text = (folder / load["file"]).read_text()
        text = text.replace("{{ load_run_id }}", run).replace("{{ load_timestamp }}", f"{at:%Y-%m-%d %H:%M:%S.%f}")
        connection.execute("BEGIN")
        deliver(connection, raw, Path(file), run, at)
        for statement in statements(text):
            connection.execute(statement)
        connection.execute("COMMIT")
        counts = (
            f"SELECT (SELECT count(*) FROM {dataset}), count(*), count(*) FILTER (version_ended_at IS NULL) "
            f"FROM {dataset}_hist"
        )
        print(f"{run:>12}" + "".join(f"{number:>10}" for number in connection.execute(counts).fetchone()))


def deliver(connection: duckdb.DuckDBPyConnection, raw: str, file: Path, run: str, at: datetime) -> None:
    """Insert the rows of a file into the raw table, every value as text."""
    with file.open(newline="", encoding="utf-8") as text:
        header = next(csv.reader(text))
    known = {name for name, *_ in connection.execute(f"DESCRIBE {raw}").fetchall()}
    columns = ", ".join(f'"{name}"' for name in header if name in known)
    connection.execute(
        f"INSERT INTO {raw} ({columns}, load_run_id, loaded_at) "
        f"SELECT {columns}, ?, ? FROM read_csv(?, header = true, all_varchar = true)",
        [run, at, str(file)],
    )


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a file; each ends with a semicolon at the end of a line."""
    return (statement for statement in text.split(";\n") if statement.strip())


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
