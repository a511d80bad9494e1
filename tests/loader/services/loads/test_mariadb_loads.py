"""Loads of MariaDB tables by a real worker: values, partitions, refusals."""

import json
from collections.abc import Iterator

import pytest

from tests.loader.installation import Installation, make_installation, working
from tests.services.mariadb import JARS, start_mariadb
from tests.services.process import Server

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.takes(seconds=180)]

PASSWORD = "correct-horse-battery"
ITEM = {
    **{"id": "int unsigned PRIMARY KEY", "`Item``s name`": "varchar(40)", "price": "decimal(10,2)"},
    **{"big": "bigint unsigned", "flag": "tinyint(1)", "bits": "bit(3)", "kind": "enum('a','b')", "made": "date"},
    **{"at": "datetime(6)", "seen": "timestamp NULL", "clock": "time", "raw": "varbinary(10)", "doc": "json"},
}
ROW = """seq, concat('\u00dc', seq), seq / 4, 18446744073709551615, 1, b'101', 'b', '1500-02-28',
  '2024-07-01 12:00:00.123456', '2024-07-01 12:00:00', '23:59:59', x'00ff', '{"a": 1}'"""
STATEMENTS = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "SET NAMES utf8mb4",
    "SET sql_mode = ''",
    f"CREATE TABLE shop.item ({', '.join(f'{name} {type_}' for name, type_ in ITEM.items())})",
    f"INSERT INTO shop.item SELECT {ROW} FROM shop.seq_1_to_100",
    "CREATE TABLE shop.odd (id int PRIMARY KEY, made date)",
    "INSERT INTO shop.odd VALUES (1, '2024-01-01'), (2, '0000-00-00')",
    "CREATE TABLE shop.visit (id int PRIMARY KEY, at datetime(6), seen timestamp(6) NULL)",
    "INSERT INTO shop.visit SELECT seq, concat('2024-01-01 00:00:00.00000', seq), "
    "concat('2024-01-01 05:00:00.00000', seq) FROM shop.seq_1_to_3",
    "CREATE TABLE shop.secret (id int PRIMARY KEY)",
    f"CREATE USER reader@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
    "GRANT SELECT ON shop.item TO reader@'127.0.0.1'",
    "GRANT SELECT ON shop.odd TO reader@'127.0.0.1'",
    "GRANT SELECT ON shop.visit TO reader@'127.0.0.1'",
)
SHOP = """
format: metadata/v1
system:
  short_name: shop
  name: Shop
  kind: jdbc
  location: mariadb://reader@127.0.0.1:{port}/shop
  secret: ELEVATA_SOURCE_SHOP
  datasets:
    - name: item
      location: item
      format: table
      options: {{partition_column: id, partitions: 3, filter: 'id <= 90 # most'}}
      columns:
        - {{name: id, type: bigint, business_key: 1}}
        - {{name: 'Item`s name', type: string(40), target_name: name}}
        - {{name: price, type: 'decimal(10,2)'}}
        - {{name: big, type: 'decimal(20,0)'}}
        - {{name: flag, type: integer}}
        - {{name: bits, type: integer}}
        - {{name: kind, type: string}}
        - {{name: made, type: date}}
        - {{name: at, type: timestamp}}
        - {{name: seen, type: timestamp}}
        - {{name: clock, type: time}}
        - {{name: raw, type: binary}}
        - {{name: doc, type: json}}
    - name: odd
      location: shop.odd
      format: table
      columns:
        - {{name: id, type: integer, business_key: 1}}
        - {{name: made, type: date}}
    - name: visit
      location: shop.visit
      format: table
      intake: {{watermark: [at, seen]}}
      history_policy: {{input: delta}}
      columns:
        - {{name: id, type: integer, business_key: 1}}
        - {{name: at, type: timestamp}}
        - {{name: seen, type: timestamp}}
    - name: total
      location: total
      format: table
      options: {{query: 'SELECT count(*) AS id, sum(price) AS price FROM item', timeout: 60}}
      columns:
        - {{name: id, type: integer, business_key: 1}}
        - {{name: price, type: 'decimal(10,2)'}}
    - name: secret
      location: secret
      format: table
      columns:
        - {{name: id, type: integer, business_key: 1}}
"""


@pytest.fixture
def server(tmp_path) -> Iterator[Server]:
    server = start_mariadb(tmp_path / "mariadb", STATEMENTS)
    yield server
    server.stop()


@pytest.fixture
def shop(tmp_path, server) -> Installation:
    servers = {
        "ELEVATA_SOURCE_HOSTS": f"127.0.0.1:{server.port}",
        "ELEVATA_SOURCE_SHOP": PASSWORD,
        "ELEVATA_SPARK_JARS": str(JARS),
    }
    return make_installation(tmp_path / "data", SHOP.format(port=server.port), servers)


def test_tables_of_mariadb_are_loaded_exactly_and_refusals_name_their_cause(shop, server):
    with working(shop):
        run = shop.load("r1", status="failed")
        rows = shop.rows("rawcore.rc_shop_item", "id", "name", "price", "big", "flag", "bits", "kind", "made", "clock")
        assert len(rows) == 90
        assert rows[0] == ("1", "Ü1", "0.25", "18446744073709551615", "1", "5", "b", "1500-02-28", "23:59:59")
        times = shop.rows("rawcore.rc_shop_item", "at", "seen")[0]
        # The server's own zone is five hours ahead.
        assert (times[0][:26], times[1][:19]) == ("2024-07-01 12:00:00.123456", "2024-07-01 07:00:00")
        assert shop.rows("rawcore.rc_shop_total", "id", "price") == [("100", "1262.50")]
        errors = {one["dataset"]: one["error"] for one in run["datasets"] if one.get("error")}
        assert {name: error["code"] for name, error in errors.items()} == {
            "raw.raw_shop_odd": "VALUE_DOES_NOT_FIT",
            "raw.raw_shop_secret": "NOT_ALLOWED",
        }
        assert errors["raw.raw_shop_odd"]["samples"] == ["id=2: 0000-00-00"]

        visits = shop.load("visits", "--dataset", "rawcore.rc_shop_visit")["datasets"][0]
        mark = {"at": "2024-01-01 00:00:00.000003", "seen": "2024-01-01 00:00:00.000003+00:00"}
        assert (visits["counts"]["rows"], visits["window"]) == (1, {"from": mark, "to": mark})

        server.stop()
        failed = json.dumps(shop.load("r2", status="failed"))
        assert failed.count('"NOT_REACHED"') >= 4
    assert PASSWORD not in json.dumps(run) + failed
