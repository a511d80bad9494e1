"""Sources of every kind whose rows change with each delivery, read by two datasets of one system.

A delivery has a row that stays, a row with a new value, a new row, and lacks or deletes the new row of the one before.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.fixtures.source_database import own_schema, server_place
from tests.loader.delta_files import write_version
from tests.loader.readers.rest.api_server import Answer, Request, api_server
from tests.services.kafka import event, running_broker

NAMES = ("item", "calm")
SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string())])
COLUMNS = {"id": "integer", "v": "string"}
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)

Deliver = Callable[[int], None]


@dataclass(frozen=True)
class Source:
    """Description of a source: system, dataset, columns; ``deliver`` makes the delivery of a number."""

    deliver: Deliver
    dataset: dict[str, Any]
    columns: dict[str, str] = field(default_factory=lambda: dict(COLUMNS))
    system: dict[str, Any] = field(default_factory=lambda: {"location": "{{ data_dir }}/landing"})

    def described(self) -> str:
        """Return the metadata of the system, as JSON, which YAML contains."""
        columns = [
            {"name": name, "type": type_, **({"business_key": 1} if name == "id" else {})}
            for name, type_ in self.columns.items()
        ]
        datasets = [{"name": name, **self.dataset, "columns": columns} for name in NAMES]
        system = {"short_name": "shop", "name": "Shop", **self.system, "datasets": datasets}
        return json.dumps({"format": "metadata/v1", "system": system})


def day(number: int) -> str:
    """Return the load timestamp of a delivery."""
    return (_BEGIN + timedelta(days=number)).isoformat()


def rows_of(number: int) -> list[dict[str, Any]]:
    """Return the rows of a delivery that has the whole state."""
    return [{"id": 1, "v": "a"}, {"id": 2, "v": f"v{number}"}, {"id": 10 + number, "v": "new"}]


def changes_of(number: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the operation (I, U, D) and row of each change of a delivery, compared with the one before."""
    first, changed, new = rows_of(number)
    if number == 0:
        return [("I", first), ("I", changed), ("I", new)]
    return [("U", changed), ("I", new), ("D", rows_of(number - 1)[2])]


def _csv(path: Path, number: int) -> None:
    path.write_text("id,v\n" + "".join(f"{row['id']},{row['v']}\n" for row in rows_of(number)))


@contextmanager
def csv_file(landing: Path) -> Iterator[Source]:
    yield Source(lambda number: _csv(landing / "stock.csv", number), {"location": "stock.csv"})


@contextmanager
def csv_file_read_by_spark(landing: Path) -> Iterator[Source]:
    """Yield a CSV file with an option that keeps it from being loaded as a small table."""
    options = {"null_string": "N/A"}
    yield Source(lambda number: _csv(landing / "stock.csv", number), {"location": "stock.csv", "options": options})


@contextmanager
def parquet_file(landing: Path) -> Iterator[Source]:
    def deliver(number: int) -> None:
        parquet.write_table(pa.Table.from_pylist(rows_of(number), SCHEMA), landing / "stock.parquet")

    yield Source(deliver, {"location": "stock.parquet", "format": "parquet"})


@contextmanager
def json_lines_feed(landing: Path) -> Iterator[Source]:
    """Yield a folder of change events, whose files are read once each."""
    folder = landing / "changes"
    folder.mkdir()

    def deliver(number: int) -> None:
        lines = [row | {"op": op, "at": day(number)} for op, row in changes_of(number)]
        (folder / f"{number:03d}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    policy = {"input": "cdc", "time": "at", "op": "op"}
    dataset = {"location": "changes", "format": "jsonl", "history_policy": policy}
    yield Source(deliver, dataset, COLUMNS | {"op": "string", "at": "timestamp"})


@contextmanager
def delta_table(landing: Path) -> Iterator[Source]:
    yield Source(
        lambda number: write_version(landing / "stock", rows_of(number), SCHEMA),
        {"location": "stock", "format": "delta"},
    )


@contextmanager
def database_table(_landing: Path) -> Iterator[Source]:
    """Yield a table of PostgreSQL that is read from a watermark on; deletes are flagged."""
    place = server_place()
    table = "CREATE TABLE deaths.stock (id integer PRIMARY KEY, v text, gone boolean, at timestamptz)"
    with own_schema("deaths", table) as connection:

        def deliver(number: int) -> None:
            for op, row in changes_of(number):
                connection.execute(
                    "INSERT INTO deaths.stock VALUES (%(id)s, %(v)s, %(gone)s, %(at)s) "
                    "ON CONFLICT (id) DO UPDATE SET v = excluded.v, gone = excluded.gone, at = excluded.at",
                    row | {"gone": op == "D", "at": day(number)},
                )

        dataset = {
            "location": "deaths.stock",
            "format": "table",
            "intake": {"watermark": ["at"]},
            "history_policy": {"input": "delta", "delete_flag": "gone"},
        }
        location = f"postgresql://{place.user}@{place.host}:{place.port}/{place.name}"
        columns = COLUMNS | {"gone": "boolean", "at": "timestamp"}
        yield Source(deliver, dataset, columns, {"kind": "jdbc", "location": location})


@contextmanager
def rest_endpoint(_landing: Path) -> Iterator[Source]:
    """Yield an endpoint of two pages whose requests ask for the changes since the last mark."""
    changes: list[dict[str, Any]] = []

    def answer(request: Request) -> Answer:
        since = request.query.get("since", "")
        matches = [row for row in changes if row["at"] >= since]
        start = int(request.query.get("after", 0))
        following = str(start + 2) if start + 2 < len(matches) else None
        return Answer.of({"rows": matches[start : start + 2], "next": following})

    def deliver(number: int) -> None:
        at = f"{_BEGIN + timedelta(days=number):%Y-%m-%dT%H:%M:%SZ}"
        new = {row["id"]: row | {"gone": op == "D", "at": at} for op, row in changes_of(number)}
        changes[:] = [row for row in changes if row["id"] not in new] + list(new.values())

    options = {"path": "rows", "paging": "cursor", "page_parameter": "after", "incremental_parameter": "since"}
    dataset = {
        "location": "stock",
        "format": "rest",
        "options": options,
        "intake": {"watermark": ["at"]},
        "history_policy": {"input": "delta", "delete_flag": "gone"},
    }
    with api_server() as server:
        server.routes["/stock"] = answer
        columns = COLUMNS | {"gone": "boolean", "at": "timestamp"}
        yield Source(deliver, dataset, columns, {"kind": "rest", "location": server.url})


@contextmanager
def kafka_topic(_landing: Path) -> Iterator[Source]:
    """Yield a topic with change events of Debezium in two partitions."""
    with running_broker() as broker:
        topic, operations = broker.create("stock", 2), {"I": "c", "U": "u", "D": "d"}

        def deliver(number: int) -> None:
            for place, (op, row) in enumerate(changes_of(number)):
                message = event(operations[op], row, 10 * number + place + 1)
                broker.send(topic, [({"id": row["id"]}, message)], partition=row["id"] % 2)

        columns = COLUMNS | {"_op": "string", "_sequence": "bigint", "_partition": "integer", "_offset": "bigint"}
        dataset = {
            "location": topic,
            "format": "kafka",
            "options": {"envelope": "debezium"},
            "history_policy": {"input": "cdc", "time": "_sequence", "op": "_op"},
        }
        yield Source(deliver, dataset, columns, {"kind": "kafka", "location": f"kafka://{broker.address}"})
