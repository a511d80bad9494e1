"""Loads of MariaDB tables by a real worker: values, partitions, refusals."""

import json
from collections.abc import Iterator

import pymysql
import pytest

from tests.loader.installation import Installation, make_installation, working
from tests.services.mariadb import JARS, start_mariadb
from tests.services.process import Server

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.takes(seconds=180)]

PASSWORD = "correct-horse-battery"
UUID = "6f2d8f0e-6d3c-4d8b-9f43-0a6a3f1c7a11"
ITEM = {
    **{"id": "int unsigned PRIMARY KEY", "`Item``s name`": "varchar(40)", "price": "decimal(10,2)"},
    **{"big": "bigint unsigned", "flag": "tinyint(1)", "bits": "bit(3)", "kind": "enum('a','b')", "made": "date"},
    **{"at": "datetime(6)", "seen": "timestamp NULL", "clock": "time", "raw": "varbinary(10)", "doc": "json"},
}
ROW = """seq, concat('\u00dc', seq), seq / 4, 18446744073709551615, 1, b'101', 'b', '1500-02-28',
  '2024-07-01 12:00:00.123456', '2024-07-01 12:00:00', '23:59:59', x'00ff', '{"a": 1}'"""
# Type, value, type in the contract, and the server's own text of a value of this type.
_TEXT, _HEX = "CAST({} AS CHAR)", "HEX({})"
_DOUBLE = "CAST(CAST({} AS DOUBLE) AS CHAR)"
KINDS = (
    *((f"{name}int", "-128", "integer", _TEXT) for name in ("tiny", "small", "medium", "")),
    *(("tinyint unsigned", "255", "integer", _TEXT), ("mediumint unsigned", "16777215", "integer", _TEXT)),
    *(
        ("int unsigned", "4294967295", "bigint", _TEXT),
        ("bigint unsigned", "18446744073709551615", "decimal(20,0)", _TEXT),
    ),
    *(("float", number, "float", _DOUBLE) for number in ("1234567", "8388607.5", "0.1", "3.4028234e38", "-16777215")),
    *(("float unsigned", "16777215", "float", _DOUBLE), ("float(12,3)", "1234567.891", "float", _DOUBLE)),
    *(
        ("double", number, "float", _TEXT)
        for number in ("0.1", "1.7976931348623157e308", "9007199254740993", "-1e-300")
    ),
    *(("double(20,3)", "1234567.891", "float", _TEXT), ("real", "123456789.123456789", "float", _TEXT)),
    *(
        ("decimal(38,10)", "12345678901234567890.0123456789", "decimal(38,10)", _TEXT),
        ("decimal(9,2) unsigned", "1.5", "decimal(9,2)", _TEXT),
    ),
    *(
        ("bit(1)", "b'1'", "integer", "CAST({} + 0 AS CHAR)"),
        ("bit(64)", "b'1" + "0" * 63 + "'", "decimal(20,0)", "CAST({} + 0 AS CHAR)"),
    ),
    *(
        ("boolean", "true", "integer", _TEXT),
        ("year", "2024", "integer", _TEXT),
        ("date", "'1500-02-28'", "date", _TEXT),
    ),
    ("datetime(6)", "'2024-07-01 12:00:00.123456'", "timestamp", _TEXT),
    (
        "timestamp(6) NULL",
        "'2024-07-01 12:00:00.000001'",
        "timestamp",
        "CAST(CONVERT_TZ({}, '+05:00', '+00:00') AS CHAR)",
    ),
    *(("time(6)", "'23:59:59.000001'", "time", _TEXT), ("char(5)", "'ab '", "string", _TEXT)),
    *((name, "'Ü 😀 '", "string", _TEXT) for name in ("varchar(20)", "tinytext", "text", "mediumtext", "longtext")),
    *(
        ("enum('a','b')", "'b'", "string", _TEXT),
        ("set('a','b')", "'a,b'", "string", _TEXT),
        ("json", "'{\"a\": 1.10}'", "json", _TEXT),
    ),
    *(
        (name, "x'00ff'", "binary", _HEX)
        for name in ("binary(3)", "varbinary(9)", "tinyblob", "blob", "mediumblob", "longblob")
    ),
    *(
        ("point", "ST_GeomFromText('POINT(1.5 2)')", "binary", "HEX(ST_AsBinary({}))"),
        ("uuid", f"'{UUID}'", "uuid", _TEXT),
    ),
    *(("inet6", "'::1'", "string", _TEXT), ("inet4", "'10.0.0.1'", "string", _TEXT)),
)
NAMES = [f"c{place}" for place in range(len(KINDS))]
DECLARED = [f"{name} {kind[0]}" for name, kind in zip(NAMES, KINDS, strict=True)]
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
    f"CREATE TABLE shop.kinds (id int PRIMARY KEY, {', '.join(DECLARED)})",
    f"INSERT INTO shop.kinds VALUES (1, {', '.join(kind[1] for kind in KINDS)})",
    f"CREATE USER reader@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
    "GRANT SELECT ON shop.item TO reader@'127.0.0.1'",
    "GRANT SELECT ON shop.odd TO reader@'127.0.0.1'",
    "GRANT SELECT ON shop.visit TO reader@'127.0.0.1'",
    "GRANT SELECT ON shop.kinds TO reader@'127.0.0.1'",
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
    - name: kinds
      location: kinds
      format: table
      columns:
        - {{name: id, type: integer, business_key: 1}}
{kinds}
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
    kinds = "\n".join(f"        - {{name: {n}, type: '{k[2]}'}}" for n, k in zip(NAMES, KINDS, strict=True))
    return make_installation(tmp_path / "data", SHOP.format(port=server.port, kinds=kinds), servers)


def own_texts(server: Server) -> list[str]:
    """Return the server's own texts of one value of every type."""
    place = {"host": "127.0.0.1", "port": server.port, "user": "reader", "password": PASSWORD, "charset": "utf8mb4"}
    with pymysql.connect(**place) as connection, connection.cursor() as cursor:
        texts = ", ".join(kind[3].format(name) for name, kind in zip(NAMES, KINDS, strict=True))
        cursor.execute(f"SELECT {texts} FROM shop.kinds")
        return list(cursor.fetchone())


def bytes_of(shop: Installation) -> dict[str, str]:
    """Return the loaded binary values as hexadecimal text, by column: a sample shows them as characters."""
    names = [name for name, kind in zip(NAMES, KINDS, strict=True) if kind[2] == "binary"]
    values = ", ".join(f"hex({name}) AS {name}" for name in names)
    done = shop.run("sql", f"SELECT {values} FROM rawcore.rc_shop_kinds", "--format", "json", by="aron")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    return row


def is_same(type_: str, text: str, own: str) -> bool:
    """Return True if a value that the warehouse shows is the server's."""
    match type_:
        case "float":
            return float(text) == float(own)
        case "timestamp":
            return text.startswith(own)
    return text == own


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
        (arrived,) = shop.rows("rawcore.rc_shop_kinds", *NAMES)
        binary = bytes_of(shop)
        arrived = [binary.get(name, text) for name, text in zip(NAMES, arrived, strict=True)]
        compared = list(zip(KINDS, arrived, own_texts(server), strict=True))
        assert [entry for entry in compared if not is_same(entry[0][2], *entry[1:])] == []
        errors = {entry["dataset"]: entry["error"] for entry in run["datasets"] if entry.get("error")}
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
