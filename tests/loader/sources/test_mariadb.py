"""MariaDB as a source of pages: connection, listing, sampling."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader.contract.refusals import Refusal
from loader.sources.systems import discover, reach, sample
from metadata.models import System
from tests.factories import SystemFactory
from tests.services.mariadb import start_mariadb
from tests.services.process import Server

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

PASSWORD = "hunter2-but-longer"
COLUMNS = {
    "order_no": "int unsigned PRIMARY KEY COMMENT 'Number'",
    "`Item``s name`": "varchar(40) NOT NULL",
    "price": "decimal(10,2)",
    "kind": "enum('a','b')",
    "made": "date",
    "seen": "timestamp NULL",
    "raw": "varbinary(10)",
    "doc": "json",
}
STATEMENTS = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "SET NAMES utf8mb4",
    f"CREATE TABLE shop.orders ({', '.join(f'{name} {type_}' for name, type_ in COLUMNS.items())})",
    "INSERT INTO shop.orders SELECT seq, concat('\u00dc', seq), seq / 4, 'b', '2024-02-28', now(), x'00ff', '{}' "
    "FROM shop.seq_1_to_30",
    "CREATE VIEW shop.cheap AS SELECT * FROM shop.orders WHERE price < 2",
    "CREATE TABLE shop.hidden (id int PRIMARY KEY)",
    "ANALYZE TABLE shop.orders",
    f"CREATE USER reader@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
    "GRANT SELECT ON shop.orders TO reader@'127.0.0.1'",
    "GRANT SELECT ON shop.cheap TO reader@'127.0.0.1'",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("mariadb-pages")
    server = start_mariadb(folder / "mariadb", STATEMENTS)
    yield server
    server.stop()


@pytest.fixture
def shop(server: Server, settings: Any, monkeypatch: pytest.MonkeyPatch) -> System:
    settings.SOURCE_HOSTS = ["127.0.0.1"]
    monkeypatch.setenv("ELEVATA_SOURCE_SHOP", PASSWORD)
    location = f"mariadb://reader@127.0.0.1:{server.port}/shop"
    return SystemFactory(short_name="shop", name="Shop", kind="jdbc", location=location, secret="ELEVATA_SOURCE_SHOP")


def test_connection_facts_show_server_and_user(shop: System):
    facts = dict(reach(shop).facts)
    assert "MariaDB" in facts["Server"]
    assert (facts["Signed in as"], facts["Tables that may be read"]) == ("reader@127.0.0.1", "2")


def test_tables_that_may_be_read_are_listed(shop: System):
    listing = discover(shop, search="SHOP.")
    assert [(item.location, item.note) for item in listing.items] == [("shop.cheap", "view"), ("shop.orders", "")]
    assert listing.items[1].rows == 30
    assert discover(shop, search="shop.%").total == 0


def test_sample_takes_columns_from_the_catalog_and_the_first_rows(shop: System):
    result = sample(shop, "orders", "table", {})
    assert {column.name: str(column.type) for column in result.columns} == {
        "order_no": "bigint",
        "Item`s name": "string(40)",
        "price": "decimal(10,2)",
        "kind": "string",
        "made": "date",
        "seen": "timestamp",
        "raw": "binary",
        "doc": "string",  # an alias of longtext in MariaDB
    }
    first = result.columns[0]
    assert (first.key_ordinal, first.description, first.nullable) == (1, "Number", False)
    assert [column[0] for column in result.values][:4] == ["1", "Ü1", "0.25", "b"]
    assert result.values[6][0] == "00ff"


@pytest.mark.parametrize("location", ["shop.hidden", "gone", "orders; DROP TABLE orders", ""])
def test_a_table_that_may_not_be_read_is_refused(shop: System, location: str):
    with pytest.raises(Refusal) as refused:
        sample(shop, location, "table", {})
    assert refused.value.code == "MISSING_TABLE"


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("mariadb://nobody_here@127.0.0.1:{port}/shop", "SIGN_IN_REFUSED"),
        ("mariadb://reader@127.0.0.1:{port}/gone", "NOT_ALLOWED"),
        ("mariadb://reader@127.0.0.1:1/shop", "NOT_REACHED"),
        ("mariadb://reader@localhost:{port}/shop", "HOST_NOT_ALLOWED"),
    ],
)
def test_refused_connection_states_its_reason_without_the_password(
    shop: System, server: Server, location: str, code: str
):
    shop.location = location.format(port=server.port)
    with pytest.raises(Refusal) as refused:
        reach(shop)
    assert refused.value.code == code
    assert PASSWORD not in str(refused.value.as_json())
